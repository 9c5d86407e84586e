// The switches beside the tools: mirrors, and the grid.

import { byId, make } from "./elements.js";
import { placing } from "./placing.js";

/** @type {[keyof typeof placing, string, string][]} */
const SWITCHES = [
  ["mirrorX", "Mirror ↕", "Tokens that are added, drawn or moved have mirror images across the x axis"],
  ["mirrorY", "Mirror ↔", "Tokens that are added, drawn or moved have mirror images across the y axis"],
  ["snap", "Snap", "Tokens that are added, drawn or moved go to a grid"],
];

export function createPlacingBar(store) {
  const bar = make("div", { role: "group", "aria-label": "Placing", class: "chips placing", id: "placing" });
  for (const [key, text, title] of SWITCHES) {
    const button = make("button", { type: "button", id: `placing-${key}`, title, "aria-pressed": "false" }, text);
    button.addEventListener("click", () => {
      placing[key] = !placing[key];
      button.ariaPressed = String(placing[key]);
      store.notify("view");
    });
    bar.append(button);
  }
  byId("tools").after(bar);
  store.on(["view"], () => (bar.dataset.tool = store.view.tool));
}
