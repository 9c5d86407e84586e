// A page for which the server has no room, and which has shown nothing yet: one sentence in the place of everything.

import { make } from "./elements.js";

/** @param {{run: any, on: import("./store.js").Listen}} store */
export function createWaitingRoom(store) {
  const sentence = make("p", { class: "sentence" });
  const promise = make("p", {}, "This page begins by itself as soon as there is room.");
  const title = make("h2", {}, "Please wait");
  const element = make("section", { id: "waiting-room", "aria-label": "Waiting", hidden: true }, title, sentence, promise);
  document.body.append(element);
  store.on(["run"], () => (element.hidden = store.run !== null));
  return {
    /** Say why there is no room, unless a run is on the screen. @param {string} why */
    enter(why) {
      if (store.run) return;
      const text = `${why.charAt(0).toUpperCase()}${why.slice(1)}`;
      sentence.textContent = /[.!?]$/.test(text) ? text : `${text}.`;
      element.hidden = false;
    },
  };
}
