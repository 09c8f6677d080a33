// The queue: one question at a time, what is worth most first.
import { chooseKind, judge, say, split } from "./actions.js";
import { button, buttons, h, plural, swatch } from "./dom.js";
import { Grid } from "./grid.js";
import { called, get, post, store, title } from "./store.js";

const passed = new Set();

export function show(main) {
  const grid = new Grid({ label: "Pictures of the question", fixed: true, changed: () => draw() });
  const head = h("div", { class: "question" });
  const foot = h("div", { class: "answers" });
  let question = null;
  let waiting = 0;

  async function load() {
    const found = await get("/api/queue", { passed: [...passed].join(",") });
    [question, waiting] = [found.questions[0] || null, found.waiting];
    grid.selected.clear();
    grid.box.scrollTop = 0;
    grid.set(question ? question.rows : [], question ? question.flags : []);
    draw();
  }

  const picked = () => [...grid.selected];
  const others = () => grid.rows.filter((row) => !grid.selected.has(row));

  async function answer(promise) {
    const version = store.version;
    await promise;
    if (store.version === version) await load();
  }

  function pass() {
    passed.add(question.key);
    load();
  }

  // The pictures that are not picked are of the kind; the picked ones are not offered for it again.
  async function settle() {
    const { kind, sort } = question;
    const [right, wrong] = [others(), picked()];
    if (sort === "grow" && wrong.length > right.length) passed.add(question.key); // a page that is wrong ends it
    if (wrong.length) await post("/api/refuse", { kind, rows: wrong });
    if (!right.length) return load();
    const words = `${plural(right.length, "picture")} are ${called(kind)}`;
    if (sort === "check") return answer(say({ do: "batch", actions: [{ do: "confirm", kind, rows: right }, { do: "accept", kinds: [kind] }], note: "" }, words));
    return answer(say({ do: "move", rows: right, to: kind }, words));
  }

  function divide(first, second) {
    const { kind, other } = question;
    const actions = [[kind, first], [other, second]].filter(([, rows]) => rows.length).map(([to, rows]) => ({ do: "move", rows, to }));
    return answer(say(actions.length === 1 ? actions[0] : { do: "batch", actions, note: "" }, `${plural(grid.rows.length, "picture")} decided`));
  }

  async function elsewhere() {
    const to = await chooseKind(`Where do ${plural(grid.selected.size, "picture")} belong?`, { but: [question.kind] });
    if (to) await answer(say({ do: "move", rows: picked(), to }));
  }

  const asks = {
    check: () => [["Are these all one kind?"], "Pick the pictures that do not belong; the others are then confirmed, and the kind is accepted."],
    grow: () => [["Are these ", title(question.kind), ", too?"], "They are the undecided pictures that look most like it. Pick the ones that are not."],
    border: () => [["Which of these are ", title(question.other), "?"], "They lie between two kinds. Pick those of the second kind."],
  };

  function draw() {
    if (!question) {
      head.replaceChildren(h("h2", { text: passed.size ? "Nothing else to ask." : "Nothing is left to ask." }), h("p", { class: "quiet", text: passed.size ? "Some questions were put off." : "Every picture is confirmed, or of a kind that was decided." }),
        passed.size ? buttons(button("Ask those that were put off", () => { passed.clear(); load(); }, { class: "main" })) : "");
      foot.replaceChildren();
      return;
    }
    const { sort, kind, other } = question;
    const [text, about] = asks[sort]();
    const n = grid.selected.size;
    head.replaceChildren(
      h("h2", {}, ...text),
      h("p", { class: "quiet" }, swatch(kind), " ", h("a", { href: `#/kind/${encodeURIComponent(kind)}` }, title(kind)), other ? " or " : "", other ? swatch(other) : "", other ? " " : "", other ? title(other) : "", `. ${about} ${plural(waiting, "question")} of this sort.`),
    );
    const later = button("Later", pass, { title: "Put this question off" });
    if (sort === "border") {
      foot.replaceChildren(buttons(
        button(n ? `The ${n} picked are ${called(other)}, the others ${called(kind)}` : `All are ${called(kind)}`, () => divide(others(), picked()), { class: "main" }),
        button(`All are ${called(other)}`, () => divide([], grid.rows), { disabled: n > 0 }),
        later));
      return;
    }
    foot.replaceChildren(buttons(
      button(n ? `All but the ${n} picked` : "Yes, all of them", settle, { class: "main" }),
      button("The picked belong elsewhere ...", elsewhere, { disabled: !n }),
      sort === "check" ? button("They are several kinds ...", () => answer(split(kind, n > 1 ? picked() : []))) : null,
      sort === "check" ? button("Not a kind", () => answer(judge("reject", [kind]))) : null,
      later));
  }

  main.replaceChildren(head, grid.box, foot);
  main.classList.add("full");
  load();
  return {
    changed: load,
    close() {
      grid.close();
      main.classList.remove("full");
    },
  };
}
