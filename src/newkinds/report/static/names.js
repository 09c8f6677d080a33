// Names that a person gives to kinds: typed on the cards, shown wherever a kind is named, saved to and loaded from a file.
newkinds.names = (() => {
  const { data, element, visible, plural } = newkinds;
  const given = new Map(); // by kind, as it was typed
  const places = data.kinds.map(() => []);
  const watchers = [];
  for (const place of document.querySelectorAll("[data-name]")) places[Number(place.dataset.name)].push(place);

  const of = (kind) => (given.has(kind) ? visible(given.get(kind)) : data.kinds[kind].name);
  const said = (text) => (element("names-said").textContent = text);

  function set(kind, typed) {
    const name = typed.trim();
    if (name) given.set(kind, name);
    else given.delete(kind);
    for (const place of places[kind]) place.textContent = of(kind);
    const button = document.querySelector(`[data-show="${kind}"]`);
    if (button) button.setAttribute("aria-label", `Show ${of(kind)} on the map`);
    watchers.forEach((watch) => watch(kind));
  }

  // What is saved; another program reads it.
  function file() {
    const kinds = [...given.keys()].sort((a, b) => a - b);
    const names = Object.fromEntries(kinds.map((kind) => [data.kinds[kind].key, given.get(kind)]));
    return `${JSON.stringify({ newkinds: "names", run: data.title, names }, null, 2)}\n`;
  }

  function save() {
    if (!given.size) {
      said("There are no names yet.");
      return;
    }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([file()], { type: "application/json" }));
    link.download = "names.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    said(`${plural(given.size, "name")} saved as names.json.`);
  }

  // Returns the names in a file by kind, or throws an Error that says what is wrong with it.
  function read(text) {
    let found;
    try {
      found = JSON.parse(text);
    } catch {
      throw new Error("This is not a names file: it is not JSON.");
    }
    const table = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
    if (!table(found) || found.newkinds !== "names" || !table(found.names)) {
      throw new Error("This is not a names file saved from a report.");
    }
    const names = Object.entries(found.names);
    const number = new Map(data.kinds.map((kind, index) => [kind.key, index]));
    const unknown = names.map(([kind]) => kind).filter((kind) => !number.has(kind));
    if (unknown.length) {
      const one = unknown.length === 1;
      const shown = unknown.slice(0, 5).map((kind) => visible(kind)).join(", ");
      const last = data.kinds.length - 1;
      const here = data.kinds.map((kind) => visible(kind.key));
      throw new Error(
        `The file names ${one ? "a kind" : "kinds"} that this page does not have: ${shown}. ` +
          `The kinds here are ${last > 20 ? `${here[0]} to ${here[last]}` : here.join(", ")}.`,
      );
    }
    const odd = names.find(([, name]) => typeof name !== "string");
    if (odd) throw new Error(`The name of kind ${odd[0]} in the file is not text.`);
    return { names: names.map(([kind, name]) => [number.get(kind), name]), run: found.run };
  }

  function load(text) {
    try {
      const { names, run } = read(text);
      data.kinds.forEach((_, kind) => set(kind, ""));
      names.forEach(([kind, name]) => set(kind, name));
      for (const field of document.querySelectorAll("[data-name-of]")) {
        field.value = given.get(Number(field.dataset.nameOf)) || "";
      }
      const other = typeof run === "string" && run !== data.title ? ` They were saved from the run ${visible(run)}.` : "";
      said(`${plural(names.length, "name")} loaded.${other}`);
    } catch (problem) {
      said(problem.message);
    }
  }

  for (const field of document.querySelectorAll("[data-name-of]")) {
    field.value = "";
    field.parentElement.hidden = false;
    field.addEventListener("input", () => {
      set(Number(field.dataset.nameOf), field.value);
      said("Names are kept only in a file: save them before you leave.");
    });
  }
  const chosen = element("names-file");
  element("naming").hidden = false;
  element("names-save").addEventListener("click", save);
  element("names-load").addEventListener("click", () => chosen.click());
  chosen.addEventListener("change", async () => {
    const [picked] = chosen.files;
    if (picked) load(await picked.text().catch(() => ""));
    chosen.value = ""; // the same file may be chosen again
  });

  return { of, set, file, load, has: (kind) => given.has(kind), watch: (call) => watchers.push(call) };
})();
