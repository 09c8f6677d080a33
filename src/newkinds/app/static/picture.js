// Pictures: thumbnails, their names, and a picture enlarged.
import { ask, button, buttons, h, number, percent, swatch } from "./dom.js";
import { called, get, store, thumb, title } from "./store.js";

const names = new Map();
let wanted = new Set();
let waiting = null;

// Calls back with the name of a picture; names come in a few requests, not one each.
const asked = new Map();
export function named(row, found) {
  if (names.has(row)) {
    found(names.get(row));
    return;
  }
  asked.set(row, [...(asked.get(row) || []), found]);
  wanted.add(row);
  waiting = waiting || setTimeout(fetchNames, 60);
}

async function fetchNames() {
  waiting = null;
  const rows = [...wanted];
  wanted = new Set();
  for (let start = 0; start < rows.length; start += 400) {
    try {
      const found = await get("/api/names", { rows: rows.slice(start, start + 400).join(",") });
      for (const [row, name] of Object.entries(found.names)) {
        names.set(Number(row), name);
        (asked.get(Number(row)) || []).forEach((tell) => tell(name));
        asked.delete(Number(row));
      }
    } catch {
      return;
    }
  }
}

// A thumbnail; a file that is not there any more is shown as missing, and one that is no picture by its name.
export function thumbnail(row) {
  const box = h("span", { class: "thumb" });
  const picture = h("img", { alt: "", draggable: "false", decoding: "async", width: "192", height: "192" });
  picture.addEventListener("load", () => box.classList.toggle("small", picture.naturalWidth < 96));
  picture.addEventListener("error", () => {
    box.classList.add("missing");
    picture.remove();
    const text = h("span", { class: "missing-text", text: store.state.pictures ? "missing" : "" });
    box.append(text);
    if (!store.state.pictures) named(row, (name) => (text.textContent = name));
  });
  picture.src = thumb(row);
  box.append(picture);
  return box;
}

// Shows a picture large; `around` are the rows before and after it.
export async function enlarge(row, around = []) {
  let at = Math.max(0, around.indexOf(row));
  const rows = around.length ? around : [row];
  await ask("Picture", (close, box) => {
    const picture = h("img", { alt: "" });
    const gone = h("p", { class: "missing-text", hidden: true, text: "This picture cannot be shown: its file is not there any more, or cannot be read. What was said about it is kept." });
    const facts = h("div", { class: "facts" });
    const step = (by) => {
      at = Math.min(rows.length - 1, Math.max(0, at + by));
      show();
    };
    async function show() {
      const here = rows[at];
      gone.hidden = true;
      picture.hidden = false;
      picture.src = `/picture/${store.state.mark}/${here}`;
      const about = await get("/api/picture", { row: here });
      if (rows[at] !== here) return;
      picture.alt = about.name;
      box.querySelector("h2").textContent = about.name;
      const likely = about.machine.map((one) => `${called(one.kind)}${about.calibrated ? ` ${percent(one.probability)}` : ""}`).join(", ");
      facts.replaceChildren(
        h("p", {}, swatch(about.kind), " ", title(about.kind), about.confirmed ? h("span", { class: "quiet", text: ", confirmed" }) : null),
        h("p", { class: "quiet", text: `The machine's guesses, the likeliest first: ${likely}` }),
        h("p", { class: "path" }, h("span", { class: "quiet", text: about.path ? "File: " : "Name: " }), h("bdi", { text: about.path || about.name })),
        h("p", { class: "quiet", text: `${number(at + 1)} of ${number(rows.length)}` }),
      );
    }
    picture.addEventListener("error", () => {
      picture.hidden = true;
      gone.hidden = false;
    });
    box.addEventListener("keydown", (event) => {
      if (event.key === "ArrowRight" || event.key === "ArrowDown") step(1);
      else if (event.key === "ArrowLeft" || event.key === "ArrowUp") step(-1);
      else return;
      event.preventDefault();
    });
    show();
    return [
      h("div", { class: "large" }, picture, gone),
      facts,
      buttons(button("Before", () => step(-1)), button("Next", () => step(1)), button("Close", () => close(null), { autofocus: true })),
    ];
  }, { class: "wide" });
}
