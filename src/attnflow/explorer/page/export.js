// Take it away: as a link, as text, as a picture, as a movie, as data.

import { byId } from "./elements.js";
import { fileName } from "./file_names.js";
import { createMovies } from "./movies.js";
import { withProgress } from "./recording.js";

const SLOW = 800; // milliseconds after which a note says that something is being made

/**
 * @typedef {{store: any, player: import("./player.js").Player, stage: any, requests: any, socket: any,
 *   pause: () => void}} Shown a side of the page: of two that are compared, the chosen one
 */

/**
 * `link` gives the address of the screen, `pair` what is told of two sides that are compared.
 * @param {() => Shown} side
 */
export function createExport(side, { link, pair, say }) {
  const named = (/** @type {string} */ ending, timed = true) => fileName(side().store, side().player, ending, { timed });
  /** @type {Record<string, () => Promise<void>>} */
  const actions = {
    "copy-link": async () => copy(await link(), "The link"),
    "copy-python": async () => copy((await text()).python, "The Python code"),
    "copy-command": async () => copy((await text()).command, "The command"),
    "export-png": async () => save(await drawn().png(), named("png")),
    "export-svg": async () => save(new Blob([drawn().svg()], { type: "image/svg+xml" }), named("svg")),
    "export-mp4": () => movie("mp4"),
    "export-gif": () => movie("gif"),
    "export-data": () => data(),
  };
  for (const [id, action] of Object.entries(actions)) {
    byId(id).addEventListener("click", () => perform(byId(id), action));
  }

  /** Return the stage, once there is something on it. */
  function drawn() {
    const { player, stage } = side();
    if (player.count === 0) throw new Error("There is no picture yet: wait for the first frame of the run.");
    return stage;
  }

  const text = () => side().socket.ask({ do: "text", state: side().store.state, ...pair() });

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

  async function movie(/** @type {"mp4" | "gif"} */ format) {
    const name = named(format, false);
    const wish = { format };
    save(await withProgress("The movie", (how) => createMovies(side()).record({ ...wish, ...how })), name);
  }

  async function data() {
    const told = setTimeout(() => say("The data is being made."), SLOW);
    const name = named("npz", false);
    try {
      const { type, payload } = await side().socket.ask({ do: "data", state: side().store.state });
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
