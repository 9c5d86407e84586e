// The density of many tokens on the line over time: each column of the picture counts the tokens at its time. Columns
// are counted as their frames come, a few in each picture.

import { emptyCounts, endOf, legend, shade } from "./density.js";
import { make } from "./elements.js";
import { timeAt } from "./line.js";

/** @import { Draw, Scene } from "./scene.js" */

/** In one picture columns are counted for TURN milliseconds. A square has sides of SIDE pixels. */
const [TURN, SIDE] = [10, 2];
/** How strong what is to come is drawn. */
const LATER = 0.45;

export function createTimeDensity() {
  const canvas = make("canvas");
  let counted = emptyCounts(1, 1, SIDE);
  let end = 1;
  /** What the columns were counted for, how many were, and how many are on the canvas, in which colours. */
  const seen = { key: "", columns: 0, shaded: -1, paper: "" };

  /** Count more columns; return whether there are more to count. @param {Scene} scene @returns {boolean} */
  function prepare(scene, turn = TURN) {
    const { eye, player, mode } = scene;
    const key = `${player.id} ${player.n} ${mode.placeKey(scene)} ${scene.width} ${scene.height}`;
    if (key !== seen.key) {
      Object.assign(seen, { key, columns: 0, shaded: -1 });
      counted = emptyCounts(eye.right - eye.left, eye.bottom - eye.top, SIDE, eye.left, eye.top);
    }
    const begun = performance.now();
    while (seen.columns < counted.columns && reached(scene, seen.columns)) {
      countColumn(scene, seen.columns++);
      if (performance.now() - begun > turn) return true;
    }
    return false;
  }

  const timeOf = (/** @type {Scene} */ { eye }, /** @type {number} */ column) =>
    timeAt(eye, eye.left + (column + 0.5) * counted.side);

  /** Whether the frames around a column are there. @param {Scene} scene @param {number} column */
  function reached(scene, column) {
    const { player } = scene;
    return player.count > 0 && (player.done || timeOf(scene, column) <= player.times[player.count - 1]);
  }

  /** Count the tokens at the time of a column: between two frames they are between them. @param {Scene} scene */
  function countColumn(scene, /** @type {number} */ column) {
    const { player, eye } = scene;
    const place = player.at(timeOf(scene, column));
    const k = Math.min(Math.floor(place), player.count - 1);
    const part = k + 1 < player.count ? place - k : 0;
    const [from, to] = [player.frame(k), player.frame(part > 0 ? k + 1 : k)];
    const { counts, columns, rows, side } = counted;
    const [middle, scale] = [(eye.bottom - eye.top) / 2, eye.scale];
    for (let i = 0; i < from.length; i++) {
      const value = from[i] + part * (to[i] - from[i]);
      const row = Math.floor((middle - (value - eye.y) * scale) / side);
      if (row >= 0 && row < rows) counts[row * columns + column] += 1;
    }
  }

  /** @type {Draw} */
  function draw(sheet, scene) {
    const { tone, mode } = scene;
    // A file is not drawn by and by.
    if (!sheet.layer) prepare(scene, Infinity);
    if (seen.shaded !== seen.columns || seen.paper !== tone.paper) {
      end = endOf(counted);
      shade(canvas, counted, end, tone);
    }
    Object.assign(seen, { shaded: seen.columns, paper: tone.paper });
    const { columns, rows, side, left, top } = counted;
    const past = Math.min(Math.max((mode.now(scene) - left) / side, 0), columns);
    sheet.group("density");
    for (const [from, to, alpha] of [[0, past, 1], [past, columns, LATER]]) {
      const place = [left + from * side, top, (to - from) * side, rows * side];
      if (to > from) sheet.image(canvas, [from, 0, to - from, rows], place, alpha);
    }
  }

  /** @type {Draw} */
  function drawLegend(sheet, scene) {
    legend(sheet, scene.tone, { end, alpha: 1 }, SIDE, "px of height", scene.eye.right, 28);
  }

  return { prepare, draw, drawLegend, counted: () => counted };
}
