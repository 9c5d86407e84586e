// Which part of space the picture shows, and how it comes there. The frame is in one of two states: "whole" shows the
// start and the whole run; "following" goes with the tokens, as the run goes too far to be seen as a whole.

import { between, boxOf, gap, joined, runsAway, shownBox } from "./boxes.js";

/** The time in which the picture comes to a new box, in seconds. */
const EASE = 0.07;
/** Boxes that are further apart than this part of their size are exchanged at once. */
const JUMP = 0.6;
/** Boxes that are nearer than this part of their size are the same to the eye. */
const SAME = 2e-3;

/** @import { Scene } from "./scene.js" */

/** Return the box of the run on a stage, if it is that of its tokens. @param {Scene} scene */
const wholeBox = ({ player, n, d }) => (player.count > 0 && player.n === n && player.d === d ? player.box : null);

/** What the box of a side depends on: the other side may be drawn before its scene knows of a new run. @param {Scene} side */
const sideKey = ({ player, n, d, sphere }) => [player.id, player.count, n, d, sphere].join(" ");

/** @param {Scene} scene */
export function createFraming(scene) {
  const { player } = scene;
  /** @type {"whole" | "following"} */
  let state = "whole";
  let target = scene.box;
  /** What the box was found for. @type {{rows: any, runs: string}} */
  const seen = { rows: null, runs: "" };

  /** Find the box that is to be shown. @param {boolean} on whether a later frame than the first is shown */
  function fit(on) {
    const { d } = scene;
    const first = boxOf(scene.start, d);
    const sides = [scene, scene.beside].filter((side) => side?.d === d);
    state = sides.some((side) => !side.sphere && runsAway(first, wholeBox(side))) ? "following" : "whole";
    const now = sides.map((side) => (state === "following" ? boxOf(side.tokens, d) : wholeBox(side)));
    const wanted = sides.map((side, k) => shownBox(first, now[k], side.sphere)).reduce(joined);
    const [other, follows] = [scene.box.low.length !== d, state === "following" && on];
    if (other || gap(wanted, target) > 0) target = wanted;
    if (other || (gap(scene.box, target) > JUMP && !follows)) scene.box = target;
    // However fast tokens run away, they are never out of sight.
    for (const box of follows ? now : [])
      if (box && gap(joined(scene.box, box), scene.box) > 0) scene.box = joined(scene.box, box);
  }

  return {
    /**
     * Find the box anew when tokens or frames are new, or it follows them; while a token is held the box stays.
     * @param {import("./hues.js").Rows} rows the tokens of the start
     * @param {boolean} on whether a later frame than the first is shown @param {boolean} held
     */
    update(rows, on, held) {
      const runs = `${sideKey(scene)}, ${scene.beside && sideKey(scene.beside)}`;
      const fresh = rows !== seen.rows || runs !== seen.runs;
      if ((fresh || state === "following") && scene.n > 0 && !held && !scene.beside?.held) fit(on);
      Object.assign(seen, { rows, runs });
    },
    /** Find the box anew at the next picture. */
    forget() {
      seen.runs = "";
    },
    /** Come closer to the box that is to be shown; return whether it changed. @param {number} seconds */
    ease(seconds) {
      if (scene.box === target) return false;
      if (gap(scene.box, target) < SAME || matchMedia("(prefers-reduced-motion: reduce)").matches) scene.box = target;
      else scene.box = between(scene.box, target, 1 - Math.exp(-seconds / EASE));
      return true;
    },
  };
}
