// Whether the goal of a step is reached: conditions of a closed set, on what is seen on the screen.
//
// What they mean is said once, in `explorer/story_conditions.py`; conditions that this page does not know are not met.

import { model } from "./models.js";

/**
 * @typedef {{what: string, [key: string]: any}} Condition
 * @typedef {{state: any, rows: number[][], cells: number[] | null, time: number, show: Record<string, boolean>}} Opening
 *   the screen as the step began with it; the cells of its tokens once they are known
 * @typedef {object} Seen
 * @property {any} state
 * @property {Opening} opening
 * @property {number | null} time that is shown of the run of this state, null while that run is not there
 * @property {boolean} playing
 * @property {number[][]} rows of the start
 * @property {number[] | null} cells the corner whose cell each token is in, null where it is not known
 * @property {Record<string, boolean>} show
 * @property {number} chosen
 * @property {number | null} clusters at the end of the run
 * @property {Map<string, any>} claims
 */

const number = (value) => (value === "inf" ? Infinity : typeof value === "boolean" ? Number(value) : (value ?? 0));

/** @param {Condition} one */
function within(one, value) {
  if (typeof value === "string") return value === one.is;
  if (typeof value !== "number") return false;
  const { at_least: least = -Infinity, at_most: most = Infinity, is = value } = one;
  return value >= number(least) && value <= number(most) && value === number(is);
}

/** Whether two values of JSON are the same; what is null counts as left out. @returns {boolean} */
export function same(a, b) {
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object") return (a ?? null) === (b ?? null);
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  return Array.isArray(a) === Array.isArray(b) && [...keys].every((key) => same(a[key], b[key]));
}

/** The tokens that were moved by hand since the step began. @param {Seen} seen */
function moved({ rows, opening }) {
  if (rows.length !== opening.rows.length) return [];
  return [...rows.keys()].filter((i) => !same(rows[i], opening.rows[i]));
}

/** @param {number[]} tokens @param {Condition} one */
const some = (tokens, one) => (one.token === undefined ? tokens.length > 0 : tokens.includes(one.token));

/** @type {Record<string, (one: Condition, seen: Seen) => boolean>} */
const CONDITIONS = {
  parameter(one, { state }) {
    const [part, key] = /** @type {["law" | "motion", string]} */ (one.key.split("."));
    const given = state[part] ?? {};
    // What is left out has its default; what may stand around, such as noise, is absent, and counts as 0.
    const usual = () => model(part, given.name).parameters.find((each) => each.key === key)?.default;
    return within(one, number(given[key] ?? usual()));
  },
  model: (one, { state }) => state[one.part]?.name === one.name,
  unchanged: (one, { state, opening }) => one.parts.every((/** @type {string} */ part) => same(state[part], opening.state[part])),
  // What plays only passes by.
  time: (one, { time, playing }) => within(one, time) && !(playing && "at_most" in one),
  until: (one, { state }) => within(one, state.until),
  clock: (one, { state }) => state.clock === one.name,
  moved: (one, seen) => some(moved(seen), one),
  cell(one, seen) {
    const [now, before] = [seen.cells, seen.opening.cells];
    if (!now || !before) return false;
    return some(moved(seen).filter((i) => now[i] !== before[i] && now[i] >= 0), one);
  },
  overlay: (one, { show }) => Boolean(show[one.name]) === (one.on ?? true),
  chosen: (one, { chosen }) => some(chosen < 0 ? [] : [chosen], one),
  tokens: (one, { rows }) => within(one, rows.length),
  clusters: (one, { clusters }) => within(one, clusters),
  claim(one, { claims }) {
    const found = claims.get(one.claim);
    if (!found?.verdict || found.stale) return false;
    if (one.hypothesis === undefined) return found.verdict.outcome === one.outcome;
    return found.verdict.given.some(({ name, outcome }) => name === one.hypothesis && outcome === one.outcome);
  },
};

/** What conditions can be about. */
export const KNOWN = Object.keys(CONDITIONS);

/** @param {Condition} one @param {Seen} seen */
export const met = (one, seen) => Object.hasOwn(CONDITIONS, one.what) && CONDITIONS[one.what](one, seen);

/** Return the conditions of a goal that are not met. @param {Condition[]} goal @param {Seen} seen */
export const missing = (goal, seen) => goal.filter((one) => !met(one, seen));
