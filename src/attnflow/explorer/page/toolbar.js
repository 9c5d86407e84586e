// What the pointer does, and what is drawn over the tokens.

import { byId } from "./elements.js";
import { surfaceOf } from "./models.js";
import { dimension } from "./store.js";

/** Why an overlay is not drawn here, whatever the frame. */
function undrawn({ state }) {
  if (surfaceOf(state.motion.name) === "sphere") {
    const all = "on the sphere every token is a vertex of the hull";
    return { cells: `${all} and has a cell of its own`, hull: all };
  }
  if (dimension(state) !== 2) return { cells: "cells are drawn in the plane; here they only colour the tokens" };
  return {};
}

/** @param {(sentence: string) => void} say */
export function createToolbar(store, stage, say) {
  const tools = [...byId("tools").querySelectorAll("input")];
  const switches = [...byId("overlays").querySelectorAll("button")].map((button) => {
    const name = button.dataset.show;
    return { name, button, title: button.title, about: byId(`about-${name}`) };
  });
  const fit = byId("fit");
  /** The overlay that was just switched on: when it cannot be drawn, the reason is said. */
  let asked = "";

  for (const tool of tools) tool.addEventListener("change", () => store.setView({ tool: tool.value }));
  for (const { name, button } of switches)
    button.addEventListener("click", () => {
      store.setView({ show: { ...store.view.show, [name]: !store.view.show[name] } });
      asked = store.view.show[name] ? name : "";
    });
  fit.addEventListener("click", () => stage.fit());

  function sync() {
    for (const tool of tools) tool.checked = tool.value === store.view.tool;
    const why = { ...store.overlays?.why, ...undrawn(store) };
    for (const { name, button, title, about } of switches) {
      const on = Boolean(store.view.show[name]);
      button.ariaPressed = String(on);
      const missing = (on && why[name]) || "";
      button.classList.toggle("missing", missing !== "");
      button.title = about.textContent = missing ? `Not drawn: ${missing}.` : title;
      if (missing === "" || asked !== name) continue;
      say(`${button.textContent}: ${missing}.`);
      asked = "";
    }
    fit.hidden = !store.view.camera;
  }

  store.on(["view", "overlays", "state"], sync);
  sync();
}
