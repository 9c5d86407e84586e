// The tokens in words, for readers who do not see the stage.

import { byId, make } from "./elements.js";

const MOST = 100;

/** @param {any} store @param {any} film */
export function createTokenList(store, film) {
  const list = make("ul", { "aria-label": "Tokens" });
  const rest = make("p");
  byId("token-list").append(list, rest);

  function write() {
    const { look } = store;
    const frame = film.frame(look?.frame);
    if (!look || look.run !== store.run?.id || !frame) return;
    const { n, d } = film;
    while (list.children.length > Math.min(n, MOST)) list.lastChild.remove();
    while (list.children.length < Math.min(n, MOST)) list.append(make("li"));
    [...list.children].forEach((item, i) => {
      const text = `token ${i}: ${said(look, i, frame.subarray(i * d, (i + 1) * d))}`;
      if (item.textContent !== text) item.textContent = text;
    });
    rest.textContent = n > MOST ? `These are the first ${MOST} of ${n}.` : "";
  }

  // Words cannot follow a film that plays.
  store.on(["look", "film"], () => film.playing || write());
}

function said(/** @type {any} */ look, /** @type {number} */ i, /** @type {Float64Array} */ place) {
  const parts = [`(${Array.from(place, (x) => Number(x.toPrecision(3))).join(", ")})`];
  const cell = look.cells?.[look.labels?.[i]];
  if (cell) parts.push(`in the cell of token ${cell.vertex}`);
  if (look.leaders?.includes(i)) parts.push("a leader");
  else if (look.follows?.[i] >= 0) parts.push(`follows token ${look.follows[i]}`);
  if (look.hull?.includes(i)) parts.push("a vertex of the hull");
  return parts.join(", ");
}
