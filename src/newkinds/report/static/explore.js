// Hands on the map: pointer, wheel, keyboard, legend, and the tip that shows a picture.
(() => {
  const { data, element, say, map } = newkinds;
  const { points, kinds, sprites } = data;
  const { canvas, size, state } = map;
  const tip = element("tip");
  const picture = element("tip-picture");
  const fingers = new Map();
  let dragged = 0;
  let pinch = 0;
  let scrolledAt = -1000;

  function describe(i) {
    const second = points.second[i];
    return {
      name: points.name[i],
      kind: `${kinds[points.kind[i]].name}, ${points.probability[i]}`,
      second: second < 0 ? "" : `or ${kinds[second].name.toLowerCase()}, ${points.second_probability[i]}`,
      truth: points.truth ? `in truth: ${points.truth[i]}` : "",
    };
  }

  function showPicture(i) {
    const place = points.sprite[i];
    picture.hidden = !place;
    if (!place) return;
    const scale = sprites.scale * 2;
    const [sheet, x, y] = place;
    const [width, height] = sprites.sheets[sheet];
    picture.className = `thumb sheet${sheet}`;
    Object.assign(picture.style, {
      width: `${sprites.width * scale}px`,
      height: `${sprites.height * scale}px`,
      backgroundSize: `${width * scale}px ${height * scale}px`,
      backgroundPosition: `${-x * scale}px ${-y * scale}px`,
    });
  }

  function choose(i, aloud = false) {
    if (i !== state.chosen) {
      state.chosen = i;
      map.redraw();
      if (i >= 0) {
        const text = describe(i);
        showPicture(i);
        for (const part of ["name", "kind", "second", "truth"]) say(`tip-${part}`, text[part]);
        if (aloud) element("map-said").textContent = Object.values(text).filter(Boolean).join(", ");
      }
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
    if (fingers.size === 2) {
      const [a, b] = [...fingers.values()];
      map.zoomAt((a[0] + b[0]) / 2, (a[1] + b[1]) / 2, gap() / pinch);
      pinch = gap();
    } else {
      map.moveBy(px - from[0], py - from[1]);
    }
    dragged += Math.hypot(px - from[0], py - from[1]);
    canvas.classList.toggle("moving", dragged > 4);
    moved();
  });

  function lift(event) {
    if (!fingers.delete(event.pointerId)) return;
    canvas.classList.remove("moving");
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
    for (let i = 0; i < map.n; i += 1) {
      if (i === state.chosen || (state.kind >= 0 && points.kind[i] !== state.kind)) continue;
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
    else if (event.key === "Escape") {
      choose(-1);
      highlight(-1);
    } else return;
    event.preventDefault();
    moved();
  });

  function highlight(kind) {
    state.kind = kind;
    if (kind >= 0 && state.chosen >= 0 && points.kind[state.chosen] !== kind) choose(-1);
    for (const button of document.querySelectorAll(".legend button")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.kind) === kind));
    }
    map.redraw();
  }

  for (const button of document.querySelectorAll(".legend button")) {
    const kind = Number(button.dataset.kind);
    button.addEventListener("click", () => highlight(state.kind === kind ? -1 : kind));
  }
  for (const button of document.querySelectorAll("[data-show]")) {
    button.addEventListener("click", () => {
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
