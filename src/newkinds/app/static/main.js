// The page: which view is open, undo and redo, progress, keys.
import { redo, undo } from "./actions.js";
import { ask, button, buttons, h, number, percent, plural } from "./dom.js";
import * as kind from "./kind.js";
import * as kinds from "./kinds.js";
import * as map from "./map.js";
import * as next from "./next.js";
import { begin, post, store, watch, watchAgain } from "./store.js";
import * as suggestions from "./suggestions.js";
import * as tray from "./tray.js";

const main = document.getElementById("main");
const [back, forth, again] = ["undo", "redo", "again"].map((id) => document.getElementById(id));
let view = null;

function route() {
  if (!store.state || location.hash === "#main") return;
  if (view && view.close) view.close();
  tray.close();
  main.className = "";
  const [, name = "", rest = ""] = location.hash.split("/");
  const views = { next: () => next.show(main), suggestions: () => suggestions.show(main), map: () => map.show(main), kind: () => kind.show(main, decodeURIComponent(rest)) };
  view = (views[name] || (() => kinds.show(main)))();
  for (const link of document.querySelectorAll("nav [data-view]")) {
    const here = link.dataset.view === (name in views && name !== "kind" ? name : "kinds");
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function progress({ progress: now }) {
  const share = now.confirmed / now.pictures;
  const bar = h("div", { class: "meter", role: "img", "aria-label": `${percent(share)} confirmed` }, h("span", {}));
  bar.firstChild.style.width = `${100 * share}%`;
  const facts = [`${number(now.confirmed)} of ${plural(now.pictures, "picture")} confirmed, ${number(now.left)} left`];
  if (now.right !== null) facts.push(`about ${percent(now.right)} of all are right now`);
  if (now.judged) facts.push(`the machine was right in ${number(now.agreed)} of ${number(now.judged)} (${percent(now.agreed / now.judged)})`);
  document.getElementById("progress").replaceChildren(bar, h("p", { text: facts.join(" · ") }));
}

function tools({ undo: last, redo: following }) {
  back.disabled = !last;
  forth.disabled = !following;
  back.title = last ? `Undo: ${last.words} (Ctrl+Z)` : "";
  forth.title = following ? `Do again: ${following.words} (Ctrl+Y)` : "";
}

function sorting({ spoken, again: now }) {
  const running = Boolean(now && now.running);
  again.disabled = running || !spoken;
  again.textContent = running ? "Sorting ..." : "Sort again";
  again.title = spoken ? "Sort the pictures that nobody spoke of anew, by what was said" : "Nothing was said yet that pictures could be sorted by";
}

async function sortAgain() {
  const yes = await ask("Sort again?", (close) => [
    h("p", { text: "Pictures that nobody spoke of go to the kind that they look like by now. What you said stays, and so do numbers and names. It runs in the background, and cannot be undone." }),
    buttons(button("Sort again", () => close(true), { class: "main", autofocus: true }), button("Not now", () => close(null))),
  ]);
  if (yes) await post("/api/again", {}, "");
}

const keys = [
  ["Arrows, Page up and down, Home, End", "go from picture to picture"],
  ["Space, click, tap", "select a picture; Shift selects all in between"],
  ["Ctrl+A", "select all pictures"],
  ["Enter, double click, a long touch", "enlarge"],
  ["c", "confirm the selected pictures: they are right here"],
  ["m", "move them to another kind"],
  ["n", "make them a new kind"],
  ["x", "they are none of these kinds"],
  ["s", "split the kind around the selected pictures"],
  ["l", "sort by similarity to the selected picture"],
  ["Esc", "clear the selection, close a question"],
  ["Ctrl+Z, Ctrl+Y", "undo, do again, as often as you like"],
  ["1, 2, 3, 4", "kinds, what next, suggestions, map"],
];

function help() {
  ask("Keys", (close) => [
    h("table", {}, h("tbody", {}, ...keys.map(([key, does]) => h("tr", {}, h("th", { scope: "row", text: key }), h("td", { text: does }))))),
    buttons(button("Close", () => close(null), { autofocus: true })),
  ]);
}

back.addEventListener("click", undo);
forth.addEventListener("click", redo);
again.addEventListener("click", sortAgain);
document.getElementById("keys").addEventListener("click", help);
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  (main.querySelector(".grid, a, button") || main).focus();
});
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input[type=text], input[type=number], textarea, dialog")) return;
  const key = event.key.toLowerCase();
  const held = event.ctrlKey || event.metaKey;
  const views = { 1: "#/", 2: "#/next", 3: "#/suggestions", 4: "#/map" };
  if (held && key === "z" && !event.shiftKey) undo();
  else if (held && (key === "y" || (key === "z" && event.shiftKey))) redo();
  else if (!held && !event.altKey && key in views) location.hash = views[key];
  else if (key === "?") help();
  else return;
  event.preventDefault();
});
window.addEventListener("hashchange", route);
watch((state) => {
  progress(state);
  tools(state);
  if (view) view.changed(state);
});
watchAgain(sorting);
begin().then(() => {
  document.documentElement.classList.toggle("wordy", !store.state.pictures);
  route();
}).catch(() => {});
