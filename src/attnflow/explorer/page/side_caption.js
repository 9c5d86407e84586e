// What a side is: its law and its motion, with their parameters.

import { aroundParameters, atLimit, model, shownParameters } from "./models.js";

/** @import { Parameter } from "./models.js" */

/** Larger matrices are only named. */
const LARGEST = 2;

/** @param {Parameter} one */
function said(one, value) {
  if (value === true) return one.key.replaceAll("_", " ");
  if (Array.isArray(value) && value.length > LARGEST) return `${one.symbol} of ${value.length} rows`;
  return `${one.symbol} = ${typeof value === "string" ? value : JSON.stringify(value)}`;
}

/** Return a law or a motion with its parameters, to be typeset. @param {"law" | "motion"} kind @param {any} given */
export function partText(kind, given) {
  const of = model(kind, given.name);
  const end = kind === "law" ? atLimit(given) : undefined;
  const title = end ? model(kind, end.limit).title : of.title;
  const words = [...shownParameters(of), ...aroundParameters(of)]
    .filter((one) => one !== end && ![undefined, null, false].includes(given[one.key]))
    .map((one) => said(one, given[one.key]));
  return [title || given.name, ...words].join(", ");
}
