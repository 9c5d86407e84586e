// The tokens in words, for readers who do not see the stage.

import { byId, make } from "./elements.js";

const MOST = 100;

/** @param {any} store @param {any} player */
export function createTokenList(store, player) {
  const list = make("ul", { "aria-label": "Tokens" });
  const rest = make("p");
  byId("token-list").append(list, rest);

  function write() {
    const { overlays } = store;
    const frame = player.frame(overlays?.frame);
    if (!overlays || overlays.run !== store.run?.id || !frame) return;
    const { n, d } = player;
    while (list.children.length > Math.min(n, MOST)) list.lastChild.remove();
    while (list.children.length < Math.min(n, MOST)) list.append(make("li"));
    [...list.children].forEach((item, i) => {
      const text = `token ${i}: ${said(overlays, i, frame.subarray(i * d, (i + 1) * d))}`;
      if (item.textContent !== text) item.textContent = text;
    });
    rest.textContent = n > MOST ? `These are the first ${MOST} of ${n}.` : "";
  }

  // Words cannot follow a run that plays.
  store.on(["overlays", "player"], () => player.playing || write());
}

function said(/** @type {any} */ overlays, /** @type {number} */ i, /** @type {Float64Array} */ place) {
  const parts = [`(${Array.from(place, (x) => Number(x.toPrecision(3))).join(", ")})`];
  const cell = overlays.cells?.[overlays.labels?.[i]];
  if (cell) parts.push(`in the cell of token ${cell.vertex}`);
  if (overlays.leaders?.includes(i)) parts.push("a leader");
  else if (overlays.follows?.[i] >= 0) parts.push(`follows token ${overlays.follows[i]}`);
  if (overlays.hull?.includes(i)) parts.push("a vertex of the hull");
  return parts.join(", ");
}
