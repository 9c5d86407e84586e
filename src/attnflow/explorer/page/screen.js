// Drawing on the screen: at most once a frame, as sharp as its pixels, in the colours of the theme.

import { DARK, LIGHT } from "./colours.js";
import { canvasSheet } from "./sheet.js";

/** Return a function that asks for the next picture, which is then drawn once. @param {(now: number) => void} draw */
export function onceAFrame(draw) {
  let asked = 0;
  return () => {
    asked ||= requestAnimationFrame((now) => {
      asked = 0;
      draw(now);
    });
  };
}

/** Return whether the page is dark. */
export const isDark = () => document.documentElement.dataset.theme === "dark";

/** Return the colours of the theme. */
export const shownTone = () => (isDark() ? DARK : LIGHT);

/** How much larger than usual marks, lines and letters of the stage are, and who wants to know when that changes. */
let scale = 1;
/** @type {(() => void)[]} */
const scaled = [];
export const markScale = () => scale;

/** @param {number} wanted */
export function setMarkScale(wanted) {
  if (wanted === scale) return;
  scale = wanted;
  for (const listener of scaled) listener();
}

/** Call a listener when marks become larger or smaller. @param {() => void} listener */
export const onMarkScale = (listener) => scaled.push(listener);

/** Return the pixels of the screen in one of the page, or of a stage whose pixels are larger. */
export const pixelRatio = () => (window.devicePixelRatio || 1) * scale;

/**
 * Fit a canvas to a size in pixels of the page, clear it, and return its context and a sheet.
 * @param {HTMLCanvasElement} canvas @param {number} width @param {number} height
 */
export function cleared(canvas, width, height) {
  const ratio = pixelRatio();
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) Object.assign(canvas, { width: wide, height: high });
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, sheet: canvasSheet(context, width, height) };
}
