// Runs that are seen in a moving frame: their tokens are called z, and a corner of the picture says what z is.

/** @import { Draw } from "./scene.js" */

/** @type {Record<string, string>} */
const HIGH = { "-": "⁻", "+": "⁺", " ": "", t: "ᵗ", k: "ᵏ", V: "ⱽ", n: "ⁿ", i: "ⁱ", T: "ᵀ" };
/** @type {Record<string, string>} */
const LOW = { i: "ᵢ", j: "ⱼ", k: "ₖ", t: "ₜ" };

/**
 * Return text in high or low letters; null if it has others than are known.
 * @param {string} text @param {Record<string, string>} known @param {string} digits
 */
function set(text, known, digits) {
  /** @type {(string | undefined)[]} */
  const letters = [...text].map((one) => known[one] ?? digits[Number(one)]);
  return letters.includes(undefined) ? null : letters.join("");
}

/** Return a formula in plain letters: z_i = e^{-t V} x_i is zᵢ = e⁻ᵗⱽ xᵢ. @param {string} formula */
export function inLetters(formula) {
  return formula
    .replace(/\^(?:\{([^{}]*)\}|(-?\w))/g, (whole, many, one) => set(many ?? one, HIGH, "⁰¹²³⁴⁵⁶⁷⁸⁹") ?? whole)
    .replace(/_(\w)/g, (whole, one) => set(one, LOW, "₀₁₂₃₄₅₆₇₈₉") ?? whole)
    .replaceAll(" - ", " − ");
}

/** Say in the corner what the tokens are, where they are seen in a moving frame. @type {Draw} */
export function frameNote(sheet, { frame, tone, d }) {
  if (!frame) return;
  sheet.group("frame");
  const [x, y] = d === 1 ? [66, 12] : [14, 18];
  sheet.text(x, y, inLetters(frame), { fill: tone.quiet, size: 15, italic: true, halo: tone.paper });
}
