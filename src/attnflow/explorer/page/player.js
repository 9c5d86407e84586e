// The frames of a run, and which of them is shown: a position that plays, steps and seeks.

import { boxOf } from "./boxes.js";

/** At speed 1 a run takes PER_FRAME seconds for a frame, but at least SHORTEST and at most LONGEST seconds in all. */
const [PER_FRAME, SHORTEST, LONGEST] = [0.12, 4, 12];

/** @typedef {(x: number, first: number, clock: string) => number} OnScale */
/** @typedef {Float64Array | Float32Array} Numbers float32 of very many tokens */

/** Return where a time is on the scale shown: logarithmic time is log(1 + t), t from the first. @type {OnScale} */
export const onClock = (t, first, clock) => (clock === "log" ? Math.log1p(t - first) : t - first);

/** Return the time that is at a place on the scale shown, the inverse of `onClock`. @type {OnScale} */
export const offClock = (u, first, clock) => first + (clock === "log" ? Math.expm1(u) : u);

/**
 * Return the real index at which increasing numbers, taken linear in between, reach a value; ends are held.
 * @param {ArrayLike<number>} numbers @param {number} value
 */
export function indexOf(numbers, value) {
  if (!(value > numbers[0])) return 0;
  let [low, high] = [0, numbers.length - 1];
  if (value >= numbers[high]) return high;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= value) low = middle;
    else high = middle;
  }
  return low + (value - numbers[low]) / (numbers[high] - numbers[low]);
}

/** @typedef {ReturnType<typeof createPlayer>} Player */

export function createPlayer() {
  /** @type {Numbers[]} */
  let frames = [];
  /** @type {Numbers} */
  let blend = new Float64Array(0);

  const player = {
    id: -1,
    n: 0,
    d: 0,
    /** @type {number[]} */
    times: [],
    box: boxOf([], 0),
    done: false,
    /** For each token the first one that it ends with, -1 if it ends alone. @type {number[] | null} */
    endsWith: null,
    /** Which frame is shown, a real number: between two frames it is between them. */
    position: 0,
    playing: false,
    /** Whether there is nothing between two frames: then it is only shown there while it plays. */
    discrete: false,
    speed: 1,
    /** @type {"linear" | "log"} */
    clock: "linear",
    /** The times at which a flow rests, if it is shown beside layers: theirs. @type {number[] | null} */
    rests: null,
    get count() {
      return frames.length;
    },

    /** Begin anew, with a run of n tokens in dimension d. @param {number} id @param {number} n @param {number} d */
    clear(id, n, d) {
      frames = [];
      Object.assign(player, { id, n, d, times: [], done: false, endsWith: null, position: 0 });
      player.box = boxOf([], d);
      if (blend.length !== n * d) blend = new Float64Array(n * d);
    },

    /** Append frames as they came from the server. @param {Numbers} numbers */
    append(header, numbers) {
      const size = player.n * player.d;
      if (header.id !== player.id || header.first !== frames.length) return;
      for (let k = 0; k < header.count; k++) {
        const frame = numbers.subarray(k * size, (k + 1) * size);
        frames.push(frame);
        player.times.push(Number(header.times[k]));
        boxOf(frame, player.d, player.box);
      }
    },

    /** Return the tokens of frame k, row by row. @param {number} k */
    frame: (k) => frames[k],
    /** Return the frame that is shown, or was last. */
    frameIndex: () => Math.min(Math.floor(player.position + 1e-9), Math.max(frames.length - 1, 0)),

    /** Return the tokens at the position, between two frames in proportion; valid until the next call. */
    positions() {
      const { k, part } = place();
      if (part === 0) return frames[k] ?? blend;
      for (let j = 0; j < blend.length; j++) blend[j] = frames[k][j] + part * (frames[k + 1][j] - frames[k][j]);
      return blend;
    },

    play() {
      if (player.done && player.position >= frames.length - 1) player.position = 0;
      player.playing = true;
    },
    toggle: () => (player.playing ? player.pause() : player.play()),
    pause() {
      player.playing = false;
      player.seek(player.position);
    },
    /** Go to the next whole frame, or the one before. @param {number} by */
    step(by) {
      player.playing = false;
      const next = (/** @type {number} */ k) => (by > 0 ? Math.floor(k + 1e-9) + by : Math.ceil(k - 1e-9) + by);
      const rests = player.rests ?? [];
      const k = next(indexOf(rests, player.exactTime()));
      player.seek(k >= 0 && k < rests.length ? player.at(rests[k]) : next(player.position));
    },
    seek(/** @type {number} */ position) {
      const whole = player.discrete && !player.playing ? Math.round(position) : position;
      player.position = Math.min(Math.max(whole, 0), Math.max(frames.length - 1, 0));
      const { rests, playing } = player;
      if (!rests || playing || !(player.exactTime() <= rests[rests.length - 1])) return;
      player.position = player.at(rests[Math.round(indexOf(rests, player.exactTime()))]);
    },

    /** Return the position of a time. @param {number} time */
    at: (time) => indexOf(player.times, time),
    /** Return the time of what is shown: of a discrete run that of a frame. */
    time: () => (player.discrete && frames.length > 0 ? player.times[player.frameIndex()] : player.exactTime()),
    /** Return the time at the position, which between two frames is between theirs. */
    exactTime() {
      const { k, part } = place();
      return part === 0 ? (player.times[k] ?? 0) : player.times[k] + part * (player.times[k + 1] - player.times[k]);
    },

    /** Return how much of the clock has passed, between 0 and 1. */
    fraction() {
      const length = span();
      return length > 0 ? onClock(player.exactTime(), player.times[0], player.clock) / length : 0;
    },
    /** Go where a part of the clock, between 0 and 1, has passed. @param {number} part */
    seekFraction(part) {
      if (frames.length === 0) return;
      const held = Math.min(Math.max(part, 0), 1);
      if (held === 1) player.seek(frames.length - 1);
      else player.seek(player.at(offClock(held * span(), player.times[0], player.clock)));
    },

    /** Let seconds pass: the position advances evenly on the clock. @param {number} seconds */
    tick(seconds) {
      if (!player.playing || frames.length === 0) return;
      const last = frames.length - 1;
      if (player.position < last) {
        const whole = Math.min(Math.max(PER_FRAME * frames.length, SHORTEST), LONGEST);
        // While frames still come their number is not known: a frame takes its own time.
        if (player.done) player.seekFraction(player.fraction() + (player.speed * seconds) / whole);
        else player.seek(player.position + (player.speed * seconds) / PER_FRAME);
      }
      if (player.done && player.position >= last) player.playing = false;
    },
  };

  /** Return the frame at or before the position, and the part of the way to the next one. */
  function place() {
    const k = player.frameIndex();
    const part = player.position - k;
    return { k, part: part < 1e-9 || k + 1 >= frames.length ? 0 : part };
  }

  const span = () => (frames.length ? onClock(player.times[frames.length - 1], player.times[0], player.clock) : 0);

  return player;
}
