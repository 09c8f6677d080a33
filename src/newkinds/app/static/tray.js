// What can be done with the selected pictures, at the lower edge of the page.
import { confirm, move, moveTo, split, splitOff } from "./actions.js";
import { button, h, plural } from "./dom.js";
import { enlarge } from "./picture.js";

const place = document.getElementById("tray");
let now = null; // {rows: () => [...], kindOf: (row) => kind, clear(), kind, similar(row), loop}

export function close() {
  now = null;
  place.hidden = true;
  place.replaceChildren();
}

async function done(promise) {
  const clear = now.clear;
  if (await promise) clear();
}

const acts = {
  c: () => done(confirm(now.rows(), now.kindOf)),
  m: () => done(moveTo(now.rows(), now.kind ? [now.kind] : [])),
  n: () => done(now.loop ? splitOff(now.rows(), now.kindOf) : move(now.rows(), "fresh")),
  x: () => done(move(now.rows(), "none")),
  s: () => now.kind && now.rows().length > 1 && done(split(now.kind, now.rows())),
  l: () => now.similar && now.similar(now.rows().at(-1)),
};

export function show(view) {
  now = view;
  const rows = view.rows();
  const many = rows.length > 1;
  place.hidden = !rows.length;
  if (!rows.length) return;
  const act = (key, text, props = {}) => button(text, acts[key], { "aria-keyshortcuts": key, title: `Key ${key}`, ...props });
  place.replaceChildren(...[
    h("b", { text: `${plural(rows.length, "picture")} selected` }),
    act("c", view.kind ? "Right here" : "Confirm", { class: "main", disabled: view.kind === "none" }),
    act("m", "Move to ..."),
    act("n", "New kind"),
    act("x", "None of these", { disabled: view.kind === "none" }),
    view.kind && view.kind !== "none" ? act("s", "Split around these", { disabled: !many }) : null,
    view.similar ? act("l", "Similar to this", { disabled: many }) : null,
    button("Enlarge", () => enlarge(rows.at(-1), rows), { title: "Enter, or a double click" }),
    button("Clear", () => now.clear(), { title: "Esc" }),
  ].filter(Boolean));
}

// Keys work wherever the focus is, but not while something is typed or a question is open.
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, select, textarea, dialog");
  if (!now || typing || event.ctrlKey || event.metaKey || event.altKey || !now.rows().length) return;
  if (event.key in acts) acts[event.key]();
  else if (event.key === "Escape") now.clear();
  else return;
  event.preventDefault();
});
