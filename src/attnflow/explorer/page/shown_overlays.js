// The overlays that the picture shows: how old they are, the colours that they give to tokens, the edges of the start.
//
// Overlays are "current" while they are of the frame that is shown at rest, or the run plays, or a token is held. Those
// of another frame are "late", then "pale", and at last "outdated" and not drawn, until the next ones come.

import { labelsOf } from "./scene.js";

/** Late overlays are pale after the first of these times, in milliseconds, as paling at each step would flicker; and
 * after the second they are outdated. */
const [PALING, OUTDATED] = [80, 400];

/** @typedef {{name: "current"} | {name: "late" | "pale" | "outdated", since: number}} Age */

/** Return the age of overlays after another age. @param {Age} age @param {boolean} other @param {number} now */
function older(age, other, now) {
  if (!other) return /** @type {Age} */ ({ name: "current" });
  const since = age.name === "current" ? now : age.since;
  const name = now - since >= OUTDATED ? "outdated" : now - since >= PALING ? "pale" : "late";
  return /** @type {Age} */ ({ name, since });
}

/** @param {import("./scene.js").Scene} scene @param {() => void} ask */
export function createShownOverlays(scene, store, ask) {
  const { player } = scene;
  /** @type {Age} */
  let age = { name: "current" };
  /** What colours were last found for. @type {{overlays: any, n: number, done: boolean, run: number}} */
  const seen = { overlays: null, n: -1, done: false, run: -1 };
  /** The edges of the hull at frame 0 of a run, kept while overlays of later frames come. */
  const edges = { run: -1, pairs: /** @type {number[][]} */ ([]) };

  /** @param {boolean} held whether a token is held */
  function grow(overlays, held) {
    const other =
      Boolean(overlays) && !held && !player.playing && player.count > 0 && overlays.frame !== player.frameIndex();
    const before = age.name;
    age = older(age, other, performance.now());
    if (before === "current" && other) for (const wait of [PALING, OUTDATED]) setTimeout(ask, wait);
    scene.late = other;
    scene.pale = age.name === "pale" || age.name === "outdated";
  }

  /** Keep the edges of the start of this run; those of another are of other tokens, unless one is being moved. */
  function keepEdges(/** @type {boolean} */ held) {
    const run = store.run?.id ?? -1;
    const first = [store.first, store.overlays].find((one) => one?.frame === 0 && one.run === run && one.edges);
    if (first) Object.assign(edges, { run, pairs: first.edges });
    else if (edges.run !== run && !held) Object.assign(edges, { run, pairs: [] });
  }

  /** Find colours anew when the overlays, the number of tokens, or the end of the run is new. */
  function relabel(overlays) {
    const { n } = scene;
    if (overlays === seen.overlays && n === seen.n && player.done === seen.done && player.id === seen.run) return;
    Object.assign(seen, { overlays, n, done: player.done, run: player.id });
    const found = labelsOf(overlays, scene);
    // While a new run comes, tokens keep the colours that they had.
    const known = !scene.sphere && (overlays?.cells || overlays?.follows);
    if (!player.done && !known && scene.labels.length === n) return;
    Object.assign(scene, found);
    scene.groups = Map.groupBy(scene.labels.keys(), (i) => scene.labels[i]);
  }

  return {
    /** Bring the overlays of the scene up to date. @param {number[][]} rows of the start @param {boolean} held */
    update(rows, held) {
      const { overlays } = store;
      const { n, d } = scene;
      // The last overlays stay until the next ones come, so that cells do not flicker while a token is dragged.
      const fits = rows.length === n && (overlays?.labels?.length ?? n) === n;
      const told = fits || overlays?.run === store.run?.id ? overlays : null;
      grow(told, held);
      scene.overlays = age.name === "outdated" ? null : told;
      keepEdges(held);
      scene.startEdges = d === 3 ? edges.pairs.filter((pair) => Math.max(...pair) * 3 < scene.start.length) : [];
      relabel(told);
    },
  };
}
