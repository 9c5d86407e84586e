// Which moments of a run a movie shows, and for how long.

import { offClock, onClock } from "./player.js";

/** @typedef {{position: number, repeat: number}} Moment a place among the frames of the run, and for how many ticks */

/** Ticks a second; the seconds that a run takes for a frame, but at least SHORTEST and at most LONGEST in all; and the
 * end is held for this part of the movie. As on the time bar, and as in movies of the library. */
export const RATE = 25;
const [PER_FRAME, SHORTEST, LONGEST, HELD] = [0.12, 4, 8, 0.15];
/** Runs of fewer frames than FEW are shown between them too, so that the movie has about SMOOTH different pictures. */
const [FEW, SMOOTH, MOST_PARTS] = [75, 110, 8];

/** Return the moments of a movie, evenly on the clock from the first frame to the last. @returns {Moment[]} */
export function planOf(/** @type {import("./player.js").Player} */ player) {
  const { count, times, clock } = player;
  const last = count - 1;
  const seconds = Math.min(Math.max(PER_FRAME * count, SHORTEST), LONGEST);
  const held = Math.round(HELD * seconds * RATE);
  if (last < 1) return [{ position: 0, repeat: Math.round(seconds * RATE) }];
  const parts = count >= FEW ? 1 : Math.min(Math.ceil(SMOOTH / count), MOST_PARTS);
  const ticks = Math.round(seconds * RATE) - held;
  const span = onClock(times[last], times[0], clock);
  /** @type {Moment[]} */
  const plan = [];
  for (let k = 0; k < ticks; k++) {
    const t = offClock((k / (ticks - 1)) * span, times[0], clock);
    const position = k === ticks - 1 ? last : Math.round(player.at(t) * parts) / parts;
    const before = plan[plan.length - 1];
    if (before?.position === position) before.repeat += 1;
    else plan.push({ position, repeat: 1 });
  }
  plan[plan.length - 1].repeat += held;
  return plan;
}

/**
 * Return a plan with half of its moments from a place on: each stays for the time of two, and the last one is kept.
 * @param {Moment[]} plan @param {number} from @returns {Moment[]}
 */
export function halved(plan, from) {
  if (from >= plan.length - 1) return plan;
  const [before, rest, end] = [plan.slice(0, from), plan.slice(from, -1), plan.slice(-1)];
  const kept = rest.filter((_, k) => k % 2 === 0);
  const longer = kept.map((one, k) => ({ ...one, repeat: one.repeat + (rest[2 * k + 1]?.repeat ?? 0) }));
  return [...before, ...longer, ...end];
}
