// Names of files that say what is in them: softmax-beta-4-layers-gamma-0.1-n24-t12.png

import { atLimit, model } from "./models.js";
import { taken } from "./model_text.js";

/** A name without its ending has at most this many characters. */
const LONGEST = 72;

/** Letters, digits, points and dashes; nothing that a file system or a shell takes for something else. */
const safe = (/** @type {string} */ text) =>
  text
    .toLowerCase()
    .replace(/[^a-z0-9.]+/g, "-")
    .replace(/\.(?!\d)|(?<!\d)\./g, "-")
    .replace(/-{2,}/g, "-")
    .replace(/^-|-$/g, "");

/** A number in few characters: 0.1, 1e9, minus-2. @param {number} value */
function short(value) {
  const rounded = Number(value.toPrecision(4));
  const digits = Math.abs(rounded) >= 1e6 ? rounded.toExponential() : String(rounded);
  return digits.replace("e+", "e").replace("e-", "e-minus-").replace(/^-/, "minus-");
}

/** Return the name of a law or a motion, and its numbers. @param {"law" | "motion"} kind @returns {string[]} */
function partName(kind, given) {
  const end = kind === "law" ? atLimit(given) : undefined;
  const of = model(kind, end ? end.limit : given.name);
  const around = (model(kind, given.name).around ?? []).flatMap(({ parameters }) => parameters);
  const found = [of.name || given.name];
  for (const one of [...taken(of, given), ...around]) {
    const value = given[one.key] ?? one.default;
    if (typeof value === "number") found.push(`${one.key}-${short(value)}`);
    else if (value === true || (typeof value === "string" && one.kind !== "choice")) found.push(one.key);
  }
  return found;
}

/**
 * Return the name of a file of the run on the screen; of a picture, with the time shown.
 * @param {import("./player.js").Player} player @param {string} ending
 */
export function fileName(store, player, ending, { timed = true } = {}) {
  const state = store.run?.state ?? store.state;
  const time = player.count > 0 ? player.time() : 0;
  const last = [`n${player.n}`, ...(timed ? [`t${short(time)}`] : [])].map(safe).join("-");
  const parts = [...partName("law", state.law), ...partName("motion", state.motion)].map(safe).filter(Boolean);
  // What there is no room for is left out from the end.
  let name = "";
  for (const part of parts) {
    const longer = name ? `${name}-${part}` : part;
    if (longer.length + last.length + 1 > LONGEST) break;
    name = longer;
  }
  return `${name ? `${name}-` : ""}${last}.${ending}`;
}
