// What one might want to say next: pictures that look like those of another kind, kinds that look like one, repeated pictures.
import { say } from "./actions.js";
import { button, buttons, h, number, plural, swatch } from "./dom.js";
import { enlarge, named, thumbnail } from "./picture.js";
import { called, get, kindOf, post, title } from "./store.js";

const passed = new Set(); // what was refused, while the page is open

const link = (kind) => h("a", { href: `#/kind/${encodeURIComponent(kind)}` }, swatch(kind), " ", title(kind));

// Pictures that can be taken out by a click.
function pickable(rows, out, changed) {
  return h("ul", { class: "strip picks" }, ...rows.map((row) => {
    const one = h("button", { type: "button", class: "pick", "aria-pressed": "false", "aria-label": `picture ${row}` }, thumbnail(row));
    named(row, (name) => {
      one.setAttribute("aria-label", `Leave out ${name}`);
      one.title = `${name}\nA click leaves it out; a double click enlarges.`;
    });
    one.addEventListener("click", () => {
      if (!out.delete(row)) out.add(row);
      one.setAttribute("aria-pressed", String(out.has(row)));
      changed();
    });
    one.addEventListener("dblclick", () => enlarge(row, rows));
    return h("li", {}, one);
  }));
}

function move(one, again) {
  const out = new Set();
  const go = button("", async () => {
    const rows = one.rows.filter((row) => !out.has(row));
    if (out.size) await post("/api/refuse", { kind: one.to, rows: [...out] });
    if (rows.length) await say({ do: "move", rows, to: one.to }, `${plural(rows.length, "picture")} moved to ${called(one.to)}`);
    else again();
  }, { class: "main" });
  const label = () => (go.textContent = out.size ? `Move the other ${number(one.rows.length - out.size)}` : one.rows.length === 1 ? "Move it" : `Move all ${number(one.rows.length)}`);
  label();
  const no = button("None of them", async () => {
    await post("/api/refuse", { kind: one.to, rows: one.rows });
    again();
  });
  const why = one.said ? ` ${one.said === one.rows.length ? "" : `${number(one.said)} of them `}lie beside pictures that you have looked at.` : "";
  return h("li", { class: "panel" },
    h("h3", {}, plural(one.rows.length, "picture"), " of ", link(one.from), one.rows.length === 1 ? " looks like " : " look like ", link(one.to)),
    h("p", { class: "quiet", text: `Most of the pictures nearest to ${one.rows.length === 1 ? "it" : "each"} are there.${why} Click on those that are not.` }),
    pickable(one.rows, out, label), buttons(go, no));
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
    const all = [
      ...part("Kinds that should perhaps be one", "Merging is undone like everything else.", merges.map((one) => merging(one, load))),
      ...part("Pictures that should perhaps be elsewhere", "Found from their neighbours, and anew after everything that you say.", found.moves.map((one) => move(one, load))),
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
      main.classList.remove("full");
    },
  };
}
