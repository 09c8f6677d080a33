// The map at earlier snapshots: a slider, and points that move from one to the next.
(() => {
  const { data, element, map, colouring } = newkinds;
  const { frames, points } = data;
  const slider = element("map-epoch");
  if (!frames || !slider) return;
  const { grid } = points;
  const which = frames.points;
  const last = frames.epoch.length; // the end: the map itself
  const slow = () => (matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 500);
  let playing = 0;
  let moving = 0;

  const target = (frame) =>
    frame === last
      ? { x: which.map((i) => map.ends.x[i]), y: which.map((i) => map.ends.y[i]) }
      : { x: frames.x[frame].map((v) => v / grid), y: frames.y[frame].map((v) => v / grid) };
  const when = (frame) =>
    frame === last ? "the end" : frames.epoch[frame] === 0 ? "the start" : `epoch ${frames.epoch[frame]}`;

  function go(frame) {
    cancelAnimationFrame(moving);
    slider.value = frame;
    slider.setAttribute("aria-valuetext", when(frame));
    element("map-when").textContent = when(frame);
    colouring.during(frame === last ? null : which, frame === last ? null : frames.kind[frame]);
    map.state.moment = frame === last ? -1 : frame;
    const from = { x: which.map((i) => map.x[i]), y: which.map((i) => map.y[i]) };
    const to = target(frame);
    const began = performance.now();
    const mix = (a, b, share) => a.map((v, j) => v + (b[j] - v) * share);
    function step(time) {
      const share = slow() ? Math.min(1, Math.max(0, (time - began) / slow())) : 1;
      const eased = share * share * (3 - 2 * share);
      if (share < 1) {
        map.place(which, mix(from.x, to.x, eased), mix(from.y, to.y, eased));
        moving = requestAnimationFrame(step);
      } else if (frame === last) map.place(null);
      else map.place(which, to.x, to.y);
    }
    map.restyle();
    step(began);
    moving = requestAnimationFrame(step);
  }

  function stop() {
    clearInterval(playing);
    playing = 0;
    element("map-play").textContent = "Play";
  }

  slider.value = last;
  slider.setAttribute("aria-valuetext", when(last));
  slider.addEventListener("input", () => {
    stop();
    go(Number(slider.value));
  });
  element("map-play").addEventListener("click", () => {
    if (playing) {
      stop();
      return;
    }
    element("map-play").textContent = "Pause";
    go(0);
    playing = setInterval(() => {
      const next = Number(slider.value) + 1;
      go(next);
      if (next === last) stop();
    }, 1100);
  });
})();
