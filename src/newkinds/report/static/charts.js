// Charts are drawn already; this reads their values off under the pointer, into the line above the chart.
(() => {
  const { data } = newkinds;
  const names = "http://www.w3.org/2000/svg";

  function nearest(places, x) {
    let best = 0;
    places.forEach((place, i) => {
      if (Math.abs(place - x) < Math.abs(places[best] - x)) best = i;
    });
    return best;
  }

  for (const drawing of document.querySelectorAll("svg.chart")) {
    const chart = data.charts[drawing.dataset.chart];
    const readout = document.querySelector(`[data-readout="${drawing.dataset.chart}"]`);
    const cross = drawing.querySelector(".cross");
    const values = [...readout.querySelectorAll("b")];
    const at = readout.querySelector(".at");
    const before = { values: values.map((v) => v.textContent), at: at.textContent };
    const dots = chart.lines.map((_, i) => {
      const dot = document.createElementNS(names, "circle");
      dot.setAttribute("class", `dot line${i}`);
      dot.setAttribute("r", "3.5");
      dot.setAttribute("visibility", "hidden");
      return drawing.appendChild(dot);
    });

    drawing.addEventListener("pointermove", (event) => {
      const box = drawing.getBoundingClientRect();
      const i = nearest(chart.x, ((event.clientX - box.left) / box.width) * drawing.viewBox.baseVal.width);
      cross.setAttribute("visibility", "visible");
      cross.setAttribute("transform", `translate(${chart.x[i]})`);
      at.textContent = `at ${chart.at[i]}`;
      chart.lines.forEach((line, j) => {
        values[j].textContent = line[i] ? line[i][1] : "–";
        dots[j].setAttribute("visibility", line[i] ? "visible" : "hidden");
        if (line[i]) dots[j].setAttribute("transform", `translate(${chart.x[i]} ${line[i][0]})`);
      });
    });

    drawing.addEventListener("pointerleave", () => {
      values.forEach((value, j) => {
        value.textContent = before.values[j];
        dots[j].setAttribute("visibility", "hidden");
      });
      at.textContent = before.at;
      cross.setAttribute("visibility", "hidden");
    });
  }
})();
