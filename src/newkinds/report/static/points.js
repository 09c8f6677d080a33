// How points look: the group that each belongs to under a colouring.
newkinds.colouring = (() => {
  const { points, kinds, known, marks, certainty } = newkinds.data;
  const n = points.x.length;

  const style = (i) => ({
    colour: i % marks.colours,
    path: Math.floor(i / marks.colours) % marks.paths.length,
    hollow: Math.floor(i / marks.colours / marks.paths.length) % 2 === 1,
  });
  const sizes = (of, count) => {
    const found = new Array(count).fill(0);
    of.forEach((group) => (found[group] += 1));
    return found;
  };
  const listed = (labels, of) => {
    const styles = labels.map((_, i) => style(i));
    return { labels, of, styles };
  };

  const make = {
    kind: () => ({ labels: null, of: points.kind.slice(), styles: kinds.map((_, i) => style(i)) }),
    truth: () => listed(points.truths.map((name) => name || "unknown"), points.truth.slice()),
    known() {
      const found = listed([...known, "not compared"], points.known.map((k) => (k < 0 ? known.length : k)));
      found.styles[known.length] = { colour: -1, path: 0, hollow: false };
      return found;
    },
    probability() {
      const last = certainty.length - 1;
      const of = points.percent.map((p) => Math.min(last, Math.floor(p / 10)));
      const styles = certainty.map((_, i) => ({ mix: i / last, path: i < certainty.length / 2 ? 3 : 0, hollow: false }));
      return { labels: certainty, of, styles };
    },
  };

  const made = {};
  const now = { mode: "kind", ...make.kind() };
  function choose(mode) {
    made[mode] = made[mode] || make[mode]();
    Object.assign(now, made[mode], { mode });
  }
  // At an earlier snapshot pictures were in other kinds; null: as they are now.
  function during(which, found) {
    made.kind = made.kind || make.kind();
    made.kind.of = points.kind.slice();
    if (which) which.forEach((i, j) => (made.kind.of[i] = found[j]));
    if (now.mode === "kind") choose("kind");
  }
  choose("kind");
  return { n, now, choose, during, sizes };
})();
