// Boxes around tokens: which part of space the picture shows.

/** @typedef {{low: number[], high: number[]}} Box */

/** A run that goes further than this many times the start is not seen as a whole: the picture goes with the tokens. */
const RUNAWAY = 4;

/**
 * Return the least box that holds tokens, or extend another one to it.
 * @param {ArrayLike<number>} tokens @param {number} d @param {Box} [box]
 */
export function boxOf(tokens, d, box = { low: new Array(d).fill(Infinity), high: new Array(d).fill(-Infinity) }) {
  for (let c = 0; c < d; c++) {
    let [low, high] = [box.low[c], box.high[c]];
    for (let i = c; i < tokens.length; i += d) {
      low = Math.min(low, tokens[i]);
      high = Math.max(high, tokens[i]);
    }
    [box.low[c], box.high[c]] = [low, high];
  }
  return box;
}

/** Return the longest side of a box. @param {Box} box */
export const longestSide = ({ low, high }) => Math.max(...low.map((value, c) => high[c] - value));

/** Return whether a run goes too far to be seen as a whole. @param {Box} start @param {Box | null} whole */
export const runsAway = (start, whole) => whole !== null && !(longestSide(whole) <= RUNAWAY * longestSide(start));

/** Return how far a box is from another, as a part of the size of that. @param {Box} a @param {Box} b */
export function gap(a, b) {
  const gaps = b.low.map((low, c) => Math.max(Math.abs(low - a.low[c]), Math.abs(b.high[c] - a.high[c])));
  return Math.max(...gaps) / longestSide(b);
}

/** Return the box that is a part of the way from one to another. @param {Box} a @param {Box} b @param {number} part */
export function between(a, b, part) {
  const mixed = (/** @type {"low" | "high"} */ side) => a[side].map((value, c) => value + part * (b[side][c] - value));
  return { low: mixed("low"), high: mixed("high") };
}

/** Return the box around two, or the first when the other has no end. @param {Box} a @param {Box} b */
export function joined(a, b) {
  if (!Number.isFinite(longestSide(b))) return a;
  const low = a.low.map((value, c) => Math.min(value, b.low[c]));
  return { low, high: a.high.map((value, c) => Math.max(value, b.high[c])) };
}

/**
 * Return the box that the picture shows by itself: of the start, and of what else is to be seen.
 * @param {Box} start @param {Box | null} other of the run, or of the tokens when that runs away @param {boolean} sphere
 */
export function shownBox(start, other, sphere) {
  const d = start.low.length;
  if (sphere) return { low: new Array(d).fill(-1), high: new Array(d).fill(1) };
  return roundedBox(other && other.low.length === d ? joined(start, other) : start);
}

/**
 * Return a box that holds another with little room to spare, on a coarse grid: it stays the same while tokens move a
 * little.
 * @param {Box} box
 */
export function roundedBox({ low, high }) {
  const d = low.length;
  const halves = low.map((value, c) => (high[c] - value) / 2);
  const size = Math.max(...low.map(Math.abs), ...high.map(Math.abs));
  // Points in one place still get a picture, and so does a cloud on a line; space is a cube.
  const most = Math.max(...halves) || Math.max(0.5, 1e-3 * size);
  const least = most * [1, 1, 0.5, 1][d];
  const grid = 2 ** Math.ceil(Math.log2(most)) / 8;
  const middle = low.map((value, c) => Math.round((value + high[c]) / 2 / grid) * grid);
  const found = halves.map((half, c) => {
    const needed = Math.max(half, least) + Math.abs((low[c] + high[c]) / 2 - middle[c]);
    return 2 ** (Math.ceil(4 * Math.log2(needed) - 1e-9) / 4);
  });
  return { low: middle.map((m, c) => m - found[c]), high: middle.map((m, c) => m + found[c]) };
}
