// Trajectories: the whole run as faint lines on a layer of its own, and the last steps over it, fading with age. Of many
// tokens, which are drawn as a density, only the last steps of a few show where they go.

import { colour } from "./colours.js";
import { onClock } from "./player.js";
import { cleared } from "./screen.js";

/** @import { Sheet, Style } from "./sheet.js" @import { Draw, Scene } from "./scene.js" */

/** How many steps of tokens the layer holds, and are drawn anew in each frame. */
const [LAYER, TAIL] = [320000, 6000];
/** In one frame the layer is drawn for TURN milliseconds, by AT_ONCE steps; the rest is drawn in the next frames. */
const [TURN, AT_ONCE] = [7, 4];
/** A new run replaces the lines of the old one when it is whole, or after PATIENCE milliseconds. */
const PATIENCE = 160;
/** How much of their colour old steps and new ones have, in how many stages they fade, and how wide they are. */
const [FAINT, STRONG, STAGES, WIDTHS] = [0.16, 0.9, 8, [1, 1.7]];
/** Steps are old after this part of the whole run. */
const LIFE = 0.3;
/** How many of many tokens show where they go, and how strong. */
const [SAMPLES, SAMPLED] = [64, 0.7];
/** Return how the whole run is drawn: more faintly for a crowd. @param {Scene} scene */
const faint = ({ n, tone }) => ({ stroke: tone.quiet, width: 0.9, alpha: n > 400 ? 0.2 : 0.42 });
/** Steps shorter than this many pixels are joined to the next. */
const VISIBLE = 0.8;

/** On the sphere the way between two frames is an arc, drawn in pieces of this angle. */
const BEND = 0.08;
const spot = new Float64Array(3);

/**
 * Call `go` with the pixels between the ends of a step, if it bends: those of the arc between two tokens on the sphere.
 * @param {Scene} scene @param {ArrayLike<number>} from all tokens before @param {ArrayLike<number>} to and after
 * @param {number} i @param {(x: number, y: number) => void} go
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

/** How strong a step is drawn that is this young, between 0 and 1: calm at first, then quickly. @param {number} young */
const strength = (young) => FAINT + (STRONG - FAINT) * young ** 2;
/** And how wide. @param {number} young */
const widthOf = (young) => WIDTHS[0] + (WIDTHS[1] - WIDTHS[0]) * young;

/** Return the distance between tokens whose lines are drawn, so that the layer holds them all. */
const strideOf = (/** @type {number} */ n, /** @type {number} */ count) =>
  Math.max(1, Math.ceil((n * Math.max(count, 240)) / LAYER));

/**
 * Return the stages of the last steps: where each begins and ends, how strong and how wide it is.
 * @param {ArrayLike<number>} passed the part of the whole run that has passed at each frame
 * @param {number} first @param {number} last
 */
export function stages(passed, first, last) {
  const found = [];
  const stageOf = (/** @type {number} */ j) =>
    Math.max(Math.ceil(STAGES * (1 - (passed[last] - passed[j]) / LIFE)), 1);
  let from = first;
  for (let j = first; j < last; j++) {
    const now = stageOf(j + 1);
    if (j + 2 > last || stageOf(j + 2) !== now) {
      const young = (now - 1) / (STAGES - 1);
      found.push({ from, to: j + 1, alpha: strength(young), width: widthOf(young) });
      from = j + 1;
    }
  }
  return found;
}

/** Return the part of the whole run that has passed at each frame, on its clock. @param {import("./player.js").Player} player */
function passedBy({ times, clock }) {
  const length = onClock(times[times.length - 1], times[0], clock) || 1;
  return times.map((t) => onClock(t, times[0], clock) / length);
}

export function createTrails() {
  let [front, back] = [emptyLayer(), emptyLayer()];
  const at = new Float64Array(3);

  function emptyLayer() {
    const canvas = document.createElement("canvas");
    // `last` is the frame that lines lead to.
    return { canvas, sheet: cleared(canvas, 1, 1).sheet, key: "", place: "", last: 0, since: 0 };
  }

  /** Draw more of the run on the layer; return whether there is more to draw. @param {Scene} scene */
  function prepare(scene) {
    const { player, mode, tone } = scene;
    const place = `${mode.placeKey(scene)} ${scene.width} ${scene.height} ${scene.ratio} ${tone.paper}`;
    const key = `${player.id} ${strideOf(player.n, player.count)} ${place}`;
    if (front.place !== place) front.key = "";
    const layer = front.key === key ? front : back;
    if (layer.key !== key) {
      const { sheet } = cleared(layer.canvas, scene.width, scene.height);
      Object.assign(layer, { key, place, sheet, last: 0, since: performance.now() });
    }
    const begun = performance.now();
    while (layer.last < player.count - 1 && performance.now() - begun < TURN) {
      const to = Math.min(layer.last + AT_ONCE, player.count - 1);
      lines(layer.sheet, scene, layer.last, to, faint(scene), null);
      layer.last = to;
    }
    const whole = layer.last >= player.count - 1;
    const due = (player.done && whole) || front.key === "" || begun - layer.since > PATIENCE;
    if (layer === back && player.count > 0 && due) [front, back] = [back, front];
    // A run that still comes tells of itself; one that waits for its turn must be asked again.
    return !whole || layer === back;
  }

  /** Draw all trajectories: what is to come faint, what has been in colour. @type {Draw} */
  function draw(sheet, scene) {
    sheet.group("trails");
    if (scene.dense) return flow(sheet, scene);
    if (sheet.layer) {
      const now = scene.mode.now?.(scene) ?? 0;
      if (front.key !== "") {
        sheet.layer(front.canvas, 0, now, 1);
        sheet.layer(front.canvas, now, sheet.width, scene.d === 1 ? 0.45 : 1);
      }
    } else if (scene.player.n === scene.n) lines(sheet, scene, 0, scene.player.count - 1, faint(scene), null);
    if (scene.player.n === scene.n && scene.player.count > 0 && scene.player.position > 0) tail(sheet, scene);
  }

  /** @type {Draw} */
  function tail(sheet, scene) {
    const { player, tone, groups } = scene;
    const last = player.frameIndex();
    const drawn = Math.ceil(player.n / strideOf(player.n, player.count));
    const steps = sheet.layer ? Math.max(2, Math.floor(TAIL / drawn)) : last;
    for (const { from, to, alpha, width } of stages(passedBy(player), Math.max(0, last - steps), last))
      for (const [label, members] of groups)
        lines(sheet, scene, from, to, { stroke: colour(label, tone), width, alpha }, members);
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
        sheet.paint({ stroke: colour(label, tone), width: WIDTHS[1], alpha: STRONG });
      }
  }

  /** Draw the last steps of a few of many tokens. @type {Draw} */
  function flow(sheet, scene) {
    const { player, tone, n } = scene;
    if (player.n !== n || player.count === 0 || player.position === 0) return;
    const last = player.frameIndex();
    const members = Array.from({ length: SAMPLES }, (_, k) => Math.floor((k * n) / SAMPLES));
    const style = { stroke: tone.ink, cap: /** @type {const} */ ("round") };
    const recent = stages(passedBy(player), 0, last).filter(({ alpha }) => alpha > FAINT);
    for (const { from, to, alpha, width } of recent)
      lines(sheet, scene, from, to, { ...style, width: 0.8 * width, alpha: SAMPLED * alpha }, members, 1);
    if (player.position - last < 1e-9) return;
    sheet.begin();
    for (const i of members) {
      scene.mode.at(scene, last, i, at);
      sheet.move(at[0], at[1]);
      sheet.line(scene.screen[2 * i], scene.screen[2 * i + 1]);
    }
    sheet.paint({ ...style, width: 0.8 * WIDTHS[1], alpha: SAMPLED * STRONG });
  }

  /**
   * Draw the steps of some tokens between two frames; of those that are followed when none are named.
   * @param {Sheet} sheet @param {Scene} scene @param {number} from @param {number} to
   * @param {Style} style @param {number[] | null} members
   */
  function lines(sheet, scene, from, to, style, members, stride = strideOf(scene.player.n, scene.player.count)) {
    const { player, mode } = scene;
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
