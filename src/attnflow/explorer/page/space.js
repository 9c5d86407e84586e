// Tokens in space, seen from afar: an orbit around the cloud, a light room behind it, marks that pale with distance.

import { longestSide } from "./boxes.js";
import * as marks from "./marks.js";
import { segments } from "./sheet.js";
import { roundStep, ticks, written } from "./ticks.js";

/**
 * @import { Box } from "./boxes.js"
 * @import { Draw, PixelOf, Scene } from "./scene.js"
 * @typedef {{yaw: number, pitch: number, zoom: number}} Camera
 * @typedef {{middle: number[], right: number[], up: number[], toward: number[], half: number, scale: number,
 *   width: number, height: number, turn: Camera}} Lens what is in the middle, the three directions of the screen
 *   (`toward` comes out of it), half the side of the room, and how many pixels a unit has
 */

/** @type {Camera} */
const HOME = { yaw: -1.02, pitch: 0.42, zoom: 1 };
/** How steep the view can be; how far a pixel turns; the part of half the picture that half the room takes,
 * and a sphere. */
const [STEEPEST, PER_PIXEL, FILLED, FILLED_ROUND] = [1.54, 0.008, 0.64, 0.88];

/** Return a camera, held where there is something to see. @param {Camera} camera */
function held({ yaw, pitch, zoom }) {
  const steep = Math.min(Math.max(pitch, -STEEPEST), STEEPEST);
  return { yaw, pitch: steep, zoom: Math.min(Math.max(zoom, 0.05), 1e4) };
}

/** @param {ArrayLike<number>} a @param {ArrayLike<number>} b */
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];

/** @param {Box} box @param {number} width @param {number} height @param {Camera | null} camera */
export function lens(box, width, height, camera, sphere = false) {
  const given = camera && [camera.yaw, camera.pitch, camera.zoom].every(Number.isFinite);
  const turn = given ? held(camera) : HOME;
  const [cosYaw, sinYaw] = [Math.cos(turn.yaw), Math.sin(turn.yaw)];
  const [cosPitch, sinPitch] = [Math.cos(turn.pitch), Math.sin(turn.pitch)];
  const half = longestSide(box) / 2;
  return {
    middle: box.low.map((low, c) => (low + box.high[c]) / 2),
    right: [-sinYaw, cosYaw, 0],
    up: [-sinPitch * cosYaw, -sinPitch * sinYaw, cosPitch],
    toward: [cosPitch * cosYaw, cosPitch * sinYaw, sinPitch],
    half,
    scale: (turn.zoom * (sphere ? FILLED_ROUND : FILLED) * Math.min(width, height)) / 2 / half,
    width,
    height,
    turn,
  };
}

/**
 * Return the pixel of the point that begins at place k of a list of numbers, and how near it is, in units.
 * @param {Lens} eye @param {ArrayLike<number>} numbers @param {number[] | Float64Array} out
 */
export function point(eye, numbers, out = [0, 0, 0], k = 0) {
  const x = numbers[k] - eye.middle[0];
  const y = numbers[k + 1] - eye.middle[1];
  const z = numbers[k + 2] - eye.middle[2];
  out[0] = eye.width / 2 + eye.scale * (eye.right[0] * x + eye.right[1] * y + eye.right[2] * z);
  out[1] = eye.height / 2 - eye.scale * (eye.up[0] * x + eye.up[1] * y + eye.up[2] * z);
  out[2] = eye.toward[0] * x + eye.toward[1] * y + eye.toward[2] * z;
  return out;
}

/**
 * Return the point at a pixel, in the plane through another point and parallel to the screen; on the sphere, the one
 * there on the same side.
 * @param {Lens} eye @param {number} x @param {number} y
 * @param {ArrayLike<number> | null} from the middle of the room if left out @param {boolean} sphere
 */
export function lift(eye, x, y, from = null, sphere = false) {
  let u = (x - eye.width / 2) / eye.scale + dot(eye.right, eye.middle);
  let v = (eye.height / 2 - y) / eye.scale + dot(eye.up, eye.middle);
  let w = dot(eye.toward, from ?? eye.middle);
  if (sphere) {
    const length = Math.hypot(u, v);
    if (length > 1) [u, v, w] = [u / length, v / length, 0];
    else w = (w < 0 ? -1 : 1) * Math.sqrt(1 - length * length);
  }
  return [0, 1, 2].map((c) => u * eye.right[c] + v * eye.up[c] + w * eye.toward[c]);
}

/** @param {Lens} eye */
export const camera = (eye) => ({ ...eye.turn });

/** Return the camera after the room was turned by pulling it dx and dy pixels. @param {Lens} eye */
export function pulled(eye, /** @type {number} */ dx, /** @type {number} */ dy) {
  const { yaw, pitch, zoom } = eye.turn;
  return held({ yaw: yaw - PER_PIXEL * dx, pitch: pitch + PER_PIXEL * dy, zoom });
}

/** @param {Lens} eye @param {number} _x @param {number} _y @param {number} factor */
export function zoomed(eye, _x, _y, factor) {
  return held({ ...eye.turn, zoom: eye.turn.zoom * factor });
}

const pixel = new Float64Array(3);

/** @type {PixelOf} */
export const at = ({ eye, player }, k, i, out) => point(eye, player.frame(k), out, 3 * i);

/** @param {Scene} scene */
export const placeKey = ({ eye }) => `${eye.turn.yaw} ${eye.turn.pitch} ${eye.scale} ${eye.middle}`;

/** @param {Scene} scene */
export function aim(scene) {
  const { spin } = scene;
  /** @type {Camera | null} */
  const camera = scene.camera;
  const turned = spin === 0 ? camera : { ...HOME, ...camera, yaw: (camera?.yaw ?? HOME.yaw) + spin };
  scene.eye = lens(scene.box, scene.width, scene.height, turned, scene.sphere);
}

/** Find the pixels of tokens, how near each is, and which is drawn before which. @param {Scene} scene */
export function project(scene) {
  const { eye, tokens, screen, n } = scene;
  if (scene.depth?.length !== n) {
    scene.depth = new Float64Array(n);
    scene.order = Int32Array.from({ length: n }, (_, i) => i);
  }
  const { depth, order } = /** @type {{depth: Float64Array, order: Int32Array}} */ (scene);
  for (let i = 0; i < n; i++) {
    point(eye, tokens, pixel, 3 * i);
    screen[2 * i] = pixel[0];
    screen[2 * i + 1] = pixel[1];
    depth[i] = Math.min(Math.max(0.5 + pixel[2] / eye.half / 2.4, 0), 1);
  }
  if (scene.dotted) order.sort((i, j) => depth[i] - depth[j]);
}

/** Return the line on the screen between two points. @param {Lens} eye @param {number[]} from @param {number[]} to */
function stroke(eye, from, to) {
  const [a, b] = [point(eye, from), point(eye, to)];
  return [a[0], a[1], b[0], b[1]];
}

/** @type {Draw} */
export function draw(sheet, scene) {
  const { show, eye, tone, overlays, start, startEdges, screen, n } = scene;
  if (scene.sphere) globe(sheet, scene);
  else room(sheet, scene);
  if (scene.dense) scene.density.draw(sheet, scene);
  marks.cross(sheet, point(eye, [0, 0, 0]), tone.quiet);
  if (show.hull && !scene.sphere) {
    sheet.group("hulls");
    const row = (/** @type {number} */ i) => [...start.subarray(3 * i, 3 * i + 3)];
    const before = startEdges.map(([i, j]) => stroke(eye, row(i), row(j)));
    segments(sheet, before, { stroke: tone.pencil, width: 0.8, dash: [4, 4], alpha: 0.8 });
    /** @type {number[][]} */
    const edges = overlays?.frame > 0 ? (overlays.edges ?? []) : [];
    const now = edges.filter((edge) => Math.max(...edge) < n);
    segments(
      marks.overlay(sheet, scene),
      now.map((edge) => edge.flatMap((i) => [screen[2 * i], screen[2 * i + 1]])),
      { stroke: tone.quiet, width: 0.9 },
    );
  }
  if (show.paths) scene.trails.draw(sheet, scene);
  if (show.paths) marks.starts(sheet, scene);
  marks.overTrails(sheet, scene, (where) => point(eye, where));
  if (scene.dense) scene.density.drawLegend(sheet, scene);
}

/** Draw the walls behind the cloud, with a grid, and numbers along edges. @type {Draw} */
function room(sheet, { eye, tone, frame }) {
  const { half, middle, toward } = /** @type {Lens} */ (eye);
  const [low, high] = [middle.map((m) => m - half), middle.map((m) => m + half)];
  const back = toward.map((part, c) => (part > 0 ? low[c] : high[c]));
  const front = toward.map((part, c) => (part > 0 ? high[c] : low[c]));
  const step = roundStep(2 * half, 4);
  const marksOf = [0, 1, 2].map((c) => ticks(low[c], high[c], (2 * half) / step));
  sheet.group("room");
  for (const faint of [true, false]) {
    const lines = [];
    for (let wall = 0; wall < 3; wall++)
      for (const along of [0, 1, 2])
        for (const value of along === wall ? [] : faint ? marksOf[along] : [low[along], high[along]]) {
          const across = 3 - wall - along;
          const edge = back.with(along, value);
          const [from, to] = [low, high].map((end) => edge.with(across, end[across]));
          lines.push(stroke(eye, from, to));
        }
    segments(sheet, lines, { stroke: tone.wire, width: faint ? 0.6 : 1, alpha: faint ? 0.7 : 1 });
  }
  // Numbers: on the edges of the floor in front, and on the upright edge at the left.
  const floor = toward[2] >= 0 ? low[2] : high[2];
  const column = (/** @type {number[]} */ side) => point(eye, [...side, 0])[0];
  const sides = [[front[0], back[1]], [back[0], front[1]]].sort((a, b) => column(a) - column(b));
  const centre = point(eye, middle);
  const type = { fill: tone.quiet, size: 11, align: /** @type {const} */ ("middle") };
  for (let c = 0; c < 3; c++) {
    const corner = c === 0 ? [0, front[1], floor] : c === 1 ? [front[0], 0, floor] : [...sides[0], 0];
    const onEdge = (/** @type {number} */ value) => point(eye, corner.with(c, value));
    const foot = onEdge(middle[c]);
    const away = Math.hypot(foot[0] - centre[0], foot[1] - centre[1]) || 1;
    const [u, v] = [(foot[0] - centre[0]) / away, (foot[1] - centre[1]) / away];
    // An edge seen from its end has no room for numbers.
    const [a, b] = [onEdge(low[c]), onEdge(high[c])];
    if (Math.hypot(a[0] - b[0], a[1] - b[1]) < 60) continue;
    for (const value of marksOf[c]) {
      const [x, y] = onEdge(value);
      sheet.text(x + 15 * u, y + 13 * v, written(value), type);
    }
    const name = { ...type, fill: tone.quiet, size: 13, italic: true };
    sheet.text(foot[0] + 38 * u, foot[1] + 34 * v, `${frame ? "z" : "x"}${"₁₂₃"[c]}`, name);
  }
}

/** Draw meridians and parallels of the unit sphere, those behind paler. @type {Draw} */
function globe(sheet, { eye, tone }) {
  const circles = [];
  for (let k = 0; k < 6; k++) {
    const turn = 0.1 + (k * Math.PI) / 6;
    const [u, v] = [Math.cos(turn), Math.sin(turn)];
    circles.push((/** @type {number} */ s) => [u * Math.cos(s), v * Math.cos(s), Math.sin(s)]);
  }
  for (const height of [-2 / 3, -1 / 3, 0, 1 / 3, 2 / 3]) {
    const r = Math.sqrt(1 - height * height);
    circles.push((/** @type {number} */ s) => [r * Math.cos(s), r * Math.sin(s), height]);
  }
  sheet.group("sphere");
  const origin = point(eye, [0, 0, 0]);
  sheet.disc(origin[0], origin[1], eye.scale, { stroke: tone.pencil });
  for (const ahead of [false, true]) {
    const lines = [];
    for (const circle of circles)
      for (let k = 0; k < 72; k++) {
        const [a, b] = [point(eye, circle((k * Math.PI) / 36)), point(eye, circle(((k + 1) * Math.PI) / 36))];
        if (a[2] + b[2] > 2 * origin[2] === ahead) lines.push([a[0], a[1], b[0], b[1]]);
      }
    segments(sheet, lines, { stroke: tone.wire, width: ahead ? 0.9 : 0.5, alpha: ahead ? 1 : 0.6 });
  }
}
