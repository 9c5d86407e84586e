// Formulas in plain letters, as claims are written, set as formulas: indices low, powers high, Greek in Greek.

import { make } from "./elements.js";

/** @type {Record<string, string>} */
const LETTERS = {
  alpha: "α", beta: "β", gamma: "γ", delta: "δ", Delta: "Δ", eps: "ε", epsilon: "ε", eta: "η", kappa: "κ", lambda: "λ",
  mu: "μ", nu: "ν", phi: "φ", Pi: "Π", pi: "π", rho: "ρ", sigma: "σ", tau: "τ", theta: "θ", Theta: "Θ", omega: "ω",
  xi: "ξ", dt: "dt",
};
/** @type {Record<string, string>} */
const SIGNS = {
  sum: "∑", prod: "∏", sqrt: "√", "<=": "≤", ">=": "≥", "!=": "≠", "->": "→", "<-": "←", "~": "∝", "<": "<", "..": "…",
};
const WORDS = new RegExp(
  [
    "([_^])(\\{[^{}]*\\}|-?[A-Za-z0-9*]+)('?)", // an index or a power, perhaps before a prime
    "<([^<>=]*,[^<>=]*)>", // a scalar product
    `\\b(${Object.keys(LETTERS).join("|")})(?![a-z])`,
    "\\b(sum|prod|sqrt)(?![a-z])|(<=|>=|!=|->|<-|~|\\.\\.)",
    // A letter by itself, or a matrix times a vector; a, A and I are words, too.
    "(?<![A-Za-z’'])(?!(?<=\\d)e-?\\d)([B-HJ-Zb-z]|[AI](?= [=>+]|[_^])|[ABV][vxyz])(?![A-Za-z’])",
    "(?<=[\\d\\s]) ?- ?(?=[\\d\\s(])|(?<![A-Za-z\\d])-(?=[\\dA-Za-z|(])", // a minus sign
  ].join("|"),
  "g",
);

/** The same as HTML. @param {string} text */
export const markup = (text) => make("span", {}, ...typeset(text)).innerHTML;

/** @param {string} text */
export function typeset(text) {
  /** @type {(Node | string)[]} */
  const parts = [];
  let from = 0;
  for (const found of text.matchAll(WORDS)) {
    parts.push(text.slice(from, found.index));
    from = found.index + found[0].length;
    const [whole, level, index, prime, product, greek, word, sign, letter] = found;
    if (level) {
      const inner = index.startsWith("{") ? index.slice(1, -1) : index;
      const letters = /^[a-z]{2}$/.test(inner) ? [make("i", {}, inner)] : typeset(inner);
      parts.push(make(level === "_" ? "sub" : "sup", {}, ...letters), prime && "′");
    } else if (product !== undefined) parts.push("⟨", ...typeset(product), "⟩");
    else if (greek) parts.push(make("i", {}, LETTERS[greek]));
    else if (word || sign) parts.push(SIGNS[word || sign]);
    else if (letter) parts.push(make("i", {}, letter));
    else parts.push(whole.replace("-", "−"));
  }
  parts.push(text.slice(from));
  return parts;
}
