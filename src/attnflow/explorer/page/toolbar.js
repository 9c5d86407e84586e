// What the pointer does, and what is drawn over the tokens.

import { byId, make } from "./elements.js";

const TOOLS = [
  ["move", "Move", "Drag tokens; drag the paper to move or turn it"],
  ["add", "Add", "Click to add a token"],
  ["delete", "Remove", "Click a token to remove it"],
];
const OVERLAYS = [
  ["cells", "Cells", "Which vertex a token would follow under hardmax"],
  ["hull", "Hull", "The convex hull of the tokens"],
  ["limits", "Limits", "The points where hardmax tokens can come to rest"],
  ["leaders", "Leaders", "Tokens that follow themselves"],
  ["quiescent", "Quiescent", "Tokens that hear only each other, in one place"],
  ["paths", "Paths", "Where tokens came from"],
  ["numbers", "Numbers", "The number of each token"],
];

/** @param {any} store @param {any} stage */
export function createToolbar(store, stage) {
  const tools = byId("tools");
  for (const [value, text, title] of TOOLS) {
    const input = make("input", { type: "radio", name: "tool", value, change: () => store.setView({ tool: value }) });
    tools.append(make("label", { title }, input, make("span", {}, text)));
  }
  const overlays = byId("overlays");
  for (const [name, text, title] of OVERLAYS) {
    const flip = () => store.setView({ show: { ...store.view.show, [name]: !store.view.show[name] } });
    const attributes = { type: "button", id: `show-${name}`, title, "data-show": name, click: flip };
    overlays.append(make("button", attributes, text));
  }
  const fit = byId("fit");
  fit.addEventListener("click", () => stage.fit());

  function sync() {
    for (const input of tools.querySelectorAll("input")) input.checked = input.value === store.view.tool;
    const why = store.look?.why ?? {};
    for (const button of overlays.children) {
      const name = button.dataset.show;
      button.setAttribute("aria-pressed", String(store.view.show[name]));
      // An overlay that cannot be drawn says why.
      const missing = store.view.show[name] && why[name];
      button.classList.toggle("missing", Boolean(missing));
      button.title = missing || OVERLAYS.find(([key]) => key === name)?.[2];
    }
    fit.hidden = store.view.camera === null || store.view.camera === undefined;
  }

  store.subscribe((/** @type {Set<string>} */ what) => {
    if (what.has("view") || what.has("look")) sync();
  });
  sync();
}
