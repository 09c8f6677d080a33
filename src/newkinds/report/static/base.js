"use strict";

// What the page's scripts share. Names of files and kinds are data: they reach the page through `say` only.
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
};
