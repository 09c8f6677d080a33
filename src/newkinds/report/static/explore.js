// Hands on the map: pointer, wheel, keyboard, legend, and the tip that shows a picture.
(() => {
  const { data, element, say, map, names, selection, colouring } = newkinds;
  const { points, sprites, frames } = data;
  const { canvas, size, state } = map;
  const tip = element("tip");
  const picture = element("tip-picture");
  const fingers = new Map();
  let dragged = 0;
  let pinch = 0;
  let scrolledAt = -1000;
  let loop = false; // whether dragging draws one around pictures

  function describe(i) {
    const second = points.second[i];
    const moment = state.moment >= 0 ? frames.kind[state.moment][frames.points.indexOf(i)] : undefined;
    const known = points.known ? points.known[i] : -1;
    return {
      name: points.name[i],
      kind: `${moment === undefined ? "" : `${names.of(moment)}; at the end `}${names.of(points.kind[i])}${points.calibrated ? `, right for ${points.percent[i]} of 100 such pictures` : ""}`,
      second: second < 0 ? "" : `or ${names.of(second)}`,
      known: known < 0 ? "" : `nearest known kind: ${data.known[known]}`,
      truth: points.truth ? `true kind: ${points.truths[points.truth[i]] || "unknown"}` : "",
    };
  }

  function showPicture(i) {
    const place = points.sprite[i];
    picture.hidden = !place;
    if (!place) return;
    const scale = sprites.scale * 2;
    const [sheet, x, y] = place;
    const [width, height] = sprites.sheets[sheet];
    newkinds.sheet(sheet);
    picture.className = `thumb sheet${sheet}`;
    Object.assign(picture.style, {
      width: `${sprites.width * scale}px`,
      height: `${sprites.height * scale}px`,
      backgroundSize: `${width * scale}px ${height * scale}px`,
      backgroundPosition: `${-x * scale}px ${-y * scale}px`,
    });
  }

  function tell(i, aloud) {
    const text = describe(i);
    showPicture(i);
    for (const part of ["name", "kind", "second", "known", "truth"]) say(`tip-${part}`, text[part]);
    if (aloud) element("map-said").textContent = Object.values(text).filter(Boolean).join(", ");
  }
  names.watch(() => state.chosen >= 0 && tell(state.chosen, false));

  function choose(i, aloud = false) {
    if (i !== state.chosen) {
      state.chosen = i;
      map.redraw();
      if (i >= 0) tell(i, aloud);
    }
    tip.hidden = i < 0;
    if (i >= 0) placeTip();
  }

  function placeTip() {
    const [px, py] = map.toScreen(state.chosen);
    const gap = 16;
    const right = px + gap + tip.offsetWidth <= size.width;
    const left = right ? px + gap : px - gap - tip.offsetWidth;
    const top = py - tip.offsetHeight / 2;
    tip.style.left = `${Math.max(4, Math.min(left, size.width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${Math.max(4, Math.min(top, size.height - tip.offsetHeight - 4))}px`;
  }

  function moved() {
    if (state.chosen >= 0) placeTip();
  }

  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  function gap() {
    const [a, b] = [...fingers.values()];
    return Math.hypot(a[0] - b[0], a[1] - b[1]);
  }

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, place(event));
    dragged = 0;
    state.lasso = (loop || event.shiftKey) && fingers.size === 1 ? [place(event)] : null;
    if (fingers.size === 2) pinch = gap();
  });

  canvas.addEventListener("pointermove", (event) => {
    const [px, py] = place(event);
    const from = fingers.get(event.pointerId);
    if (!from) {
      choose(map.nearest(px, py, 18));
      return;
    }
    fingers.set(event.pointerId, [px, py]);
    if (state.lasso) {
      state.lasso.push([px, py]);
      map.redraw();
    } else if (fingers.size === 2) {
      const [a, b] = [...fingers.values()];
      map.zoomAt((a[0] + b[0]) / 2, (a[1] + b[1]) / 2, gap() / pinch);
      pinch = gap();
    } else {
      map.moveBy(px - from[0], py - from[1]);
    }
    dragged += Math.hypot(px - from[0], py - from[1]);
    canvas.classList.toggle("moving", dragged > 4 && !state.lasso);
    moved();
  });

  function lift(event) {
    if (!fingers.delete(event.pointerId)) return;
    canvas.classList.remove("moving");
    const { lasso } = state;
    state.lasso = null;
    if (lasso && dragged >= 6) {
      if (event.type === "pointerup") selection.around(lasso);
      map.redraw();
      return;
    }
    if (event.type === "pointerup" && dragged < 6) choose(map.nearest(...place(event), 24));
  }
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", (event) => {
    if (!fingers.size && event.pointerType === "mouse") choose(-1);
  });

  // Someone who scrolls the page past the map does not want it to zoom.
  window.addEventListener("scroll", () => (scrolledAt = performance.now()), { passive: true });
  canvas.addEventListener(
    "wheel",
    (event) => {
      const passing = performance.now() - scrolledAt < 200;
      if (passing || (event.deltaY > 0 && map.view.zoom === 1)) return;
      event.preventDefault();
      const lines = event.deltaMode === 1 ? 30 : 1;
      map.zoomAt(...place(event), Math.exp(-Math.max(-120, Math.min(120, event.deltaY * lines)) * 0.003));
      moved();
    },
    { passive: false },
  );

  // The nearest point in the direction of an arrow key; what lies sideways counts double.
  function step(dx, dy) {
    let best = -1;
    let least = Infinity;
    for (const i of map.present()) {
      if (i === state.chosen || !map.alight(i)) continue;
      const [ax, ay] = [map.x[i] - map.x[state.chosen], map.y[i] - map.y[state.chosen]];
      const ahead = ax * dx + ay * dy;
      const aside = Math.abs(ax * dy) + Math.abs(ay * dx);
      const cost = ahead + 2 * aside;
      if (ahead > 0 && cost < least) [best, least] = [i, cost];
    }
    return best;
  }

  const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const middle = [size.width / 2, size.height / 2];
    if (event.key in arrows) {
      const next = state.chosen < 0 ? map.nearest(...middle, 1e6) : step(...arrows[event.key]);
      if (next >= 0) {
        map.centre(next);
        choose(next, true);
      }
    } else if (event.key === "+" || event.key === "=") map.zoomAt(...(state.chosen < 0 ? middle : map.toScreen(state.chosen)), 1.5);
    else if (event.key === "-") map.zoomAt(...middle, 1 / 1.5);
    else if (event.key === "0") map.reset();
    else if (event.key === " " && state.chosen >= 0) selection.toggle(state.chosen);
    else if (event.key === "Escape") {
      choose(-1);
      highlight(-1);
    } else return;
    event.preventDefault();
    moved();
  });

  // The legend: the groups of the colouring, each a button that highlights it.
  const legend = element("legend");
  const ofKinds = [...legend.children];
  const select = element("map-colour");

  function highlight(group) {
    state.kind = group;
    if (state.chosen >= 0 && !map.alight(state.chosen)) choose(-1);
    for (const button of legend.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.kind) === group));
    }
    map.redraw();
  }

  function swatch(group) {
    const { path, hollow } = colouring.now.styles[group];
    const drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const shape = document.createElementNS("http://www.w3.org/2000/svg", "path");
    drawing.setAttribute("class", `mark${hollow ? " hollow" : ""}`);
    drawing.setAttribute("viewBox", "-1.5 -1.5 3 3");
    drawing.setAttribute("aria-hidden", "true");
    drawing.style.setProperty("--kind", map.colours()[group]);
    shape.setAttribute("d", data.marks.paths[path]);
    drawing.append(shape);
    return drawing;
  }

  function entry(label, group, count) {
    const button = document.createElement("button");
    const [name, number] = [document.createElement("bdi"), document.createElement("span")];
    button.type = "button";
    button.dataset.kind = group;
    button.setAttribute("aria-pressed", "false");
    name.textContent = label;
    number.className = "quiet";
    number.textContent = count.toLocaleString("en");
    button.append(swatch(group), name, number);
    return button;
  }

  function relabel() {
    const { mode, labels, of } = colouring.now;
    legend.setAttribute("aria-label", mode === "kind" ? "Highlight a kind" : `Highlight by ${select.selectedOptions[0].text}`);
    if (mode === "kind") legend.replaceChildren(...ofKinds);
    else {
      const counts = colouring.sizes(of, labels.length);
      legend.replaceChildren(...labels.map((label, i) => (counts[i] ? entry(label, i, counts[i]) : "")).filter(Boolean));
    }
  }

  function colourBy(mode) {
    select.value = mode;
    colouring.choose(mode);
    map.restyle();
    relabel();
    highlight(-1);
  }

  select.value = "kind";
  select.closest(".map-bar").hidden = false;
  select.addEventListener("change", () => colourBy(select.value));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", relabel);
  legend.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) highlight(state.kind === Number(button.dataset.kind) ? -1 : Number(button.dataset.kind));
  });
  for (const button of document.querySelectorAll("[data-show]")) {
    button.addEventListener("click", () => {
      colourBy("kind");
      highlight(Number(button.dataset.show));
      map.reset();
      element("map").scrollIntoView();
      canvas.focus({ preventScroll: true });
    });
  }

  const tools = {
    in: () => map.zoomAt(size.width / 2, size.height / 2, 1.6),
    out: () => map.zoomAt(size.width / 2, size.height / 2, 1 / 1.6),
    reset() {
      map.reset();
      highlight(-1);
    },
    lasso(button) {
      loop = !loop;
      canvas.classList.toggle("looping", loop);
      button.setAttribute("aria-pressed", String(loop));
    },
    pictures(button) {
      state.pictures = !state.pictures;
      button.setAttribute("aria-pressed", String(state.pictures));
      map.redraw();
    },
  };
  for (const button of document.querySelectorAll("[data-tool]")) {
    button.addEventListener("click", () => {
      tools[button.dataset.tool](button);
      moved();
    });
  }
  canvas.addEventListener("blur", () => choose(-1));
})();
