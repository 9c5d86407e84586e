// The strip under an exported picture: the law and the time in one line, and under them what is seen.

import { make } from "./elements.js";
import { font, polygon, segments } from "./sheet.js";

/**
 * @import { Sheet, Type } from "./sheet.js"
 * @typedef {{x: number, y: number, text: string, role: "law" | "time" | "said", align: "start" | "end"}} Words
 * @typedef {{height: number, words: Words[]}} Strip
 */

/** Pixels beside, above and below the words; between the law and the time. */
const [SIDE, ABOVE, BELOW, GAP] = [24, 15, 17, 28];
/** @type {Record<Words["role"], {size: number, line: number, bold?: boolean}>} how large words are, how far lines */
const FACES = {
  law: { size: 14, line: 20 },
  time: { size: 15, line: 20, bold: true },
  said: { size: 18, line: 25 },
};
/** The greatest number of lines of a law, and of a sentence. */
const [LAW_LINES, SAID_LINES] = [6, 5];

/** The width of a long sentence in one line, and of a long time, in pixels. */
const [USUAL, LONG_TIME] = [960, 120];

/** @type {CanvasRenderingContext2D | null} */
let ruler = null;

/** Return how wide a text is, in pixels. @param {string} text @param {Words["role"]} role */
function widthOf(text, role) {
  ruler ??= /** @type {CanvasRenderingContext2D} */ (make("canvas").getContext("2d"));
  ruler.font = font({ fill: "", ...FACES[role] });
  return ruler.measureText(text).width;
}

/** Where a line does not break: before a word that a number counts, and around the signs of a formula. */
const TOGETHER = /(?<=\d) (?=[a-z])| (?=[=×·])|(?<=[=×]) /g;

/**
 * Break a text into lines, at spaces; of too many the last ends in dots.
 * @param {string} text @param {number} most @param {(text: string) => boolean} fits
 */
export function linesOf(text, most, fits) {
  /** @type {string[]} */
  const lines = [];
  for (const part of text.replaceAll(TOGETHER, "\u00a0").split(" ")) {
    const word = part.replaceAll("\u00a0", " ");
    const joined = lines.length ? `${lines[lines.length - 1]} ${word}` : word;
    if (lines.length && fits(joined)) lines[lines.length - 1] = joined;
    else lines.push(word);
  }
  if (lines.length <= most) return lines;
  return [...lines.slice(0, most - 1), `${lines[most - 1]} …`];
}

/**
 * Place the words of a caption under a picture; y is counted from its lower edge.
 * @param {import("./caption.js").Caption} caption @param {number} width
 * @param {number} [saidLines] for how many lines of the sentence there is room, whatever it needs
 * @returns {Strip}
 */
export function stripOf(caption, width, saidLines = 0) {
  const room = width - 2 * SIDE;
  // In a movie, the law stays where it is while the time grows.
  const beside = room - Math.max(widthOf(caption.time, "time"), saidLines ? LONG_TIME : 0) - GAP;
  const laws = linesOf(caption.law, LAW_LINES, (text) => widthOf(text, "law") <= beside);
  const most = saidLines || SAID_LINES;
  const sentences = linesOf(caption.said, most, (text) => widthOf(text, "said") <= room);
  const top = ABOVE + laws.length * FACES.law.line + 4;
  /** @type {Words[]} */
  const words = [
    ...laws.map((text, k) => place("law", text, SIDE, ABOVE + (k + 0.5) * FACES.law.line)),
    place("time", caption.time, width - SIDE, ABOVE + 0.5 * FACES.time.line, "end"),
    ...sentences.map((text, k) => place("said", text, SIDE, top + (k + 0.5) * FACES.said.line)),
  ];
  return { height: top + (saidLines || sentences.length) * FACES.said.line + BELOW, words };
}

/**
 * @param {Words["role"]} role @param {string} text @param {number} x @param {number} y @param {"start" | "end"} [align]
 * @returns {Words}
 */
const place = (role, text, x, y, align = "start") => ({ role, text, x, y, align });

/** How many lines of a sentence a movie has room for, so that its strip does not jump. @param {number} width */
export const linesInMovie = (width) => Math.min(Math.ceil(USUAL / Math.max(width - 2 * SIDE, 1)), SAID_LINES);

/**
 * Draw a strip under a picture: on paper, under a thin line.
 * @param {Sheet} sheet @param {Strip} strip @param {number} top @param {import("./colours.js").Tone} tone
 */
export function drawStrip(sheet, strip, top, tone) {
  const [right, bottom] = [sheet.width, top + strip.height];
  sheet.group("caption");
  polygon(sheet, [0, top, right, top, right, bottom, 0, bottom]);
  sheet.paint({ fill: tone.paper });
  segments(sheet, [[0, top + 0.5, right, top + 0.5]], { stroke: tone.wire });
  for (const { x, y, text, role, align } of strip.words) {
    const { size, bold } = FACES[role];
    sheet.text(x, top + y, text, { fill: role === "law" ? tone.quiet : tone.ink, size, bold, align });
  }
}
