// One kind: all its pictures, in an order that one chooses.
import { judge, rename, say, split } from "./actions.js";
import { button, buttons, h, number, plural, swatch } from "./dom.js";
import { Grid } from "./grid.js";
import { says } from "./kinds.js";
import { called, get, kindOf, post, store } from "./store.js";
import * as tray from "./tray.js";

const orders = { typical: "Most typical first", doubtful: "Most doubtful first" };
let order = "typical";
let side = 132;

export function show(main, kind) {
  const label = () => (kind === "all" ? "All pictures" : called(kind));
  let to = null;
  let growing = false; // whether pages of pictures that may belong here are shown
  const grid = new Grid({ label: `Pictures of ${label()}`, side, changed: () => tray.show(selection) });
  const head = h("div", { class: "viewbar" });
  const size = h("input", { type: "range", min: "64", max: "280", value: String(side), "aria-label": "Size of the pictures" });
  const selection = {
    kind: kind === "all" ? null : kind,
    rows: () => [...grid.selected],
    kindOf: () => kind,
    clear: () => grid.clear(),
    similar(row) {
      to = row;
      load().then(() => (grid.box.scrollTop = 0));
    },
  };
  size.addEventListener("input", () => {
    side = Number(size.value);
    grid.resize(side);
  });

  async function load() {
    const asked = growing ? get("/api/grow", { kind }) : get("/api/kind", { kind, order: to === null ? order : "similar", to });
    try {
      const found = await asked;
      grid.set(found.rows, found.flags);
    } catch (error) {
      grid.set([]);
      head.append(h("p", { class: "quiet", text: error.message }));
    }
    draw();
  }

  function naming(one) {
    const field = h("input", { type: "text", id: "name", value: one.called, maxlength: "200", placeholder: "Name this kind", autocomplete: "off", spellcheck: "false" });
    const give = () => rename(kind, field.value).then((found) => {
      if (!found) field.value = (kindOf(kind) || { called: "" }).called;
      else if (!kindOf(kind)) location.hash = `#/kind/${encodeURIComponent(found.said.kinds.find((k) => kindOf(k)))}`;
    });
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault(); // the same key must not answer the question that may follow
      field.blur();
    });
    field.addEventListener("change", give);
    return [h("label", { for: "name", class: "hidden", text: "Name of the kind" }), field];
  }

  function draw() {
    const one = kindOf(kind) || { called: "", status: "open", size: 0, confirmed: 0 };
    const isNew = kind.startsWith("new:");
    const isClosed = one.status === "rejected" || kind === "none";
    if (document.activeElement && document.activeElement.id === "name") return; // somebody is typing
    const choice = h("select", { id: "sort" }, ...Object.entries(orders).map(([key, text]) => h("option", { value: key, text })), to === null ? null : h("option", { value: "similar", text: "Similar to the one you picked" }));
    choice.value = to === null ? order : "similar";
    choice.addEventListener("change", () => {
      if (choice.value === "similar") return;
      order = choice.value;
      to = null;
      load().then(() => (grid.box.scrollTop = 0));
    });
    head.replaceChildren(...[
      h("a", { href: "#/", class: "back", text: "All kinds" }),
      kind === "all" ? null : swatch(kind),
      ...(isNew ? [h("h2", { text: `Kind ${kind.slice(4)}` }), ...naming(one)] : [h("h2", {}, h("bdi", { text: label() }))]),
      h("span", { class: "quiet", text: `${plural(one.size, "picture")}, ${number(one.confirmed)} confirmed` }),
      says[one.status] ? h("span", { class: "badge", text: says[one.status] }) : null,
      isNew ? buttons(
        one.status === "open" ? button("Accept", () => judge("accept", [kind]), { class: "main", title: "This is a kind" }) : null,
        one.status === "open" ? button("Not a kind", () => judge("reject", [kind])) : button("Open again", () => judge("reopen", [kind])),
      ) : null,
      isClosed || kind === "all" ? null : buttons(button("Split ...", () => split(kind)), button(growing ? "Show its own" : "Find more like it", () => {
        growing = !growing;
        grid.clear();
        load();
      }, { "aria-pressed": String(growing) })),
      growing ? null : h("label", { for: "sort", class: "hidden", text: "Order of the pictures" }),
      growing ? null : choice,
      size,
      growing ? h("div", { class: "growing" },
        h("p", { text: `These undecided pictures look most like ${label()}. Pick the ones that do not belong, then take the others.` }),
        buttons(button("Take all but the picked ones", take, { class: "main" }), button("No more", () => { growing = false; load(); }))) : null,
    ].filter(Boolean));
  }

  // A page of "find more": pages come until one is mostly wrong.
  async function take() {
    const wrong = [...grid.selected];
    const right = grid.rows.filter((row) => !grid.selected.has(row));
    if (wrong.length) await post("/api/refuse", { kind, rows: wrong });
    if (right.length) await say({ do: "move", rows: right, to: kind }, `${plural(right.length, "picture")} are ${called(kind)}`);
    if (wrong.length > right.length || !grid.rows.length) growing = false;
    grid.clear();
    await load();
  }

  main.replaceChildren(head, grid.box);
  main.classList.add("full");
  draw();
  load();
  return {
    changed: load,
    close() {
      grid.close();
      main.classList.remove("full");
    },
  };
}
