// Take it away: as a link, as text, as a picture, as a movie, as data.

import { byId } from "./elements.js";
import { isDark } from "./screen.js";

const SLOW = 800; // milliseconds after which a note says that something is being made

/** `link` gives the address of the screen. */
export function createExport(store, socket, stage, { link, say }) {
  /** @type {Record<string, () => Promise<void>>} */
  const actions = {
    "copy-link": async () => copy(await link(), "The link"),
    "copy-python": async () => copy((await text()).python, "The Python code"),
    "copy-command": async () => copy((await text()).command, "The command"),
    "export-png": async () => save(await stage.png(), "attnflow.png"),
    "export-svg": async () => save(new Blob([stage.svg()], { type: "image/svg+xml" }), "attnflow.svg"),
    "export-mp4": () => file({ do: "movie", format: "mp4", dark: isDark() }, "The movie"),
    "export-gif": () => file({ do: "movie", format: "gif", dark: isDark() }, "The movie"),
    "export-data": () => file({ do: "data" }, "The data"),
  };
  for (const [id, action] of Object.entries(actions)) {
    byId(id).addEventListener("click", () => perform(byId(id), action));
  }

  const text = () => socket.ask({ do: "text", state: store.state, ...store.pair?.() });

  async function perform(button, /** @type {() => Promise<void>} */ action) {
    button.ariaBusy = "true";
    button.disabled = true;
    try {
      await action();
    } catch (error) {
      say(/** @type {Error} */ (error).message);
    }
    button.removeAttribute("aria-busy");
    button.disabled = false;
  }

  async function file(message, /** @type {string} */ what) {
    const told = setTimeout(() => say(`${what} is being made.`), SLOW);
    try {
      const { name, type, payload } = await socket.ask({ ...message, state: store.state });
      save(new Blob([payload], { type }), name);
    } finally {
      clearTimeout(told);
    }
  }

  function save(/** @type {Blob} */ blob, /** @type {string} */ name) {
    const address = URL.createObjectURL(blob);
    const anchor = document.createElement("a");
    Object.assign(anchor, { href: address, download: name });
    anchor.click();
    // The browser needs the address until the download has begun.
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
    say(`Saved ${name}.`);
  }

  async function copy(/** @type {string} */ words, /** @type {string} */ what) {
    try {
      await navigator.clipboard.writeText(words);
      say(`${what} is on the clipboard.`);
    } catch {
      // Without leave to write to the clipboard the text is shown, selected.
      const dialog = byId("text");
      const area = dialog.querySelector("textarea");
      area.value = words;
      dialog.showModal();
      area.focus();
      area.select();
    }
  }
}
