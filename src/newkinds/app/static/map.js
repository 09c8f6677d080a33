// The map: pictures that look alike lie close together. A loop drawn around some selects them.
import { button, h, number, plural, style, swatch } from "./dom.js";
import { named, thumbnail } from "./picture.js";
import { called, get, store, title } from "./store.js";
import * as tray from "./tray.js";

function inside(path, px, py) {
  let odd = false;
  for (let i = 0, j = path.length - 1; i < path.length; j = i, i += 1) {
    const [[ax, ay], [bx, by]] = [path[i], path[j]];
    if (ay > py !== by > py && px < ((bx - ax) * (py - ay)) / (by - ay) + ax) odd = !odd;
  }
  return odd;
}

class Atlas {
  constructor(data, changed) {
    this.changed = changed;
    this.data = data;
    this.n = data.rows.length;
    this.x = Float32Array.from(data.x, (v) => v / 10000);
    this.y = Float32Array.from(data.y, (v) => v / 10000);
    this.place = new Map(data.rows.map((row, i) => [row, i]));
    this.picked = new Set();
    this.lit = -1;
    this.chosen = -1;
    this.lasso = null;
    this.loop = true;
    this.fingers = new Map();
    this.view = { zoom: 1, x: 0.5, y: 0.5 };
    this.size = { width: 0, height: 0, ratio: 1 };
    this.below = h("canvas", { class: "points", "aria-hidden": "true" });
    this.canvas = h("canvas", { class: "hands", tabindex: "0", role: "application", "aria-label": `Map of ${plural(this.n, "picture")}`, "aria-describedby": "map-help" });
    this.tip = h("div", { class: "tip", role: "tooltip", hidden: true });
    this.box = h("div", { class: "map-frame" }, this.below, this.canvas, this.tip);
    this.paper = this.canvas.getContext("2d");
    this.painter = newkinds.painters.webgl(this.below, this.n, () => this.plain()) || newkinds.painters.plain(this.paper);
    this.hands();
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(this.canvas);
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.restyled = () => this.restyle();
    this.dark.addEventListener("change", this.restyled);
  }

  close() {
    this.observer.disconnect();
    this.dark.removeEventListener("change", this.restyled);
  }

  plain() {
    this.painter = newkinds.painters.plain(this.paper);
    this.below.hidden = true;
    this.redraw();
  }

  // Other kinds than before, of the same pictures.
  take(data) {
    this.data = data;
    this.restyle();
  }

  restyle() {
    const css = getComputedStyle(document.documentElement);
    const read = (name) => css.getPropertyValue(name).trim();
    this.styles = this.data.kinds.map(style);
    this.colours = this.styles.map((one) => read(one.colour < 0 ? "--quiet" : `--c${one.colour}`));
    this.ink = read("--ink");
    this.panel = read("--panel");
    this.painter.styled();
    this.redraw();
  }

  unit() {
    return Math.max(1, Math.min(this.size.width, this.size.height) - 40) * this.view.zoom;
  }

  toScreen(i) {
    return [this.size.width / 2 + (this.x[i] - this.view.x) * this.unit(), this.size.height / 2 + (this.y[i] - this.view.y) * this.unit()];
  }

  zoomAt(px, py, factor) {
    const [wx, wy] = [this.view.x + (px - this.size.width / 2) / this.unit(), this.view.y + (py - this.size.height / 2) / this.unit()];
    this.view.zoom = Math.min(60, Math.max(1, this.view.zoom * factor));
    this.view.x = wx - (px - this.size.width / 2) / this.unit();
    this.view.y = wy - (py - this.size.height / 2) / this.unit();
    if (this.view.zoom === 1) Object.assign(this.view, { x: 0.5, y: 0.5 });
    this.redraw();
  }

  radius() {
    return (this.n > 8000 ? 2.2 : this.n > 2000 ? 3 : this.n > 500 ? 4 : 6) * Math.min(2, Math.sqrt(this.view.zoom));
  }

  resized() {
    const box = this.canvas.getBoundingClientRect();
    Object.assign(this.size, { width: box.width, height: box.height, ratio: window.devicePixelRatio || 1 });
    for (const sheet of [this.canvas, this.below]) {
      sheet.width = Math.round(box.width * this.size.ratio);
      sheet.height = Math.round(box.height * this.size.ratio);
    }
    if (this.colours) this.draw();
    else this.restyle();
  }

  redraw() {
    if (this.waiting || !this.size.width) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  draw() {
    const { paper, size } = this;
    paper.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
    paper.clearRect(0, 0, size.width, size.height);
    const all = Array.from({ length: this.n }, (_, i) => i);
    const isLit = (i) => this.lit < 0 || this.data.kind[i] === this.lit;
    const inSight = (px, py) => px > -40 && py > -40 && px < size.width + 40 && py < size.height + 40;
    this.painter.draw({
      dim: this.lit < 0 ? [] : all.filter((i) => !isLit(i)), bright: this.lit < 0 ? all : all.filter(isLit), of: this.data.kind, styles: this.styles, colours: this.colours,
      panel: this.panel, x: this.x, y: this.y, view: this.view, size, ratio: size.ratio, unit: this.unit(), radius: this.radius(), toScreen: (i) => this.toScreen(i), inSight,
    });
    paper.strokeStyle = this.ink;
    const ring = (i, width) => {
      const [px, py] = this.toScreen(i);
      paper.beginPath();
      paper.arc(px, py, this.radius() + 2 + width, 0, 2 * Math.PI);
      paper.lineWidth = width;
      paper.stroke();
    };
    this.picked.forEach((row) => ring(this.place.get(row), 1));
    if (this.chosen >= 0) ring(this.chosen, 2);
    if (this.lasso) {
      paper.beginPath();
      this.lasso.forEach(([px, py], i) => (i ? paper.lineTo(px, py) : paper.moveTo(px, py)));
      paper.closePath();
      paper.lineWidth = 1.5;
      paper.setLineDash([5, 4]);
      paper.stroke();
      paper.setLineDash([]);
    }
  }

  nearest(px, py, reach) {
    let [best, least] = [-1, reach * reach];
    for (let i = 0; i < this.n; i += 1) {
      if (this.lit >= 0 && this.data.kind[i] !== this.lit) continue;
      const [qx, qy] = this.toScreen(i);
      const d = (px - qx) ** 2 + (py - qy) ** 2;
      if (d < least) [best, least] = [i, d];
    }
    return best;
  }

  choose(i) {
    if (i === this.chosen) return;
    this.chosen = i;
    this.tip.hidden = i < 0;
    this.redraw();
    if (i < 0) return;
    const row = this.data.rows[i];
    const kind = this.data.kinds[this.data.kind[i]];
    const name = h("bdi", {});
    named(row, (found) => (name.textContent = found));
    this.tip.replaceChildren(thumbnail(row), h("div", {}, h("p", { class: "name" }, name), h("p", {}, swatch(kind), " ", title(kind))));
    const [px, py] = this.toScreen(i);
    const left = px + 18 + this.tip.offsetWidth < this.size.width ? px + 18 : px - 18 - this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(4, left)}px`;
    this.tip.style.top = `${Math.max(4, Math.min(py - 40, this.size.height - this.tip.offsetHeight - 4))}px`;
  }

  pick(rows) {
    this.picked = new Set(rows);
    this.changed();
    this.redraw();
  }

  toggle(i) {
    const row = this.data.rows[i];
    if (!this.picked.delete(row)) this.picked.add(row);
    this.changed();
    this.redraw();
  }

  around(path) {
    const isLit = (i) => this.lit < 0 || this.data.kind[i] === this.lit;
    this.pick(this.data.rows.filter((_, i) => isLit(i) && inside(path, ...this.toScreen(i))));
  }

  hands() {
    const { canvas, fingers } = this;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    const gap = () => {
      const [a, b] = [...fingers.values()];
      return Math.hypot(a[0] - b[0], a[1] - b[1]);
    };
    let [dragged, pinch] = [0, 0];
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, at(event));
      dragged = 0;
      this.lasso = this.loop !== event.shiftKey && fingers.size === 1 ? [at(event)] : null;
      if (fingers.size === 2) pinch = gap();
    });
    canvas.addEventListener("pointermove", (event) => {
      const [px, py] = at(event);
      const from = fingers.get(event.pointerId);
      if (!from) {
        this.choose(this.nearest(px, py, 18));
        return;
      }
      fingers.set(event.pointerId, [px, py]);
      dragged += Math.hypot(px - from[0], py - from[1]);
      if (this.lasso) this.lasso.push([px, py]);
      else if (fingers.size === 2) {
        const [a, b] = [...fingers.values()];
        this.zoomAt((a[0] + b[0]) / 2, (a[1] + b[1]) / 2, gap() / pinch);
        pinch = gap();
      } else {
        this.view.x -= (px - from[0]) / this.unit();
        this.view.y -= (py - from[1]) / this.unit();
      }
      this.redraw();
    });
    const lift = (event) => {
      if (!fingers.delete(event.pointerId)) return;
      const { lasso } = this;
      this.lasso = null;
      if (event.type === "pointerup") {
        if (lasso && dragged >= 6) this.around(lasso);
        else if (dragged < 6) {
          const i = this.nearest(...at(event), 24);
          if (i >= 0) this.toggle(i);
        }
      }
      this.redraw();
    };
    canvas.addEventListener("pointerup", lift);
    canvas.addEventListener("pointercancel", lift);
    canvas.addEventListener("pointerleave", () => fingers.size || this.choose(-1));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoomAt(...at(event), Math.exp(-Math.max(-120, Math.min(120, event.deltaY)) * 0.003));
    }, { passive: false });
    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const middle = [this.size.width / 2, this.size.height / 2];
      if (event.key in arrows) this.choose(this.chosen < 0 ? this.nearest(...middle, 1e6) : this.step(...arrows[event.key]));
      else if (event.key === "+" || event.key === "=") this.zoomAt(...(this.chosen < 0 ? middle : this.toScreen(this.chosen)), 1.5);
      else if (event.key === "-") this.zoomAt(...middle, 1 / 1.5);
      else if (event.key === "0") this.zoomAt(...middle, 1e-3);
      else if (event.key === " " && this.chosen >= 0) this.toggle(this.chosen);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  // The nearest point in the direction of an arrow; what lies sideways counts double.
  step(dx, dy) {
    let [best, least] = [this.chosen, Infinity];
    for (let i = 0; i < this.n; i += 1) {
      const [ax, ay] = [this.x[i] - this.x[this.chosen], this.y[i] - this.y[this.chosen]];
      const ahead = ax * dx + ay * dy;
      const cost = ahead + 2 * (Math.abs(ax * dy) + Math.abs(ay * dx));
      if (i !== this.chosen && ahead > 0 && cost < least) [best, least] = [i, cost];
    }
    return best;
  }
}

export function show(main) {
  let atlas = null;
  let timer = 0;
  const legend = h("div", { class: "legend", role: "group", "aria-label": "Highlight a kind" });

  function entries() {
    const counts = new Map();
    atlas.data.kind.forEach((k) => counts.set(k, (counts.get(k) || 0) + 1));
    legend.replaceChildren(...[...counts].sort((a, b) => b[1] - a[1]).map(([k, count]) => {
      const kind = atlas.data.kinds[k];
      const one = button("", () => {
        atlas.lit = atlas.lit === k ? -1 : k;
        for (const other of legend.children) other.setAttribute("aria-pressed", String(other === one && atlas.lit >= 0));
        atlas.redraw();
      }, { "aria-pressed": String(atlas.lit === k), "aria-label": `${called(kind)}, ${plural(count, "picture")}` });
      one.append(swatch(kind), title(kind), h("span", { class: "quiet", text: number(count) }));
      return one;
    }));
  }

  async function load() {
    const found = await get("/api/map");
    clearTimeout(timer);
    if (!found.ready) {
      main.replaceChildren(h("p", { class: "wait", text: "The map is being drawn; of many pictures that takes half a minute. Everything else works meanwhile." }));
      timer = setTimeout(load, 1000);
      return;
    }
    if (atlas) {
      atlas.take(found);
      entries();
      return;
    }
    atlas = new Atlas(found, () => tray.show({
      loop: true,
      kind: null,
      rows: () => [...atlas.picked],
      kindOf: (row) => atlas.data.kinds[atlas.data.kind[atlas.place.get(row)]],
      clear: () => atlas.pick([]),
    }));
    window.newkindsMap = atlas; // for tests, which have to find pictures on it
    const loop = button("Draw a loop", () => {
      atlas.loop = !atlas.loop;
      loop.setAttribute("aria-pressed", String(atlas.loop));
    }, { "aria-pressed": "true" });
    const middle = () => [atlas.size.width / 2, atlas.size.height / 2];
    atlas.box.append(h("div", { class: "map-tools" }, loop,
      button("+", () => atlas.zoomAt(...middle(), 1.6), { "aria-label": "Zoom in" }),
      button("−", () => atlas.zoomAt(...middle(), 1 / 1.6), { "aria-label": "Zoom out" })));
    main.replaceChildren(
      h("p", { class: "viewbar quiet", id: "map-help", text: `Pictures that look alike lie close together. Draw a loop around some to select them, then split them off or move them; Shift moves the map, the wheel or two fingers zoom. Keys: arrows, Space, + and −.${found.rows.length < store.state.progress.pictures ? ` It shows ${number(found.rows.length)} of ${number(store.state.progress.pictures)} pictures.` : ""}` }),
      h("div", { class: "map" }, atlas.box, legend));
    entries();
  }
  main.classList.add("full");
  load();
  return {
    changed: load,
    close() {
      clearTimeout(timer);
      if (atlas) atlas.close();
      main.classList.remove("full");
    },
  };
}
