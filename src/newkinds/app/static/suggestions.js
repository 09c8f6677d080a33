// What one might want to say next: pictures that look like those of another kind, kinds that look like one, repeated pictures.
import { say } from "./actions.js";
import { button, buttons, h, number, plural, swatch } from "./dom.js";
import { Grid } from "./grid.js";
import { enlarge, thumbnail } from "./picture.js";
import { called, get, kindOf, post, title } from "./store.js";

const passed = new Set(); // what was refused, while the page is open

const link = (kind) => h("a", { href: `#/kind/${encodeURIComponent(kind)}` }, swatch(kind), " ", title(kind));

// Pictures with the kind that they are perhaps of. What is not moved is not offered for that kind again.
function elsewhere(moves, again) {
  const guess = new Map(moves.rows.map((row, i) => [row, moves.guess[i]]));
  const foot = h("div", {});
  const grid = new Grid({ label: "Pictures that are perhaps of another kind", changed: () => draw(), side: 124 });
  async function go(rows) {
    const taken = new Set(rows);
    const groups = new Map();
    const left = new Map();
    for (const row of moves.rows) {
      const to = taken.has(row) ? groups : left;
      to.set(guess.get(row), [...(to.get(guess.get(row)) || []), row]);
    }
    for (const [kind, some] of left) await post("/api/refuse", { kind, rows: some });
    const actions = [...groups].map(([to, some]) => ({ do: "move", rows: some, to }));
    if (actions.length) await say(actions.length === 1 ? actions[0] : { do: "batch", actions, note: "" }, `${plural(rows.length, "picture")} moved to where they look best`);
    else again();
  }
  function draw() {
    const picked = [...grid.selected];
    const others = grid.rows.filter((row) => !grid.selected.has(row));
    foot.replaceChildren(buttons(
      picked.length ? button(`Move only the ${number(picked.length)} picked`, () => go(picked), { class: "main" }) : button(`Move all ${number(others.length)}`, () => go(others), { class: "main" }),
      picked.length ? button(`Move all but the ${number(picked.length)} picked`, () => go(others), { class: "main" }) : button("Move none of them", () => go([])),
    ));
  }
  grid.set(moves.rows, moves.flags, moves.guess);
  const sure = moves.sure === moves.rows.length ? "Their nearest pictures are of the kind that is written on them." : `Of ${plural(moves.sure, "picture")}, most of the nearest are of the kind that is written on them; the others are less sure.`;
  const box = h("div", { class: "panel elsewhere" },
    h("p", { class: "quiet", text: `${sure} Pick those that are right, or those that are wrong, whichever are fewer; Shift picks all in between. What is not moved is not offered for that kind again.` }),
    grid.box, foot);
  return { box, grid };
}

function merging(one, again) {
  const [a, b] = one.kinds;
  const half = (kind, i) => h("div", {}, h("p", {}, link(kind), h("span", { class: "quiet", text: ` ${plural(one.sizes[i], "picture")}` })), h("div", { class: "strip" }, ...((kindOf(kind) || { cover: [] }).cover.slice(0, 6).map(thumbnail))));
  return h("li", { class: "panel" },
    h("h3", { text: "These two kinds look like one" }),
    h("p", { class: "quiet", text: `${number(one.close[0])} of the ${plural(one.sizes[0], "picture")} of ${called(a)} have a picture of ${called(b)} among their five nearest, and ${number(one.close[1])} of ${number(one.sizes[1])} the other way round.` }),
    h("div", { class: "halves" }, half(a, 0), half(b, 1)),
    buttons(
      button("Merge them", () => say({ do: "merge", kinds: one.kinds }, `${called(a)} and ${called(b)} are one kind`), { class: "main" }),
      button("They are two", () => {
        passed.add(one.kinds.join(" "));
        again();
      })));
}

function repeated(one, kinds, again) {
  return h("li", { class: "panel" },
    h("h3", { text: `The same picture ${plural(one.rows.length, "time", "times")}?` }),
    h("p", { class: "quiet", text: kinds.length > 1 ? `In ${plural(kinds.length, "kind")}: one of them is wrong, if they are the same.` : "In one kind." }),
    h("div", { class: "strip" }, ...one.rows.slice(0, 12).map((row) => h("button", { type: "button", class: "pick", "aria-label": `Enlarge picture ${row}`, on: { click: () => enlarge(row, one.rows) } }, thumbnail(row)))),
    buttons(
      ...kinds.slice(0, 4).map((kind) => button(kinds.length > 1 ? `All are ${called(kind)}` : "Confirm them", () => say({ do: "move", rows: one.rows, to: kind }, `${plural(one.rows.length, "picture")} are ${called(kind)}`))),
      button("Leave them", () => {
        passed.add(one.rows.join(" "));
        again();
      })));
}

export function show(main) {
  let timer = 0;
  let open = null;
  async function load() {
    const found = await get("/api/suggest");
    clearTimeout(timer);
    if (!found.ready) {
      main.replaceChildren(h("p", { class: "wait", text: "Every picture is compared with every other: a moment ..." }));
      timer = setTimeout(load, 700);
      return;
    }
    const merges = found.merges.filter((one) => !passed.has(one.kinds.join(" ")));
    const again = found.repeated.filter((one) => !passed.has(one.rows.join(" ")));
    const part = (text, about, items) => (items.length ? [h("h2", { text }), h("p", { class: "about", text: about }), h("ul", { class: "panels" }, ...items)] : []);
    if (open) open.grid.close();
    open = found.moves.rows.length ? elsewhere(found.moves, load) : null;
    const all = [
      ...part("Kinds that should perhaps be one", "Merging is undone like everything else.", merges.map((one) => merging(one, load))),
      ...(open ? [h("h2", { text: "Pictures that should perhaps be elsewhere" }), h("p", { class: "about", text: "Found from their neighbours, and anew after everything that you say." }), open.box] : []),
      ...part("Repeated pictures", "Pictures that look the same.", again.map((one) => repeated(one, one.kinds, load))),
    ];
    main.replaceChildren(h("div", { class: "scroll" }, ...(all.length ? all : [h("p", { class: "wait", text: "There is nothing to suggest now. Correct or confirm some pictures, and look again." })])));
  }
  main.classList.add("full");
  load();
  return {
    changed: load,
    close() {
      clearTimeout(timer);
      if (open) open.grid.close();
      main.classList.remove("full");
    },
  };
}
