// Round numbers on axes, and how numbers are written.

/** At most MOST ticks are drawn; ticks that are nearer than APART roundings of a number cannot be told apart. */
const [MOST, APART] = [200, 8];

/** Return the round distance (1, 2 or 5 times a power of ten) that divides a length in about `parts` parts. */
export function roundStep(/** @type {number} */ length, /** @type {number} */ parts) {
  const rough = length / Math.max(parts, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  for (const lead of [1, 2, 5]) if (lead * power >= rough * (1 - 1e-9)) return lead * power;
  return 10 * power;
}

/** Return the round numbers from low to high, about `parts` of them. */
export function ticks(/** @type {number} */ low, /** @type {number} */ high, /** @type {number} */ parts) {
  if (!Number.isFinite(high - low)) return [];
  if (!(high > low)) return [low];
  const step = roundStep(high - low, parts);
  if (!(step > APART * Number.EPSILON * Math.max(Math.abs(low), Math.abs(high)))) return [];
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.min(Math.floor(high / step + 1e-9) - first + 1, MOST);
  return Array.from({ length: Math.max(count, 0) }, (_, k) => rounded((first + k) * step, step));
}

/** Multiples of a step such as 0.1 are written as they are meant: 0.3, not 0.30000000000000004. */
function rounded(/** @type {number} */ value, /** @type {number} */ step) {
  const digits = Math.max(0, -Math.floor(Math.log10(step)));
  return digits > 20 ? value : Number(value.toFixed(digits)) + 0;
}

/** Return 0, 1, 10, 100... up to the length of a run, for long runs not all of them, for short runs also 2, 5... */
export function decades(/** @type {number} */ length) {
  if (!(length > 0)) return [0];
  if (length < 1) return ticks(0, length, 4);
  const most = Math.floor(Math.log10(length) + 1e-12);
  const found = [0];
  const leads = most < 2 ? [1, 2, 5] : [1];
  for (let power = 0; power <= most; power += 1 + Math.floor(most / 8))
    for (const lead of leads) if (lead * 10 ** power <= length) found.push(lead * 10 ** power);
  return found;
}

/** Return a power of ten as it is written: 10⁻⁹. @param {string} power */
export const powerOfTen = (power) =>
  `10${String(Number(power)).replace(/./g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(c)]))}`;

/** Return a number as it is written at a tick: plain up to a few digits, else with a power of ten. */
export function written(/** @type {number} */ value, digits = 3) {
  const size = Math.abs(value);
  const sign = value < 0 ? "−" : "";
  if (size === 0) return "0";
  if (size >= 1e-3 && size < 1e4) return sign + String(Number(size.toPrecision(digits)));
  const [lead, power] = size.toExponential(digits - 1).split("e");
  return `${sign}${Number(lead) === 1 ? "" : `${Number(lead)} × `}${powerOfTen(power)}`;
}

/** Return a point as it is written: (0.31, −0.2). @param {ArrayLike<number>} point */
export function place(point) {
  const numbers = Array.from(point, (value) => written(value));
  return numbers.length === 1 ? numbers[0] : `(${numbers.join(", ")})`;
}
