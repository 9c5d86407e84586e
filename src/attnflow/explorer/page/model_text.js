// A law and a motion with their parameters in one line, from what the catalogue says of them.

import { make } from "./elements.js";
import { typeset } from "./mathtext.js";
import { atLimit, given as givenBy, model, stands } from "./models.js";
import { written } from "./ticks.js";

/** @import { Around, Parameter } from "./models.js" */

/** Return the law and the motion with their parameters: Softmax, β = 4 · averaging layers, γ = 0.1. */
export function modelText({ law, motion }) {
  return `${partText("law", law)} · ${lower(partText("motion", motion))}`;
}

const lower = (/** @type {string} */ text) => text[0].toLowerCase() + text.slice(1);
const words = (/** @type {string} */ key) => key.replaceAll("_", " ");

/** Return a law or a motion, its own parameters, and what stands around it. @param {"law" | "motion"} kind */
export function partText(kind, given) {
  const end = kind === "law" ? atLimit(given) : undefined;
  const of = model(kind, end ? end.limit : given.name);
  const around = (model(kind, given.name).around ?? []).filter((one) => stands(one, given));
  const said = taken(of, given).map((one) => parameterText(one, given[one.key] ?? one.default));
  return [of.title || given.name, ...said, ...around.map((one) => aroundText(one, given))].filter(Boolean).join(", ");
}

/** Return the parameters that say something: those with a field, and what a link gave. @returns {Parameter[]} */
export function taken(/** @type {import("./models.js").Model} */ of, given) {
  const by = givenBy(of, given);
  return of.parameters
    .filter((one) => one.shown || (given[one.key] ?? null) !== null)
    .filter((one) => !of.alternatives.includes(one.key) || one.key === by)
    .filter((one) => !one.only_for || Object.values(given).includes(one.only_for));
}

/** Return what stands around a law or a motion: noise (σ = 0.1). @param {Around} one */
function aroundText({ adds, parameters }, given) {
  const said = parameters.map((each) => parameterText(each, given[each.key] ?? each.default)).filter(Boolean);
  return `${adds} (${said.join(", ")})`;
}

/** Return a parameter and its value; nothing where it is left out, or is what nobody changed. @param {Parameter} one */
export function parameterText(one, value) {
  if (value === null || value === undefined) return "";
  const name = symbolText(one.symbol);
  if (one.kind === "switch") return value === (one.default ?? false) ? "" : `${value ? "" : "not "}${words(one.key)}`;
  if (one.kind === "choice") return value === one.default ? "" : `${words(one.key)}: ${words(value)}`;
  if (one.kind === "graph") return `${words(one.key)}: ${words(value)}`;
  if (one.kind === "scores") return `${words(one.key)} of ${value.length} × ${value.length} numbers`;
  if (one.kind === "matrix") return `${name} = ${matrixText(value)}`;
  // What has no field is only named.
  if (typeof value === "object") return name;
  return `${name} = ${value === 0 && one.at_zero ? `0 (${one.at_zero})` : valueText(value)}`;
}

/** A symbol in letters: β for beta. @param {string} symbol */
export const symbolText = (symbol) => make("span", {}, ...typeset(symbol)).textContent;

const digits = (/** @type {number} */ value) => written(value, 6);

/** A number, or a formula in t as it was given, with signs and powers as they are printed. */
function valueText(/** @type {number | string} */ value) {
  if (typeof value === "number") return digits(value);
  if (value === "inf") return "∞";
  const powers = value.replaceAll("**", "^").replace(/\^(\d)(?![\d.])/g, (_, k) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[k]);
  return powers.replaceAll("*", "·").replaceAll("-", "−");
}

/** Say a matrix in short. @param {number[][]} m */
function matrixText(m) {
  const diagonal = m.every((row, i) => row.every((x, j) => i === j || x === 0));
  const [first] = m[0];
  if (diagonal && m.every((row, i) => row[i] === first))
    return first === 1 ? "I" : first === -1 ? "−I" : `${digits(first)} I`;
  if (diagonal) return `diag(${m.map((row, i) => digits(row[i])).join(", ")})`;
  return `(${m.map((row) => row.map(digits).join(" ")).join("; ")})`;
}
