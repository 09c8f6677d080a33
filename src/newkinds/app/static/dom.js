// Elements. Names of kinds and files are data: they reach the page as text, never as markup.

export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "on") for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    else if (key === "text") element.textContent = value;
    else if (key === "data") Object.assign(element.dataset, value);
    else if (key in { disabled: 1, hidden: 1, value: 1, checked: 1 }) element[key] = value;
    else element.setAttribute(key === "class" ? "class" : key, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const button = (text, click, props = {}) => h("button", { type: "button", text, on: { click }, ...props });

export const number = (n) => n.toLocaleString("en");

export const plural = (n, one, many) => `${number(n)} ${n === 1 ? one : many || `${one}s`}`;

// Never 0 or 100 % for what is neither.
export function percent(share) {
  if (share === 0 || share === 1) return `${share * 100} %`;
  return `${Math.min(99.9, Math.max(0.1, share * 100)).toFixed(share > 0.9 || share < 0.01 ? 1 : 0)} %`;
}

// The mark of a kind: a colour, then a shape; known kinds and pictures of none have no colour of their own.
export function style(kind) {
  const { paths, colours } = newkinds.data.marks;
  if (!kind.startsWith("new:")) return { colour: -1, path: kind === "none" ? 4 : 1, hollow: kind === "none" };
  const i = Number(kind.slice(4));
  return { colour: i % colours, path: Math.floor(i / colours) % paths.length, hollow: Math.floor(i / colours / paths.length) % 2 === 1 };
}

export function swatch(kind) {
  const { colour, path, hollow } = style(kind);
  const drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const shape = document.createElementNS("http://www.w3.org/2000/svg", "path");
  drawing.setAttribute("class", `mark ${colour < 0 ? "grey" : `c${colour}`}${hollow ? " hollow" : ""}`);
  drawing.setAttribute("viewBox", "-1.5 -1.5 3 3");
  drawing.setAttribute("aria-hidden", "true");
  shape.setAttribute("d", newkinds.data.marks.paths[path]);
  drawing.append(shape);
  return drawing;
}

// A dialog that gives a value when it is closed, null if it was left.
export function ask(title, build, props = {}) {
  return new Promise((resolve) => {
    let answer = null;
    const before = document.activeElement;
    const box = h("dialog", { "aria-labelledby": "dialog-title", ...props });
    const close = (value) => {
      answer = value;
      box.close();
    };
    box.append(h("h2", { id: "dialog-title", text: title }), ...build(close, box));
    box.addEventListener("close", () => {
      box.remove();
      if (before && before.isConnected) before.focus({ preventScroll: true });
      resolve(answer);
    });
    let down = null; // a finger that is lifted beside what it has opened does not close it
    box.addEventListener("pointerdown", (event) => (down = event.target));
    box.addEventListener("click", (event) => event.target === box && down === box && close(null));
    document.body.append(box);
    box.showModal();
  });
}

export const buttons = (...some) => h("div", { class: "buttons" }, ...some);
