// What is on the stage, in words: for the note at a chosen token and for screen readers.

import { heardWords } from "./attention_lines.js";
import { byId, make } from "./elements.js";
import { place, written } from "./ticks.js";

/** @typedef {import("./scene.js").Scene} Scene */

/** At most MOST tokens are listed; a description is read out PAUSE milliseconds after the last change. */
const [MOST, PAUSE] = [100, 150];

/**
 * Say which token this is, where it is, and in which cell or whom it follows.
 * @param {number} i @param {ArrayLike<number>} point
 */
function about(overlays, i, point) {
  const found = [`token ${i}`, place(point)];
  const cell = overlays?.cells?.[overlays.labels?.[i]];
  const leader = overlays?.follows?.[i] ?? -1;
  if (cell) found.push(`cell of ${cell.vertex === i ? "its own" : `token ${cell.vertex}`}`);
  else if (leader >= 0) found.push(leader === i ? "leads itself" : `follows token ${leader}`);
  return found;
}

/** Say all that is known of a token. @param {number} i @param {ArrayLike<number>} point */
function all(overlays, i, point) {
  const found = about(overlays, i, point);
  if (overlays?.hull?.includes(i)) found.push("a vertex of the hull");
  if (overlays?.leaders?.includes(i)) found.push("a leader");
  return found.join(", ");
}

/** @param {Scene} scene @param {number} i @returns {[any, number, ArrayLike<number>]} */
const seen = ({ late, overlays, tokens, d }, i) => [late ? null : overlays, i, tokens.subarray(i * d, (i + 1) * d)];

/** Return the note at a token, line by line. @param {Scene} scene @param {number} i */
export const noteAt = (scene, i) => [...about(...seen(scene, i)), ...heardBy(scene, i)].join("\n");

/** Say whom a token hears, if that is known. @param {Scene} scene @param {number} i */
const heardBy = ({ row }, i) => (row?.token === i ? heardWords(row) : []);

/** Say what is on the stage, and what the chosen token is. @param {Scene} scene */
export function describe(scene) {
  const { n, d, chosen } = scene;
  const where = { 1: "on the line", 2: "in the plane", 3: "in space" }[d];
  const time = `${scene.discrete ? "step" : "time"} ${written(scene.player.time())}`;
  const frame = scene.frame ? `, shown as ${scene.frame}` : "";
  const said = `${n} ${n === 1 ? "token" : "tokens"} ${where}${frame}, ${time}.`;
  const heard = heardBy(scene, chosen);
  const hears = heard.length ? ` It ${heard.join("; ")}.` : "";
  return chosen < 0 ? said : `${said} Chosen: ${all(...seen(scene, chosen))}.${hears}`;
}

/** Return a function that lets screen readers say something, once edits pause. @param {() => string} say
 * @param {HTMLElement} after which element the words are put */
export function createAnnouncer(say, after) {
  const element = make("div", { class: "hidden", "aria-live": "polite" });
  after.after(element);
  let saying = 0;
  return () => {
    clearTimeout(saying);
    saying = setTimeout(() => (element.textContent = say()), PAUSE);
  };
}

/** List the tokens in words, for readers who do not see the stage. */
export function createTokenList(store, player) {
  const [list, rest] = [make("ul", { "aria-label": "Tokens" }), make("p")];
  byId("token-list").append(list, rest);

  function write() {
    const { overlays } = store;
    const frame = player.frame(overlays?.frame);
    if (!overlays || overlays.run !== store.run?.id || !frame) return;
    const { n, d } = player;
    while (list.children.length > Math.min(n, MOST)) list.lastChild.remove();
    while (list.children.length < Math.min(n, MOST)) list.append(make("li"));
    for (const [i, item] of [...list.children].entries()) {
      const text = all(overlays, i, frame.subarray(i * d, (i + 1) * d));
      if (item.textContent !== text) item.textContent = text;
    }
    rest.textContent = n > MOST ? `These are the first ${MOST} of ${n}.` : "";
  }

  // Words cannot follow a run that plays.
  store.on(["overlays", "player"], () => player.playing || write());
}
