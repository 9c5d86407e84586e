// How a run goes: clusters, rank, energy and diameter over time, with a cursor at the time shown; a click goes there.

import { make } from "./elements.js";
import { indexOf, offClock, onClock } from "./player.js";
import { segments } from "./sheet.js";
import { cleared, onceAFrame, shownTone } from "./screen.js";
import { decades, ticks, written } from "./ticks.js";

/**
 * @typedef {{name: string, title: string, whole: boolean}} Kind
 * @typedef {{low: number, high: number, log: boolean, zero?: string}} Scale `zero` is what is said of values that a
 *   logarithm does not show, if there are some
 */

/** @type {Kind[]} `whole` numbers go in steps */
const KINDS = [
  { name: "clusters", title: "clusters", whole: true },
  { name: "rank", title: "rank of attention", whole: true },
  ...["energy", "diameter"].map((name) => ({ name, title: name, whole: false })),
];
const [HEIGHT, AXIS, LEFT, RIGHT, TOP] = [74, 20, 52, 10, 24];
/** Positive values over more than this factor are shown on a logarithmic scale. */
const WIDE = 100;
/** What is smaller than this part of a value before it is rounding: there a logarithmic scale ends. */
const FLOOR = 1e-14;
/** The lowest part of a logarithmic scale is for 0, if there is one. */
const GROUND = 0.16;

/** Return the scale on which values are shown. @param {number[]} values @param {boolean} whole @returns {Scale} */
export function scaleOf(values, whole) {
  const [least, high] = [Math.min(...values), Math.max(...values)];
  let before = 0;
  const seen = values.filter((value) => value > FLOOR * (before = Math.max(before, value)));
  const low = Math.min(...seen);
  // Where values cross 0, or grow from 0 evenly, a logarithm would show what is not there.
  const log = high > 0 && least >= 0 && high > WIDE * low;
  if (log) return { low, high, log, ...(seen.length < values.length && { zero: least === 0 ? "0" : "≈ 0" }) };
  if (whole) return { low: 0, high: Math.max(high, 1), log };
  // A constant is a line in the middle.
  const room = high > least ? 0 : (Math.abs(high) || 1) / 2;
  return { low: least - room, high: high + room, log };
}

/** Return how high a value is, between 0 and 1. @param {Scale} scale @param {number} value */
export function heightOf({ low, high, log, zero }, value) {
  if (zero && value < low) return 0;
  const part = log ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : (value - low) / (high - low);
  const held = Math.min(Math.max(part, 0), 1);
  return zero ? GROUND + (1 - GROUND) * held : held;
}

/** A number of clusters says how near its tokens are, as a part of the picture. @param {Kind} kind */
const titleOf = (kind, { merged }) =>
  kind.name === "clusters" && merged ? `${kind.title}, joined within ${percent(merged)}` : kind.title;

const percent = (/** @type {number} */ part) => `${written(100 * part, 2)} %`;

const mergedText = ({ merged }) =>
  merged
    ? `Tokens are one cluster where a chain of steps joins them, each at most ${percent(merged)} of the longer side of ` +
      "the picture: where their dots look merged."
    : "";

/** @param {HTMLElement} element */
export function createCharts(element, store, player) {
  /** The last series, with its times: it stays until the next one comes. */
  let series = null;
  const note = make("p", { class: "chart-note" });
  const charts = KINDS.map((kind) => ({ kind, canvas: chart() }));
  element.append(...charts.map(({ canvas }) => canvas), note);

  function chart() {
    const canvas = make("canvas", { role: "img" });
    const seek = (event) => {
      if (!series || player.count === 0) return;
      const part = (event.offsetX - LEFT) / (canvas.clientWidth - LEFT - RIGHT);
      player.pause();
      player.seekFraction(part);
      store.notify("player");
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      seek(event);
    });
    canvas.addEventListener("pointermove", (event) => event.buttons & 1 && seek(event));
    return canvas;
  }

  const ask = onceAFrame(() => {
    if (store.series && store.series.id !== series?.id && store.series.id === player.id)
      series = { ...store.series, times: store.series.frames.map((k) => player.times[k]) };
    const shown = charts.filter(({ kind }) => series?.[kind.name]?.some(Number.isFinite));
    for (const one of charts) {
      const there = shown.includes(one);
      one.canvas.hidden = !there;
      if (there) drawOne(one.canvas, one.kind, one === shown[shown.length - 1]);
    }
    note.textContent = series?.note ?? "";
    note.hidden = !series?.note;
  });

  /** @param {HTMLCanvasElement} canvas @param {Kind} kind @param {boolean} last */
  function drawOne(canvas, kind, last) {
    const [tone, width, height] = [shownTone(), element.clientWidth, HEIGHT + (last ? AXIS : 0)];
    canvas.style.height = `${height}px`;
    const { context, sheet } = cleared(canvas, width, height);

    const { times } = series;
    /** @type {number[]} */
    const values = series[kind.name].map((value) => value ?? NaN);
    const scale = scaleOf(values.filter(Number.isFinite), kind.whole);
    const first = times[0];
    const length = onClock(times[times.length - 1], first, player.clock) || 1;
    const x = (/** @type {number} */ t) => LEFT + ((width - LEFT - RIGHT) * onClock(t, first, player.clock)) / length;
    const y = (/** @type {number} */ value) => HEIGHT - 6 - (HEIGHT - 6 - TOP) * heightOf(scale, value);
    const moment = Math.min(player.exactTime(), times[times.length - 1]);
    const stale = series.id !== player.id;
    const now = valueAt(times, values, moment, kind.whole ? null : player.clock, scale.log);

    const title = `${titleOf(kind, series)}${scale.log ? ", log scale" : ""}`;
    sheet.text(LEFT, 10, title, { fill: tone.quiet, size: 12.5 });
    const known = !stale && Number.isFinite(now);
    if (known) sheet.text(width - RIGHT, 10, written(now), { fill: tone.ink, size: 13, align: "end", bold: true });
    segments(sheet, [[LEFT, TOP - 2, LEFT, HEIGHT - 6, width - RIGHT, HEIGHT - 6]], { stroke: tone.wire });
    const type = { fill: tone.quiet, size: 11, align: /** @type {const} */ ("end") };
    const ends = apart(scale.low, scale.high);
    for (const [k, value] of [scale.low, scale.high].entries())
      sheet.text(LEFT - 6, y(value), ends[k].replace(" × ", "·"), type);
    if (scale.zero) sheet.text(LEFT - 6, y(0), scale.zero, type);

    // What is to come is faint, what has been is strong.
    for (const past of [false, true]) {
      context.save();
      context.beginPath();
      context.rect(0, 0, past ? x(moment) : width, HEIGHT);
      context.clip();
      curve(sheet, times, values, x, y, kind.whole);
      sheet.paint({ stroke: tone.palette[0], width: 1.6, alpha: stale ? 0.2 : past ? 1 : 0.3 });
      context.restore();
    }
    if (!stale) {
      segments(sheet, [[x(moment), TOP - 4, x(moment), HEIGHT - 6]], { stroke: tone.ink, alpha: 0.5 });
      if (known) sheet.disc(x(moment), y(now), 3.4, { fill: tone.palette[0], stroke: tone.paper, width: 1.2 });
    }
    if (last) {
      const end = offClock(length, first, player.clock);
      const moments = player.clock === "log" ? decades(end - first).map((t) => first + t) : ticks(first, end, 4);
      const below = { fill: tone.quiet, size: 11, align: /** @type {const} */ ("middle") };
      for (const t of moments) sheet.text(Math.min(x(t), width - 12), HEIGHT + 6, written(t), below);
    }
    const [said, from, to] = [now, values[0], values[values.length - 1]].map((value) => written(value));
    canvas.title = kind.name === "clusters" ? mergedText(series) : "";
    canvas.ariaLabel = `${titleOf(kind, series)} over time: ${said} now, from ${from} to ${to}`;
  }

  store.on(["series", "player", "view", "run", "state"], ask);
  new ResizeObserver(ask).observe(element);
  ask();
}

/**
 * Return the value at a time: in proportion between two on a clock; without one, as of whole numbers, the last.
 * Of positive values on a logarithmic scale their logarithms are in proportion.
 * @param {number[]} times @param {number[]} values @param {number} t @param {string | null} clock
 */
export function valueAt(times, values, t, clock, log = false) {
  const place = indexOf(times, t);
  const k = Math.floor(place + 1e-9);
  if (clock === null || place - k < 1e-9 || k + 1 >= values.length) return values[k];
  const [from, now, to] = [times[k], t, times[k + 1]].map((moment) => onClock(moment, times[0], clock));
  const part = (now - from) / (to - from);
  if (log && values[k] > 0 && values[k + 1] > 0) return values[k] * (values[k + 1] / values[k]) ** part;
  return values[k] + part * (values[k + 1] - values[k]);
}

/** Write two numbers with as few digits, two at least, as tell them apart. @param {number} low @param {number} high */
export function apart(low, high) {
  let digits = 2;
  while (digits < 6 && low !== high && written(low, digits) === written(high, digits)) digits += 1;
  return [written(low, digits), written(high, digits)];
}

/**
 * Begin the path of a curve, in steps if its values are whole; unknown values leave gaps.
 * @param {import("./sheet.js").Sheet} sheet @param {number[]} times @param {number[]} values
 * @param {(t: number) => number} x @param {(value: number) => number} y @param {boolean} whole
 */
function curve(sheet, times, values, x, y, whole) {
  sheet.begin();
  let open = false;
  for (let k = 0; k < times.length; k++) {
    if (!Number.isFinite(values[k])) {
      open = false;
      continue;
    }
    if (!open) sheet.move(x(times[k]), y(values[k]));
    else {
      if (whole) sheet.line(x(times[k]), y(values[k - 1]));
      sheet.line(x(times[k]), y(values[k]));
    }
    open = true;
  }
}
