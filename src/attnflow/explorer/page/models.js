// The laws, motions and clouds that can be chosen: their names, formulas, and what they start from.

export const LAWS = [
  ["softmax", "Softmax to hardmax"],
  ["localmax", "Localmax"],
  ["hegselmann-krause", "Hegselmann–Krause"],
];
export const MOTIONS = [
  ["Layers", [
    ["layers", "Averaging layers"],
    ["residual", "Residual layers"],
    ["rescaled-layers", "Residual layers, rescaled"],
    ["sphere-layers", "Layers on the sphere"],
    ["leaps", "Many layers at once"],
    ["jumps", "Random jumps"],
  ]],
  ["Flows", [
    ["flow", "Flow"],
    ["rescaled-flow", "Flow, rescaled"],
    ["sphere-flow", "Flow on the sphere"],
    ["hardmax-flow", "Hardmax flow, exact"],
  ]],
];
/** Motions that keep tokens at length 1. */
export const SPHERES = ["sphere-flow", "sphere-layers"];
export const CLOUDS = [
  ["gaussian", "Gaussian"],
  ["uniform", "Uniform in the cube"],
  ["sphere", "On the sphere"],
  ["polygon", "Regular polygon"],
  ["grid", "Grid"],
  ["orthogonal", "Orthogonal"],
];

/**
 * What a table holds under a name that came from elsewhere, such as a link.
 * @template T
 * @param {Record<string, T>} table
 * @param {string} name
 */
export const entry = (table, name) => (Object.hasOwn(table, name) ? table[name] : undefined);

const SCORE = "⟨<i>Bx<sub>i</sub></i>, <i>x<sub>j</sub></i>⟩";
const LARGEST = "<i>M<sub>i</sub></i>";
const STEP = "<i>x<sub>i</sub></i> ← <i>x<sub>i</sub></i> + ";
const FLOW = "<i>x<sub>i</sub></i>′ = <i>V m<sub>i</sub></i>";
const PULL = "(<i>m<sub>i</sub></i> − <i>x<sub>i</sub></i>)";
/** @type {Record<string, string>} */
const SLACK = {
  additive: "<i>δ</i>",
  relative: "<i>δ M<sub>i</sub></i>",
  normalized: "<i>δ</i> |<i>Bx<sub>i</sub></i>|",
};

/** @type {Record<string, (law: any) => string>} */
export const LAW_FORMULAS = {
  softmax: ({ beta }) =>
    beta === "inf"
      ? `token <i>i</i> hears the <i>j</i> that maximise ${SCORE}`
      : `<i>P<sub>ij</sub></i> ∝ exp(<i>β</i> ${SCORE})`,
  localmax: ({ threshold }) =>
    `${SCORE} ≥ ${LARGEST} − ${entry(SLACK, threshold) ?? SLACK.additive}, ${LARGEST} the largest`,
  "hegselmann-krause": () => "|<i>x<sub>i</sub></i> − <i>x<sub>j</sub></i>| ≤ <i>ε</i>",
};
/** @type {Record<string, (motion: any) => string>} */
export const MOTION_FORMULAS = {
  layers: ({ alpha, V }) =>
    V
      ? `${STEP}(<i>I</i> + <i>V</i>)<sup>−1</sup><i>V</i> ${PULL}`
      : alpha !== undefined
        ? `${STEP}<sup><i>α</i></sup>⁄<sub>1 + <i>α</i></sub> ${PULL}`
        : `${STEP}<i>γ</i> ${PULL}`,
  residual: () => `${STEP}d<i>t</i> <i>V m<sub>i</sub></i>`,
  "rescaled-layers": () => `residual layers in the frame of (<i>I</i> + d<i>t</i> <i>V</i>)<sup><i>k</i></sup>`,
  "sphere-layers": () => `${STEP}d<i>t</i> <i>V m<sub>i</sub></i>, then to length 1`,
  flow: () => FLOW,
  "rescaled-flow": () => `<i>z<sub>i</sub></i> = e<sup>−<i>tV</i></sup><i>x<sub>i</sub></i>, where ${FLOW}`,
  "sphere-flow": () => `${FLOW}, tangent part`,
  "hardmax-flow": () => "<i>x<sub>i</sub></i>′ = <i>m<sub>i</sub></i> − <i>x<sub>i</sub></i>",
  jumps: () => `${STEP}<i>γ</i> (<i>x<sub>j</sub></i> − <i>x<sub>i</sub></i>), drawn by <i>P<sub>ij</sub></i>`,
  leaps: () => `${STEP}<i>γ</i> ${PULL}, up to 10<sup>25</sup> times`,
};

/** What a law or motion starts from when it is chosen. @type {Record<string, any>} */
export const FRESH = {
  softmax: { name: "softmax", beta: 4, B: null },
  localmax: { name: "localmax", delta: 0.1, threshold: "additive", B: null },
  "hegselmann-krause": { name: "hegselmann-krause", eps: 1 },
  layers: { name: "layers", gamma: 0.5 },
  residual: { name: "residual", dt: 0.1, V: null },
  "rescaled-layers": { name: "rescaled-layers", dt: 0.1, V: null },
  "sphere-layers": { name: "sphere-layers", dt: 0.1, V: null },
  flow: { name: "flow", V: null },
  "rescaled-flow": { name: "rescaled-flow", V: null },
  "sphere-flow": { name: "sphere-flow", V: null, normalized: true },
  "hardmax-flow": { name: "hardmax-flow" },
  jumps: { name: "jumps", gamma: 0.1 },
  leaps: { name: "leaps", gamma: 0.1 },
};
/** When to end motions that need less time than layers. @type {Record<string, number>} */
export const UNTIL = { flow: 3, "rescaled-flow": 10, "sphere-flow": 20, "hardmax-flow": 10 };
/** Which numbers a cloud is made from. @type {Record<string, string[]>} */
export const KEYS = {
  gaussian: ["n", "d", "seed"],
  uniform: ["n", "d", "seed"],
  sphere: ["n", "d", "seed"],
  polygon: ["k"],
  grid: ["k", "d"],
  orthogonal: ["n", "d"],
};

/** beta = 4 s / (1 - s): 0 at 0, 4 in the middle, infinity at 1. @param {number} s */
export function betaOf(s) {
  return s >= 1 ? "inf" : Number(((4 * s) / (1 - s)).toPrecision(3));
}

/** @param {any} beta @returns {number | null} where the slider stands; null for a formula */
export function slideOf(beta) {
  if (beta === "inf") return 1;
  return typeof beta === "number" && beta >= 0 ? beta / (4 + beta) : null;
}
