// What the server knows, as of its last answer; everything that is shown follows it.
import { h } from "./dom.js";

export const store = { state: null, version: -1, gone: false };
const watchers = new Set();
const every = 1200; // milliseconds between looks at what others said
let sorting = () => {}; // gets the state whenever it is looked at

export class Refused extends Error {}

export function watch(watcher) {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

export const status = (text) => (document.getElementById("status").textContent = text);

export function alarm(text) {
  const place = document.getElementById("alarm");
  place.hidden = !text;
  place.textContent = text;
}

async function answered(response) {
  if (response.status === 403) {
    store.gone = true;
    alarm("This page is closed: the workbench was stopped, and perhaps started again. What was saved is saved. Open the address that the terminal shows.");
    throw new Refused("closed");
  }
  const found = await response.json();
  if (!response.ok) throw new Refused(`${found.error} ${found.hint || ""}`.trim());
  if (store.gone) alarm("");
  store.gone = false;
  return found;
}

async function sent(path, options) {
  try {
    return await answered(await fetch(path, options));
  } catch (error) {
    if (error instanceof Refused) throw error;
    store.gone = true;
    alarm("The workbench does not answer. What was saved is saved. If it was stopped, start it again with newkinds open.");
    throw new Refused("no answer");
  }
}

export function get(path, params = {}) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== undefined && value !== null));
  return sent(`${path}?${query}`);
}

// Says something; the page says "Saved" only when the journal has it on the disk.
export async function post(path, body, words) {
  status("Saving ...");
  try {
    const found = await sent(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    if (found.kinds) take(found);
    status(words ? `Saved: ${words}` : "");
    return found;
  } catch (error) {
    status("");
    if (!store.gone) {
      alarm(`Not done. ${error.message}`);
      setTimeout(() => !store.gone && alarm(""), 9000);
      await refresh();
    }
    return null;
  }
}

export function watchAgain(watcher) {
  sorting = watcher;
}

// What is known of sorting again: how far it is and, once, what came of it.
function told(now) {
  const before = store.state && store.state.again;
  if (now && now.running) status(`Sorting again: ${now.words} ...`);
  else if (now && now.error && (!before || before.times !== now.times)) alarm(`Not sorted again. ${now.error}`);
  else if (now && before && before.running) status(now.words);
  if (store.state) store.state.again = now || null;
  sorting(store.state);
}

export function take(state) {
  const changed = state.version !== store.version;
  const before = store.state && store.state.again;
  const now = state.again;
  store.state = { ...state, again: before };
  store.version = state.version;
  if (changed) watchers.forEach((watcher) => watcher(state));
  told(now);
}

export async function refresh() {
  take(await get("/api/state"));
}

export async function begin() {
  await refresh();
  const look = async () => {
    try {
      if (!document.hidden || store.gone) {
        const found = await get("/api/state", { since: store.version });
        if (found.kinds && found.version !== store.version) {
          status("Changed in another window.");
          take(found);
        } else if (!found.kinds) {
          told(found.again);
        }
      }
    } catch {
      // said on the page; the next look may be answered
    }
    setTimeout(look, every);
  };
  setTimeout(look, every);
}

// Kinds

export const kindOf = (kind) => store.state.kinds.find((one) => one.kind === kind);

export function called(kind) {
  if (kind === "none") return "None of these";
  if (kind.startsWith("known:")) return kind.slice(6);
  const found = kindOf(kind);
  return (found && found.called) || `Kind ${kind.slice(4)}`;
}

// A kind's name as text; its number stays beside a name that a person gave.
export function title(kind) {
  const found = kindOf(kind);
  const named = found && found.called && kind.startsWith("new:");
  return h("span", { class: "title" }, h("bdi", { text: called(kind) }), named ? h("span", { class: "quiet", text: ` ${kind.slice(4)}` }) : null);
}

export const thumb = (row) => `/thumb/${store.state.mark}/${row}`;
