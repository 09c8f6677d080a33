// All kinds, each with some pictures: the first thing that is seen. Kinds can be picked, to merge, accept or reject several.
import { judge, merge } from "./actions.js";
import { button, buttons, h, number, plural, swatch } from "./dom.js";
import { thumbnail } from "./picture.js";
import { called, store, title } from "./store.js";

const picked = new Set();
const orders = {
  size: ["Largest first", (a, b) => b.size - a.size],
  open: ["To be decided first", (a, b) => (a.status === "open" ? 0 : 1) - (b.status === "open" ? 0 : 1) || b.size - a.size],
  name: ["By name", (a, b) => called(a.kind).localeCompare(called(b.kind), "en", { numeric: true })],
};
let order = "size";

export const says = { open: "", accepted: "accepted", rejected: "not a kind" };

function card(one, change) {
  const { kind, size, confirmed } = one;
  const address = `#/kind/${encodeURIComponent(kind)}`;
  const box = h("input", { type: "checkbox", checked: picked.has(kind), "aria-label": `Pick ${called(kind)}` });
  box.addEventListener("change", () => {
    if (box.checked) picked.add(kind);
    else picked.delete(kind);
    change();
  });
  return h("li", { class: `card ${one.status}`, data: { kind } },
    h("div", { class: "head" }, swatch(kind), h("h2", {}, h("a", { href: address }, title(kind))), kind === "none" ? null : box),
    h("p", { class: "quiet" }, plural(size, "picture"), confirmed ? `, ${number(confirmed)} confirmed` : "", says[one.status] ? h("span", { class: "badge", text: says[one.status] }) : null),
    h("a", { class: "cover", href: address, tabindex: "-1", "aria-hidden": "true" }, ...one.cover.map(thumbnail)),
  );
}

export function show(main) {
  const list = h("ul", { class: "cards" });
  const bar = h("div", { class: "viewbar" });
  function draw() {
    const { kinds } = store.state;
    for (const kind of picked) if (!kinds.some((one) => one.kind === kind)) picked.delete(kind);
    const shown = kinds.filter((one) => one.size || one.kind !== "none").sort((a, b) => (a.kind === "none") - (b.kind === "none") || orders[order][1](a, b));
    list.replaceChildren(...shown.map((one) => card(one, tools)));
    tools();
  }
  const choice = h("select", { id: "order" }, ...Object.entries(orders).map(([key, [text]]) => h("option", { value: key, text })));
  choice.value = order;
  choice.addEventListener("change", () => {
    order = choice.value;
    draw();
  });
  const all = async (act) => {
    if (await act) picked.clear();
    draw();
  };
  function tools() {
    const kinds = [...picked];
    const isNew = kinds.length && kinds.every((kind) => kind.startsWith("new:"));
    bar.replaceChildren(
      h("label", { for: "order", class: "hidden", text: "Order of the kinds" }),
      choice,
      h("span", { class: "quiet", text: kinds.length ? `${plural(kinds.length, "kind")} picked` : "Open a kind to see all its pictures; pick kinds to merge or accept several." }),
      kinds.length ? buttons(
        button("Merge", () => all(merge(kinds)), { disabled: kinds.length < 2, class: kinds.length > 1 ? "main" : undefined }),
        button("Accept", () => all(judge("accept", kinds)), { disabled: !isNew }),
        button("Not a kind", () => all(judge("reject", kinds)), { disabled: !isNew }),
        button("Clear", () => all(true)),
      ) : "",
    );
  }
  draw();
  const { since } = store.state;
  const news = since.length ? h("details", { class: "since", open: matchMedia("(min-width: 60rem)").matches }, h("summary", { text: "Since last time" }), h("ul", {}, ...since.map((text) => h("li", {}, h("bdi", { text }))))) : "";
  main.replaceChildren(h("h2", { class: "hidden", text: "Kinds" }), news, bar, list);
  return { changed: draw };
}
