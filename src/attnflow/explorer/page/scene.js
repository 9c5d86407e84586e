// What there is to draw: tokens, their colours, and the box that holds them, from the store and the frames of the run.

import { LIGHT, labelled } from "./colours.js";
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
    /** @type {Float64Array} */
    tokens: new Float64Array(0),
    /** @type {Float64Array} */
    start: new Float64Array(0),
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
    camera: null,
    trails: createTrails(),
    box: { low: [-1, -1], high: [1, 1] },
    /** @type {number[]} */
    startHull: [],
    /** @type {number[][]} */
    startEdges: [],
    middle: [0, 0],
    sphere: false,
    discrete: true,
    until: 0,
    chosen: -1,
    /** The token that a pointer is at. */
    pointed: -1,
    /** Whom a token hears. @type {import("./row_requests.js").Row | null} */
    row: null,
    /** The token that has a note, and what it says. */
    noted: -1,
    note: "",
  };
}

/** Return the rows that the run starts with; an edit is ahead of the run. @returns {number[][]} */
export const startRows = ({ state, run }) => (Array.isArray(state.tokens) ? state.tokens : (run?.tokens ?? []));

/**
 * Return the label of each token, and of each cell: by the cell it is in; without cells by its leader; without
 * leaders by whom it ends with. On the sphere every token is a vertex and has a cell of its own, which tells
 * nothing: there only the end counts.
 * @param {any} overlays @param {Scene} scene @returns {{labels: Int32Array, cellLabels: number[]}}
 */
export function labelsOf(overlays, { player, n, sphere }) {
  if (!sphere && overlays?.cells?.length && overlays.labels) {
    const vertices = overlays.cells.map((cell) => cell.vertex);
    const map = labelled(vertices);
    const cellLabels = vertices.map((vertex) => map.get(vertex) ?? -1);
    return { labels: Int32Array.from({ length: n }, (_, i) => cellLabels[overlays.labels[i]] ?? -1), cellLabels };
  }
  if (!sphere && overlays?.follows?.some((i) => i >= 0)) return byMember(overlays.follows, n);
  if (player.endsWith?.length === n) return byMember(player.endsWith, n);
  return { labels: new Int32Array(n), cellLabels: [] };
}

/** @param {ArrayLike<number>} members a token of the group of each, or -1 @param {number} n */
function byMember(members, n) {
  const map = labelled(Array.from(members).filter((i) => i >= 0));
  return { labels: Int32Array.from({ length: n }, (_, i) => map.get(members[i]) ?? -1), cellLabels: [] };
}
