// Tokens on the line, in space-time: time to the right, position up, and a vertical line at the time shown.

import { boxOf } from "./boxes.js";
import { onClock, offClock } from "./player.js";
import * as marks from "./marks.js";
import { polygon, segments } from "./sheet.js";
import { heldScale } from "./plane.js";
import { decades, roundStep, ticks, written } from "./ticks.js";

/**
 * @import { Box } from "./boxes.js"
 * @import { Draw, PixelOf, Scene } from "./scene.js"
 * @typedef {{y: number, scale: number, left: number, right: number, top: number, bottom: number, first: number,
 *   length: number, clock: string}} Lens the position in the middle, pixels of a unit, the frame of the picture, and
 *   its time: `length` is on the clock
 */

const [LEFT, RIGHT, TOP, BOTTOM] = [58, 22, 20, 42];
/** Above the picture of a density there is room for its legend. */
const LEGEND = 48;

/**
 * @param {Box} box @param {number} width @param {number} height @param {{y: number, zoom: number} | null} camera
 * @param {{first: number, last: number, clock: string}} time @param {number} room above the picture
 */
export function lens(box, width, height, camera, time, room = 0) {
  const frame = { left: LEFT, right: width - RIGHT, top: TOP + room, bottom: height - BOTTOM };
  const half = (frame.bottom - frame.top) / 2;
  const given = camera && Number.isFinite(camera.y) && Number.isFinite(camera.zoom) && !("yaw" in camera);
  const y = given ? camera.y : (box.low[0] + box.high[0]) / 2;
  const scale = heldScale(given ? camera.zoom * half : (0.94 * 2 * half) / (box.high[0] - box.low[0]), y);
  const length = onClock(time.last, time.first, time.clock);
  return { y, scale, ...frame, first: time.first, length: length > 0 ? length : 1, clock: time.clock };
}

/** Return the column of a time. @param {Lens} eye @param {number} t */
export const column = (eye, t) =>
  eye.left + ((eye.right - eye.left) * onClock(t, eye.first, eye.clock)) / eye.length;

/** Return the time of a column. @param {Lens} eye @param {number} x */
export const timeAt = (eye, x) =>
  offClock((Math.min(Math.max((x - eye.left) / (eye.right - eye.left), 0), 1)) * eye.length, eye.first, eye.clock);

/** Return the row of a position. @param {Lens} eye @param {number} value */
export const row = (eye, value) => (eye.top + eye.bottom) / 2 - (value - eye.y) * eye.scale;

/** @param {Lens} eye @param {number} _x @param {number} y */
export const lift = (eye, _x, y) => [eye.y - (y - (eye.top + eye.bottom) / 2) / eye.scale];

/** @param {Lens} eye */
export const camera = (eye) => ({ y: eye.y, zoom: eye.scale / ((eye.bottom - eye.top) / 2) });

/** @param {Lens} eye @param {number} _dx @param {number} dy */
export const pulled = (eye, _dx, dy) => camera({ ...eye, y: eye.y + dy / eye.scale });

/** @param {Lens} eye @param {number} x @param {number} y @param {number} wanted */
export function zoomed(eye, x, y, wanted) {
  const factor = heldScale(eye.scale * wanted, eye.y) / eye.scale;
  const [value] = lift(eye, x, y);
  return camera({ ...eye, y: value + (eye.y - value) / factor, scale: eye.scale * factor });
}

/** @type {PixelOf} */
export function at({ eye, player }, k, i, out) {
  out[0] = column(eye, player.times[k]);
  out[1] = row(eye, player.frame(k)[i]);
}

/** @param {Scene} scene */
export const placeKey = ({ eye }) => `${eye.y} ${eye.scale} ${eye.length} ${eye.clock}`;

/** @param {Scene} scene */
export function aim(scene) {
  const { player, until } = scene;
  const first = player.count ? player.times[0] : 0;
  const last = player.count ? player.times[player.count - 1] : 0;
  const time = { first, last: player.done ? last : Math.max(until, last), clock: player.clock };
  scene.eye = lens(scene.box, scene.width, scene.height, scene.camera, time, scene.dense ? LEGEND : 0);
}

/** Return the column of the time shown. @param {Scene} scene */
export const now = (scene) => (scene.player.count ? column(scene.eye, scene.player.exactTime()) : scene.eye.left);

/** @param {Scene} scene */
export function project(scene) {
  const x = now(scene);
  for (let i = 0; i < scene.n; i++) {
    scene.screen[2 * i] = x;
    scene.screen[2 * i + 1] = row(scene.eye, scene.tokens[i]);
  }
}

/** @type {Draw} */
export function draw(sheet, scene) {
  const { show, eye, tone } = scene;
  if (show.hull && scene.start.length) {
    sheet.group("hulls");
    const { low, high } = boxOf(scene.start, 1);
    const ends = [...low, ...high].map((value) => row(eye, value));
    segments(sheet, ends.map((y) => [eye.left, y, eye.right, y]), { stroke: tone.pencil, dash: [5, 4] });
  }
  if (scene.dense) scene.timeDensity.draw(sheet, scene);
  else if (show.paths) scene.trails.draw(sheet, scene);
  margins(sheet, scene);
  axes(sheet, scene);
  const x = now(scene);
  sheet.group("now");
  segments(sheet, [[x, eye.top - 8, x, eye.bottom]], { stroke: tone.ink, alpha: 0.55 });
  // The handle of the time shown, on the axis of time.
  polygon(sheet, [x, eye.bottom + 1, x + 6, eye.bottom + 10, x - 6, eye.bottom + 10]);
  sheet.paint({ fill: tone.ink });
  marks.starts(sheet, scene);
  marks.overTrails(sheet, scene, ([value]) => [eye.right, row(eye, value)]);
  if (scene.dense) scene.timeDensity.drawLegend(sheet, scene);
}

/** Let lines end at the frame of the picture: what they are is told only there. @type {Draw} */
function margins(sheet, { eye, tone }) {
  sheet.group("margins");
  for (const [top, bottom] of [[0, eye.top - 8], [eye.bottom, sheet.height]]) {
    polygon(sheet, [0, top, sheet.width, top, sheet.width, bottom, 0, bottom]);
    sheet.paint({ fill: tone.paper });
  }
}

/** @type {Draw} */
function axes(sheet, scene) {
  const { eye, tone, player } = scene;
  const type = { fill: tone.quiet, size: 11.5 };
  const [low, high] = [lift(eye, 0, eye.bottom)[0], lift(eye, 0, eye.top)[0]];
  const up = ticks(low, high, (high - low) / roundStep(64 / eye.scale, 1));
  const last = offClock(eye.length, eye.first, eye.clock);
  const parts = (eye.right - eye.left) / 90;
  const moments =
    eye.clock === "log" ? decades(last - eye.first).map((t) => eye.first + t) : ticks(eye.first, last, parts);
  sheet.group("axes");
  const strokes = [
    [eye.left, eye.top - 8, eye.left, eye.bottom, eye.right, eye.bottom],
    ...moments.map((t) => [column(eye, t), eye.bottom, column(eye, t), eye.bottom + 5]),
    ...up.map((value) => [eye.left, row(eye, value), eye.left - 5, row(eye, value)]),
  ];
  segments(sheet, strokes, { stroke: tone.pencil });
  for (const t of moments) sheet.text(column(eye, t), eye.bottom + 16, written(t), { ...type, align: "middle" });
  for (const value of up) sheet.text(eye.left - 16, row(eye, value), written(value, 4), { ...type, align: "end" });
  const name = { fill: tone.quiet, size: 12.5, align: /** @type {const} */ ("end"), italic: true };
  sheet.text(eye.right, eye.bottom + 33, scene.discrete ? "step" : "time", name);
  if (player.position === 0) return;
  const strong = { ...type, fill: tone.ink, halo: tone.paper };
  sheet.text(Math.min(now(scene) + 6, eye.right - 20), eye.top - 6, written(player.time()), strong);
}
