// The tokens of the other side, drawn over those of this one: a ring where each is there, and a line that leads to it.

import { radius } from "./marks.js";
import { segments } from "./sheet.js";
import * as line from "./line.js";

/** Of more tokens than this only the rings are drawn. */
const MOST_LINES = 400;
const pixel = new Float64Array(3);

/** Where tokens are drawn as a density there are no rings.
 * @type {import("./scene.js").Draw} */
export function drawBeside(sheet, scene) {
  const { beside, eye, n, d, screen, tone } = scene;
  if (!beside || !scene.show.beside || beside.n !== n || beside.d !== d || scene.dense) return;
  sheet.group("other side");
  const place = (/** @type {number} */ i) =>
    d === 1 ? [line.now(scene), line.row(eye, beside.tokens[i])] : scene.mode.point(eye, beside.tokens, pixel, d * i);
  const lines = [];
  for (let i = 0; i < n; i++) {
    const [x, y] = place(i);
    if (n <= MOST_LINES) lines.push([screen[2 * i], screen[2 * i + 1], x, y]);
    sheet.disc(x, y, radius(n), { stroke: tone.ink, width: 1.2, alpha: 0.75 });
  }
  segments(sheet, lines, { stroke: tone.ink, width: 0.8, alpha: 0.5 });
}
