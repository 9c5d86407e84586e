// Tokens in the plane: cells, hulls, trajectories and marks, with light ticks at the edges.

import { faded, tint } from "./colours.js";
import { polygon, segments, through } from "./sheet.js";
import * as marks from "./marks.js";
import { drawGrid } from "./grid.js";
import { area } from "./shapes.js";
import { roundStep, ticks, written } from "./ticks.js";

/**
 * @import { Box } from "./boxes.js"
 * @import { Draw, PixelOf, Scene } from "./scene.js"
 * @typedef {{x: number, y: number, scale: number, width: number, height: number}} Lens what is in the middle of the
 *   picture, and how many pixels a unit has
 * @typedef {{x: number, y: number, zoom: number}} Camera
 */

/** Pixels around the cloud when it is fitted. */
const ROOM = 46;
/** How much of the paper covers cells outside the hull. */
const VEIL = 0.45;
/** A unit has at least LEAST pixels and at most MOST; the distance of the middle from the origin has at most FINEST,
 * as doubles are too coarse for more. */
const [LEAST, MOST, FINEST] = [1e-30, 1e30, 2 ** 50];

/** Return the pixels of a unit, held where numbers near the middle still have room. @param {number[]} middle */
export const heldScale = (/** @type {number} */ scale, ...middle) =>
  Math.max(Math.min(scale, MOST, FINEST / Math.max(...middle.map(Math.abs))), LEAST);

/**
 * Return the lens of a camera, or without one that which fits a box.
 * @param {Box} box @param {number} width @param {number} height @param {Camera | null} camera
 */
export function lens(box, width, height, camera) {
  const half = Math.min(width, height) / 2;
  if (camera && [camera.x, camera.y, camera.zoom].every(Number.isFinite)) {
    const { x, y, zoom } = camera;
    return { x, y, scale: heldScale(zoom * half, x, y), width, height };
  }
  const [spanX, spanY] = [0, 1].map((c) => box.high[c] - box.low[c]);
  // On a small screen the room shrinks with it.
  const room = 2 * Math.min(ROOM, 0.12 * Math.min(width, height));
  const [x, y] = [0, 1].map((c) => (box.low[c] + box.high[c]) / 2);
  const scale = heldScale(Math.min((width - room) / spanX, (height - room) / spanY), x, y);
  return { x, y, scale, width, height };
}

/**
 * Return the pixel of the point that begins at place k of a list of numbers.
 * @param {Lens} eye @param {ArrayLike<number>} numbers @param {number[] | Float64Array} out
 */
export function point(eye, numbers, out = [0, 0], k = 0) {
  out[0] = eye.width / 2 + (numbers[k] - eye.x) * eye.scale;
  out[1] = eye.height / 2 - (numbers[k + 1] - eye.y) * eye.scale;
  return out;
}

/**
 * Return the point at a pixel; on the circle, the nearest one there.
 * @param {Lens} eye @param {number} x @param {number} y @param {ArrayLike<number> | null} _from
 */
export function lift(eye, x, y, _from = null, sphere = false) {
  const found = [eye.x + (x - eye.width / 2) / eye.scale, eye.y - (y - eye.height / 2) / eye.scale];
  const length = Math.hypot(...found);
  return sphere && length > 0 ? found.map((value) => value / length) : found;
}

/** @param {Lens} eye */
export function camera(eye) {
  return { x: eye.x, y: eye.y, zoom: eye.scale / (Math.min(eye.width, eye.height) / 2) };
}

/** Return the camera after the picture was pulled by dx and dy pixels. @param {Lens} eye */
export function pulled(eye, /** @type {number} */ dx, /** @type {number} */ dy) {
  return camera({ ...eye, x: eye.x - dx / eye.scale, y: eye.y + dy / eye.scale });
}

/** Return the camera after zooming about a pixel, which keeps its point. @param {Lens} eye */
export function zoomed(eye, /** @type {number} */ x, /** @type {number} */ y, /** @type {number} */ wanted) {
  const factor = heldScale(eye.scale * wanted, eye.x, eye.y) / eye.scale;
  const [u, v] = lift(eye, x, y);
  return camera({ ...eye, x: u + (eye.x - u) / factor, y: v + (eye.y - v) / factor, scale: eye.scale * factor });
}

/** Put the pixel of token i of frame k in `out`. @type {PixelOf} */
export const at = ({ eye, player }, k, i, out) => point(eye, player.frame(k), out, 2 * i);

/** What a layer of trajectories depends on. @param {Scene} scene */
export const placeKey = ({ eye }) => `${eye.x} ${eye.y} ${eye.scale}`;

/** @param {Scene} scene */
export function aim(scene) {
  scene.eye = lens(scene.box, scene.width, scene.height, scene.camera);
}

/** Put the pixels of all tokens in `scene.screen`. @param {Scene} scene */
export function project(scene) {
  const { eye, tokens, screen, n } = scene;
  const [left, top] = [eye.width / 2, eye.height / 2];
  for (let k = 0; k < 2 * n; k += 2) {
    screen[k] = left + (tokens[k] - eye.x) * eye.scale;
    screen[k + 1] = top - (tokens[k + 1] - eye.y) * eye.scale;
  }
}

/** @type {Draw} */
export function draw(sheet, scene) {
  const { show, eye, tone } = scene;
  if (show.cells && !scene.sphere) cells(marks.overlay(sheet, scene), scene);
  drawGrid(sheet, scene);
  if (scene.dense) scene.density.draw(sheet, scene);
  axes(sheet, scene);
  if (scene.sphere) {
    const [x, y] = point(eye, [0, 0]);
    sheet.group("sphere");
    sheet.disc(x, y, eye.scale, { stroke: tone.pencil });
  }
  if (show.hull && !scene.sphere) hulls(sheet, scene);
  marks.cross(sheet, point(eye, [0, 0]), tone.ink);
  if (show.paths) scene.trails.draw(sheet, scene);
  if (show.paths) marks.starts(sheet, scene);
  marks.overTrails(sheet, scene, (where) => point(eye, where));
  if (scene.dense) scene.density.drawLegend(sheet, scene);
}

/** Draw exact cells, pale, with thin walls. @type {Draw} */
function cells(sheet, scene) {
  const { overlays, eye, tone, cellLabels } = scene;
  sheet.group("cells");
  for (const [k, cell] of (overlays?.cells ?? []).entries()) {
    if (cell.polygon.length < 3) continue;
    polygon(sheet, cell.polygon.flatMap((corner) => point(eye, corner)));
    sheet.paint({ fill: tint(cellLabels[k], tone), stroke: faded(tone.quiet, 0.75), width: 0.8 });
  }
  veil(sheet, scene);
}

/** Let cells be paler outside the hull, where no token goes. @type {Draw} */
function veil(sheet, scene) {
  const inside = marks.hullOnScreen(scene);
  if (inside.length < 6 || !scene.overlays.cells?.length) return;
  sheet.group("veil");
  polygon(sheet, inside);
  // A frame that turns the other way leaves the hull out.
  const { width, height } = sheet;
  const turned =
    area(inside) > 0 ? [0, height, width, height, width, 0, 0, 0] : [0, 0, width, 0, width, height, 0, height];
  through(sheet, turned);
  sheet.close();
  sheet.paint({ fill: scene.tone.paper, alpha: VEIL });
}

/** Draw the hull of the start dashed, and that of now as a thin line. @type {Draw} */
function hulls(sheet, scene) {
  const { start, startHull, tone, eye } = scene;
  sheet.group("hulls");
  const now = marks.hullOnScreen(scene);
  // At the start both are one, and the dashes say so.
  if (now.length > 4 && scene.player.position > 0) {
    polygon(sheet, now);
    marks.overlay(sheet, scene).paint({ stroke: tone.ink, width: 1.3, alpha: 0.75 });
  }
  if (startHull.length > 1) {
    polygon(sheet, startHull.flatMap((i) => Array.from(point(eye, start, [0, 0], 2 * i))));
    sheet.paint({ stroke: tone.pencil, width: 1.1, dash: [5, 4] });
  }
}

/** Draw ticks with numbers at the lower and the left edge, lightly. @type {Draw} */
function axes(sheet, { eye, tone }) {
  const [[left, low], [right, high]] = [lift(eye, 0, eye.height), lift(eye, eye.width, 0)];
  const step = roundStep(90 / eye.scale, 1);
  const type = { fill: tone.quiet, size: 11, halo: tone.paper };
  sheet.group("axes");
  const across = ticks(left, right, (right - left) / step).map((value) => ({ value, x: point(eye, [value, 0])[0] }));
  const up = ticks(low, high, (high - low) / step).map((value) => ({ value, y: point(eye, [0, value])[1] }));
  const strokes = [...across.map(({ x }) => [x, eye.height, x, eye.height - 5]), ...up.map(({ y }) => [0, y, 5, y])];
  segments(sheet, strokes, { stroke: tone.pencil });
  for (const { value, x } of across)
    if (x > 40 && x < eye.width - 16) sheet.text(x, eye.height - 13, written(value, 4), { ...type, align: "middle" });
  for (const { value, y } of up)
    if (y > 12 && y < eye.height - 22) sheet.text(9, y, written(value, 4), type);
}
