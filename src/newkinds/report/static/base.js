"use strict";

// What the page's scripts share. Names of files and kinds are data: they reach the page as text only.
const newkinds = {
  data: JSON.parse(document.getElementById("data").textContent),

  element(id) {
    return document.getElementById(id);
  },

  say(id, text) {
    const place = document.getElementById(id);
    place.textContent = text;
    place.hidden = text === "";
  },

  // Control and direction-changing characters as escapes, as text.py writes them; joiners stay: emoji need them.
  visible(text) {
    return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (c) => {
      if (c === "\u200c" || c === "\u200d") return c;
      const code = c.codePointAt(0).toString(16);
      return code.length <= 2 ? `\\x${code.padStart(2, "0")}` : `\\u${code.padStart(4, "0")}`;
    });
  },

  plural(n, one, many) {
    return `${n.toLocaleString("en")} ${n === 1 ? one : many || `${one}s`}`;
  },

  // Makes sure that a sheet of thumbnails is there for the class `sheetN`, and returns its address. Some stand in the
  // stylesheet, the others beside it until they are asked for: a browser reads all of a stylesheet before it shows anything.
  sheet(number) {
    if (newkinds.sheets[number]) return newkinds.sheets[number];
    const later = document.getElementById(`sheet${number}`);
    if (later) {
      const rules = document.styleSheets[0];
      rules.insertRule(`.sheet${number}{background-image:url(${later.textContent})}`, rules.cssRules.length);
      later.remove();
    }
    const probe = document.createElement("span");
    probe.className = `sheet${number}`;
    document.body.append(probe);
    newkinds.sheets[number] = getComputedStyle(probe).backgroundImage.slice(5, -2);
    probe.remove();
    return newkinds.sheets[number];
  },
  sheets: [],

  // A picture's thumbnail as an element, or null where it has none.
  thumb(i) {
    const { points, sprites } = newkinds.data;
    const place = points.sprite[i];
    if (!place) return null;
    const [sheet, x, y] = place;
    const [width, height] = sprites.sheets[sheet];
    const share = (part, whole) => (whole > 0 ? (part / whole) * 100 : 0);
    const span = document.createElement("span");
    newkinds.sheet(sheet);
    span.className = `thumb sheet${sheet}`;
    span.style.backgroundPosition = `${share(x, width - sprites.width)}% ${share(y, height - sprites.height)}%`;
    span.setAttribute("role", "img");
    span.setAttribute("aria-label", points.name[i]);
    return span;
  },
};
