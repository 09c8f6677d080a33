// The map itself: where points lie, which one is near, and how they are drawn. `explore.js` moves it.
newkinds.map = (() => {
  const { data, element } = newkinds;
  const { points, kinds, sprites } = data;
  const n = points.x.length;
  const x = points.x.map((v) => v / points.grid);
  const y = points.y.map((v) => v / points.grid);
  const canvas = element("map-canvas");
  const paper = canvas.getContext("2d");
  const size = { width: 0, height: 0, ratio: 1 };
  const extent = { x: Math.max(...spread(x), 0.05), y: Math.max(...spread(y), 0.05) };
  const view = { zoom: 1, x: 0.5, y: 0.5 };
  const state = { chosen: -1, kind: -1, pictures: false };
  const maxZoom = 60;
  const markers = [];
  let theme = {};
  let waiting = false;

  function spread(values) {
    return [values.reduce((a, b) => Math.max(a, b), 0) - values.reduce((a, b) => Math.min(a, b), 1)];
  }

  // World to screen and back. The world is the unit square, filled along its longer side.
  function unit() {
    const margin = 34;
    const fit = Math.min((size.width - 2 * margin) / extent.x, (size.height - 2 * margin) / extent.y);
    return Math.max(fit, 1) * view.zoom;
  }
  const toScreen = (i) => [size.width / 2 + (x[i] - view.x) * unit(), size.height / 2 + (y[i] - view.y) * unit()];
  const toWorld = (px, py) => [view.x + (px - size.width / 2) / unit(), view.y + (py - size.height / 2) / unit()];

  function zoomAt(px, py, factor) {
    const [wx, wy] = toWorld(px, py);
    view.zoom = Math.min(maxZoom, Math.max(1, view.zoom * factor));
    view.x = wx - (px - size.width / 2) / unit();
    view.y = wy - (py - size.height / 2) / unit();
    keepInSight();
  }

  function moveBy(dx, dy) {
    view.x -= dx / unit();
    view.y -= dy / unit();
    keepInSight();
  }

  function keepInSight() {
    const slackX = (extent.x / 2) * (view.zoom === 1 ? 0 : 1);
    const slackY = (extent.y / 2) * (view.zoom === 1 ? 0 : 1);
    view.x = Math.min(0.5 + slackX, Math.max(0.5 - slackX, view.x));
    view.y = Math.min(0.5 + slackY, Math.max(0.5 - slackY, view.y));
    redraw();
  }

  function reset() {
    Object.assign(view, { zoom: 1, x: 0.5, y: 0.5 });
    redraw();
  }

  function centre(i) {
    const [px, py] = toScreen(i);
    const edge = 40;
    if (px > edge && py > edge && px < size.width - edge && py < size.height - edge) return;
    Object.assign(view, { x: x[i], y: y[i] });
    redraw();
  }

  // A grid of about two points a cell: hovering looks at a few cells, not at all points.
  const side = Math.max(1, Math.ceil(Math.sqrt(n / 2)));
  const cells = Array.from({ length: side * side }, () => []);
  const cell = (v) => Math.min(side - 1, Math.max(0, Math.floor(v * side)));
  for (let i = 0; i < n; i += 1) cells[cell(y[i]) * side + cell(x[i])].push(i);

  function nearest(px, py, reach) {
    const [wx, wy] = toWorld(px, py);
    const far = reach / unit();
    let best = -1;
    let least = far * far;
    for (let row = cell(wy - far); row <= cell(wy + far); row += 1) {
      for (let column = cell(wx - far); column <= cell(wx + far); column += 1) {
        for (const i of cells[row * side + column]) {
          const d = (x[i] - wx) ** 2 + (y[i] - wy) ** 2;
          const shown = state.kind < 0 || points.kind[i] === state.kind;
          if (shown && d < least) [best, least] = [i, d];
        }
      }
    }
    return best;
  }

  // Where a kind's number stands: on the point nearest to the middle of its points.
  const middles = kinds.map((_, k) => {
    const mine = [];
    for (let i = 0; i < n; i += 1) if (points.kind[i] === k) mine.push(i);
    if (!mine.length) return -1;
    const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
    const [mx, my] = [median(mine.map((i) => x[i])), median(mine.map((i) => y[i]))];
    const away = (i) => (x[i] - mx) ** 2 + (y[i] - my) ** 2;
    return mine.reduce((a, b) => (away(b) < away(a) ? b : a));
  });
  const bySize = kinds.map((_, k) => k).sort((a, b) => kinds[b].size - kinds[a].size);

  function radius() {
    const base = n > 2000 ? 2.8 : n > 500 ? 3.8 : n > 100 ? 5 : 7;
    return base * (size.width < 500 ? 0.7 : 1) * Math.min(2, Math.sqrt(view.zoom));
  }

  function readTheme() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(name).trim();
    theme = { ink: read("--ink"), panel: read("--panel"), font: getComputedStyle(document.body).fontFamily };
    theme.colours = kinds.map((kind) => read(`--c${kind.colour}`));
    markers.length = 0;
    redraw();
  }

  // Each kind's marker is drawn once and then copied: thousands of paths a frame would be slow.
  function marker(k) {
    const r = radius();
    if (markers.radius !== r) {
      markers.length = 0;
      markers.radius = r;
    }
    if (!markers[k]) {
      const edge = Math.ceil((r * 1.4 + 2) * size.ratio);
      const stamp = document.createElement("canvas");
      stamp.width = stamp.height = 2 * edge;
      const pen = stamp.getContext("2d");
      pen.setTransform(r * size.ratio, 0, 0, r * size.ratio, edge, edge);
      const path = new Path2D(kinds[k].path);
      pen.lineWidth = kinds[k].hollow ? 0.5 : 0.3;
      pen.strokeStyle = kinds[k].hollow ? theme.colours[k] : theme.panel;
      pen.fillStyle = kinds[k].hollow ? theme.panel : theme.colours[k];
      if (!kinds[k].hollow) pen.stroke(path);
      pen.fill(path);
      if (kinds[k].hollow) pen.stroke(path);
      markers[k] = stamp;
    }
    return markers[k];
  }

  // Sheets are in the stylesheet; the canvas takes them from there, when first asked for.
  let sheets = null;
  function loadSheets() {
    sheets = sprites.sheets.map((_, i) => {
      const probe = document.createElement("span");
      probe.className = `sheet${i}`;
      document.body.append(probe);
      const picture = new Image();
      picture.onload = redraw;
      picture.src = getComputedStyle(probe).backgroundImage.slice(5, -2);
      probe.remove();
      return picture;
    });
  }

  // Pictures where there is room for them, points under and between; zooming in makes room for more.
  function drawPictures(shown) {
    if (!sheets) loadSheets();
    const side = Math.min(72, 34 * Math.sqrt(Math.sqrt(view.zoom)));
    const scale = side / Math.max(sprites.width, sprites.height);
    const [w, h] = [sprites.width * scale, sprites.height * scale];
    const taken = new Map();
    for (const i of shown) {
      const [px, py] = toScreen(i);
      if (!points.sprite[i] || !inSight(px, py)) continue;
      const [column, row] = [Math.floor(px / side), Math.floor(py / side)];
      const crowded = [-1, 0, 1].some((dx) =>
        [-1, 0, 1].some((dy) =>
          (taken.get(`${column + dx},${row + dy}`) || []).some(
            ([qx, qy]) => Math.abs(px - qx) < w + 4 && Math.abs(py - qy) < h + 4,
          ),
        ),
      );
      const [sheet, sx, sy] = points.sprite[i];
      if (crowded || !sheets[sheet].complete) continue;
      const key = `${column},${row}`;
      taken.set(key, [...(taken.get(key) || []), [px, py]]);
      paper.fillStyle = theme.colours[points.kind[i]];
      paper.fillRect(px - w / 2 - 2, py - h / 2 - 2, w + 4, h + 4);
      paper.drawImage(sheets[sheet], sx, sy, sprites.width, sprites.height, px - w / 2, py - h / 2, w, h);
    }
  }

  const inSight = (px, py) => px > -40 && py > -40 && px < size.width + 40 && py < size.height + 40;

  function drawPoint(i) {
    const [px, py] = toScreen(i);
    if (!inSight(px, py)) return;
    const stamp = marker(points.kind[i]);
    const wide = stamp.width / size.ratio;
    paper.drawImage(stamp, px - wide / 2, py - wide / 2, wide, wide);
  }

  function drawNumbers() {
    const taken = [];
    const many = kinds.length > 30;
    const [roomX, roomY] = many ? [52, 40] : [24, 18];
    paper.font = `600 ${many ? 11 : 13}px ${theme.font}`;
    paper.textAlign = "center";
    paper.textBaseline = "middle";
    for (const k of bySize) {
      if (middles[k] < 0 || (state.kind >= 0 && state.kind !== k)) continue;
      const [px, middle] = toScreen(middles[k]);
      const py = kinds[k].size < 8 ? middle - radius() - 14 : middle; // on few points it would hide them
      if (taken.some(([qx, qy]) => Math.abs(px - qx) < roomX && Math.abs(py - qy) < roomY)) continue;
      taken.push([px, py]);
      const wide = paper.measureText(k).width + 13;
      paper.beginPath();
      paper.roundRect(px - wide / 2, py - 10, wide, 20, 10);
      paper.fillStyle = theme.panel;
      paper.fill();
      paper.lineWidth = 1.5;
      paper.strokeStyle = theme.colours[k];
      paper.stroke();
      paper.fillStyle = theme.ink;
      paper.fillText(k, px, py + 0.5);
    }
  }

  function draw() {
    waiting = false;
    paper.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
    paper.clearRect(0, 0, size.width, size.height);
    paper.imageSmoothingEnabled = !(sprites && sprites.pixelated);
    const all = points.kind.map((_, i) => i);
    const bright = state.kind < 0 ? all : all.filter((i) => points.kind[i] === state.kind);
    if (state.kind >= 0) {
      paper.globalAlpha = 0.12;
      all.filter((i) => points.kind[i] !== state.kind).forEach(drawPoint);
      paper.globalAlpha = 1;
    }
    bright.forEach(drawPoint);
    if (state.pictures) drawPictures(bright);
    else drawNumbers();
    if (state.chosen >= 0) drawChosen();
  }

  function drawChosen() {
    const [px, py] = toScreen(state.chosen);
    drawPoint(state.chosen);
    paper.beginPath();
    paper.arc(px, py, radius() + 5, 0, 2 * Math.PI);
    paper.lineWidth = 2;
    paper.strokeStyle = theme.ink;
    paper.stroke();
  }

  function redraw() {
    if (waiting || !size.width) return;
    waiting = true;
    requestAnimationFrame(draw);
  }

  function resize() {
    const box = canvas.getBoundingClientRect();
    Object.assign(size, { width: box.width, height: box.height, ratio: window.devicePixelRatio || 1 });
    canvas.width = Math.round(box.width * size.ratio);
    canvas.height = Math.round(box.height * size.ratio);
    markers.length = 0;
    if (theme.colours) draw(); // at once: a resized canvas is empty
  }

  new ResizeObserver(resize).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", readTheme);
  resize();
  readTheme();
  return { canvas, n, x, y, size, view, state, toScreen, zoomAt, moveBy, reset, centre, nearest, redraw };
})();
