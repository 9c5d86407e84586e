// Many tokens as a density: how many of them are in each small square of the picture, on a logarithmic scale, which a
// legend tells. Counts of fewer tokens are smoothed, and keep their sum.

import { channels } from "./colours.js";
import { make } from "./elements.js";
import { grown } from "./marks.js";
import { polygon, segments } from "./sheet.js";
import { written } from "./ticks.js";

/**
 * @import { Tone } from "./colours.js"
 * @import { Sheet } from "./sheet.js"
 * @import { Draw, Scene } from "./scene.js"
 * @typedef {{counts: Uint32Array | Float32Array, columns: number, rows: number, side: number, left: number,
 *   top: number}} Counts how many tokens are in each square, row by row from the top; the side of a square in pixels, and
 *   where the first begins
 */

/** More tokens than the first are drawn as a density; of more than the second, single ones are not drawn any more. */
export const [DENSE, DOTTED] = [800, 5000];
/** The side of a square, up to which number of tokens it is used, and over how many pixels to each side counts are smoothed. */
const SIDES = [[1500, 4, 11], [3000, 3, 9], [7000, 3, 7], [20000, 2, 4], [40000, 3, 0], [Infinity, 2, 0]];
/** The scale is logarithmic from one token in a square on, or from this part of its end, and linear below. */
const KNEE = 1 / 10;
/** Squares with this part of all tokens are a clump, if no square within REACH pixels has more. */
const [CLUMP, REACH] = [1 / 200, 5];
/** Colours of the scale; the palest of them is this part of the way up the ramp, and a third up the scale they let nothing
 * of what is under them through. Under single tokens all of them are paler. */
const [SHADES, PALEST, OPAQUE, UNDER] = [256, 0.2, 1 / 3, 0.62];

/** Return the side of a square of the picture of n tokens, and how far counts are smoothed. @param {number} n */
const grainOf = (n) => /** @type {number[]} */ (SIDES.find(([most]) => n <= most));

/** Return the side of a square of the picture of n tokens. @param {number} n */
export const sideOf = (n) => grainOf(n)[1];

/** @param {number} width @param {number} height @param {number} side @returns {Counts} */
export function emptyCounts(width, height, side, left = 0, top = 0) {
  const [columns, rows] = [Math.max(Math.ceil(width / side), 1), Math.max(Math.ceil(height / side), 1)];
  return { counts: new Uint32Array(columns * rows), columns, rows, side, left, top };
}

/** Count n points, x and y in pixels in turn, in the squares of a picture. @param {Counts} into @returns {Counts} */
export function countPoints(into, /** @type {ArrayLike<number>} */ xy, /** @type {number} */ n) {
  const { counts, columns, rows, side, left, top } = into;
  counts.fill(0);
  for (let k = 0; k < 2 * n; k += 2) {
    const column = Math.floor((xy[k] - left) / side);
    const row = Math.floor((xy[k + 1] - top) / side);
    if (column >= 0 && column < columns && row >= 0 && row < rows) counts[row * columns + column] += 1;
  }
  return into;
}

/**
 * Return counts smoothed by three means over squares to each side, close to a Gaussian: their sum stays the same, but for
 * what leaves the picture.
 * @param {Counts} counted @param {number} n @returns {Counts}
 */
export function smoothed(counted, n) {
  const { columns, rows, side } = counted;
  // Three means over 2 r + 1 squares have the variance r (r + 1).
  const reach = Math.round(grainOf(n)[2] / side / 1.5);
  if (reach === 0) return counted;
  let [from, to] = [Float32Array.from(counted.counts), new Float32Array(columns * rows)];
  for (let turn = 0; turn < 3; turn++) {
    for (let y = 0; y < rows; y++) means(from, to, y * columns, 1, columns, reach);
    for (let x = 0; x < columns; x++) means(to, from, x, columns, rows, reach);
  }
  return { ...counted, counts: from };
}

/** Put in `to` the means of the neighbours in one line of `from`: of `count` numbers, `step` apart. */
function means(
  /** @type {Float32Array} */ from, /** @type {Float32Array} */ to, /** @type {number} */ first,
  /** @type {number} */ step, /** @type {number} */ count, /** @type {number} */ reach,
) {
  let sum = 0;
  for (let k = -reach; k < count; k++) {
    if (k + reach < count) sum += from[first + (k + reach) * step];
    if (k > reach) sum -= from[first + (k - reach - 1) * step];
    if (k >= 0) to[first + k * step] = sum / (2 * reach + 1);
  }
}

/** Return the end of the scale: the count of the fullest square. @param {Counts} counted */
export function endOf({ counts }) {
  let most = 1e-3;
  for (let k = 0; k < counts.length; k++) if (counts[k] > most) most = counts[k];
  return most;
}

/** Return how far up the scale a count is, between 0 and 1. @param {number} count @param {number} end */
export function onScale(count, end) {
  const knee = Math.min(1, KNEE * end);
  return Math.log1p(count / knee) / Math.log1p(end / knee);
}

/** The colours of the scale, red, green, blue and alpha in turn, for a tone. @type {WeakMap<object, Uint8ClampedArray>} */
const scales = new WeakMap();

/** Return the colours of the scale: even steps of lightness for the eye, from pale to strong. @param {Tone} tone */
export function shadesOf(tone) {
  const known = scales.get(tone);
  if (known) return known;
  const stops = tone.ramp.map((hex) => oklab(channels(hex)));
  const shades = new Uint8ClampedArray(4 * SHADES);
  // The first is of empty squares, which show what is under them.
  for (let k = 1; k < SHADES; k++) {
    const s = k / (SHADES - 1);
    const place = (PALEST + (1 - PALEST) * s) * (stops.length - 1);
    const j = Math.min(Math.floor(place), stops.length - 2);
    const mixed = stops[j].map((value, c) => value + (place - j) * (stops[j + 1][c] - value));
    shades.set([...srgb(mixed), 255 * Math.min(1, s / OPAQUE)], 4 * k);
  }
  scales.set(tone, shades);
  return shades;
}

/** Return a colour in Oklab (Ottosson 2020), where equal distances look equal. @param {number[]} rgb */
function oklab(rgb) {
  const [r, g, b] = rgb.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

/** Return a colour of Oklab as red, green and blue up to 255. @param {number[]} lab */
function srgb([L, a, b]) {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return linear.map((part) => 255 * (part <= 0.0031308 ? 12.92 * part : 1.055 * Math.max(part, 0) ** (1 / 2.4) - 0.055));
}

/** Put counts on a canvas with one pixel for each square. @param {HTMLCanvasElement} canvas @param {Counts} counted */
export function shade(canvas, { counts, columns, rows }, /** @type {number} */ end, /** @type {Tone} */ tone) {
  if (canvas.width !== columns || canvas.height !== rows) Object.assign(canvas, { width: columns, height: rows });
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const image = context.createImageData(columns, rows);
  const shades = new Uint32Array(shadesOf(tone).buffer);
  const pixels = new Uint32Array(image.data.buffer);
  for (let k = 0; k < counts.length; k++) if (counts[k] > 0) pixels[k] = shades[shadeOf(counts[k], end)];
  context.putImageData(image, 0, 0);
}

/** @param {number} count @param {number} end */
const shadeOf = (count, end) => Math.round((SHADES - 1) * onScale(count, end));

/**
 * Return where many tokens are in one place: the middle in pixels, and how many they are.
 * @param {Counts} counted @param {number} n
 */
export function clumps({ counts, columns, rows, side, left, top }, n) {
  const reach = Math.ceil(REACH / side);
  const found = [];
  for (let k = 0; k < counts.length; k++) {
    if (counts[k] < CLUMP * n) continue;
    const [x, y] = [k % columns, Math.floor(k / columns)];
    let [sum, u, v, highest] = [0, 0, 0, true];
    for (let j = Math.max(y - reach, 0); j <= Math.min(y + reach, rows - 1) && highest; j++)
      for (let i = Math.max(x - reach, 0); i <= Math.min(x + reach, columns - 1); i++) {
        const [other, count] = [j * columns + i, counts[j * columns + i]];
        // Of two that are equal the first counts.
        if (count > counts[k] || (count === counts[k] && other < k)) highest = false;
        sum += count;
        u += count * (i + 0.5);
        v += count * (j + 0.5);
      }
    if (highest) found.push({ x: left + (side * u) / sum, y: top + (side * v) / sum, count: sum });
  }
  return found;
}

/** How strong a density is drawn. @param {Scene} scene */
const strengthOf = ({ dotted }) => (dotted ? UNDER : 1);

/** The density of the tokens on the stage, in the plane and in space. */
export function createDensity() {
  const canvas = make("canvas");
  let counted = emptyCounts(1, 1, 2);
  let end = 1;

  /** Count the tokens on the stage. @param {Scene} scene @returns {Counts} */
  function count({ screen, n, width, height }) {
    const wanted = emptyCounts(width, height, sideOf(n));
    const alike = counted.side === wanted.side && counted.columns === wanted.columns && counted.rows === wanted.rows;
    if (!alike) counted = wanted;
    return countPoints(counted, screen, n);
  }

  /** @type {Draw} */
  function draw(sheet, scene) {
    const { columns, rows, side } = count(scene);
    const soft = smoothed(counted, scene.n);
    end = endOf(soft);
    shade(canvas, soft, end, scene.tone);
    sheet.group("density");
    sheet.image(canvas, [0, 0, columns, rows], [0, 0, columns * side, rows * side], strengthOf(scene));
  }

  /** Draw a disc where many tokens are in one place, as large as theirs together. @type {Draw} */
  function drawClumps(sheet, { n, tone }) {
    sheet.group("clumps");
    for (const { x, y, count: here } of clumps(counted, n))
      sheet.disc(x, y, grown(n, here), { fill: tone.ramp[2], stroke: tone.paper, width: 1.2 });
  }

  /** @type {Draw} */
  function drawLegend(sheet, scene) {
    const scale = { end, alpha: strengthOf(scene) };
    legend(sheet, scene.tone, scale, counted.side ** 2, "px²", sheet.width - 18, sheet.height - 36);
  }

  return { count, draw, drawClumps, drawLegend };
}

/** The length and the height of the bar of the legend, and how near two numbers at it may be, in pixels. */
const [LONG, HIGH, NEAR] = [136, 8, 24];

/**
 * Draw the scale: a bar with numbers, which ends at a place.
 * @param {Sheet} sheet @param {Tone} tone @param {{end: number, alpha: number}} scale the count at its end, and how strong
 *   it is drawn
 * @param {number} unit how many of the units, in which it is told, a square has @param {string} name of that unit
 * @param {number} right @param {number} y
 */
export function legend(sheet, tone, { end, alpha }, unit, name, right, y) {
  const left = right - LONG;
  sheet.group("legend");
  polygon(sheet, [left - 12, y - 24, right + 12, y - 24, right + 12, y + HIGH + 22, left - 12, y + HIGH + 22]);
  sheet.paint({ fill: tone.paper, alpha: 0.8 });
  const bar = make("canvas", { width: SHADES, height: 1 });
  const context = /** @type {CanvasRenderingContext2D} */ (bar.getContext("2d"));
  const image = context.createImageData(SHADES, 1);
  image.data.set(shadesOf(tone));
  context.putImageData(image, 0, 0);
  sheet.image(bar, [0, 0, SHADES, 1], [left, y, LONG, HIGH], alpha);
  polygon(sheet, [left, y, right, y, right, y + HIGH, left, y + HIGH]);
  sheet.paint({ stroke: tone.pencil, width: 0.7 });
  sheet.text(right, y - 12, `tokens per ${name}, log scale`, { fill: tone.quiet, size: 11.5, align: "end" });
  const type = { fill: tone.quiet, size: 11, align: /** @type {const} */ ("middle") };
  let last = left - NEAR;
  for (const value of marked(end / unit)) {
    const x = left + LONG * onScale(value * unit, end);
    if (x < last + NEAR || (value > 0 && x > right - NEAR && value !== end / unit)) continue;
    segments(sheet, [[x, y + HIGH, x, y + HIGH + 3]], { stroke: tone.pencil });
    sheet.text(x, y + HIGH + 11, written(value, 2).replace(" × ", "·"), type);
    last = x;
  }
}

/** Return 0, the powers of ten below a number, and the number. @param {number} end */
function marked(end) {
  const found = [0];
  for (let power = -4; 10 ** power < end; power++) found.push(10 ** power);
  return [...found, end];
}
