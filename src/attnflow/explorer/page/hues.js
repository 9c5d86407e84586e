// The hues of groups of tokens. A group is known by one of its tokens, such as the vertex of its cell, and keeps its hue
// as long as the page shows this cloud: while other tokens move, come and go, and under every law. Another screen starts
// anew, and always in the same way.

import { LIGHT } from "./colours.js";

/** The last colour of the palette is black, which no group has. */
const PALETTE = LIGHT.palette.length;
const LABELS = Array.from(LIGHT.shades.keys()).filter((label) => label % PALETTE !== PALETTE - 1);

/**
 * @typedef {number[][] | import("./player.js").Numbers} Rows the tokens of a start: rows, or the numbers of very many
 * @typedef {ReturnType<typeof createHues>} Hues
 */

export function createHues() {
  /** The identity of each token, by its row, and of all tokens of a start. */
  let [ofRow, ofStart] = [/** @type {WeakMap<object, number>} */ (new WeakMap()), new WeakMap()];
  /** The label of each group that was ever shown, by the identity of its token. @type {Map<number, number>} */
  let labels = new Map();
  /** @type {{rows: Rows, ids: Int32Array} | null} the start that was seen last */
  let last = null;
  let next = 0;

  function forget() {
    [ofRow, ofStart, labels, last, next] = [new WeakMap(), new WeakMap(), new Map(), null, 0];
  }

  /** Return the identities of tokens that come after others. @param {Rows} rows */
  function identified(rows) {
    if (!Array.isArray(rows)) {
      const same = last && !Array.isArray(last.rows) && equal(rows, last.rows);
      if (!same) forget();
      return same && last ? last.ids : Int32Array.from({ length: rows.length }, (_, i) => i);
    }
    const before = last && Array.isArray(last.rows) ? { rows: last.rows, ids: last.ids } : null;
    let ids = matched(rows, before, ofRow);
    if (before && !ids.some((id) => id >= 0)) forget();
    ids = ids.map((id) => (id < 0 ? next++ : id));
    for (const [i, row] of rows.entries()) ofRow.set(row, ids[i]);
    // One array for equal identities: whoever compares two finds them the same.
    return before && equal(ids, before.ids) ? before.ids : ids;
  }

  return {
    forget,

    /** Return the identity of each token: it stays when tokens before it are removed, or it is moved. @param {Rows} rows */
    identities(rows) {
      let ids = ofStart.get(rows);
      if (!ids) {
        ids = identified(rows);
        ofStart.set(rows, ids);
        last = { rows, ids };
      }
      return ids;
    },

    /**
     * Give a label to each of some groups that are shown together. One that has none yet gets a hue that its neighbours
     * do not have, which the fewest of these groups have.
     * @param {number[]} groups identities of a token of each @param {boolean} ring whether each is a neighbour of the
     *   next, and the last of the first
     * @returns {number[]}
     */
    labelled(groups, ring) {
      const found = groups.map((id) => labels.get(id) ?? -1);
      const [shown, ever] = [new Array(PALETTE).fill(0), new Array(LIGHT.shades.length).fill(0)];
      for (const label of found) if (label >= 0) shown[label % PALETTE] += 1;
      for (const label of labels.values()) ever[label] += 1;
      for (const [k, id] of groups.entries()) {
        // The same group may be there twice.
        if (found[k] < 0 && labels.has(id)) found[k] = labels.get(id) ?? -1;
        if (found[k] >= 0) continue;
        const near = ring ? [found.at(k - 1), found[(k + 1) % found.length]] : [];
        const beside = near.filter((label) => label !== undefined && label >= 0).map((label) => Number(label) % PALETTE);
        const cost = (/** @type {number} */ label) => {
          const hue = label % PALETTE;
          return [Number(beside.includes(hue)), shown[hue], ever[label], label];
        };
        const label = LABELS.map(cost).reduce((a, b) => (less(a, b) ? a : b))[3];
        labels.set(id, label);
        shown[label % PALETTE] += 1;
        ever[label] += 1;
        found[k] = label;
      }
      return found;
    },
  };
}

/** The hues of this page: one token has one hue in all its pictures. */
export const hues = createHues();

/**
 * Return for each token the identity of the same one before, -1 for a new one: it is known by its row, else by its
 * place, else, where as many tokens are there and some are known, by its number.
 * @param {number[][]} rows @param {{rows: number[][], ids: Int32Array} | null} before @param {WeakMap<object, number>} ofRow
 */
function matched(rows, before, ofRow) {
  const ids = Int32Array.from(rows, (row) => ofRow.get(row) ?? -1);
  if (!before) return ids;
  const taken = new Set(ids);
  const take = (/** @type {number} */ i, /** @type {number} */ id) => {
    if (ids[i] >= 0 || taken.has(id)) return;
    ids[i] = id;
    taken.add(id);
  };
  if (!ids.includes(-1)) return ids;
  /** @type {Map<string, number[]>} the tokens of before at each place */
  const at = new Map();
  const alike = rows.length === before.rows.length;
  for (const [i, row] of before.rows.entries()) {
    if (alike && equal(row, rows[i])) take(i, before.ids[i]);
    if (!taken.has(before.ids[i])) at.set(String(row), [...(at.get(String(row)) ?? []), before.ids[i]]);
  }
  for (const [i, row] of rows.entries()) if (ids[i] < 0) take(i, at.get(String(row))?.shift() ?? -1);
  if (alike && ids.some((id) => id >= 0)) for (const [i, id] of before.ids.entries()) take(i, id);
  return ids;
}

/** @param {ArrayLike<number>} a @param {ArrayLike<number>} b */
function equal(a, b) {
  if (a.length !== b.length) return false;
  for (let k = 0; k < a.length; k++) if (a[k] !== b[k]) return false;
  return true;
}

/** Whether a list of numbers comes before another. @param {number[]} a @param {number[]} b */
function less(a, b) {
  const k = a.findIndex((value, c) => value !== b[c]);
  return k >= 0 && a[k] < b[k];
}
