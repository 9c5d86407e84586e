// How tokens are placed by hand: mirrored in the axes, on a grid, along strokes. The same for every stage of the page.

import { roundStep } from "./ticks.js";

/** Which mirrors and whether the grid are on. */
export const placing = { mirrorX: false, mirrorY: false, snap: false };

/** Pixels between lines of the grid, at least; between tokens of a stroke; and degrees on the circle. */
const [GRID, SPACING, DEGREES] = [24, 18, 15];
/** Tokens are mirror images of each other up to this part of their size. */
const ALIKE = 1e-9;

/** Return the distance of the lines of the grid. @param {{scale: number}} eye */
export const gridStep = ({ scale }) => roundStep(GRID / scale, 1);

/** Return how many pixels a key moves a token on the grid, at least; 0 if it is off. @param {{scale: number}} eye */
export function leastStride(eye, /** @type {boolean} */ sphere) {
  if (!placing.snap) return 0;
  return eye.scale * (sphere ? (Math.PI / 180) * DEGREES : gridStep(eye));
}

/** Return the point of the grid that is nearest, if the grid is on. @param {number[]} point */
export function snapped(point, /** @type {{scale: number}} */ eye, /** @type {boolean} */ sphere) {
  if (!placing.snap) return point;
  if (sphere) {
    if (point.length !== 2) return point;
    const part = (Math.PI / 180) * DEGREES;
    const angle = part * Math.round(Math.atan2(point[1], point[0]) / part);
    return [Math.cos(angle), Math.sin(angle)];
  }
  const step = gridStep(eye);
  return point.map((value) => Number((Math.round(value / step) * step).toPrecision(12)) + 0);
}

/** Return the mirrors that are on, as signs of the coordinates: that of both comes from two. @param {number} d */
function mirrors(d) {
  const across = (/** @type {boolean} */ x, /** @type {boolean} */ y) =>
    Array.from({ length: d }, (_, c) => ((c === 0 && y) || (c === 1 && x) ? -1 : 1));
  // Tokens on the line have one axis, which every mirror turns around.
  if (d === 1) return placing.mirrorX || placing.mirrorY ? [[-1]] : [];
  const found = [];
  if (placing.mirrorX) found.push(across(true, false));
  if (placing.mirrorY) found.push(across(false, true));
  if (placing.mirrorX && placing.mirrorY) found.push(across(true, true));
  return found;
}

/** @param {number[]} point @param {number[]} signs */
const image = (point, signs) => point.map((value, c) => signs[c] * value + 0);

/** @param {number[]} a @param {number[]} b */
const alike = (a, b) => Math.hypot(...a.map((value, c) => value - b[c])) <= ALIKE * (1 + Math.hypot(...a));

/** Return a point with its mirror images, each once. @param {number[]} point */
export function withImages(point) {
  const found = [point];
  for (const signs of mirrors(point.length)) {
    const other = image(point, signs);
    if (!found.some((one) => alike(one, other))) found.push(other);
  }
  return found;
}

/**
 * Return the tokens that are mirror images of token i, each with the signs of its mirror.
 * @param {number[][]} rows @param {number} i @returns {{j: number, signs: number[]}[]}
 */
export function partners(rows, i) {
  /** @type {{j: number, signs: number[]}[]} */
  const found = [];
  for (const signs of mirrors(rows[i].length)) {
    const other = image(rows[i], signs);
    const taken = (/** @type {number} */ j) => j === i || found.some((one) => one.j === j);
    const j = alike(other, rows[i]) ? -1 : rows.findIndex((row, k) => !taken(k) && alike(row, other));
    if (j >= 0) found.push({ j, signs });
  }
  return found;
}

/**
 * Return rows in which token i is at a point, and its partners at the images of it.
 * @param {number[][]} rows @param {number} i @param {number[]} point @param {ReturnType<typeof partners>} those
 */
export function moved(rows, i, point, those) {
  const next = [...rows];
  next[i] = point;
  for (const { j, signs } of those) if (next[j]) next[j] = image(point, signs);
  return next;
}

/** Follow a pointer, and return the pixels at which it drops tokens, evenly spaced. */
export function createStroke(/** @type {number} */ x, /** @type {number} */ y) {
  let [lastX, lastY] = [x, y];
  return (/** @type {number} */ toX, /** @type {number} */ toY) => {
    const found = [];
    for (;;) {
      const far = Math.hypot(toX - lastX, toY - lastY);
      if (far < SPACING) return found;
      lastX += ((toX - lastX) * SPACING) / far;
      lastY += ((toY - lastY) * SPACING) / far;
      found.push([lastX, lastY]);
    }
  };
}
