// How far a movie is, and a button that ends it. While it is made nothing else can be done: the stage goes through it.

import { make } from "./elements.js";

/**
 * Do something long while a small dialog says how far it is.
 * @template T
 * @param {(wish: {signal: AbortSignal, progress: (done: number, all: number) => void}) => Promise<T>} work
 * @param {string} what
 */
export async function withProgress(what, work) {
  const stop = new AbortController();
  const said = make("p", { id: "recording-said" }, `${what} begins.`);
  const bar = make("progress", { max: 1, value: 0, "aria-labelledby": "recording-said" });
  const cancel = make("button", { type: "button", click: () => end() }, "Cancel");
  const dialog = make("dialog", { class: "recording", "aria-label": what }, said, make("div", {}, bar, cancel));

  function end() {
    cancel.disabled = true;
    stop.abort(new Error(`${what} was cancelled.`));
  }

  dialog.addEventListener("cancel", (/** @type {Event} */ event) => {
    event.preventDefault();
    end();
  });
  document.body.append(dialog);
  dialog.showModal();
  cancel.focus();
  /** @param {number} done @param {number} all */
  const progress = (done, all) => {
    said.textContent = done < all ? `Frame ${done + 1} of ${all}` : "Writing the file";
    if (done < all) bar.value = done / all;
    else bar.removeAttribute("value");
  };
  const cancelled = new Promise((_, reject) => {
    stop.signal.addEventListener("abort", () => reject(stop.signal.reason), { once: true });
  });
  try {
    return /** @type {T} */ (await Promise.race([work({ signal: stop.signal, progress }), cancelled]));
  } finally {
    dialog.close();
    dialog.remove();
  }
}
