// What there is to draw: tokens, their colours, and the box that holds them, from the store and the frames of the run.

import { LIGHT } from "./colours.js";
import { createDensity } from "./density.js";
import { hues } from "./hues.js";
import { createTimeDensity } from "./time_density.js";
import { createTrails } from "./trails.js";

/**
 * @typedef {ReturnType<typeof createScene>} Scene
 * @typedef {(sheet: import("./sheet.js").Sheet, scene: Scene) => void} Draw
 * @typedef {(scene: Scene, k: number, i: number, out: Float64Array) => any} PixelOf of token i of frame k, put in `out`
 */

/** Everything that is drawn; filled anew for each picture, in place. @param {import("./player.js").Player} player */
export function createScene(player) {
  return {
    width: 0,
    height: 0,
    ratio: 1,
    tone: LIGHT,
    n: 0,
    d: 2,
    /** @type {import("./player.js").Numbers} */
    tokens: new Float64Array(0),
    /** @type {import("./player.js").Numbers} */
    start: new Float64Array(0),
    /** Whether tokens are drawn as a density, and whether also one by one. */
    dense: false,
    dotted: true,
    density: createDensity(),
    timeDensity: createTimeDensity(),
    screen: new Float64Array(0),
    sizes: new Float64Array(0),
    met: new Int32Array(0),
    labels: new Int32Array(0),
    /** How much all tokens hear those in the place of each, in the mean; null where that is not known.
     * @type {Float64Array | null} */
    heard: null,
    /** @type {Float64Array | null} nearness between 0 and 1, in space */
    depth: null,
    /** @type {Int32Array | null} */
    order: null,
    /** Which tokens have which label. @type {Map<number, number[]>} */
    groups: new Map(),
    /** @type {number[]} */
    cellLabels: [],
    /** @type {any} */
    overlays: null,
    /** Whether the overlays are of another frame than the one that is shown at rest. */
    late: false,
    /** And have been for so long that it is seen. */
    pale: false,
    /** @type {Record<string, boolean>} */
    show: {},
    player,
    /** @type {any} plane, space or line */
    mode: null,
    /** @type {any} the lens of that */
    eye: null,
    /** @type {any} */
    camera: null,
    trails: createTrails(),
    box: { low: [-1, -1], high: [1, 1] },
    /** @type {number[]} */
    startHull: [],
    /** @type {number[][]} */
    startEdges: [],
    middle: [0, 0],
    sphere: false,
    /** What is drawn on the other stage, while two are compared: both show the same part of space. @type {any} */
    beside: null,
    /** Ask for a new picture. */
    ask: () => {},
    /** Bring all this up to date with the store and the player. */
    update: () => {},
    /** What tokens are in a moving frame, as a formula. */
    frame: "",
    /** By how much an orbit has turned the room. */
    spin: 0,
    discrete: true,
    until: 0,
    chosen: -1,
    /** The token that a pointer is at. */
    pointed: -1,
    /** Whom a token hears. @type {import("./row_requests.js").Row | null} */
    row: null,
    /** The token that has a note, and what it says. */
    noted: -1,
    /** Whether a token is held. */
    held: false,
    note: "",
  };
}

/**
 * Return the rows that the run starts with; an edit is ahead of the run. Very many tokens are numbers one after the
 * other, and cannot be edited one by one.
 * @returns {import("./hues.js").Rows}
 */
export const startRows = ({ state, run }) => (Array.isArray(state.tokens) ? state.tokens : (run?.tokens ?? []));

/**
 * Return the label of each token, and of each cell: by the cell it is in; without cells by its leader; without
 * leaders by whom it ends with. On the sphere every token is a vertex and has a cell of its own, which tells
 * nothing: there only the end counts.
 * @param {any} overlays @param {Scene} scene @param {Int32Array} told the identities of the tokens that the overlays
 *   are about @param {Int32Array} here and of those on the stage, which may be others
 * @returns {{labels: Int32Array, cellLabels: number[]}}
 */
export function labelsOf(overlays, { player, n, d, sphere }, told, here) {
  const place = told === here ? null : new Map(Array.from(told, (id, i) => [id, i]));
  const labelled = (/** @type {(i: number) => number} */ label) =>
    Int32Array.from({ length: n }, (_, i) => label(place ? (place.get(here[i]) ?? -1) : i));
  if (!sphere && overlays?.cells?.length) {
    // Cells in the plane lie around a point, in the order of the vertices.
    const cellLabels = hues.labelled(overlays.cells.map((cell) => told[cell.vertex]), d === 2);
    // Nobody says in which cell each of very many tokens is.
    if (!overlays.labels) return { labels: new Int32Array(n), cellLabels };
    return { labels: labelled((i) => cellLabels[overlays.labels[i]] ?? -1), cellLabels };
  }
  const members = !sphere && overlays?.follows?.some((i) => i >= 0) ? overlays.follows : player.endsWith;
  if (!members) return { labels: new Int32Array(n), cellLabels: [] };
  const groups = [...new Set(/** @type {number[]} */ (members))].filter((i) => i >= 0).sort((a, b) => a - b);
  const known = hues.labelled(groups.map((i) => told[i]), false);
  const map = new Map(groups.map((i, k) => [i, known[k]]));
  return { labels: labelled((i) => map.get(members[i]) ?? -1), cellLabels: [] };
}
