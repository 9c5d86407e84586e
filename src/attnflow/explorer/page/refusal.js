// A state that cannot be run: the stage, which still shows the one before, is dimmed and says why.

import { make } from "./elements.js";

/** @param {HTMLElement} stage */
export function createRefusal(store, stage) {
  // It is read out from the line of status, which says the same.
  const sentence = make("p", { id: "stage-refusal", "aria-hidden": "true", hidden: true });
  stage.after(sentence);

  function sync() {
    const { refused } = store;
    const on = refused?.about === "run";
    stage.classList.toggle("dimmed", on);
    sentence.hidden = !on;
    if (!on) return;
    const said = refused.sentence;
    sentence.textContent = `${said.charAt(0).toUpperCase()}${said.slice(1)}${/[.!?]$/.test(said) ? "" : "."}`;
  }

  store.on(["refused", "run"], sync);
}
