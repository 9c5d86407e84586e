// The look that the picture shows: how old it is, the colours that it gives to tokens, and the edges of the start.
//
// A look is "current" while it is of the frame that rests on the stage, or a film plays, or a hand holds a token. A
// look of another frame is "late", then "pale", and at last "outdated" and not drawn, until the next one comes.

import { labelsOf } from "./scene.js";

/** A late look is pale after the first of these times, in milliseconds, as paling at each step would flicker; and
 * after the second it is outdated. */
const [PALING, OUTDATED] = [80, 400];

/** @typedef {{name: "current"} | {name: "late" | "pale" | "outdated", since: number}} Age */

/** Return the age of a look that was of some age before. @param {Age} age @param {boolean} other @param {number} now */
function older(age, other, now) {
  if (!other) return /** @type {Age} */ ({ name: "current" });
  const since = age.name === "current" ? now : age.since;
  const name = now - since >= OUTDATED ? "outdated" : now - since >= PALING ? "pale" : "late";
  return /** @type {Age} */ ({ name, since });
}

/** @param {import("./scene.js").Scene} scene @param {any} store @param {any} film @param {() => void} ask */
export function createShownLook(scene, store, film, ask) {
  /** @type {Age} */
  let age = { name: "current" };
  /** What colours were last found for. @type {{look: any, n: number, done: boolean, run: number}} */
  const seen = { look: null, n: -1, done: false, run: -1 };
  /** The edges of the hull at frame 0 of a run, kept while looks at later frames come. */
  const edges = { run: -1, pairs: /** @type {number[][]} */ ([]) };

  /** @param {any} look @param {boolean} held whether a hand holds a token */
  function grow(look, held) {
    const other =
      Boolean(look) && !held && !film.playing && film.count > 0 && look.frame !== film.frameIndex();
    const before = age.name;
    age = older(age, other, performance.now());
    if (before === "current" && other) for (const wait of [PALING, OUTDATED]) setTimeout(ask, wait);
    scene.late = other;
    scene.pale = age.name === "pale" || age.name === "outdated";
  }

  /** Keep the edges of the start of this run; those of another are of other tokens, unless a hand moves one. */
  function keepEdges(/** @type {boolean} */ held) {
    const run = store.run?.id ?? -1;
    const first = [store.first, store.look].find((look) => look?.frame === 0 && look.run === run && look.edges);
    if (first) Object.assign(edges, { run, pairs: first.edges });
    else if (edges.run !== run && !held) Object.assign(edges, { run, pairs: [] });
  }

  /** Find colours anew when the look, the number of tokens, or the end of the film is new. @param {any} look */
  function relabel(look) {
    const { n } = scene;
    if (look === seen.look && n === seen.n && film.done === seen.done && film.id === seen.run) return;
    Object.assign(seen, { look, n, done: film.done, run: film.id });
    const found = labelsOf(look, film, n, scene.sphere);
    // While a new film comes, tokens keep the colours that they had.
    const known = !scene.sphere && (look?.cells || look?.follows);
    if (!film.done && !known && scene.labels.length === n) return;
    Object.assign(scene, found);
    scene.groups = Map.groupBy(scene.labels.keys(), (i) => scene.labels[i]);
  }

  return {
    /** Bring the look of the scene up to date. @param {number[][]} rows of the start @param {boolean} held */
    update(rows, held) {
      const { look } = store;
      const { n, d } = scene;
      // The last look stays until the next one comes, so that cells do not flicker while a token is dragged.
      const fits = look && (look.run === store.run?.id || rows.length === n) && (look.labels?.length ?? n) === n;
      const told = fits || look?.run === store.run?.id ? look : null;
      grow(told, held);
      scene.look = age.name === "outdated" ? null : told;
      keepEdges(held);
      scene.startEdges = d === 3 ? edges.pairs.filter((pair) => Math.max(...pair) * 3 < scene.start.length) : [];
      relabel(told);
    },
  };
}
