// The overlays that the picture shows: how old they are, the colours that they give to tokens, the edges of the start.
//
// Overlays are "current" while they are of the frame that is shown at rest, or the run plays, or a token is held. Those
// of another frame are "late", then "pale", and at last "outdated" and not drawn, until the next ones come.

import { hues } from "./hues.js";
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
  /** What colours were last found for: overlays, the end of a run, and the tokens that are shown. */
  const seen = { overlays: null, done: false, run: -1, here: new Int32Array(0) };
  /** The overlays that came last, and the tokens that they are about. */
  const known = { overlays: null, told: seen.here };
  /** Overlays of this run and of those before it are of another screen. */
  let elsewhere = -1;
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

  /** Return the identities of the tokens that the run on the stage started with. @param {Int32Array} here */
  function ofRun(here) {
    const { run } = store;
    const rows = Array.isArray(run?.state?.tokens) ? run.state.tokens : run?.tokens;
    return rows ? hues.identities(rows) : here;
  }

  /** Find colours anew when the overlays, the tokens, or the end of the run is new. @param {any} rows of the start */
  function relabel(overlays, rows) {
    const { n } = scene;
    const here = hues.identities(rows);
    const other = overlays !== seen.overlays || here !== seen.here;
    if (!other && player.done === seen.done && player.id === seen.run && scene.labels.length === n) return;
    Object.assign(seen, { overlays, done: player.done, run: player.id, here });
    if ((overlays?.run ?? player.id) <= elsewhere) {
      if (scene.labels.length !== n) Object.assign(scene, { labels: new Int32Array(n), cellLabels: [] });
    } else {
      // Overlays may be of the run before this one.
      if (overlays !== known.overlays) Object.assign(known, { overlays, told: ofRun(here) });
      const cut = !scene.sphere && (overlays?.cells || overlays?.follows);
      // While a new run comes, tokens keep the colours that they had.
      if (!player.done && !cut && scene.labels.length === n) return;
      Object.assign(scene, labelsOf(overlays, scene, cut ? known.told : ofRun(here), here));
    }
    scene.groups = scene.dotted ? Map.groupBy(scene.labels.keys(), (i) => scene.labels[i]) : new Map();
  }

  store.on(["state"], () => {
    if (!store.label.startsWith("open ")) return;
    elsewhere = store.run?.id ?? -1;
    hues.forget();
  });

  return {
    /** Bring the overlays of the scene up to date. @param {import("./hues.js").Rows} rows of the start @param {boolean} held */
    update(rows, held) {
      const { overlays } = store;
      const { n, d } = scene;
      // The last overlays stay until the next ones come, so that cells do not flicker while a token is dragged.
      const fits = scene.start.length === n * d && (overlays?.labels?.length ?? n) === n;
      const told = fits || overlays?.run === store.run?.id ? overlays : null;
      grow(told, held);
      scene.overlays = age.name === "outdated" ? null : told;
      keepEdges(held);
      scene.startEdges = d === 3 ? edges.pairs.filter((pair) => Math.max(...pair) * 3 < scene.start.length) : [];
      relabel(told, rows);
    },
  };
}
