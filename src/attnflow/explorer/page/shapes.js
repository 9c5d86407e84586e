// Plane geometry of the picture, in pixels or in units: hulls, outlines around points, the nearest point.

/**
 * Return the indices of the corners of the hull of n points, counterclockwise for a y axis that points up.
 * @param {ArrayLike<number>} xy x and y of each point in turn
 * @param {ArrayLike<number>} [members] indices of the points; all of them when left out
 */
export function hull(xy, members) {
  const order = members ? Array.from(members) : Array.from({ length: xy.length / 2 }, (_, i) => i);
  order.sort((i, j) => xy[2 * i] - xy[2 * j] || xy[2 * i + 1] - xy[2 * j + 1]);
  const turn = (/** @type {number} */ i, /** @type {number} */ j, /** @type {number} */ k) =>
    (xy[2 * j] - xy[2 * i]) * (xy[2 * k + 1] - xy[2 * i + 1]) -
    (xy[2 * j + 1] - xy[2 * i + 1]) * (xy[2 * k] - xy[2 * i]);
  /** @type {number[][]} */
  const chains = [[], []];
  for (const [side, chain] of chains.entries()) {
    for (const k of side === 0 ? order : order.toReversed()) {
      while (chain.length > 1 && turn(chain[chain.length - 2], chain[chain.length - 1], k) <= 0) chain.pop();
      chain.push(k);
    }
    if (chain.length > 1) chain.pop();
  }
  const corners = [...chains[0], ...chains[1]];
  // All points in one place: one corner.
  const [i, j] = corners;
  const same = xy[2 * i] === xy[2 * j] && xy[2 * i + 1] === xy[2 * j + 1];
  return corners.length === 2 && same ? [i] : corners;
}

/**
 * Return the outline at distance r around the hull of some points, as a polygon x, y, x, y...
 * @param {ArrayLike<number>} xy @param {ArrayLike<number>} members @param {number} r
 */
export function around(xy, members, r) {
  const corners = hull(xy, members);
  const count = corners.length;
  const outline = [];
  const bends = 8;
  for (let c = 0; c < count; c++) {
    const [i, before, after] = [corners[c], corners[(c + count - 1) % count], corners[(c + 1) % count]];
    // The outward normals of the two sides that meet here; a corner rounds from one to the other.
    const from = Math.atan2(-(xy[2 * i] - xy[2 * before]), xy[2 * i + 1] - xy[2 * before + 1]);
    const to = Math.atan2(-(xy[2 * after] - xy[2 * i]), xy[2 * after + 1] - xy[2 * i + 1]);
    const bend = count === 1 ? 2 * Math.PI : (to - from + 4 * Math.PI) % (2 * Math.PI);
    const steps = count === 1 ? 4 * bends : Math.max(1, Math.ceil((bends * bend) / Math.PI) * 2);
    // Corners of the polygon lie outside the arc, so that its sides do not cut into it.
    const far = r / Math.cos(bend / steps / 2);
    for (let k = 0; k < steps; k++) {
      const angle = from + (bend * (k + 0.5)) / steps;
      outline.push(xy[2 * i] + far * Math.cos(angle), xy[2 * i + 1] + far * Math.sin(angle));
    }
  }
  return outline;
}

/**
 * Return which of n points is nearest to (x, y) within a radius, or -1; of several in one place the last, which is
 * drawn on top.
 * @param {ArrayLike<number>} xy @param {number} n @param {number} x @param {number} y @param {number} radius
 */
export function nearest(xy, n, x, y, radius) {
  let best = -1;
  let least = radius * radius;
  for (let i = 0; i < n; i++) {
    const square = (xy[2 * i] - x) ** 2 + (xy[2 * i + 1] - y) ** 2;
    if (square <= least) [best, least] = [i, square];
  }
  return best;
}

/** Return the area of a polygon, positive if it turns from the x axis to the y axis. @param {ArrayLike<number>} xy */
export function area(xy) {
  let twice = 0;
  for (let k = 0, m = xy.length; k < m; k += 2) twice += xy[k] * xy[(k + 3) % m] - xy[(k + 2) % m] * xy[k + 1];
  return twice / 2;
}

/**
 * Put in `out` how many of n points are where each is, up to a pixel.
 * @param {ArrayLike<number>} xy @param {number} n @param {Int32Array} out
 */
export function met(xy, n, out) {
  /** @type {Map<number, number>} */
  const count = new Map();
  for (let i = 0; i < n; i++) count.set(pixel(xy, i), (count.get(pixel(xy, i)) ?? 0) + 1);
  for (let i = 0; i < n; i++) out[i] = count.get(pixel(xy, i)) ?? 1;
  return out;
}

/** Return a number for the pixel of point i. @param {ArrayLike<number>} xy @param {number} i */
const pixel = (xy, i) => Math.round(xy[2 * i]) * 1e6 + Math.round(xy[2 * i + 1]);

/**
 * Return for each point the sum of the values of all points where it is, up to a pixel.
 * @param {ArrayLike<number>} xy @param {ArrayLike<number>} values
 */
export function summed(xy, values) {
  /** @type {Map<number, number>} */
  const sums = new Map();
  for (let i = 0; i < values.length; i++) sums.set(pixel(xy, i), (sums.get(pixel(xy, i)) ?? 0) + values[i]);
  return Float64Array.from({ length: values.length }, (_, i) => sums.get(pixel(xy, i)) ?? 0);
}
