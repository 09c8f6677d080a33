// What one can say, with the questions that it takes. Each is one line of the journal, and one step of Undo.
import { ask, button, buttons, h, plural, swatch } from "./dom.js";
import { thumbnail } from "./picture.js";
import { called, get, kindOf, post, store, title } from "./store.js";

export const say = (action, words) => post("/api/say", { action }, words);

export function undo() {
  const { undo: last } = store.state;
  return last && post("/api/undo", { line: last.line }, `undone: ${last.words}`);
}

export function redo() {
  const { redo: next } = store.state;
  return next && post("/api/redo", { line: next.line }, `done again: ${next.words}`);
}

export const sure = (text, yes, more = "") =>
  ask(text, (close) => [more ? h("p", { text: more }) : null, buttons(button(yes, () => close(true), { class: "main", autofocus: true }), button("Cancel", () => close(null)))]);

// Kinds

export async function rename(kind, typed) {
  const name = typed.trim();
  if (name === ((kindOf(kind) || {}).called || "")) return null;
  const fold = (text) => text.normalize("NFC").toLocaleLowerCase();
  const same = name && store.state.kinds.find((one) => one.kind !== kind && one.kind.startsWith("new:") && one.status !== "rejected" && fold(one.called) === fold(name));
  const known = name && store.state.known.find((one) => fold(one) === fold(name));
  const other = known !== undefined && known !== "" ? `known:${known}` : same && same.kind;
  if (other) {
    const merge = await sure(`There is a kind called ${name} already. Are the two one kind?`, "Merge them", "If they are two, give them two names.");
    if (!merge) return null;
    return say({ do: "merge", kinds: [other, kind] }, `${called(kind)} and ${called(other)} are one kind`);
  }
  return say({ do: "name", kind, name }, name ? `${called(kind)} is called ${name}` : `${called(kind)} has no name any more`);
}

export async function merge(kinds) {
  const names = kinds.map(called).join(", ");
  const known = kinds.filter((kind) => kind.startsWith("known:"));
  if (kinds.length < 2 || known.length > 1 || kinds.includes("none")) {
    await ask("These cannot be merged", (close) => [
      h("p", { text: known.length > 1 ? "Two known kinds are known to be two." : "Pick two or more kinds; pictures of none are no kind." }),
      buttons(button("Close", () => close(null), { autofocus: true })),
    ]);
    return null;
  }
  if (!(await sure(`Merge ${plural(kinds.length, "kind")} into one?`, "Merge", names))) return null;
  return say({ do: "merge", kinds }, `${names} are one kind`);
}

const judged = { accept: "accepted", reject: "not a kind", reopen: "open again" };
export function judge(what, kinds) {
  return say({ do: what, kinds }, `${kinds.map(called).join(", ")}: ${judged[what]}`);
}

// Pictures

// Lets a person choose a kind: an existing one, a known one, none, or a new one. Typing narrows the list.
export function chooseKind(question, { but = [] } = {}) {
  return ask(question, (close) => {
    const field = h("input", { type: "text", id: "choose", placeholder: "Type to find a kind", autocomplete: "off", spellcheck: "false", autofocus: true });
    const list = h("ul", { class: "choices" });
    const kinds = store.state.kinds.filter((one) => one.kind !== "none" && one.status !== "rejected");
    const empty = store.state.known.map((name) => `known:${name}`).filter((kind) => !kindOf(kind));
    const offered = [...kinds.sort((a, b) => b.size - a.size).map((one) => one.kind), ...empty].filter((kind) => !but.includes(kind));
    function entry(kind) {
      const found = kindOf(kind);
      const cover = found ? found.cover.slice(0, 3) : [];
      return h("li", {}, h("button", { type: "button", data: { kind }, on: { click: () => close(kind) } }, swatch(kind), title(kind),
        h("span", { class: "quiet", text: kind.startsWith("known:") ? "known" : plural(found.size, "picture") }),
        h("span", { class: "cover" }, ...cover.map(thumbnail))));
    }
    function show() {
      const typed = field.value.trim().toLocaleLowerCase();
      const fits = offered.filter((kind) => `${called(kind)} ${kind}`.toLocaleLowerCase().includes(typed));
      list.replaceChildren(...fits.slice(0, 60).map(entry));
    }
    field.addEventListener("input", show);
    field.addEventListener("keydown", (event) => {
      const first = list.querySelector("button");
      if (event.key === "Enter" && first) close(first.dataset.kind);
      else if (event.key === "ArrowDown" && first) first.focus();
      else return;
      event.preventDefault();
    });
    list.addEventListener("keydown", (event) => {
      const items = [...list.querySelectorAll("button")];
      const to = items.indexOf(document.activeElement) + ({ ArrowDown: 1, ArrowUp: -1 }[event.key] || 0);
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        (items[to] || field).focus();
        event.preventDefault();
      }
    });
    show();
    return [
      h("label", { class: "hidden", for: "choose", text: "Find a kind" }),
      field,
      list,
      buttons(button("A new kind", () => close("fresh")), button("None of these", () => close("none")), button("Cancel", () => close(null))),
    ];
  });
}

export const words = (rows, to) => `${plural(rows.length, "picture")} moved to ${to === "fresh" ? "a new kind" : called(to)}`;

export const move = (rows, to) => (rows.length ? say({ do: "move", rows, to }, words(rows, to)) : null);

export async function moveTo(rows, but = []) {
  const to = await chooseKind(`Move ${plural(rows.length, "picture")} to`, { but });
  return to && move(rows, to);
}

// rows by the kind that they are in
function grouped(rows, kindOfRow) {
  const groups = new Map();
  for (const row of rows) groups.set(kindOfRow(row), [...(groups.get(kindOfRow(row)) || []), row]);
  return [...groups];
}

const together = (actions) => (actions.length === 1 ? actions[0] : { do: "batch", actions });

export function confirm(rows, kindOfRow) {
  const actions = grouped(rows, kindOfRow).map(([kind, some]) => ({ do: "confirm", kind, rows: some }));
  return say(together(actions), `${plural(rows.length, "picture")} confirmed`);
}

// Pictures become a new kind, without being confirmed one by one: what a loop on the map means.
export function splitOff(rows, kindOfRow) {
  const groups = grouped(rows, kindOfRow);
  if (groups.some(([kind]) => kind === "none")) return move(rows, "fresh"); // which is no kind that could be split
  const actions = groups.map(([kind, some]) => ({ do: "split", kind, parts: [{ to: "fresh:part", rows: some }] }));
  return say(together(actions), `${plural(rows.length, "picture")} split off as a new kind`);
}

// Splitting a kind: in a number of parts, or around the pictures that are picked. Shows what would become of it first.
export async function split(kind, seeds = []) {
  const parts = await ask(`Split ${called(kind)}`, (close) => {
    const preview = h("div", { class: "parts", "aria-live": "polite" });
    const field = h("input", { type: "number", id: "parts", min: "2", max: "50", value: "2", autofocus: true });
    const go = button("Split", () => close(found), { class: "main", disabled: true });
    let found = null;
    let latest = 0;
    async function show() {
      const turn = (latest += 1);
      found = null;
      go.disabled = true;
      preview.replaceChildren(h("p", { class: "quiet", text: "Looking ..." }));
      try {
        const around = seeds.length > 1 ? { seeds: seeds.join(",") } : { n: field.value || "2" };
        const { parts } = await get("/api/parts", { kind, ...around });
        if (turn !== latest) return; // another number was typed meanwhile
        found = parts;
        preview.replaceChildren(...found.map((rows, i) =>
          h("div", {}, h("h3", { text: `${i ? `New kind ${i}` : called(kind)}: ${plural(rows.length, "picture")}` }), h("div", { class: "strip" }, ...rows.slice(0, 10).map(thumbnail)))));
        go.disabled = false;
      } catch (error) {
        preview.replaceChildren(h("p", { class: "quiet", text: error.message }));
      }
    }
    field.addEventListener("change", show);
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      if (!go.disabled) close(found);
    });
    show();
    const how = seeds.length > 1
      ? [h("p", { text: `Around the ${plural(seeds.length, "picture")} that you picked: every other picture goes to the one that it is most like.` })]
      : [h("p", {}, h("label", { for: "parts", text: "In how many? " }), field)];
    return [...how, preview, buttons(go, button("Cancel", () => close(null)))];
  }, { class: "wide" });
  if (!parts) return null;
  const fresh = parts.slice(1).map((rows) => ({ to: "fresh", rows }));
  return say({ do: "split", kind, parts: fresh }, `${called(kind)} split in ${parts.length}`);
}
