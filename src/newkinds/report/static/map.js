// The map itself: where points lie, which one is near, and how they are drawn. `explore.js` moves it.
newkinds.map = (() => {
  const { data, element, colouring, names } = newkinds;
  const { points, kinds, sprites } = data;
  const { n, now } = colouring;
  const ends = { x: Float32Array.from(points.x, (v) => v / points.grid), y: Float32Array.from(points.y, (v) => v / points.grid) };
  const x = ends.x.slice();
  const y = ends.y.slice();
  const canvas = element("map-canvas");
  const paper = canvas.getContext("2d");
  const size = { width: 0, height: 0, ratio: 1 };
  const extent = { x: Math.max(spread(x), 0.05), y: Math.max(spread(y), 0.05) };
  const view = { zoom: 1, x: 0.5, y: 0.5 };
  const state = { chosen: -1, kind: -1, pictures: false, shown: null, picked: new Set(), lasso: null };
  const maxZoom = 60;
  const below = element("map-points");
  let painter = newkinds.painters.webgl(below, n, fallBack) || newkinds.painters.plain(paper);
  let theme = {};
  let waiting = false;

  function spread(values) {
    return values.reduce((a, b) => Math.max(a, b), 0) - values.reduce((a, b) => Math.min(a, b), 1);
  }

  function fallBack(event) {
    if (event) event.preventDefault();
    painter = newkinds.painters.plain(paper);
    below.hidden = true;
    redraw();
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

  // What can be seen and chosen: at an earlier snapshot only some points, and of a highlighted group those in it.
  const everything = Array.from({ length: n }, (_, i) => i);
  const present = () => state.shown || everything;
  const alight = (i) => state.kind < 0 || now.of[i] === state.kind;

  // A grid of about two points a cell: hovering looks at a few cells, not at all points.
  const side = Math.max(1, Math.ceil(Math.sqrt(n / 2)));
  const cell = (v) => Math.min(side - 1, Math.max(0, Math.floor(v * side)));
  let cells = null;
  function sorted() {
    if (!cells) {
      cells = Array.from({ length: side * side }, () => []);
      for (const i of present()) cells[cell(y[i]) * side + cell(x[i])].push(i);
    }
    return cells;
  }

  function nearest(px, py, reach) {
    const [wx, wy] = toWorld(px, py);
    const far = reach / unit();
    let best = -1;
    let least = far * far;
    for (let row = cell(wy - far); row <= cell(wy + far); row += 1) {
      for (let column = cell(wx - far); column <= cell(wx + far); column += 1) {
        for (const i of sorted()[row * side + column]) {
          const d = (x[i] - wx) ** 2 + (y[i] - wy) ** 2;
          if (alight(i) && d < least) [best, least] = [i, d];
        }
      }
    }
    return best;
  }

  // Where a kind's number stands: on the point nearest to the middle of its points.
  let middles = null;
  function centres() {
    if (!middles) {
      const mine = kinds.map(() => []);
      for (const i of present()) mine[now.of[i]].push(i);
      const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
      middles = mine.map((some) => {
        if (!some.length) return -1;
        const [mx, my] = [median(some.map((i) => x[i])), median(some.map((i) => y[i]))];
        const away = (i) => (x[i] - mx) ** 2 + (y[i] - my) ** 2;
        return some.reduce((a, b) => (away(b) < away(a) ? b : a));
      });
    }
    return middles;
  }
  const bySize = kinds.map((_, k) => k).sort((a, b) => kinds[b].size - kinds[a].size);

  function radius() {
    const many = present().length;
    const base = many > 8000 ? 2.2 : many > 2000 ? 2.8 : many > 500 ? 3.8 : many > 100 ? 5 : 7;
    return base * (size.width < 500 ? 0.7 : 1) * Math.min(2, Math.sqrt(view.zoom));
  }

  // Points have moved, or others are shown: places (of all, or of `which`), or null for the end.
  function place(which, px, py) {
    x.set(ends.x);
    y.set(ends.y);
    if (which) which.forEach((i, j) => ([x[i], y[i]] = [px[j], py[j]]));
    state.shown = which;
    cells = middles = null;
    painter.placed();
    redraw();
  }

  function restyle() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(name).trim();
    const part = (colour, at) => parseInt(colour.slice(at, at + 2), 16);
    const mixed = (share) => {
      const [from, to] = [read("--c1"), read("--c0")];
      const mix = (at) => Math.round(part(from, at) * (1 - share) + part(to, at) * share);
      return `#${[1, 3, 5].map((at) => mix(at).toString(16).padStart(2, "0")).join("")}`;
    };
    theme = { ink: read("--ink"), panel: read("--panel"), font: getComputedStyle(document.body).fontFamily };
    theme.colours = now.styles.map((s) => ("mix" in s ? mixed(s.mix) : read(s.colour < 0 ? "--quiet" : `--c${s.colour}`)));
    middles = null;
    painter.styled();
    redraw();
  }

  // Sheets are decoded when they are first asked for.
  let sheets = null;
  function loadSheets() {
    sheets = sprites.sheets.map((_, i) => {
      const picture = new Image();
      picture.onload = redraw;
      picture.src = newkinds.sheet(i);
      return picture;
    });
  }

  // Pictures where there is room for them, points under and between; zooming in makes room for more.
  function drawPictures(shown) {
    if (!sheets) loadSheets();
    const wide = Math.min(72, 34 * Math.sqrt(Math.sqrt(view.zoom)));
    const scale = wide / Math.max(sprites.width, sprites.height);
    const [w, h] = [sprites.width * scale, sprites.height * scale];
    const taken = new Map();
    for (const i of shown) {
      const [px, py] = toScreen(i);
      if (!points.sprite[i] || !inSight(px, py)) continue;
      const [column, row] = [Math.floor(px / wide), Math.floor(py / wide)];
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
      paper.fillStyle = theme.colours[now.of[i]];
      paper.fillRect(px - w / 2 - 2, py - h / 2 - 2, w + 4, h + 4);
      paper.drawImage(sheets[sheet], sx, sy, sprites.width, sprites.height, px - w / 2, py - h / 2, w, h);
    }
  }

  const inSight = (px, py) => px > -40 && py > -40 && px < size.width + 40 && py < size.height + 40;

  // A new kind's number, or its name where it has one. Beside known kinds, which may be called by numbers, it is "Kind 3".
  const alone = kinds.every(({ key }) => /^\d+$/.test(key));
  function label(k) {
    const { key, name } = kinds[k];
    if (alone && !names.has(k) && name === `Kind ${key}`) return key;
    const letters = [...names.of(k)];
    return letters.length > 18 ? `${letters.slice(0, 17).join("")}…` : letters.join("");
  }

  function drawNumbers() {
    const taken = [];
    const many = kinds.length > 30;
    const [roomX, roomY] = many ? [52, 40] : [24, 18];
    paper.font = `600 ${many ? 11 : 13}px ${theme.font}`;
    paper.textAlign = "center";
    paper.textBaseline = "middle";
    for (const k of bySize) {
      if (centres()[k] < 0 || (state.kind >= 0 && state.kind !== k)) continue;
      const text = label(k);
      const wide = paper.measureText(text).width + 13;
      const [at, middle] = toScreen(centres()[k]);
      if (!inSight(at, middle)) continue;
      const px = Math.max(wide / 2 + 3, Math.min(at, size.width - wide / 2 - 3));
      const py = kinds[k].size < 8 ? middle - radius() - 14 : middle; // on few points it would hide them
      const meets = ([qx, qy, other]) => Math.abs(px - qx) < Math.max(roomX, (wide + other) / 2 + 2) && Math.abs(py - qy) < roomY;
      if (taken.some(meets)) continue;
      taken.push([px, py, wide]);
      paper.beginPath();
      paper.roundRect(px - wide / 2, py - 10, wide, 20, 10);
      paper.fillStyle = theme.panel;
      paper.fill();
      paper.lineWidth = 1.5;
      paper.strokeStyle = theme.colours[k];
      paper.stroke();
      paper.fillStyle = theme.ink;
      paper.fillText(text, px, py + 0.5);
    }
  }

  function ring(i, width) {
    const [px, py] = toScreen(i);
    if (!inSight(px, py)) return;
    paper.beginPath();
    paper.arc(px, py, radius() + 2 + width, 0, 2 * Math.PI);
    paper.lineWidth = width;
    paper.strokeStyle = theme.ink;
    paper.stroke();
  }

  function drawLasso() {
    paper.beginPath();
    state.lasso.forEach(([px, py], i) => (i ? paper.lineTo(px, py) : paper.moveTo(px, py)));
    paper.closePath();
    paper.lineWidth = 1.5;
    paper.setLineDash([5, 4]);
    paper.strokeStyle = theme.ink;
    paper.stroke();
    paper.setLineDash([]);
  }

  function draw() {
    waiting = false;
    paper.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
    paper.clearRect(0, 0, size.width, size.height);
    paper.imageSmoothingEnabled = !(sprites && sprites.pixelated);
    const bright = state.kind < 0 ? present() : present().filter(alight);
    const dim = state.kind < 0 ? [] : present().filter((i) => !alight(i));
    const { of, styles } = now;
    const { colours, panel } = theme;
    const { ratio } = size;
    const scene = { dim, bright, of, styles, colours, panel, x, y, view, size, ratio, unit: unit(), radius: radius(), toScreen, inSight };
    painter.draw(scene);
    if (state.pictures) drawPictures(bright);
    else if (now.mode === "kind") drawNumbers();
    state.picked.forEach((i) => ring(i, 1));
    if (state.chosen >= 0) ring(state.chosen, 2);
    if (state.lasso) drawLasso();
  }

  function redraw() {
    if (waiting || !size.width || !theme.colours) return;
    waiting = true;
    requestAnimationFrame(draw);
  }

  function resize() {
    const box = canvas.getBoundingClientRect();
    Object.assign(size, { width: box.width, height: box.height, ratio: window.devicePixelRatio || 1 });
    for (const sheet of [canvas, below]) {
      sheet.width = Math.round(box.width * size.ratio);
      sheet.height = Math.round(box.height * size.ratio);
    }
    if (theme.colours && size.width) draw(); // at once: a resized canvas is empty
  }

  if (painter.name === "canvas") below.hidden = true;
  new ResizeObserver(resize).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restyle);
  names.watch(redraw);
  resize();
  restyle();
  return {
    canvas, n, x, y, ends, size, view, state, toScreen, toWorld, zoomAt, moveBy, reset, centre, nearest, redraw, restyle, place,
    present, alight, fallBack, colours: () => theme.colours, drawnBy: () => painter.name,
  };
})();
