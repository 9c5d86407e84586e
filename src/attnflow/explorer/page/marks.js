// The marks of the picture, the same in every dimension: tokens, rings, stars, diamonds, outlines and labels.

import { colour, mixed } from "./colours.js";
import { arrow, bendSide, lines } from "./attention_lines.js";
import { influences } from "./influence.js";
import { noteBox } from "./note_box.js";
import { frameNote } from "./moving_frame.js";
import { polygon, segments } from "./sheet.js";
import { around, met, summed } from "./shapes.js";

/**
 * @import { Tone } from "./colours.js"
 * @import { Sheet, Style } from "./sheet.js"
 * @import { Draw, Scene } from "./scene.js"
 */

const RAYS = 8;
/** The radius of a star of which it is not known how much it is heard; of one that is heard alone, and the least. */
const [STAR, HEARD_ALONE, LEAST_STAR] = [6.4, 24, 4];
/** More tokens than the first are a crowd; of more than the second, only vertices are numbered. */
const [CROWD, ALL_NUMBERED] = [400, 40];
/** By how much dots over a density are smaller than others, in pixels; of very many tokens as many vertices are marked. */
const [DOT, MARKED] = [0.7, 300];
/** How many times as large the farthest and the nearest discs in space are. */
const [FAR, NEAR] = [0.68, 1.3];

/** Return the radius of the disc of one token: n discs cover about the same part of the picture. @param {number} n */
export const radius = (n) => Math.min(Math.max(38 / Math.sqrt(n), 2), 6.5);

/** Return the radius of the disc where `count` of n tokens met: its area grows with their part. */
export function grown(/** @type {number} */ n, /** @type {number} */ count) {
  const part = (count - 1) / n;
  return Math.sqrt(radius(n) ** 2 + 26 * Math.min(1, 25 * part) + 190 * part);
}

/** In space, discs pale with distance in STAGES stages, at most by the part PALE. */
const [STAGES, PALE] = [6, 0.6];
/** Styles are made once for a tone, not once for a disc. @type {WeakMap<object, Style[]>} */
const styles = new WeakMap();

/**
 * Return how a token is drawn: in the colour of its group, behind others paler.
 * @param {Tone} tone @param {number} label @param {number} near between 0 and 1
 * @param {boolean} crowd of small discs, which have thin edges
 */
function discStyle(tone, label, near, crowd = false) {
  const known = styles.get(tone) ?? [];
  styles.set(tone, known);
  const stage = Math.min(Math.floor(STAGES * (1 - near)), STAGES - 1);
  const k = ((Math.max(label, -1) + 1) * STAGES + stage) * 2 + Number(crowd);
  return (known[k] ??= {
    fill: mixed(colour(label, tone), tone.paper, (PALE * stage) / STAGES),
    stroke: tone.paper,
    width: crowd ? 0.4 : 0.9,
  });
}

/** Styles without an edge, for dots over a density. @type {WeakMap<Style, Style>} */
const bares = new WeakMap();

/** @param {Style} style */
function bare(style) {
  const found = bares.get(style) ?? { fill: style.fill };
  bares.set(style, found);
  return found;
}

/** @param {Tone} tone @param {number} label */
const hollow = (tone, label) => ({ fill: tone.paper, stroke: discStyle(tone, label, 1).fill, width: 1.1 });

/** How much of their ink marks of another frame keep. */
const LATE = 0.3;

/** Return the sheet for overlays: paler while they are of another frame. @param {Sheet} sheet @param {Scene} scene */
export function overlay(sheet, { pale }) {
  if (!pale) return sheet;
  const paler = (/** @type {Style} */ style) => ({ ...style, alpha: LATE * (style.alpha ?? 1) });
  return {
    ...sheet,
    paint: (/** @type {Style} */ style) => sheet.paint(paler(style)),
    /** @type {Sheet["disc"]} */
    disc: (x, y, r, style) => sheet.disc(x, y, r, paler(style)),
  };
}

/** Return the corners of the hull of now in pixels, x, y, x, y... @param {Scene} scene */
export function hullOnScreen({ overlays, n, screen }) {
  const corners = (overlays?.hull ?? []).filter((i) => i < n);
  return corners.flatMap((i) => [screen[2 * i], screen[2 * i + 1]]);
}

/** @typedef {(sheet: Sheet, scene: Scene, project: (point: number[]) => ArrayLike<number>) => void} DrawPoints */

/** Draw what lies over the trajectories, whatever the dimension. @type {DrawPoints} */
export function overTrails(sheet, scene, project) {
  const { show, sphere } = scene;
  const told = overlay(sheet, scene);
  if (show.influence) influences(told, scene);
  if (show.quiescent) outlines(told, scene);
  if (show.limits) limits(told, scene, project);
  lines(sheet, scene);
  tokens(sheet, scene);
  if (show.hull && !sphere) rings(told, scene);
  if (show.leaders) stars(told, scene);
  arrow(sheet, scene, project);
  if (show.numbers) numbers(sheet, scene);
  frameNote(sheet, scene);
  chosen(sheet, scene, project);
}

/** Draw a disc for each token, larger where more have met. @type {Draw} */
function tokens(sheet, scene) {
  const { n, screen, order, labels, sizes, tone, depth } = scene;
  if (!scene.dotted) return scene.d === 1 ? marked(sheet, scene) : crowd(sheet, scene);
  const disc = n > CROWD ? sheet.stamp : sheet.disc;
  sheet.group("tokens");
  for (let k = 0; k < n; k++) {
    const i = order ? order[k] : k;
    const style = discStyle(tone, labels[i], depth ? depth[i] : 1, n > CROWD);
    disc(screen[2 * i], screen[2 * i + 1], sizes[i], scene.dense ? bare(style) : style);
  }
}

/** Of very many tokens draw clumps, and those that are marked. @type {Draw} */
function crowd(sheet, scene) {
  scene.density.drawClumps(sheet, scene);
  marked(sheet, scene);
}

/** Draw a disc for each token that overlays mark: vertices of the hull and leaders. @type {Draw} */
function marked(sheet, scene) {
  const { overlays, show, screen, sizes, n, tone, cellLabels } = scene;
  const labels = new Map((overlays?.cells ?? []).map(({ vertex }, k) => [vertex, cellLabels[k]]));
  sheet.group("tokens");
  const vertices = show.hull && overlays?.hull?.length <= MARKED ? overlays.hull : [];
  for (const i of new Set([...vertices, ...starred(scene)]))
    if (i < n) sheet.disc(screen[2 * i], screen[2 * i + 1], sizes[i], discStyle(tone, labels.get(i) ?? 0, 1));
}

/** Draw a hollow dot where each token started. @type {Draw} */
export function starts(sheet, scene) {
  const { player, mode, n, labels, tone } = scene;
  // In a crowd, the dots of the start would hide what moves.
  if (player.position === 0 || player.count === 0 || player.n !== n || n > CROWD) return;
  sheet.group("starts");
  for (let i = 0; i < n; i++) {
    mode.at(scene, 0, i, where);
    sheet.disc(where[0], where[1], 0.6 * radius(n), hollow(tone, labels[i]));
  }
}
const where = new Float64Array(3);

/** Measure the discs of all tokens. @param {Scene} scene */
export function measure(scene) {
  const { n, sizes, dense, overlays } = scene;
  scene.heard = overlays?.heard?.length === n ? summed(scene.screen, overlays.heard) : null;
  if (scene.dotted) {
    met(scene.screen, n, scene.met);
    // Over a density single tokens are small dots.
    for (let i = 0; i < n; i++) sizes[i] = grown(n, scene.met[i]) - (dense ? DOT : 0);
  } else sizes.fill(radius(n) + DOT);
  // In space what is near is larger.
  const { depth } = scene;
  if (depth && scene.dotted) for (let i = 0; i < n; i++) sizes[i] *= FAR + (NEAR - FAR) * depth[i];
  // The disc of a leader is seen around its star.
  for (const i of starred(scene)) scene.sizes[i] = Math.max(scene.sizes[i], starRadius(scene, i) + 2.2);
}

/** Return the radius of the star of a leader: its area grows with how much all tokens hear those in its place.
 * @param {Scene} scene @param {number} i */
export function starRadius({ heard, sizes }, i) {
  if (!heard) return Math.max(STAR, sizes[i] - 2.2);
  const part = heard[i];
  return Math.max(LEAST_STAR, HEARD_ALONE * Math.sqrt(Math.min(Math.max(part, 0), 1)));
}

/** Return who is starred; where all lead themselves, as on a sphere, a star would say nothing. @param {Scene} scene */
function starred({ overlays, n, sphere, show }) {
  const leaders = (show.leaders && overlays?.leaders) || [];
  return sphere && leaders.length > n / 2 ? [] : leaders.filter((i) => i < n);
}

/** Star the leaders: white, on top of their discs. @type {Draw} */
function stars(sheet, scene) {
  const { screen, tone } = scene;
  sheet.group("leaders");
  for (const i of starred(scene)) {
    const r = starRadius(scene, i);
    const corners = Array.from({ length: 10 }, (_, k) => {
      const [angle, far] = [-Math.PI / 2 + (k * Math.PI) / 5, k % 2 ? 0.42 * r : r];
      return [screen[2 * i] + far * Math.cos(angle), screen[2 * i + 1] + far * Math.sin(angle)];
    });
    polygon(sheet, corners.flat());
    sheet.paint({ fill: tone.paper, stroke: tone.ink });
  }
}

/** Ring the vertices of the hull; in space, where all is seen through, not too many. @type {Draw} */
function rings(sheet, { overlays, screen, d, n, sizes, tone }) {
  if (d === 3 && n > 200) return;
  const style = { stroke: tone.ink, width: 1.1 };
  sheet.group("vertices");
  for (const i of overlays?.hull ?? [])
    if (i < n) sheet.disc(screen[2 * i], screen[2 * i + 1], sizes[i] + 2.6, style);
}

/** Draw the limit points: small diamonds, those that attract full and with rays around them. @type {DrawPoints} */
function limits(sheet, { overlays, tone }, project) {
  sheet.group("limits");
  for (const [k, point] of (overlays?.limits?.points ?? []).entries()) {
    const [x, y] = Array.from(project(point));
    const attracting = overlays.limits.attracting[k];
    const r = attracting ? 4.6 : 4;
    polygon(sheet, [x, y - r, x + r, y, x, y + r, x - r, y]);
    sheet.paint({ fill: attracting ? tone.ink : tone.paper, stroke: attracting ? tone.paper : tone.ink });
    if (!attracting) continue;
    const rays = Array.from({ length: RAYS }, (_, k) => {
      const [u, v] = [Math.cos((2 * Math.PI * k) / RAYS), Math.sin((2 * Math.PI * k) / RAYS)];
      return [x + 13 * u, y + 13 * v, x + 16.5 * u, y + 16.5 * v];
    });
    segments(sheet, rays, { stroke: tone.ink, width: 1.3, cap: "round" });
  }
}

/** Draw a line around the members of each quiescent set. @type {Draw} */
function outlines(sheet, { overlays, screen, n, sizes, tone }) {
  sheet.group("quiescent");
  for (const { members } of overlays?.quiescent ?? []) {
    const here = members.filter((i) => i < n);
    if (!here.length) continue;
    const room = Math.max(...here.map((i) => sizes[i])) + 11;
    polygon(sheet, around(screen, here, room));
    sheet.paint({ stroke: tone.quiet, width: 1.4, dash: [1.5, 3.5], cap: "round" });
  }
}

/** Number all tokens, of many the vertices; those in one place share a label. @type {Draw} */
function numbers(sheet, { screen, n, sizes, tone, middle, overlays }) {
  /** @type {number[]} */
  const list = n <= ALL_NUMBERED ? [...Array(n).keys()] : (overlays?.hull ?? []);
  /** @type {{x: number, y: number, members: number[]}[]} */
  const labels = [];
  for (const i of list.filter((index) => index < n)) {
    // Numbers stand on the side away from the middle of the cloud.
    const [dx, dy] = [screen[2 * i] - middle[0], screen[2 * i + 1] - middle[1]];
    const far = (sizes[i] + 13) / (Math.hypot(dx, dy) || 1);
    const [x, y] = [screen[2 * i] + far * dx, screen[2 * i + 1] + far * dy];
    const near = labels.find((label) => Math.hypot(label.x - x, label.y - y) < 14);
    if (near) near.members.push(i);
    else labels.push({ x, y, members: [i] });
  }
  sheet.group("numbers");
  for (const { x, y, members } of labels) {
    const text = members.length > 3 ? `${members.slice(0, 3).join(", ")}…` : members.join(", ");
    const align = members.length === 1 ? "middle" : x < middle[0] ? "end" : "start";
    sheet.text(x, y, text, { fill: tone.ink, size: 12, align, halo: tone.paper });
  }
}

/** Mark the origin with a small cross. @param {Sheet} sheet @param {ArrayLike<number>} at @param {string} ink */
export function cross(sheet, at, ink) {
  sheet.group("origin");
  const [x, y] = [at[0], at[1]];
  segments(sheet, [[x - 5, y, x + 5, y], [x, y - 5, x, y + 5]], { stroke: ink, width: 1.1 });
}

/** Show which token is chosen or pointed at, and say about one where it is and whom it hears. @type {DrawPoints} */
function chosen(sheet, scene, project) {
  const { chosen, pointed, noted, screen, n, d, sizes, tone, note, row } = scene;
  sheet.group("chosen");
  for (const [i, width] of [[pointed, 1.4], [chosen, 2.2]]) {
    if (i < 0 || i >= n) continue;
    const [x, y, r] = [screen[2 * i], screen[2 * i + 1], sizes[i] + 6.5];
    sheet.disc(x, y, r, { stroke: tone.paper, width: width + 1.8 });
    sheet.disc(x, y, r, { stroke: tone.palette[0], width });
  }
  if (!note || noted >= n) return;
  const [x, y] = [screen[2 * noted], screen[2 * noted + 1]];
  const beside = row?.token !== noted ? undefined : d > 1 ? project(row.mean) : [x + bendSide(scene), y + 1];
  noteBox(sheet, tone, x, y, sizes[noted], note, beside);
}
