// Pictures chosen on the map, by a loop drawn around them or one by one, as a gallery below it.
newkinds.selection = (() => {
  const { data, element, map, names, plural, thumb } = newkinds;
  const { points } = data;
  const most = 200;
  const box = element("selection");

  function entry(i) {
    const item = document.createElement("li");
    item.title = points.name[i];
    const picture = thumb(i);
    if (picture) item.append(picture);
    else {
      const name = document.createElement("bdi");
      name.className = "name";
      name.textContent = points.name[i];
      item.append(name);
    }
    const kind = document.createElement("span");
    kind.className = "next";
    kind.textContent = names.of(points.kind[i]);
    item.append(kind);
    if (points.calibrated) {
      const probability = document.createElement("span");
      probability.className = "p";
      probability.textContent = `${points.percent[i]}%`;
      item.append(probability);
    }
    return item;
  }

  function show() {
    const chosen = [...map.state.picked].sort((a, b) => points.kind[a] - points.kind[b] || points.percent[b] - points.percent[a]);
    box.hidden = !chosen.length;
    element("selection-title").textContent = `${plural(chosen.length, "picture")} selected`;
    const counts = new Map();
    chosen.forEach((i) => counts.set(points.kind[i], (counts.get(points.kind[i]) || 0) + 1));
    const parts = [...counts].map(([kind, count]) => `${count.toLocaleString("en")} in ${names.of(kind)}`);
    const cut = chosen.length > most ? ` The first ${most} are shown.` : "";
    element("selection-kinds").textContent = `${parts.join(", ")}.${cut}`;
    element("selection-pictures").replaceChildren(...chosen.slice(0, most).map(entry));
    map.redraw();
  }

  function inside(path, px, py) {
    let odd = false;
    for (let i = 0, j = path.length - 1; i < path.length; j = i, i += 1) {
      const [[ax, ay], [bx, by]] = [path[i], path[j]];
      if (ay > py !== by > py && px < ((bx - ax) * (py - ay)) / (by - ay) + ax) odd = !odd;
    }
    return odd;
  }

  // path: places on the map's screen.
  function around(path) {
    map.state.picked = new Set(map.present().filter((i) => map.alight(i) && inside(path, ...map.toScreen(i))));
    show();
    element("map-said").textContent = `${plural(map.state.picked.size, "picture")} selected, shown below the map`;
  }

  function toggle(i) {
    if (!map.state.picked.delete(i)) map.state.picked.add(i);
    show();
    element("map-said").textContent = `${points.name[i]} ${map.state.picked.has(i) ? "selected" : "no longer selected"}`;
  }

  function clear() {
    map.state.picked.clear();
    show();
  }

  element("selection-clear").addEventListener("click", () => {
    clear();
    map.canvas.focus({ preventScroll: true });
  });
  names.watch(() => map.state.picked.size && show());
  return { around, toggle, clear };
})();
