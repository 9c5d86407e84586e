// The laws, motions and clouds that can be chosen, and the colours: what the server says once, before all else.

/**
 * @typedef {{key: string, kind: string, help: string, symbol: string, default: any, start: any, required: boolean,
 *   shown: boolean, limit: string, at_zero: string, only_for: string, choices: string[], least?: number,
 *   above?: number, most?: number}} Parameter  as in `attnflow.core.parameters`
 * @typedef {{name: string, title: string, summary: string, formula: string | Record<string, string>, surface: string,
 *   alternatives: string[], parameters: Parameter[], around?: Around[], shown?: boolean, discrete?: boolean,
 *   random?: boolean, usual_time?: number, takes_jumping_laws?: boolean, only_law?: string, exact_for?: string,
 *   moving_frame?: boolean,
 *   refuses?: Record<string, Refusal>}} Model
 * @typedef {{sentence: string, motion: string, law: string}} Refusal why a motion does not take a law: in a sentence,
 *   and in a few words for the menu of motions and for that of laws
 * @typedef {{name: string, summary: string, formula: string | Record<string, string>, random: boolean | null,
 *   adds: string, together: boolean, ordered: boolean, parameters: Parameter[]}} Around  what may stand around a law or a motion
 * @typedef {"law" | "motion" | "cloud"} Kind
 */

const answer = await fetch("/catalogue.json");
/** @type {Record<Kind, Model[]> & {first: any, colours: any}} */
const catalogue = await answer.json();
export const { first: FIRST_STATE, colours } = catalogue;

/** @type {Model} what a link may name, and nobody knows */
const UNKNOWN = { name: "", title: "", summary: "", formula: "", surface: "space", alternatives: [], parameters: [] };

/** @param {Kind} kind @param {string} name */
export const model = (kind, name) => catalogue[kind].find((one) => one.name === name) ?? UNKNOWN;

/** @param {Model} of */
export const shownParameters = (of) => of.parameters.filter((one) => one.shown);

/** The parameters of all that may stand around a law or a motion. @param {Model} of */
export const aroundParameters = (of) => (of.around ?? []).flatMap(({ parameters }) => parameters);

/** Whether something stands around what is given: one of its parameters does. @param {Around} one */
export const stands = ({ parameters }, given) => parameters.some(({ key }) => (given[key] ?? false) !== false);

/** Whether tokens move by chance. */
export function isRandom(motion) {
  const { random, around = [] } = model("motion", motion.name);
  return random || around.some((one) => one.random && stands(one, motion));
}

/** @param {Model} of */
export const matrices = (of) => shownParameters(of).filter((one) => one.kind === "matrix");

/** The keys of the numbers that a cloud is made from. @param {string} name */
export const counts = (name) =>
  model("cloud", name).parameters.filter((one) => one.kind === "count").map((one) => one.key);

/** Whether a cloud has at most as many tokens as dimensions: it can do without being told d. @param {string} name */
export const atMostDimension = (name) =>
  model("cloud", name).parameters.some((one) => one.key === "d" && !one.required);

/** Whether a matrix must be written out, also where it is the identity. @param {Model} of @param {Parameter} one */
export const explicit = (of, one) => one.required || of.alternatives.includes(one.key);

/** @param {string} motion */
export const surfaceOf = (motion) => model("motion", motion).surface;

/** The surface that the tokens of some motions must be on, so that each of these takes them. @param {string[]} motions */
export const commonSurface = (motions) => motions.map(surfaceOf).find((surface) => surface !== "space") ?? "space";

/** What the tokens of a motion are in the frame that moves with them, as a formula; nothing where they are themselves. */
export function frameOf(motion) {
  const of = model("motion", motion?.name);
  return of.moving_frame ? formulaFor(of, motion).split(", where")[0] : "";
}

/** What can be chosen, as options of a menu; motions in groups. @param {Kind} kind @returns {any[]} */
export function menu(kind) {
  const titled = (/** @type {Model[]} */ some) => some.map((one) => [one.name, title(kind, one)]);
  const all = catalogue[kind].filter((one) => one.shown ?? true);
  if (kind !== "motion") return titled(all);
  const [layers, flows] = [true, false].map((discrete) => all.filter((one) => one.discrete === discrete));
  return [["Layers", titled(layers)], ["Flows", titled(flows)]];
}

/** A law that turns into another one is called after both. @param {Kind} kind @param {Model} of */
function title(kind, of) {
  const end = of.parameters.find((one) => one.limit);
  return end ? `${of.title} to ${model(kind, end.limit).title.toLowerCase()}` : of.title;
}

/** The parameter at infinity, where the law is another one. @returns {Parameter | undefined} */
export const atLimit = (law) =>
  model("law", law.name).parameters.find((one) => one.limit && law[one.key] === "inf");

/** Whether a motion without parameters has an exact solution under a law. @param {string} motion @param {string} law */
export const solvedExactly = (motion, law) =>
  catalogue.motion.some((one) => one.exact_for === motion && one.only_law === law);

/** A cloud of any size on a surface. @param {string} surface */
export const cloudOn = (surface) =>
  catalogue.cloud.find((one) => one.surface === surface && counts(one.name).includes("seed"))?.name;

/** The formula of what is given, as `Entry.formula_for` says it. @param {Kind} kind @returns {string} */
export function formulaOf(kind, given) {
  const end = kind === "law" && atLimit(given);
  return formulaFor(model(kind, end ? end.limit : given.name), given) + heard(given);
}

/** The formula of a law or a motion, or of what stands around it. @param {Model | Around} of @returns {string} */
export function formulaFor({ formula }, given) {
  if (typeof formula === "string") return formula;
  const said = Object.entries(given).filter(([, value]) => value !== null && value !== undefined).flat();
  return Object.entries(formula).find(([key]) => said.includes(key))?.[1] ?? Object.values(formula)[0];
}

/** Whom a mask lets tokens hear, after the formula of a law. @returns {string} */
function heard({ causal, window, graph }) {
  const joined = graph ? ", i hears j" : "";
  if (window) return (causal ? `, 0 <= i - j < ${window}` : `, |i - j| < ${window}`) + joined;
  return (causal ? ", j <= i" : "") + joined;
}

/** Which of its alternatives a law or motion is given by. @param {Model} of */
export const given = (of, given) =>
  of.alternatives.find((key) => given[key] !== null && given[key] !== undefined) ?? of.alternatives[0];

/**
 * What a law or motion starts from when it is chosen.
 * @param {Kind} kind @param {string} name @param {(size?: number) => number[][]} identity
 */
export function fresh(kind, name, identity) {
  const of = model(kind, name);
  const chosen = shownParameters(of).filter((one) => !of.alternatives.slice(1).includes(one.key));
  return { name, ...Object.fromEntries(chosen.map((one) => [one.key, startOf(of, one, identity)])) };
}

/** @param {Model} of @param {Parameter} one @param {(size?: number) => number[][]} identity @returns {any} */
export function startOf(of, one, identity) {
  if (one.kind === "matrix") return explicit(of, one) ? identity() : null;
  return one.start ?? one.default ?? one.choices[0] ?? one.least ?? 1;
}

/**
 * A law and a motion for tokens in dimension d: matrices of another size are of no use, and start anew.
 * @template {{law: any, motion: any}} Parts @param {Parts} parts @param {number} d @returns {Parts}
 */
export function fitted(parts, d) {
  const identity = () => Array.from({ length: d }, (_, i) => Array.from({ length: d }, (_, j) => Number(i === j)));
  const kinds = /** @type {const} */ (["law", "motion"]);
  const anew = kinds.map((kind) => {
    const [of, given] = [model(kind, parts[kind].name), parts[kind]];
    const wrong = matrices(of).filter(({ key }) => given[key] && given[key].length !== d);
    return Object.fromEntries(wrong.map((one) => [one.key, startOf(of, one, identity)]));
  });
  if (anew.every((some) => Object.keys(some).length === 0)) return parts;
  return { ...parts, law: { ...parts.law, ...anew[0] }, motion: { ...parts.motion, ...anew[1] } };
}

/** middle s / (1 - s): 0 at 0, infinity at 1. @param {number} s @param {number} middle */
export function valueAt(s, middle) {
  return s >= 1 ? "inf" : Number(((middle * s) / (1 - s)).toPrecision(3));
}

/** @param {number} middle @returns {number | null} where a slider stands; null for a formula */
export function placeOf(value, middle) {
  if (value === "inf") return 1;
  return typeof value === "number" && value >= 0 ? value / (middle + value) : null;
}
