// A grid of any number of pictures, of which only those in sight are in the page.
import { h, swatch } from "./dom.js";
import { enlarge, named, thumbnail } from "./picture.js";
import { called } from "./store.js";

const overscan = 2; // lines above and below what is in sight
let grids = 0;

export class Grid {
  // changed: is told when the selection has changed. label: of the grid, for those who cannot see it.
  constructor({ label, changed = () => {}, side = 132, fixed = false }) {
    this.rows = [];
    this.flags = [];
    this.guesses = [];
    this.selected = new Set();
    this.active = -1;
    this.anchor = -1;
    this.changed = changed;
    this.side = side;
    this.tiles = new Map();
    this.id = `grid${(grids += 1)}`;
    this.space = h("div", { class: "space", role: "presentation" });
    this.box = h("div", { class: `grid${fixed ? " fixed" : ""}`, tabindex: "0", role: "listbox", "aria-multiselectable": "true", "aria-label": label, id: this.id }, this.space);
    this.box.addEventListener("scroll", () => this.soon(), { passive: true });
    this.box.addEventListener("click", (event) => this.clicked(event));
    this.box.addEventListener("dblclick", (event) => this.opened(event));
    this.box.addEventListener("keydown", (event) => this.pressed(event));
    this.box.addEventListener("focus", () => this.active < 0 && this.rows.length && this.go(this.first(), false));
    this.touches();
    this.observer = new ResizeObserver(() => this.laid());
    this.observer.observe(this.box);
  }

  close() {
    this.observer.disconnect();
  }

  // Shows other pictures; those that are selected and still there stay selected.
  // guesses: the kind that is written on each picture, if any.
  set(rows, flags = [], guesses = []) {
    const before = this.active >= 0 ? this.rows[this.active] : -1;
    this.rows = rows;
    this.flags = flags;
    this.guesses = guesses;
    const there = new Set(rows);
    for (const row of this.selected) if (!there.has(row)) this.selected.delete(row);
    this.active = rows.indexOf(before);
    this.anchor = -1;
    this.tiles.forEach((tile) => tile.remove());
    this.tiles.clear();
    this.laid();
    this.changed();
  }

  resize(side) {
    this.side = side;
    this.tiles.forEach((tile) => tile.remove());
    this.tiles.clear();
    this.laid();
  }

  laid() {
    const width = this.box.clientWidth;
    if (!width) return;
    this.columns = Math.max(2, Math.floor((width + 6) / (this.side + 6)));
    this.cell = (width + 6) / this.columns;
    const lines = Math.ceil(this.rows.length / this.columns);
    this.space.style.height = `${Math.max(0, lines * this.cell - 6)}px`;
    this.draw();
  }

  soon() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  first() {
    return Math.min(this.rows.length - 1, Math.max(0, Math.floor(this.box.scrollTop / this.cell) * this.columns));
  }

  draw() {
    if (!this.cell) return;
    const top = Math.floor(this.box.scrollTop / this.cell) - overscan;
    const bottom = Math.ceil((this.box.scrollTop + this.box.clientHeight) / this.cell) + overscan;
    const from = Math.max(0, top * this.columns);
    const to = Math.min(this.rows.length, bottom * this.columns);
    for (const [index, tile] of this.tiles) {
      if (index < from || index >= to) {
        tile.remove();
        this.tiles.delete(index);
      }
    }
    const fresh = [];
    for (let index = from; index < to; index += 1) {
      const tile = this.tiles.get(index) || this.made(index);
      if (!tile.isConnected) fresh.push(tile);
      const [x, y] = [(index % this.columns) * this.cell, Math.floor(index / this.columns) * this.cell];
      tile.style.transform = `translate(${x}px,${y}px)`;
      tile.style.width = tile.style.height = `${this.cell - 6}px`;
    }
    this.space.append(...fresh);
  }

  made(index) {
    const row = this.rows[index];
    const flag = this.flags[index] || 0;
    const tile = h("div", {
      class: `tile${flag & 1 ? " sure" : ""}`,
      role: "option",
      id: `${this.id}-${index}`,
      data: { index, row },
      "aria-selected": String(this.selected.has(row)),
      "aria-posinset": index + 1,
      "aria-setsize": this.rows.length,
      "aria-label": `picture ${index + 1}`,
    }, thumbnail(row));
    const guess = this.guesses[index];
    if (guess) tile.append(h("span", { class: "guess" }, swatch(guess), h("bdi", { text: called(guess) })));
    if (index === this.active) tile.classList.add("active");
    named(row, (name) => {
      tile.setAttribute("aria-label", `${name}${guess ? `, perhaps ${called(guess)}` : ""}${flag & 1 ? ", confirmed" : ""}`);
      tile.title = name;
    });
    this.tiles.set(index, tile);
    return tile;
  }

  // Selection

  mark() {
    for (const [index, tile] of this.tiles) {
      tile.setAttribute("aria-selected", String(this.selected.has(this.rows[index])));
      tile.classList.toggle("active", index === this.active);
    }
    if (this.active >= 0) this.box.setAttribute("aria-activedescendant", `${this.id}-${this.active}`);
    this.changed();
  }

  toggle(index, range = false) {
    if (range && this.anchor >= 0) {
      const [from, to] = [Math.min(this.anchor, index), Math.max(this.anchor, index)];
      for (let i = from; i <= to; i += 1) this.selected.add(this.rows[i]);
    } else {
      if (!this.selected.delete(this.rows[index])) this.selected.add(this.rows[index]);
      this.anchor = index;
    }
    this.active = index;
    this.mark();
  }

  all() {
    this.rows.forEach((row) => this.selected.add(row));
    this.mark();
  }

  clear() {
    this.selected.clear();
    this.mark();
  }

  index(event) {
    const tile = event.target.closest(".tile");
    return tile ? Number(tile.dataset.index) : -1;
  }

  clicked(event) {
    const index = this.index(event);
    if (index < 0 || this.pressedLong) return;
    this.toggle(index, event.shiftKey);
  }

  opened(event) {
    const index = this.index(event);
    if (index >= 0) this.large(index); // its two clicks have left the selection as it was
  }

  large(index = this.active) {
    if (index >= 0) enlarge(this.rows[index], this.rows);
  }

  // A finger that stays enlarges.
  touches() {
    let timer = 0;
    const stop = () => clearTimeout(timer);
    this.box.addEventListener("pointerdown", (event) => {
      const index = this.index(event);
      this.pressedLong = false;
      if (event.pointerType !== "touch" || index < 0) return;
      timer = setTimeout(() => {
        this.pressedLong = true;
        this.large(index);
      }, 550);
    });
    for (const end of ["pointerup", "pointercancel", "pointermove", "scroll"]) this.box.addEventListener(end, stop, { passive: true });
    this.box.addEventListener("contextmenu", (event) => this.pressedLong && event.preventDefault());
  }

  go(index, range) {
    if (range && this.anchor < 0) this.anchor = this.active;
    this.active = Math.min(this.rows.length - 1, Math.max(0, index));
    const y = Math.floor(this.active / this.columns) * this.cell;
    if (y < this.box.scrollTop) this.box.scrollTop = y;
    else if (y + this.cell > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = y + this.cell - this.box.clientHeight;
    this.draw();
    if (range) {
      const [from, to] = [Math.min(this.anchor, this.active), Math.max(this.anchor, this.active)];
      for (let i = from; i <= to; i += 1) this.selected.add(this.rows[i]);
    } else this.anchor = this.active;
    this.mark();
  }

  pressed(event) {
    if (event.altKey) return;
    const lines = Math.max(1, Math.floor(this.box.clientHeight / this.cell));
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns, PageUp: -lines * this.columns, PageDown: lines * this.columns, Home: -Infinity, End: Infinity };
    if (event.key in steps && !event.ctrlKey) this.go(this.active + steps[event.key], event.shiftKey);
    else if (event.key === " " && this.active >= 0) this.toggle(this.active);
    else if (event.key === "Enter" && this.active >= 0) this.large();
    else if (event.key === "a" && (event.ctrlKey || event.metaKey)) this.all();
    else if (event.key === "Escape" && this.selected.size) this.clear();
    else return;
    event.preventDefault();
  }
}
