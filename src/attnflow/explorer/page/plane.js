// Tokens in the plane: cells, hulls, trajectories and marks, with light ticks at the edges.

import { faded, tint } from "./colours.js";
import { polygon } from "./pen.js";
import * as marks from "./marks.js";
import { area } from "./shapes.js";
import { roundStep, ticks, written } from "./ticks.js";

/**
 * @typedef {import("./pen.js").Pen} Pen
 * @typedef {import("./scene.js").Scene} Scene
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
 * @param {{low: number[], high: number[]}} box
 * @param {number} width
 * @param {number} height
 * @param {Camera | null} camera
 * @returns {Lens}
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

/** Return the pixel of a point. @param {Lens} eye @param {ArrayLike<number>} point */
export function point(eye, point, out = [0, 0]) {
  out[0] = eye.width / 2 + (point[0] - eye.x) * eye.scale;
  out[1] = eye.height / 2 - (point[1] - eye.y) * eye.scale;
  return out;
}

/** Return the point at a pixel; on the circle, the nearest one there. */
export function lift(
  /** @type {Lens} */ eye,
  /** @type {number} */ x,
  /** @type {number} */ y,
  /** @type {ArrayLike<number> | null} */ _from = null,
  sphere = false,
) {
  const found = [eye.x + (x - eye.width / 2) / eye.scale, eye.y - (y - eye.height / 2) / eye.scale];
  const length = Math.hypot(...found);
  return sphere && length > 0 ? found.map((value) => value / length) : found;
}

/** @param {Lens} eye @returns {Camera} */
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

/** Put the pixel of token i of frame k in `out`. @param {Scene} scene @param {Float64Array} out */
export function at(scene, /** @type {number} */ k, /** @type {number} */ i, out) {
  const [{ x, y, scale, width, height }, frame] = [scene.eye, scene.film.frame(k)];
  out[0] = width / 2 + (frame[2 * i] - x) * scale;
  out[1] = height / 2 - (frame[2 * i + 1] - y) * scale;
}

/** What a layer of trajectories depends on. @param {Scene} scene */
export const placeKey = ({ eye }) => `${eye.x} ${eye.y} ${eye.scale}`;

/** @param {Scene} scene */
export function aim(scene) {
  scene.eye = lens(scene.box, scene.width, scene.height, scene.camera);
}

/** Put the pixels of all tokens in `scene.screen`. @param {Scene} scene */
export function project(scene) {
  const { eye, tokens, screen, n } = scene;
  for (let i = 0; i < n; i++) {
    screen[2 * i] = eye.width / 2 + (tokens[2 * i] - eye.x) * eye.scale;
    screen[2 * i + 1] = eye.height / 2 - (tokens[2 * i + 1] - eye.y) * eye.scale;
  }
}

/** @param {Pen} pen @param {Scene} scene */
export function draw(pen, scene) {
  const { show, eye, tone } = scene;
  const pixel = (/** @type {ArrayLike<number>} */ where) => point(eye, where);
  const told = marks.overlay(pen, scene);
  if (show.cells && !scene.sphere) cells(told, scene);
  axes(pen, scene);
  if (scene.sphere) {
    const [x, y] = point(eye, [0, 0]);
    pen.group("sphere");
    pen.disc(x, y, eye.scale, { stroke: tone.pencil, width: 1 });
    pen.end();
  }
  if (show.hull && !scene.sphere) hulls(pen, scene);
  marks.cross(pen, pixel([0, 0]), tone.ink);
  if (show.paths) scene.trails.draw(pen, scene);
  if (show.paths) marks.starts(pen, scene);
  if (show.quiescent) marks.outlines(told, scene);
  if (show.limits) marks.limits(told, scene, pixel);
  marks.tokens(pen, scene);
  if (show.hull && !scene.sphere) marks.rings(told, scene);
  if (show.leaders) marks.stars(told, scene);
  if (show.numbers) marks.numbers(pen, scene);
  marks.chosen(pen, scene);
}

/** Draw exact cells, pale, with thin walls. @param {Pen} pen @param {Scene} scene */
function cells(pen, scene) {
  const { look, eye, tone, cellLabels } = scene;
  pen.group("cells");
  for (const [k, cell] of (look?.cells ?? []).entries()) {
    if (cell.polygon.length < 3) continue;
    polygon(pen, cell.polygon.flatMap((/** @type {number[]} */ corner) => point(eye, corner)));
    pen.paint({ fill: tint(cellLabels[k], tone), stroke: faded(tone.quiet, 0.75), width: 0.8 });
  }
  pen.end();
  veil(pen, scene);
}

/** Let cells be paler outside the hull, where no token goes. @param {Pen} pen @param {Scene} scene */
function veil(pen, scene) {
  const { look, screen, n, tone } = scene;
  const corners = (look?.hull ?? []).filter((/** @type {number} */ i) => i < n);
  if (corners.length < 3 || !look.cells?.length) return;
  const inside = corners.flatMap((/** @type {number} */ i) => [screen[2 * i], screen[2 * i + 1]]);
  pen.group("veil");
  polygon(pen, inside);
  // A frame that turns the other way leaves the hull out.
  const { width, height } = pen;
  const turned =
    area(inside) > 0 ? [0, height, width, height, width, 0, 0, 0] : [0, 0, width, 0, width, height, 0, height];
  for (let k = 0; k < 8; k += 2) k ? pen.line(turned[k], turned[k + 1]) : pen.move(turned[0], turned[1]);
  pen.close();
  pen.paint({ fill: tone.paper, alpha: VEIL });
  pen.end();
}

/** Draw the hull of the start dashed, and that of now as a thin line. @param {Pen} pen @param {Scene} scene */
function hulls(pen, scene) {
  const { look, screen, start, startHull, n, tone, eye } = scene;
  pen.group("hulls");
  const now = (look?.hull ?? []).filter((/** @type {number} */ i) => i < n);
  // At the start both are one, and the dashes say so.
  if (now.length > 2 && scene.film.position > 0) {
    polygon(pen, now.flatMap((/** @type {number} */ i) => [screen[2 * i], screen[2 * i + 1]]));
    marks.overlay(pen, scene).paint({ stroke: tone.ink, width: 1.3, alpha: 0.75 });
  }
  if (startHull.length > 1) {
    polygon(pen, startHull.flatMap((/** @type {number} */ i) => point(eye, [start[2 * i], start[2 * i + 1]])));
    pen.paint({ stroke: tone.pencil, width: 1.1, dash: [5, 4] });
  }
  pen.end();
}

/** Draw ticks with numbers at the lower and the left edge, lightly. @param {Pen} pen @param {Scene} scene */
function axes(pen, scene) {
  const { eye, tone } = scene;
  const [[left, low], [right, high]] = [lift(eye, 0, eye.height), lift(eye, eye.width, 0)];
  const step = roundStep(90 / eye.scale, 1);
  const type = { fill: tone.pencil, size: 11, halo: tone.paper };
  pen.group("axes");
  pen.begin();
  const across = ticks(left, right, (right - left) / step);
  const up = ticks(low, high, (high - low) / step);
  for (const value of across) {
    const [x] = point(eye, [value, 0]);
    pen.move(x, eye.height);
    pen.line(x, eye.height - 5);
  }
  for (const value of up) {
    const [, y] = point(eye, [0, value]);
    pen.move(0, y);
    pen.line(5, y);
  }
  pen.paint({ stroke: tone.pencil, width: 1 });
  for (const value of across) {
    const [x] = point(eye, [value, 0]);
    if (x > 40 && x < eye.width - 16) pen.text(x, eye.height - 13, written(value, 4), { ...type, align: "middle" });
  }
  for (const value of up) {
    const [, y] = point(eye, [0, value]);
    if (y > 12 && y < eye.height - 22) pen.text(9, y, written(value, 4), type);
  }
  pen.end();
}
