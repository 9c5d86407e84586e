// Whom one token hears, on the stage: a line to each, as wide as its weight, and an arrow to their mean.

import { colour } from "./colours.js";
import { polygon, segments, through } from "./sheet.js";
import { written } from "./ticks.js";

/**
 * @import { Row } from "./row_requests.js"
 * @import { Draw, Scene } from "./scene.js"
 * @import { Sheet } from "./sheet.js"
 * @typedef {(point: number[]) => ArrayLike<number>} Project
 */

/** The width of a line of weight 0, and what weight 1 adds, in pixels. */
const [THIN, WIDE] = [0.6, 11.4];
/** How much of its colour a line of weight 0 has, and what weight 1 adds. */
const [FAINT, STRONG] = [0.4, 0.5];
/** The row of the token before stays for KEEP milliseconds, so that nothing flickers between two tokens; a row of
 * another frame than the one shown at rest is drawn for LATE milliseconds. */
const [KEEP, LATE] = [200, 400];
/** A line to a token on the same vertical bends by this part of its length, in BENDS pieces. */
const [BEND, BENDS] = [0.28, 14];
/** The loop of a token that hears itself, and the head of the arrow, in pixels. */
const [LOOP, HEAD] = [9, 9];

/** Return the width of the line of a weight: it grows with its size. @param {number} part between 0 and 1 */
export const lineWidth = (part) => THIN + WIDE * part;

/** Return what a weight of 1 counts: weights that are no probabilities may be larger. @param {number[]} weights */
export const largest = (weights) => weights.reduce((most, weight) => Math.max(most, Math.abs(weight)), 1);

/** Return to which side of the time shown lines bend on the line: where there is more room. @param {Scene} scene */
export const bendSide = ({ screen, eye }) => (screen[0] - eye.left > eye.right - screen[0] ? -1 : 1);

/**
 * Return the way on the screen from one token to another: straight, but bent on the line, where all tokens are one above
 * the other.
 * @param {Scene} scene @param {number} i @param {number} j @returns {number[]} x, y, x, y...
 */
export function way(scene, i, j) {
  const { screen, d, eye } = scene;
  const [x, y, u, v] = [screen[2 * i], screen[2 * i + 1], screen[2 * j], screen[2 * j + 1]];
  if (d !== 1) return [x, y, u, v];
  const room = Math.max(x - eye.left, eye.right - x) - 12;
  const far = bendSide(scene) * Math.min(BEND * Math.abs(v - y) + 12, room);
  const points = [];
  for (let k = 0; k <= BENDS; k++) {
    const s = k / BENDS;
    points.push(x + 4 * s * (1 - s) * far, y + s * (v - y));
  }
  return points;
}

/** @param {Scene} scene @param {() => void} ask to be asked for another picture */
export function createShownRow(scene, store, ask) {
  const { player } = scene;
  /** @type {Row | null} */
  let shown = null;
  let [looked, since, late] = [-1, 0, 0];

  /** Return whether a row is of what is on the screen, or nearly. @param {Row} row @param {boolean} held */
  function timely(row, held) {
    const exact = row.run === store.run?.id && row.frame === player.frameIndex();
    if (exact || held || player.playing) {
      late = 0;
      return true;
    }
    if (late === 0) {
      late = performance.now();
      setTimeout(ask, LATE + 10);
    }
    return performance.now() - late < LATE;
  }

  return {
    /** Return the row that is to be drawn. @param {number} token that is looked at @param {boolean} held */
    update(token, held) {
      const now = performance.now();
      if (token !== looked) {
        [looked, since] = [token, now];
        if (shown) setTimeout(ask, KEEP + 10);
      }
      const row = /** @type {Row | null} */ (store.row);
      const { n } = scene;
      const fits = row && row.token === token && token < n && !row.why && Math.max(...row.heard) < n;
      if (fits && timely(row, held)) shown = row;
      else if (token < 0 || now - since >= KEEP || (shown && shown.token === token)) shown = null;
      return shown && shown.token < n && Math.max(...shown.heard) < n ? shown : null;
    },
  };
}

/** Draw a line to each token that is heard, under the tokens. @type {Draw} */
export function lines(sheet, scene) {
  const { row, screen, labels, tone, middle, sizes } = scene;
  if (!row) return;
  const most = largest(row.weights);
  const { token: i } = row;
  sheet.group("attention");
  // The widest come last.
  for (let k = row.heard.length - 1; k >= 0; k--) {
    const [j, weight] = [row.heard[k], row.weights[k]];
    const part = Math.abs(weight) / most;
    sheet.begin();
    if (j === i) loop(sheet, screen[2 * i], screen[2 * i + 1], sizes[i], middle);
    else through(sheet, way(scene, i, j));
    const dash = weight < 0 ? [5, 4] : undefined;
    const style = { stroke: colour(labels[j], tone), width: lineWidth(part), alpha: FAINT + STRONG * Math.sqrt(part) };
    sheet.paint({ ...style, dash, cap: "round" });
  }
}

/** Go around a loop beside a token, on the side away from the middle. @param {Sheet} sheet @param {number[]} middle */
function loop(sheet, /** @type {number} */ x, /** @type {number} */ y, /** @type {number} */ r, middle) {
  const [dx, dy] = [x - middle[0], y - middle[1]];
  const length = Math.hypot(dx, dy);
  const [u, v] = length > 1 ? [dx / length, dy / length] : [0, -1];
  const far = r + LOOP - 3;
  for (let k = 0; k <= 24; k++) {
    const angle = (k * Math.PI) / 12;
    const point = [x + far * u + LOOP * Math.cos(angle), y + far * v + LOOP * Math.sin(angle)];
    k === 0 ? sheet.move(point[0], point[1]) : sheet.line(point[0], point[1]);
  }
}

/** Draw the arrow to where attention pulls a token: sum_j P_ij x_j. @param {Sheet} sheet @param {Scene} scene
 * @param {Project} project */
export function arrow(sheet, scene, project) {
  const { row, screen, tone, d } = scene;
  if (!row || !row.mean.every(Number.isFinite)) return;
  const [x, y] = [screen[2 * row.token], screen[2 * row.token + 1]];
  const end = project(row.mean);
  // On the line, positions are heights at the time shown.
  const [u, v] = [d === 1 ? x : end[0], end[1]];
  sheet.group("mean");
  const far = Math.hypot(u - x, v - y);
  if (far > 1e5) return;
  const ink = tone.palette[1];
  if (far > 4) {
    const [cos, sin] = [(u - x) / far, (v - y) / far];
    const head = Math.min(HEAD, far);
    const [a, b] = [u - head * cos, v - head * sin];
    const half = 0.5 * head;
    const tip = [u, v, a - half * sin, b + half * cos, a + half * sin, b - half * cos];
    for (const style of [{ stroke: tone.paper, width: 5 }, { stroke: ink, width: 2.4 }])
      segments(sheet, [[x, y, a, b]], { ...style, cap: "round" });
    polygon(sheet, tip);
    sheet.paint({ fill: ink, stroke: tone.paper });
  } else sheet.disc(u, v, 4, { fill: ink, stroke: tone.paper, width: 1.2 });
}

/** Say whom a token hears, line by line. @param {Row} row */
export function heardWords({ token, heard, weights, rest, carry, turned }) {
  if (!heard.length) return ["hears nobody"];
  const found = [];
  const name = (/** @type {number} */ j) => (j === token ? "itself" : `token ${j}`);
  const alike = weights.filter((weight) => weight === weights[0]).length;
  const count = heard.length + rest[0];
  if (count === 1) found.push(`hears ${name(heard[0])} alone`);
  else if (alike === 1) found.push(`hears ${name(heard[0])} most: ${written(weights[0])}`);
  else if (alike === 2) found.push(`hears ${name(heard[0])} and ${name(heard[1])} alike: ${written(weights[0])} each`);
  else if (rest[0] === 0) found.push(`hears ${alike} tokens alike: ${written(weights[0])} each`);
  else found.push(`hears many tokens alike: ${written(weights[0])} each`);
  if (carry !== null && count > alike)
    found.push(`${carry} ${carry === 1 ? "token carries" : "tokens carry"} 90 percent`);
  if (rest[0] > 0) found.push(`${rest[0]} more, not drawn, have ${written(rest[1])} together`);
  if (turned) found.push("arrow: the mean of these, before V");
  return found;
}
