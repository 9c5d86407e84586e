// Which part of space the picture shows, and how it comes there. The frame is in one of two states: "whole" shows the
// start and the whole run; "following" goes with the tokens, as the run goes too far to be seen as a whole.

import { between, boxOf, gap, joined, runsAway, shownBox } from "./boxes.js";

/** The time in which the picture comes to a new box, in seconds. */
const EASE = 0.07;
/** Boxes that are further apart than this part of their size are exchanged at once. */
const JUMP = 0.6;
/** Boxes that are nearer than this part of their size are the same to the eye. */
const SAME = 2e-3;

/** @param {import("./scene.js").Scene} scene */
export function createFraming(scene) {
  const { player } = scene;
  /** @type {"whole" | "following"} */
  let state = "whole";
  let target = scene.box;
  /** What the box was found for. @type {{rows: any, player: number, count: number}} */
  const seen = { rows: null, player: -1, count: -1 };

  /** Find the box that is to be shown. @param {boolean} on whether a later frame than the first is shown */
  function fit(on) {
    const { d, n, start, tokens } = scene;
    const first = boxOf(start, d);
    const whole = player.count > 0 && player.n === n && player.d === d ? player.box : null;
    state = !scene.sphere && runsAway(first, whole) ? "following" : "whole";
    const now = state === "following" ? boxOf(tokens, d) : whole;
    const wanted = shownBox(first, now, scene.sphere);
    const [other, follows] = [scene.box.low.length !== d, state === "following" && on];
    if (other || gap(wanted, target) > 0) target = wanted;
    if (other || (gap(scene.box, target) > JUMP && !follows)) scene.box = target;
    // However fast tokens run away, they are never out of sight.
    if (now && follows && gap(joined(scene.box, now), scene.box) > 0) scene.box = joined(scene.box, now);
  }

  return {
    /**
     * Find the box anew when tokens or frames are new, or it follows them; while a token is held the box stays.
     * @param {import("./hues.js").Rows} rows the tokens of the start
     * @param {boolean} on whether a later frame than the first is shown @param {boolean} held
     */
    update(rows, on, held) {
      const fresh = rows !== seen.rows || player.id !== seen.player || player.count !== seen.count;
      if ((fresh || state === "following") && scene.n > 0 && !held) fit(on);
      Object.assign(seen, { rows, player: player.id, count: player.count });
    },
    /** Find the box anew at the next picture. */
    forget() {
      seen.count = -1;
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
