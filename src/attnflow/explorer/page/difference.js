// How far two runs are apart: the largest distance of a token of one run from the same token of the other, and the root
// mean square of these distances, both over time.

/**
 * @import { Player } from "./player.js"
 * @typedef {{largest: number, rms: number, between: boolean}} Distance `between` says that a run has no frame at this
 *   time: a flow is taken in proportion between two frames, layers at the last frame before
 * @typedef {{times: number[], largest: number[], rms: number[], between: boolean}} Difference
 */

/** At most this many differences of coordinates are computed for one chart: with many tokens it has fewer times. */
const MOST = 4e6;
/** Times that differ by a smaller part of a frame are the same. */
const SAME = 1e-9;
/** Motions on the sphere bring tokens there, to rounding. */
const ROUNDING = 1e-12;

/** The frames around a time, and the part of the way between them. @param {Player} player @param {number} t */
function around(player, t) {
  const at = player.at(t);
  const k = Math.floor(at + SAME);
  const inside = at - k > SAME && k + 1 < player.count;
  const moves = inside && !player.discrete;
  return { from: player.frame(k), to: player.frame(moves ? k + 1 : k), part: moves ? at - k : 0, inside };
}

/** Return how far two runs of the same tokens are apart at a time. @param {Player} a @param {Player} b @param {number} t
 * @returns {Distance} */
export function distanceAt(a, b, t) {
  const { n, d } = a;
  const [x, y] = [around(a, t), around(b, t)];
  let [largest, sum] = [0, 0];
  for (let i = 0; i < n; i++) {
    let square = 0;
    for (let c = i * d; c < (i + 1) * d; c++) {
      const here = x.from[c] + x.part * (x.to[c] - x.from[c]);
      const there = y.from[c] + y.part * (y.to[c] - y.from[c]);
      square += (here - there) ** 2;
    }
    largest = Math.max(largest, square);
    sum += square;
  }
  return { largest: Math.sqrt(largest), rms: Math.sqrt(sum / n), between: x.inside || y.inside };
}

/** Return whether two runs can be compared: they start from the same tokens. @param {Player} a @param {Player} b */
export function comparable(a, b) {
  if (a.count === 0 || b.count === 0 || a.n !== b.n || a.d !== b.d) return false;
  const [x, y] = [a.frame(0), b.frame(0)];
  return x.every((value, k) => Math.abs(value - y[k]) <= ROUNDING * Math.max(1, Math.abs(value)));
}

/**
 * Return the times at which two runs are compared: the frames of layers, if there are any, else of the first; as far as
 * both have come.
 * @param {Player} a @param {Player} b
 */
export function comparedTimes(a, b) {
  const layers = [a, b].filter((player) => player.discrete);
  const finest = (layers.length ? layers : [a]).reduce((one, two) => (two.count > one.count ? two : one));
  const last = Math.min(a.times[a.count - 1], b.times[b.count - 1]);
  const times = finest.times.filter((t) => t <= last);
  const stride = Math.ceil((times.length * a.n * a.d) / MOST);
  return stride > 1 ? times.filter((_, k) => k % stride === 0 || k === times.length - 1) : times;
}

/** Return the difference of two runs over time. @param {Player} a @param {Player} b @returns {Difference} */
export function differenceOf(a, b) {
  const times = comparedTimes(a, b);
  const found = times.map((t) => distanceAt(a, b, t));
  return {
    times,
    largest: found.map(({ largest }) => largest),
    rms: found.map(({ rms }) => rms),
    between: found.some(({ between }) => between),
  };
}
