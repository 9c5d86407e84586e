// The attention matrix: how much each token listens to each, dark where much, and grey where a mask forbids it; a
// pointer over it reads a weight.

import { channels, mixed, ramp } from "./colours.js";
import { make } from "./elements.js";
import { polygon, segments } from "./sheet.js";
import { cleared, onceAFrame, shownTone } from "./screen.js";
import { written } from "./ticks.js";

/** Pixels below the matrix for what is read, and at its edge. */
const [BELOW, EDGE] = [26, 1];

/** Return the first and the last token of row k when n tokens are in this number of rows. */
export function tokensOf(/** @type {number} */ k, /** @type {number} */ n, /** @type {number} */ rows) {
  const first = Math.floor((k * n) / rows);
  return [first, Math.max(first, Math.floor(((k + 1) * n) / rows) - 1)];
}

/** @param {HTMLCanvasElement} canvas @param {{looked: () => number, choose: (i: number) => void}} stage */
export function createAttention(canvas, store, stage) {
  const grid = make("canvas");
  /** @type {{x: number, y: number} | null} */
  let over = null;
  let drawn = null;
  /** The last matrix stays until the next one comes. */
  let matrix = null;
  let paper = "";

  const ask = onceAFrame(() => {
    const width = canvas.clientWidth;
    if (width === 0) return;
    const [tone, side] = [shownTone(), width - 2 * EDGE];
    const height = side + BELOW;
    canvas.style.height = `${height}px`;
    const { context, sheet } = cleared(canvas, width, height);
    const why = store.overlays?.why?.attention;
    matrix = store.overlays?.attention ?? (why ? null : matrix);
    if (matrix && (matrix !== drawn || paper !== tone.paper)) fill(tone);
    let said = why ?? "No matrix yet.";
    if (matrix) {
      context.imageSmoothingEnabled = false;
      context.globalAlpha = 1;
      context.drawImage(grid, EDGE, EDGE, side, side);
      said = matrix.heard ? "row listens to column; grey: may not hear it" : "row: who listens; column: to whom";
      const cell = side / matrix.size;
      light(sheet, tone, rowOf(stage.looked()), cell, side);
      const [i, j] = over ? [over.y, over.x].map((value) => Math.floor((value - EDGE) / cell)) : [-1, -1];
      if (matrix.rows[i]?.[j] !== undefined) {
        const edges = [i, i + 1].map((k) => [EDGE, EDGE + k * cell, EDGE + side, EDGE + k * cell]);
        segments(sheet, edges, { stroke: tone.palette[1], alpha: 0.8 });
        const [x, y] = [EDGE + (j + 0.5) * cell, EDGE + (i + 0.5) * cell];
        sheet.disc(x, y, Math.max(cell * 0.7, 4), { stroke: tone.palette[1], width: 1.6 });
        said = hears(i, j)
          ? `${name(i)} listens to ${name(j)}: ${written(matrix.rows[i][j])}`
          : `${name(i)} may not hear ${name(j)}`;
      }
    }
    const far = EDGE + side;
    polygon(sheet, [EDGE, EDGE, far, EDGE, far, far, EDGE, far]);
    sheet.paint({ stroke: tone.wire });
    sheet.text(EDGE, side + 15, said, { fill: over ? tone.ink : tone.quiet, size: 12.5 });
    canvas.ariaLabel = `Attention matrix of ${store.run?.n ?? 0} tokens. ${said}`;
  });

  /** Return the row that a token is in, or -1. @param {number} token */
  function rowOf(token) {
    const n = store.run?.n ?? matrix.size;
    if (token < 0 || token >= n) return -1;
    return Array.from({ length: matrix.size }, (_, k) => k).findIndex((k) => tokensOf(k, n, matrix.size)[1] >= token);
  }

  /** Light a row: all others are veiled. @param {import("./sheet.js").Sheet} sheet
   * @param {import("./colours.js").Tone} tone @param {number} i @param {number} cell @param {number} side */
  function light(sheet, tone, i, cell, side) {
    if (i < 0) return;
    const [top, bottom, far] = [EDGE + i * cell, EDGE + (i + 1) * cell, EDGE + side];
    for (const [from, to] of [[EDGE, top], [bottom, far]]) {
      polygon(sheet, [EDGE, from, far, from, far, to, EDGE, to]);
      sheet.paint({ fill: tone.paper, alpha: 0.55 });
    }
    polygon(sheet, [EDGE, top, far, top, far, bottom, EDGE, bottom]);
    sheet.paint({ stroke: tone.palette[0], width: 1.6 });
  }

  function name(/** @type {number} */ k) {
    const [first, last] = tokensOf(k, store.run?.n ?? matrix.size, matrix.size);
    return first === last ? String(first) : `${first}–${last}`;
  }

  /** Whether a mask lets a token hear another. @param {number} i @param {number} j */
  const hears = (i, j) => matrix.heard?.[i][j] !== "0";

  /** Draw the matrix with one pixel for each weight. @param {import("./colours.js").Tone} tone */
  function fill(tone) {
    const { size, rows } = matrix;
    Object.assign(grid, { width: size, height: size });
    const context = grid.getContext("2d");
    const image = context.createImageData(size, size);
    const scale = Array.from({ length: 256 }, (_, k) => ramp(k / 255, tone));
    // Weights that are no probabilities may be negative, or above one: their sizes are shown, as parts of the largest.
    const grey = channels(mixed(tone.paper, tone.others, 0.3));
    const most = rows.flat().reduce((largest, weight) => Math.max(largest, Math.abs(weight)), 1);
    for (let i = 0; i < size; i++)
      for (let j = 0; j < size; j++) {
        // Shades grow with the root, as most weights of many tokens are small.
        const level = Math.round(255 * Math.sqrt(Math.abs(rows[i][j]) / most));
        image.data.set([...(hears(i, j) ? scale[level] : grey), 255], 4 * (i * size + j));
      }
    context.putImageData(image, 0, 0);
    [drawn, paper] = [matrix, tone.paper];
  }

  /** Return the token at a height of the matrix, of several in one row the first; -1 outside. @param {number} y */
  function tokenAt(y) {
    const k = matrix ? Math.floor(((y - EDGE) * matrix.size) / (canvas.clientWidth - 2 * EDGE)) : -1;
    return k >= 0 && k < (matrix?.size ?? 0) ? tokensOf(k, store.run?.n ?? matrix.size, matrix.size)[0] : -1;
  }

  canvas.setAttribute("role", "img");
  canvas.addEventListener("pointermove", (event) => {
    over = { x: event.offsetX, y: event.offsetY };
    store.point(tokenAt(event.offsetY));
    ask();
  });
  canvas.addEventListener("click", (event) => stage.choose(tokenAt(event.offsetY)));
  canvas.addEventListener("pointerleave", () => {
    over = null;
    store.point(-1);
    ask();
  });
  store.on(["overlays", "view", "looked"], ask);
  new ResizeObserver(ask).observe(canvas);
  ask();
}
