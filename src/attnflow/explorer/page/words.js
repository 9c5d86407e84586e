// What is on the stage, in words: for the note at a chosen token and for screen readers.

import { place, written } from "./ticks.js";

/** @typedef {import("./scene.js").Scene} Scene */

/** Say what token i is, where, and in which cell. @param {Scene} scene @param {number} i @param {string} separator */
export function about(scene, i, separator) {
  const { d, tokens } = scene;
  const overlays = scene.late ? null : scene.overlays;
  const parts = [`token ${i}`, place(tokens.subarray(i * d, (i + 1) * d))];
  const cell = overlays?.cells?.[overlays.labels?.[i]];
  if (cell) parts.push(`cell of ${cell.vertex === i ? "its own" : `token ${cell.vertex}`}`);
  else if (overlays?.follows?.[i] >= 0)
    parts.push(overlays.follows[i] === i ? "leads itself" : `follows token ${overlays.follows[i]}`);
  return parts.join(separator);
}

/** Say what is on the stage, and what the chosen token is. @param {Scene} scene */
export function describe(scene) {
  const { n, d, chosen } = scene;
  const overlays = scene.late ? null : scene.overlays;
  const where = { 1: "on the line", 2: "in the plane", 3: "in space" }[d];
  const moment = `${scene.discrete ? "step" : "time"} ${written(scene.player.time())}`;
  const said = [`${n} ${n === 1 ? "token" : "tokens"} ${where}, ${moment}.`];
  if (chosen >= 0) {
    const parts = [about(scene, chosen, ", ")];
    if (overlays?.hull?.includes(chosen)) parts.push("a vertex of the hull");
    if (overlays?.leaders?.includes(chosen)) parts.push("a leader");
    said.push(`Chosen: ${parts.join(", ")}.`);
  }
  return said.join(" ");
}

/** Return a function that tells screen readers what is said, once edits pause.
 * @param {HTMLElement} after which element the words are put @param {() => string} say */
export function createAnnouncer(after, say) {
  const element = document.createElement("div");
  element.setAttribute("aria-live", "polite");
  const size = { position: "absolute", width: "1px", height: "1px" };
  Object.assign(element.style, { ...size, overflow: "hidden", clipPath: "inset(50%)", whiteSpace: "nowrap" });
  after.after(element);
  let saying = 0;
  return () => {
    clearTimeout(saying);
    saying = setTimeout(() => (element.textContent = say()), 150);
  };
}
