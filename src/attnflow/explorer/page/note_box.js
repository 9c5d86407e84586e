// A note beside a mark of the picture.

import { polygon } from "./sheet.js";

/**
 * Draw lines of text in a box beside a disc of radius r, inside the sheet, where it does not hide a point.
 * @param {import("./sheet.js").Sheet} sheet @param {import("./colours.js").Tone} tone
 * @param {number} x @param {number} y @param {number} r @param {string} note @param {ArrayLike<number>} [beside]
 */
export function noteBox(sheet, tone, x, y, r, note, beside = [x - 1, y + 1]) {
  const lines = note.split("\n");
  const width = 20 + 7 * Math.max(...lines.map((line) => line.length));
  const height = 10 + 17 * lines.length;
  const [before, after] = [x - r - 16 - width, x + r + 16];
  const first = beside[0] > x ? before : after;
  const left = first >= 6 && first + width <= sheet.width - 6 ? first : first === before ? after : before;
  const wanted = beside[1] < y ? y + r + 12 : y - r - 12 - height;
  const top = Math.min(Math.max(wanted, 6), sheet.height - height - 6);
  const [right, bottom] = [left + width, top + height];
  polygon(sheet, [left, top, right, top, right, bottom, left, bottom]);
  sheet.paint({ fill: tone.paper, stroke: tone.wire, alpha: 0.94 });
  for (const [k, line] of lines.entries())
    sheet.text(left + 9, top + 13.5 + 17 * k, line, { fill: k ? tone.quiet : tone.ink, size: 13, bold: k === 0 });
}
