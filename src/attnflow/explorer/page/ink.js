// Ink on the stage: strokes of a pen over the picture, until they are wiped. The pen is in one of three states:
//
//   off    press -> pressed
//   pressed   release -> on if the key was only tapped, off if it was held;   press -> off
//   on     press -> off
//
// While it is not off, a pointer that is down draws.

import { make } from "./elements.js";
import { cleared, onceAFrame, shownTone } from "./screen.js";

/** A key that is held for longer than this, in milliseconds, is let go of to lay the pen down. */
const TAP = 400;
/** The width of a stroke, as a part of the height of the stage. */
const WIDTH = 0.008;
/** The greatest number of points that are kept: the oldest strokes go first. */
const MOST = 40_000;

/** @typedef {number[]} Stroke x, y, x, y... as parts of the width and the height */

/** @param {HTMLElement} place which the ink covers @param {(on: boolean) => void} told when the pen is taken up or down */
export function createInk(place, told) {
  const canvas = make("canvas", { id: "ink", "aria-hidden": "true" });
  place.append(canvas);
  /** @type {"off" | "pressed" | "on"} */
  let state = "off";
  let since = 0;
  /** @type {Stroke[]} */
  let strokes = [];
  /** Strokes that are under way, by pointer. @type {Map<number, Stroke>} */
  const drawing = new Map();

  const ask = onceAFrame(() => {
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (width === 0) return;
    const { sheet } = cleared(canvas, width, height);
    const tone = shownTone();
    for (const stroke of strokes) {
      const style = { stroke: tone.palette[1], width: Math.max(WIDTH * height, 3), cap: /** @type {const} */ ("round") };
      sheet.begin();
      for (let k = 0; k < stroke.length; k += 2) {
        const [x, y] = [stroke[k] * width, stroke[k + 1] * height];
        k === 0 ? sheet.move(x, y) : sheet.line(x, y);
      }
      // A dot is a stroke too.
      if (stroke.length === 2) sheet.line(stroke[0] * width + 0.1, stroke[1] * height);
      sheet.paint(style);
    }
  });

  function go(/** @type {typeof state} */ next) {
    if (next === state) return;
    state = next;
    drawing.clear();
    canvas.classList.toggle("pen", state !== "off");
    told(state !== "off");
  }

  /** @param {PointerEvent} event */
  function extend(event) {
    const stroke = drawing.get(event.pointerId);
    if (!stroke) return;
    const { left, top, width, height } = canvas.getBoundingClientRect();
    stroke.push((event.clientX - left) / width, (event.clientY - top) / height);
    while (strokes.length > 1 && strokes.reduce((sum, one) => sum + one.length, 0) > 2 * MOST) strokes.shift();
    ask();
  }

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    event.preventDefault();
    canvas.setPointerCapture(event.pointerId);
    /** @type {Stroke} */
    const stroke = [];
    drawing.set(event.pointerId, stroke);
    strokes.push(stroke);
    extend(event);
  });
  canvas.addEventListener("pointermove", extend);
  for (const end of ["pointerup", "pointercancel"])
    canvas.addEventListener(end, (event) => drawing.delete(event.pointerId));
  new ResizeObserver(ask).observe(canvas);

  return {
    get on() {
      return state !== "off";
    },
    get strokes() {
      return strokes.length;
    },
    press() {
      since = performance.now();
      go(state === "off" ? "pressed" : "off");
    },
    release() {
      if (state === "pressed") go(performance.now() - since < TAP ? "on" : "off");
    },
    toggle: () => go(state === "off" ? "on" : "off"),
    layDown: () => go("off"),
    wipe() {
      strokes = [];
      drawing.clear();
      ask();
    },
    draw: ask,
  };
}
