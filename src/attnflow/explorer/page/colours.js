// The colours of all pictures of the library, on light and on dark paper, and the colour of each group.

import { colours } from "./models.js";

/**
 * @typedef {{paper: string, ink: string, quiet: string, pencil: string, wire: string, palette: string[],
 *   shades: string[], others: string, ramp: string[]}} Tone as in `attnflow.figures.style`
 */

/** @type {{light: Tone, dark: Tone}} */
export const { light: LIGHT, dark: DARK } = colours;

/** How much of its colour a cell has, at each round of the palette: less than on paper, as tokens move on it. */
const STRENGTHS = [0.26, 0.19, 0.38, 0.13];
const HUES = LIGHT.palette.length;

/** @param {string} hex */
export const channels = (hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));

/** Return `part` of the second colour mixed into the first. @param {string} a @param {string} b @param {number} part */
export function mixed(a, b, part) {
  const other = channels(b);
  const mix = channels(a).map((value, k) => Math.round((1 - part) * value + part * other[k]));
  return `#${mix.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

/** Return a colour that lets through what is under it. @param {string} hex @param {number} alpha */
export const faded = (hex, alpha) => `rgba(${channels(hex).join(",")},${alpha})`;

/** Return the colour of a group, of its tokens and of its cell alike. @param {number} label @param {Tone} tone */
export const colour = (label, tone) => tone.shades[label] ?? tone.others;

/** Return the colour that fills a cell: that of its tokens, pale. @param {number} label @param {Tone} tone */
export function tint(label, tone) {
  return faded(colour(label, tone), STRENGTHS[Math.floor(label / HUES) % STRENGTHS.length]);
}

/** Return the channels of the scale from nothing (0) to much (1). @param {number} s @param {Tone} tone */
export function ramp(s, tone) {
  const place = Math.min(Math.max(s, 0), 1) * (tone.ramp.length - 1);
  const k = Math.min(Math.floor(place), tone.ramp.length - 2);
  return channels(mixed(tone.ramp[k], tone.ramp[k + 1], place - k));
}
