// What the pointer does, and what is drawn over the tokens.

import { byId, make } from "./elements.js";
import { surfaceOf } from "./models.js";
import { dimension } from "./store.js";

const TOOLS = [
  ["move", "Move", "Drag tokens; drag the background to move or turn the picture"],
  ["add", "Add", "Click to add a token"],
  ["delete", "Remove", "Click a token to remove it"],
];
const OVERLAYS = [
  ["cells", "Cells", "Which vertex has the largest score for a token there"],
  ["hull", "Hull", "The convex hull of the tokens"],
  ["limits", "Limits", "Where tokens that follow the largest score can come to rest"],
  ["leaders", "Leaders", "Tokens that somebody follows"],
  ["quiescent", "Quiescent", "Tokens that hear only each other, in one place"],
  ["paths", "Paths", "Where tokens came from"],
  ["numbers", "Numbers", "The number of each token"],
];

/** Why an overlay is not drawn here, whatever the frame. @param {any} store @returns {Record<string, string>} */
function undrawn({ state }) {
  if (surfaceOf(state.motion.name) === "sphere") {
    const all = "on the sphere every token is a vertex of the hull";
    return { cells: `${all} and has a cell of its own`, hull: all };
  }
  if (dimension(state) !== 2) return { cells: "cells are drawn in the plane; here they only colour the tokens" };
  return {};
}

/** @param {any} store @param {any} stage @param {(sentence: string) => void} say */
export function createToolbar(store, stage, say) {
  const tools = byId("tools");
  for (const [value, text, title] of TOOLS) {
    const input = make("input", { type: "radio", name: "tool", value, change: () => store.setView({ tool: value }) });
    tools.append(make("label", { title }, input, make("span", {}, text)));
  }
  const buttons = byId("overlays");
  /** The overlay that was just switched on: when it cannot be drawn, the reason is said. */
  let asked = "";
  for (const [name, text, title] of OVERLAYS) {
    const flip = () => {
      store.setView({ show: { ...store.view.show, [name]: !store.view.show[name] } });
      asked = store.view.show[name] ? name : "";
    };
    const about = make("span", { class: "hidden", id: `about-${name}` }, title);
    const attributes = { type: "button", id: `show-${name}`, "data-show": name, click: flip };
    buttons.append(make("button", { ...attributes, "aria-describedby": `about-${name}` }, text), about);
  }
  const fit = byId("fit");
  fit.addEventListener("click", () => stage.fit());

  function sync() {
    for (const input of tools.querySelectorAll("input")) input.checked = input.value === store.view.tool;
    const why = { ...store.overlays?.why, ...undrawn(store) };
    for (const [name, text, title] of OVERLAYS) {
      const [button, about] = [byId(`show-${name}`), byId(`about-${name}`)];
      const on = Boolean(store.view.show[name]);
      button.setAttribute("aria-pressed", String(on));
      const missing = on && why[name] ? why[name] : "";
      button.classList.toggle("missing", missing !== "");
      button.title = about.textContent = missing ? `Not drawn: ${missing}.` : title;
      if (missing === "" || asked !== name) continue;
      say(`${text}: ${missing}.`);
      asked = "";
    }
    fit.hidden = store.view.camera === null || store.view.camera === undefined;
  }

  store.on(["view", "overlays", "state"], sync);
  sync();
}
