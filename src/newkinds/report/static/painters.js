// What draws points: WebGL, or a plain canvas. Shared with the workbench.
newkinds.painters = (() => {
  const { marks } = newkinds.data;
  const reach = 1.6; // of a stamp, in radii: room for corners and the edge

  // Each style's marker is drawn once and then copied: thousands of paths a frame would be slow.
  function plain(paper) {
    let stamps = [];
    let last = "";
    return {
      name: "canvas",
      placed() {},
      styled() {
        stamps = [];
      },
      draw({ dim, bright, styles, of, colours, panel, radius, ratio, toScreen, inSight }) {
        const edge = Math.ceil((radius * reach + 1) * ratio);
        if (last !== `${radius} ${ratio}`) stamps = [];
        last = `${radius} ${ratio}`;
        const stamp = (group) => {
          if (!stamps[group]) {
            const { path, hollow } = styles[group];
            const sheet = document.createElement("canvas");
            sheet.width = sheet.height = 2 * edge;
            const pen = sheet.getContext("2d");
            pen.setTransform(radius * ratio, 0, 0, radius * ratio, edge, edge);
            const shape = new Path2D(marks.paths[path]);
            pen.lineWidth = hollow ? 0.5 : 0.3;
            pen.strokeStyle = hollow ? colours[group] : panel;
            pen.fillStyle = hollow ? panel : colours[group];
            if (!hollow) pen.stroke(shape);
            pen.fill(shape);
            if (hollow) pen.stroke(shape);
            stamps[group] = sheet;
          }
          return stamps[group];
        };
        const wide = (2 * edge) / ratio;
        const put = (i) => {
          const [px, py] = toScreen(i);
          if (inSight(px, py)) paper.drawImage(stamp(of[i]), px - wide / 2, py - wide / 2, wide, wide);
        };
        paper.globalAlpha = 0.12;
        dim.forEach(put);
        paper.globalAlpha = 1;
        bright.forEach(put);
      },
    };
  }

  // The shapes side by side: red where the colour goes, green where anything goes.
  function atlas() {
    const cell = 64;
    const sheet = document.createElement("canvas");
    sheet.width = cell * 16;
    sheet.height = cell;
    const pen = sheet.getContext("2d");
    pen.fillStyle = "#000";
    pen.fillRect(0, 0, sheet.width, cell);
    pen.globalCompositeOperation = "lighter";
    marks.paths.forEach((path, i) => {
      for (const hollow of [false, true]) {
        const scale = cell / 2 / reach;
        pen.setTransform(scale, 0, 0, scale, (2 * i + (hollow ? 1 : 0) + 0.5) * cell, cell / 2);
        const shape = new Path2D(path);
        pen.lineWidth = hollow ? 0.5 : 0.3;
        pen.strokeStyle = hollow ? "#f00" : "#0f0";
        pen.fillStyle = hollow ? "#0f0" : "#f00";
        pen.stroke(shape);
        pen.fill(shape);
        pen.strokeStyle = pen.fillStyle = "#0f0";
        if (hollow) pen.stroke(shape);
        else pen.fill(shape);
      }
    });
    return sheet;
  }

  const vertex = `
    attribute vec2 place; attribute vec4 look; uniform vec4 view; uniform vec2 screen; uniform float size;
    varying vec3 colour; varying float cell;
    void main() {
      vec2 at = (place - view.xy) * view.z / screen * 2.0;
      gl_Position = vec4(at.x, -at.y, 0.0, 1.0); gl_PointSize = size; colour = look.rgb; cell = floor(look.a * 255.0 + 0.5);
    }`;
  const fragment = `
    precision mediump float; uniform sampler2D atlas; uniform vec3 panel; uniform float alpha;
    varying vec3 colour; varying float cell;
    void main() {
      vec2 mask = texture2D(atlas, vec2((cell + gl_PointCoord.x) / 16.0, gl_PointCoord.y)).rg;
      float cover = mask.g * alpha; gl_FragColor = vec4(mix(panel, colour, mask.r / max(mask.g, 0.001)) * cover, cover);
    }`;

  function program(gl) {
    const made = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(made, shader);
    }
    gl.linkProgram(made);
    return gl.getProgramParameter(made, gl.LINK_STATUS) ? made : null;
  }

  const channels = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);

  // Returns null where there is no WebGL; `lost` is called when it goes away.
  function webgl(canvas, n, lost) {
    const gl = canvas.getContext("webgl", { antialias: false, premultipliedAlpha: true });
    const made = gl && program(gl);
    if (!made || n > 65535) return null;
    canvas.addEventListener("webglcontextlost", lost);
    const at = (name) => gl.getUniformLocation(made, name);
    const [uView, uScreen, uSize, uPanel, uAlpha] = ["view", "screen", "size", "panel", "alpha"].map(at);
    const buffers = ["place", "look"].map(() => gl.createBuffer());
    const order = gl.createBuffer();
    const texture = gl.createTexture();
    gl.useProgram(made);
    gl.bindTexture(gl.TEXTURE_2D, texture);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, atlas());
    gl.generateMipmap(gl.TEXTURE_2D);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.LINEAR_MIPMAP_LINEAR);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    const stale = { places: true, looks: true };

    function upload({ x, y, of, styles, colours }) {
      if (stale.places) {
        const places = new Float32Array(2 * n);
        for (let i = 0; i < n; i += 1) [places[2 * i], places[2 * i + 1]] = [x[i], y[i]];
        gl.bindBuffer(gl.ARRAY_BUFFER, buffers[0]);
        gl.bufferData(gl.ARRAY_BUFFER, places, gl.DYNAMIC_DRAW);
      }
      if (stale.looks) {
        const table = styles.map((s, g) => [...channels(colours[g]).map((c) => c * 255), 2 * s.path + (s.hollow ? 1 : 0)]);
        const looks = new Uint8Array(4 * n);
        for (let i = 0; i < n; i += 1) looks.set(table[of[i]], 4 * i);
        gl.bindBuffer(gl.ARRAY_BUFFER, buffers[1]);
        gl.bufferData(gl.ARRAY_BUFFER, looks, gl.DYNAMIC_DRAW);
      }
      Object.assign(stale, { places: false, looks: false });
    }

    return {
      name: "webgl",
      placed: () => (stale.places = true),
      styled: () => (stale.looks = true),
      draw(scene) {
        const { dim, bright, size, ratio, view, unit, radius, panel } = scene;
        upload(scene);
        gl.viewport(0, 0, canvas.width, canvas.height);
        gl.clearColor(0, 0, 0, 0);
        gl.clear(gl.COLOR_BUFFER_BIT);
        gl.uniform4f(uView, view.x, view.y, unit, 0);
        gl.uniform2f(uScreen, size.width, size.height);
        gl.uniform1f(uSize, 2 * reach * radius * ratio);
        gl.uniform3f(uPanel, ...channels(panel));
        [["place", 2, gl.FLOAT, false], ["look", 4, gl.UNSIGNED_BYTE, true]].forEach(([name, width, type, whole], i) => {
          const location = gl.getAttribLocation(made, name);
          gl.bindBuffer(gl.ARRAY_BUFFER, buffers[i]);
          gl.enableVertexAttribArray(location);
          gl.vertexAttribPointer(location, width, type, whole, 0, 0);
        });
        gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, order);
        for (const [some, alpha] of [[dim, 0.12], [bright, 1]]) {
          if (!some.length) continue;
          gl.uniform1f(uAlpha, alpha);
          gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, new Uint16Array(some), gl.DYNAMIC_DRAW);
          gl.drawElements(gl.POINTS, some.length, gl.UNSIGNED_SHORT, 0);
        }
      },
    };
  }

  return { plain, webgl };
})();
