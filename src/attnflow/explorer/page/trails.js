// Trajectories: the whole run as faint lines on a layer of its own, and the last steps over it, fading with age.

import { colour } from "./colours.js";

/**
 * @typedef {import("./sheet.js").Sheet} Sheet
 * @typedef {import("./scene.js").Scene} Scene
 */

/** How many steps of tokens the layer holds, and are drawn anew in each frame. */
const [LAYER, TAIL] = [320000, 6000];
/** Milliseconds for the layer in one frame; the rest is drawn in the next ones. */
const TURN = 7;
/** A new run replaces the lines of the old one when it is whole, or after PATIENCE milliseconds. */
const PATIENCE = 160;
/** How much of their colour trajectories have at their beginning and at their end, and in how many stages. */
const [FAINT, STRONG, STAGES] = [0.14, 0.8, 8];
/** How much of their ink the lines of the whole run have: less for a crowd. @param {number} n */
const ahead = (n) => (n > 400 ? 0.2 : 0.42);
/** Steps shorter than this many pixels are joined to the next. */
const VISIBLE = 0.8;

/** On the sphere the way between two frames is an arc, drawn in pieces of this angle. */
const BEND = 0.08;
const spot = new Float64Array(3);

/**
 * Call `go` with the pixels between the ends of a step, if it bends: those of the arc between two tokens on the sphere.
 * @param {Scene} scene
 * @param {Float64Array} from all tokens before
 * @param {Float64Array} to and after
 * @param {number} i
 * @param {(x: number, y: number) => void} go
 */
export function bent(scene, from, to, i, go) {
  const { d, mode, eye } = scene;
  if (!scene.sphere || d === 1) return;
  let square = 0;
  for (let c = i * d; c < (i + 1) * d; c++) square += (to[c] - from[c]) ** 2;
  const angle = 2 * Math.asin(Math.min(Math.sqrt(square) / 2, 1));
  const pieces = Math.ceil(angle / BEND);
  for (let piece = 1; piece < pieces; piece++) {
    const [a, b] = [Math.sin((1 - piece / pieces) * angle), Math.sin((piece / pieces) * angle)];
    const inside = [];
    for (let c = i * d; c < (i + 1) * d; c++) inside.push(a * from[c] + b * to[c]);
    const length = Math.hypot(...inside);
    // Between opposite tokens no arc is shorter than another.
    if (!(length > 1e-9)) return;
    mode.point(eye, inside.map((value) => value / length), spot);
    go(spot[0], spot[1]);
  }
}

/** How strong a step is drawn: by the part of the way that tokens had come. @param {number} part */
export const strength = (part) => FAINT + (STRONG - FAINT) * Math.min(Math.max(part, 0), 1);

/** Return the distance between tokens whose lines are drawn, so that the layer holds them all. */
export const strideOf = (/** @type {number} */ n, /** @type {number} */ count) =>
  Math.max(1, Math.ceil((n * Math.max(count, 240)) / LAYER));

/**
 * Return the stages of the last steps: where each begins and ends, and how strong it is.
 * @param {ArrayLike<number>} way how far tokens had come at each frame
 * @param {number} first
 * @param {number} last
 * @returns {{from: number, to: number, alpha: number}[]}
 */
export function stages(way, first, last) {
  const found = [];
  const whole = way[last] || 1;
  let from = first;
  for (let j = first; j < last; j++) {
    const now = Math.min(Math.floor((STAGES * way[j + 1]) / whole), STAGES - 1);
    const then = j + 2 <= last ? Math.min(Math.floor((STAGES * way[j + 2]) / whole), STAGES - 1) : -1;
    if (then !== now) {
      found.push({ from, to: j + 1, alpha: strength((now + 1) / STAGES) });
      from = j + 1;
    }
  }
  return found;
}

export function createTrails() {
  let front = newLayer();
  let back = newLayer();
  const at = new Float64Array(3);

  function newLayer() {
    const canvas = document.createElement("canvas");
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    // `built` frames are drawn, and `last` is where their lines end.
    return { canvas, context, key: "", place: "", built: 0, since: 0, stride: 1, last: new Float32Array(0) };
  }

  /** Draw more of the run on the layer; return whether there is more to draw. @param {Scene} scene */
  function prepare(scene) {
    const { player, mode, tone } = scene;
    const place = `${mode.placeKey(scene)} ${scene.width} ${scene.height} ${scene.ratio} ${tone.paper}`;
    const stride = strideOf(player.n, player.count);
    const key = `${player.id} ${stride} ${place}`;
    if (front.place !== place) front.key = "";
    const layer = front.key === key ? front : back;
    if (layer.key !== key) restart(layer, scene, key, place, stride);
    const begun = performance.now();
    while (layer.built < player.count && performance.now() - begun < TURN) extend(layer, scene);
    const whole = layer.built >= player.count;
    const due = (player.done && whole) || front.key === "" || begun - layer.since > PATIENCE;
    if (layer === back && player.count > 0 && due) [front, back] = [back, front];
    // A run that still comes tells of itself; one that waits for its turn must be asked again.
    return !whole || layer === back;
  }

  /**
   * @param {ReturnType<typeof newLayer>} layer
   * @param {Scene} scene
   * @param {string} key
   * @param {string} place
   * @param {number} stride
   */
  function restart(layer, scene, key, place, stride) {
    const [width, height] = [Math.round(scene.width * scene.ratio), Math.round(scene.height * scene.ratio)];
    // Setting a size also clears, but takes new memory.
    if (layer.canvas.width !== width || layer.canvas.height !== height) Object.assign(layer.canvas, { width, height });
    else {
      layer.context.setTransform(1, 0, 0, 1, 0, 0);
      layer.context.clearRect(0, 0, width, height);
    }
    const followed = Math.ceil(scene.player.n / stride);
    if (layer.last.length < 2 * followed) layer.last = new Float32Array(2 * followed);
    Object.assign(layer, { key, place, stride, built: 0, since: performance.now() });
  }

  /** Draw the step to the next frame on the layer. @param {ReturnType<typeof newLayer>} layer @param {Scene} scene */
  function extend(layer, scene) {
    const { player, mode, tone } = scene;
    const { context, last, stride } = layer;
    const j = layer.built++;
    context.setTransform(scene.ratio, 0, 0, scene.ratio, 0, 0);
    context.strokeStyle = tone.quiet;
    context.globalAlpha = ahead(player.n);
    context.lineWidth = 0.9;
    context.beginPath();
    for (let i = 0, k = 0; i < player.n; i += stride, k += 2) {
      mode.at(scene, j, i, at);
      const far = Math.abs(at[0] - last[k]) + Math.abs(at[1] - last[k + 1]) > VISIBLE;
      if (j > 0 && !far) continue;
      if (j > 0) {
        context.moveTo(last[k], last[k + 1]);
        bent(scene, player.frame(j - 1), player.frame(j), i, (x, y) => context.lineTo(x, y));
        context.lineTo(at[0], at[1]);
      }
      last[k] = at[0];
      last[k + 1] = at[1];
    }
    if (j > 0) context.stroke();
  }

  /** Draw all trajectories: what is to come faint, what has been in colour. @param {Sheet} sheet @param {Scene} scene */
  function draw(sheet, scene) {
    sheet.group("trails");
    if (sheet.layer) {
      const now = scene.mode.now?.(scene) ?? 0;
      if (front.key !== "") {
        sheet.layer(front.canvas, 0, now, 1);
        sheet.layer(front.canvas, now, sheet.width, scene.d === 1 ? 0.45 : 1);
      }
    } else if (scene.player.n === scene.n) {
      lines(sheet, scene, 0, scene.player.count - 1, { stroke: scene.tone.quiet, width: 0.9, alpha: ahead(scene.n) }, null);
    }
    if (scene.player.n === scene.n && scene.player.count > 0 && scene.player.position > 0) tail(sheet, scene);
  }

  /** @param {Sheet} sheet @param {Scene} scene */
  function tail(sheet, scene) {
    const { player, tone, groups } = scene;
    const last = player.frameIndex();
    const steps = sheet.layer ? Math.max(2, Math.floor(TAIL / Math.ceil(player.n / strideOf(player.n, player.count)))) : last;
    for (const { from, to, alpha } of stages(player.way, Math.max(0, last - steps), last))
      for (const [label, members] of groups)
        lines(sheet, scene, from, to, { stroke: colour(label, tone), width: 1.2, alpha }, members);
    // The way from the last frame to where tokens are now.
    if (player.position - last > 1e-9)
      for (const [label, members] of groups) {
        sheet.begin();
        for (const i of members) {
          scene.mode.at(scene, last, i, at);
          sheet.move(at[0], at[1]);
          bent(scene, player.frame(last), scene.tokens, i, sheet.line);
          sheet.line(scene.screen[2 * i], scene.screen[2 * i + 1]);
        }
        sheet.paint({ stroke: colour(label, tone), width: 1.2, alpha: STRONG });
      }
  }

  /**
   * Draw the steps of some tokens between two frames; of those that are followed when none are named.
   * @param {Sheet} sheet @param {Scene} scene @param {number} from @param {number} to
   * @param {import("./sheet.js").Style} style @param {number[] | null} members
   */
  function lines(sheet, scene, from, to, style, members) {
    const { player, mode } = scene;
    const stride = strideOf(player.n, player.count);
    const count = members ? members.length : player.n;
    let drawn = false;
    sheet.begin();
    for (let k = 0; k < count; k++) {
      const i = members ? members[k] : k;
      if (i % stride) continue;
      mode.at(scene, from, i, at);
      let [x, y] = at;
      sheet.move(x, y);
      for (let j = from + 1; j <= to; j++) {
        mode.at(scene, j, i, at);
        if (Math.abs(at[0] - x) + Math.abs(at[1] - y) < VISIBLE && j < to) continue;
        bent(scene, player.frame(j - 1), player.frame(j), i, sheet.line);
        [x, y] = at;
        sheet.line(x, y);
        drawn = true;
      }
    }
    if (drawn) sheet.paint(style);
  }

  return { prepare, draw };
}
