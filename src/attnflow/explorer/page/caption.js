// What is seen at this moment, in words: the law and the motion, the time, and one sentence that is true of it.

import { modelText } from "./model_text.js";
import { isRandom, surfaceOf } from "./models.js";
import { startRows } from "./scene.js";
import { written } from "./ticks.js";
import { timeText } from "./timebar.js";

/**
 * @typedef {{law: string, time: string, said: string}} Caption
 * @typedef {{from: number, by: number}} Rest since which frame no token was farther than `by` from where it is now
 * @typedef {object} Facts what a sentence is made from; null for what is not known
 * @property {number} n
 * @property {"start" | "middle" | "end"} when
 * @property {[number, number] | null} clusters the least and the most that there are
 * @property {number} reach all tokens are within this distance of one point
 * @property {number} startReach the same of the start
 * @property {number | null} leaders
 * @property {number | null} quiescent how many sets
 * @property {{by: number, words: string} | null} rest how little tokens moved, and since when
 * @property {{holds: number, violated: number} | null} claims
 */

/** Tokens within the first part of the reach of the start have met; a cloud of the second part of it is wide. */
const [MET, WIDE] = [0.02, 10];
/** From this many tokens on, clusters are places with a hundredth of all tokens. */
const PLACES = 20_000;
/** Tokens that moved less than the part STILL of the reach of the start, for at least FRAMES frames, are at rest. */
const [STILL, FRAMES] = [1e-3, 4];
/** A look back compares at most LOOK_BACK numbers. */
const LOOK_BACK = 3e6;

/** Return what is seen, in words. @param {import("./player.js").Player} player @returns {Caption} */
export function captionOf(store, player) {
  // While an edit is computed, what is seen is still the run of the state before.
  const law = modelText(store.run?.state ?? store.state);
  return { law, time: timeOf(store, player), said: sentenceOf(factsOf(store, player)) };
}

/** Return the time shown, as the time bar writes it. @param {import("./player.js").Player} player */
export function timeOf({ run }, player) {
  return timeWords(player.count > 0 ? player.time() : 0, run?.discrete ?? true);
}

/** @param {number} t @param {boolean} discrete */
export const timeWords = (t, discrete) => `${discrete ? "step" : "t ="} ${timeText(t, discrete)}`;

/** Gather what is known of the moment shown. @param {import("./player.js").Player} player @returns {Facts} */
export function factsOf(store, player) {
  const { state } = store;
  const k = player.frameIndex();
  const n = player.count > 0 ? player.n : startRows(store).length;
  if (player.count === 0) {
    const nothing = { clusters: null, leaders: null, quiescent: null, rest: null, claims: null };
    return { n, when: "start", reach: 1, startReach: 1, ...nothing };
  }
  // A motion in steps is where its last step led, also while the picture is on its way to the next.
  const whole = player.discrete || player.position - k < 1e-9;
  const when = player.position === 0 ? "start" : player.done && k === player.count - 1 ? "end" : "middle";
  const seen = whole && !player.playing ? overlaysAt(store, k) : null;
  const startReach = frameReach(player, 0);
  // On the sphere nearly all lead themselves.
  const led = seen?.leaders && !(surfaceOf(state.motion.name) === "sphere" && seen.leaders.length > n / 2);
  return {
    n,
    when,
    clusters: when === "start" ? null : clustersAt(store.series, player, whole ? k : player.position),
    reach: whole ? frameReach(player, k) : reach(player.positions(), player.d),
    startReach,
    leaders: led ? seen.leaders.length : null,
    quiescent: seen?.quiescent?.length ?? null,
    rest: restWords(player, whole && !isRandom(state.motion) ? restOf(player, k, STILL * startReach) : null, k),
    claims: when === "end" ? verdicts(store) : null,
  };
}

/** Return the overlays of frame k of the run on the screen, if they are there. @param {any} store @param {number} k */
const overlaysAt = ({ overlays, run }, k) => (overlays?.run === run?.id && overlays?.frame === k ? overlays : null);

/**
 * Return the least and the most clusters at a position: those of the frames around it that were measured.
 * @param {any} series @param {{id: number}} player @param {number} place @returns {[number, number] | null}
 */
export function clustersAt(series, player, place) {
  const frames = series?.id === player.id ? (series.frames ?? []) : [];
  const after = frames.findIndex((/** @type {number} */ frame) => frame >= place);
  if (after < 0 || !series.clusters) return null;
  const counts = frames[after] === place ? [series.clusters[after]] : series.clusters.slice(after - 1, after + 1);
  return counts.every(Number.isFinite) ? [Math.min(...counts), Math.max(...counts)] : null;
}

/** Return how far tokens are at most from the middle of their box. @param {import("./player.js").Numbers} tokens @param {number} d */
export function reach(tokens, d) {
  const [low, high] = [new Float64Array(d).fill(Infinity), new Float64Array(d).fill(-Infinity)];
  for (let j = 0; j < tokens.length; j++) {
    low[j % d] = Math.min(low[j % d], tokens[j]);
    high[j % d] = Math.max(high[j % d], tokens[j]);
  }
  let most = 0;
  for (let i = 0; i < tokens.length; i += d) {
    let square = 0;
    for (let c = 0; c < d; c++) square += (tokens[i + c] - (low[c] + high[c]) / 2) ** 2;
    most = Math.max(most, square);
  }
  return Math.sqrt(most);
}

/** The reach of frames, which do not change. @type {WeakMap<import("./player.js").Numbers, number>} */
const reaches = new WeakMap();

/** @param {import("./player.js").Player} player @param {number} k */
function frameReach(player, k) {
  const frame = player.frame(k);
  const known = reaches.get(frame) ?? reach(frame, player.d);
  reaches.set(frame, known);
  return known;
}

/**
 * Return since which frame all tokens have been within `most` of where they are at frame k, and how far they were.
 * @param {import("./player.js").Player} player @param {number} k @param {number} most @returns {Rest | null}
 */
export function restOf(player, k, most) {
  const { n, d } = player;
  let [from, by] = [k, 0];
  for (; from > 0 && (k - from) * n * d < LOOK_BACK; from--) {
    const far = farthest(player.frame(from - 1), player.frame(k), d, most);
    if (far > most) break;
    by = Math.max(by, far);
  }
  return k - from >= FRAMES ? { from, by } : null;
}

/**
 * Return how far a token is at most from where it is later; the search ends with one that is farther than `most`.
 * @param {import("./player.js").Numbers} a @param {import("./player.js").Numbers} b @param {number} d @param {number} most
 */
function farthest(a, b, d, most) {
  let largest = 0;
  for (let i = 0; i < a.length && largest <= most; i += d) {
    let square = 0;
    for (let c = i; c < i + d; c++) square += (b[c] - a[c]) ** 2;
    largest = Math.max(largest, Math.sqrt(square));
  }
  return largest;
}

/**
 * Say since when tokens rest, if that is for as long as they moved.
 * @param {import("./player.js").Player} player @param {Rest | null} rest @param {number} k
 */
function restWords(player, rest, k) {
  if (!rest) return null;
  const [first, from, now] = [0, rest.from, k].map((frame) => player.times[frame]);
  if (now - from < from - first) return null;
  const words = player.discrete ? `for ${timeText(now - from, true)} steps` : `since t = ${timeText(from, false)}`;
  return { by: rest.by, words };
}

/** Count the verdicts on what is on the screen, once all are there. */
function verdicts({ claims }) {
  const all = [...(claims?.values() ?? [])];
  if (all.length === 0 || claims.waiting || all.some((one) => !one.verdict || one.stale)) return null;
  const counted = (/** @type {string} */ outcome) => all.filter((one) => one.verdict.outcome === outcome).length;
  return { holds: counted("holds"), violated: counted("violated") };
}

/** @param {number} k @param {string} one @param {string} many */
const counted = (k, one, many = `${one}s`) => `${k.toLocaleString("en")} ${k === 1 ? one : many}`;

/** Return a number with one digit, not smaller: what was within 0.0032 is within 0.004. @param {number} value */
export function roundedUp(value) {
  const [lead, power] = value.toExponential(0).split("e");
  const near = Number(`${lead}e${power}`);
  return near >= value ? near : Number(`${Number(lead) + 1}e${power}`);
}

/** Return a number with two digits, not larger. @param {number} value */
export function roundedDown(value) {
  const [lead, power] = value.toExponential(1).split("e");
  const near = Number(`${lead}e${power}`);
  return near <= value ? near : Number(`${(Number(lead) - 0.1).toFixed(1)}e${power}`);
}

/** Make a sentence of what is known. @param {Facts} facts */
export function sentenceOf(facts) {
  const { n, reach: far, startReach, leaders, quiescent, rest, claims } = facts;
  const said = [];
  const met = n > 1 && far <= MET * startReach;
  if (met && far === 0) said.push(`all ${counted(n, "token")} are at one point`);
  else if (met) said.push(`all ${counted(n, "token")} are within ${written(roundedUp(far))} of one point`);
  else said.push(cloudWords(facts));
  if (leaders !== null && !met) said.push(counted(leaders, "leader"));
  if (quiescent !== null && quiescent > 0) said.push(counted(quiescent, "quiescent set"));
  const by = rest?.by ? ` by more than ${written(roundedUp(rest.by))}` : "";
  if (rest) said.push(`nothing has moved${by} ${rest.words}`);
  if (claims?.violated) said.push(`${counted(claims.violated, "claim")} violated`);
  else if (claims?.holds) said.push(`${counted(claims.holds, "claim")} ${claims.holds === 1 ? "holds" : "hold"}`);
  const sentence = said.join("; ");
  return sentence[0].toUpperCase() + sentence.slice(1);
}

/** Say how many tokens there are, in how many clusters, and how wide they are. @param {Facts} facts */
function cloudWords({ n, when, clusters, reach: far, startReach }) {
  const tokens = counted(n, "token");
  if (when === "start") return `${tokens} at the start`;
  const wide = startReach > 0 && far > WIDE * startReach && Number.isFinite(far / startReach);
  const size = wide ? `, more than ${written(roundedDown(far / startReach))} times as far apart as at the start` : "";
  if (!clusters) return tokens + size;
  const [least, most] = clusters;
  const moment = when === "end" ? "at the end" : "so far";
  if (n > PLACES) return `${tokens}, ${counted(least, "place")} with a hundredth of them or more${size}`;
  // A chain of near tokens is one cluster, whatever its length: a cloud that is still wide is not called one.
  if (most === 1) return tokens + size;
  if (least === n) return `${tokens}, none of them together${size || ` ${moment === "so far" ? "yet" : moment}`}`;
  const number = least === most ? counted(least, "cluster") : `${least} to ${counted(most, "cluster")}`;
  return `${tokens}, ${number}${size || ` ${moment}`}`;
}
