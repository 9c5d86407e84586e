// The difference of two runs over time, as a chart with a cursor at the time shown; a click goes there.

import { apart, heightOf, scaleOf } from "./charts.js";
import { make } from "./elements.js";
import { comparable, differenceOf, distanceAt } from "./difference.js";
import { offClock, onClock } from "./player.js";
import { cleared, onceAFrame, shownTone } from "./screen.js";
import { segments } from "./sheet.js";
import { decades, ticks, written } from "./ticks.js";

/** @import { Player } from "./player.js" */

const [HEIGHT, AXIS, LEFT, RIGHT, TOP] = [104, 20, 52, 10, 42];
/** The two curves: which colour of the palette each has. */
const CURVES = /** @type {const} */ ([
  { name: "largest", title: "largest distance", colour: 0 },
  { name: "rms", title: "root mean square", colour: 1 },
]);
const BETWEEN = "Where a run has no frame, it is taken between its two nearest ones, or in steps as it was last.";

/**
 * @param {Player} left @param {Player} right
 * @param {{seek: (part: number) => void, refused: () => boolean}} page `seek` goes where this part of the clock has
 *   passed; `refused` says whether a run is missing
 */
export function createDifferenceChart(left, right, { seek, refused }) {
  const canvas = make("canvas", { role: "img" });
  const note = make("p", { class: "chart-note" });
  const element = make("div", { id: "difference", hidden: true }, canvas, note);
  /** What was measured, and of which frames. */
  let [key, found] = ["", /** @type {import("./difference.js").Difference | null} */ (null)];

  /** Return the difference of the runs that are here; null if they are not of the same tokens. */
  function measured() {
    if (!comparable(left, right)) return null;
    const now = [left, right].map(({ id, count, discrete }) => `${id} ${count} ${discrete}`).join();
    if (now !== key) [key, found] = [now, differenceOf(left, right)];
    return found;
  }

  const draw = onceAFrame(() => {
    const width = element.clientWidth;
    if (width === 0) return;
    const shown = refused() ? null : measured();
    // While one of two new runs is awaited, the last curves stay.
    if (!shown && !refused() && found) return;
    canvas.hidden = !shown;
    note.hidden = !shown?.between;
    if (!shown) return;
    note.textContent = BETWEEN;
    paint(shown, width);
  });

  /** @param {import("./difference.js").Difference} shown @param {number} width */
  function paint({ times, ...curves }, width) {
    const tone = shownTone();
    canvas.style.height = `${HEIGHT + AXIS}px`;
    const { context, sheet } = cleared(canvas, width, HEIGHT + AXIS);
    const scale = scaleOf([...curves.largest, ...curves.rms].filter(Number.isFinite), false);
    const [first, last] = [times[0], times[times.length - 1]];
    const length = onClock(last, first, left.clock) || 1;
    const x = (/** @type {number} */ t) => LEFT + ((width - LEFT - RIGHT) * onClock(t, first, left.clock)) / length;
    const y = (/** @type {number} */ value) => HEIGHT - 6 - (HEIGHT - 6 - TOP) * heightOf(scale, value);
    const moment = Math.min(left.exactTime(), last);
    const now = distanceAt(left, right, moment);

    for (const [k, { name, title, colour }] of CURVES.entries()) {
      const line = 10 + 17 * k;
      segments(sheet, [[LEFT, line, LEFT + 16, line]], { stroke: tone.palette[colour], width: 2.4 });
      sheet.text(LEFT + 22, line, title, { fill: tone.quiet, size: 12.5 });
      sheet.text(width - RIGHT, line, written(now[name]), { fill: tone.ink, size: 13, align: "end", bold: true });
    }
    segments(sheet, [[LEFT, TOP - 2, LEFT, HEIGHT - 6, width - RIGHT, HEIGHT - 6]], { stroke: tone.wire });
    const type = { fill: tone.quiet, size: 11, align: /** @type {const} */ ("end") };
    const ends = apart(scale.low, scale.high);
    for (const [k, value] of [scale.low, scale.high].entries())
      sheet.text(LEFT - 6, y(value), ends[k].replace(" × ", "·"), type);
    // What is to come is faint, what has been is strong.
    for (const past of [false, true]) {
      context.save();
      context.beginPath();
      context.rect(0, 0, past ? x(moment) : width, HEIGHT);
      context.clip();
      for (const { name, colour } of CURVES) {
        sheet.begin();
        times.forEach((t, k) => (k ? sheet.line : sheet.move)(x(t), y(curves[name][k])));
        sheet.paint({ stroke: tone.palette[colour], width: 1.6, alpha: past ? 1 : 0.3 });
      }
      context.restore();
    }
    segments(sheet, [[x(moment), TOP - 4, x(moment), HEIGHT - 6]], { stroke: tone.ink, alpha: 0.5 });
    for (const { name, colour } of CURVES)
      sheet.disc(x(moment), y(now[name]), 3.4, { fill: tone.palette[colour], stroke: tone.paper, width: 1.2 });
    const end = offClock(length, first, left.clock);
    const moments = left.clock === "log" ? decades(end - first).map((t) => first + t) : ticks(first, end, 4);
    const below = { fill: tone.quiet, size: 11, align: /** @type {const} */ ("middle") };
    for (const t of moments) sheet.text(Math.min(x(t), width - 12), HEIGHT + 6, written(t), below);
    const said = CURVES.map(({ name, title }) => `${title} ${written(now[name])} now`);
    canvas.ariaLabel = `Difference of the two sides over time: ${said.join(", ")}`;
  }

  const go = (/** @type {PointerEvent} */ event) => {
    const last = found?.times.at(-1);
    if (last === undefined) return;
    // The curves may end before the run does, while the other one still comes.
    const part = (event.offsetX - LEFT) / (canvas.clientWidth - LEFT - RIGHT);
    const whole = onClock(left.times[left.count - 1], left.times[0], left.clock) || 1;
    seek((part * onClock(last, left.times[0], left.clock)) / whole);
  };
  canvas.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
    canvas.setPointerCapture(event.pointerId);
    go(event);
  });
  canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => event.buttons & 1 && go(event));
  new ResizeObserver(draw).observe(element);
  return { element, draw, measured };
}
