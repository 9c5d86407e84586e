// The grid to which tokens snap, and the axes in which they are mirrored, while that is on.

import { gridStep, placing } from "./placing.js";
import { segments } from "./sheet.js";

/** At most MOST lines in each direction. */
const MOST = 200;

/** @type {import("./scene.js").Draw} */
export function drawGrid(sheet, { eye, tone, sphere, beside }) {
  const right = (/** @type {number} */ x) => eye.width / 2 + (x - eye.x) * eye.scale;
  const down = (/** @type {number} */ y) => eye.height / 2 - (y - eye.y) * eye.scale;
  // Where one side keeps tokens on the sphere, they snap to angles on both.
  if (placing.snap && !sphere && !beside?.sphere) {
    const step = gridStep(eye);
    const lines = (/** @type {number} */ middle, /** @type {number} */ length) => {
      const half = length / 2 / eye.scale;
      const first = Math.ceil((middle - half) / step);
      const count = Math.min(Math.floor((middle + half) / step) - first + 1, MOST);
      return Array.from({ length: Math.max(count, 0) }, (_, k) => (first + k) * step);
    };
    sheet.group("grid");
    const across = lines(eye.x, eye.width).map((x) => [right(x), 0, right(x), eye.height]);
    const up = lines(eye.y, eye.height).map((y) => [0, down(y), eye.width, down(y)]);
    segments(sheet, [...across, ...up], { stroke: tone.wire, width: 0.6, alpha: 0.7 });
  }
  const axes = [];
  if (placing.mirrorX) axes.push([0, down(0), eye.width, down(0)]);
  if (placing.mirrorY) axes.push([right(0), 0, right(0), eye.height]);
  if (axes.length) {
    sheet.group("mirrors");
    segments(sheet, axes, { stroke: tone.quiet, width: 1, dash: [2, 4] });
  }
}
