// A matrix as numbers, and in the plane as handles: the eigenvectors of its symmetric part, to be dragged.

import { make } from "./elements.js";
import { asNumber } from "./fields.js";
import { cleared, shownTone } from "./screen.js";
import { nearest } from "./shapes.js";
import { segments } from "./sheet.js";

/** @typedef {import("./store.js").Matrix} Matrix */

const SIDE = 132; // of the square with the handles, in pixels
const GRAB = 22; // a finger reaches a handle from so far
const TURN = Math.PI / 12;
const DEGREE = Math.PI / 180;

/** @param {number} d @param {number} [s] @returns {number[][]} s times the identity */
export const scaled = (d, s = 1) => rows(d, (i, j) => (i === j ? s : 0));

/** @param {number} d @param {(i: number, j: number) => number} entry */
function rows(d, entry) {
  return Array.from({ length: d }, (_, i) => Array.from({ length: d }, (_, j) => entry(i, j) + 0));
}

/** Numbers as people write them: rounding of the last digits is not shown. @param {number} x */
const shown = (x) => String(Number(x.toPrecision(6))).replace("-", "\u2212");

/**
 * Split a matrix of the plane: eigenvalues and angle of its symmetric part, and the rest, `twist` times a quarter turn.
 * @param {number[][]} m
 */
export function parts([[a, b], [c, d]]) {
  const [mean, half, off] = [(a + d) / 2, (a - d) / 2, (b + c) / 2];
  const radius = Math.hypot(half, off);
  const angle = radius === 0 ? 0 : Math.atan2(off, half) / 2;
  return { first: mean + radius, second: mean - radius, angle, twist: (c - b) / 2 };
}

/** Put a matrix of the plane together again. @param {ReturnType<typeof parts>} of */
export function whole({ first, second, angle, twist }) {
  const [c, s] = [Math.cos(angle), Math.sin(angle)];
  const off = (first - second) * c * s;
  return [
    [first * c * c + second * s * s, off - twist],
    [off + twist, first * s * s + second * c * c],
  ];
}

/** Half the way out is 1, the rim is infinity. @param {number} value */
const length = (value) => (Math.abs(value) / (1 + Math.abs(value))) * 0.92;
const unlength = (/** @type {number} */ part) => {
  const p = Math.min(part / 0.92, 0.98);
  return Number((p / (1 - p)).toFixed(2));
};

/**
 * `explicit` says that the identity has to be written out.
 * @param {{id: string, name: string, fields: import("./fields.js").Fields, get: () => Matrix,
 *   set: (m: Matrix, label: string) => void, dimension: () => number, explicit: () => boolean}} how
 */
export function createForm({ id, name, fields, get, set, dimension, explicit }) {
  const summary = make("span", { class: "form-value" });
  const grid = make("div", { class: "matrix", role: "group", "aria-label": `Entries of ${name}` });
  const canvas = make("canvas", { class: "handles", width: SIDE, height: SIDE, "aria-hidden": "true" });
  const numbers = make("div", { class: "eigen" });
  const plane = make("div", { class: "plane" }, canvas, numbers);
  const row = make("div", { class: "row" });
  const body = make("div", { class: "form-body" }, plane, grid, row);
  const title = make("summary", {}, make("i", {}, name), summary);
  const element = make("details", { class: "form", toggle: () => draw() }, title, body);
  let size = 0;
  let cells = [];
  /** What the handles show; kept while they are dragged, as equal eigenvalues have no angle. */
  let held = { first: 1, second: 1, angle: 0, twist: 0 };
  /** The eigenvector whose handle is dragged: 0, 1, or -1 for none. */
  let dragged = -1;

  const matrix = () => get() ?? scaled(dimension());
  const put = (/** @type {number[][]} */ m, /** @type {string} */ label) => {
    const identity = m.every((line, i) => line.every((x, j) => x === (i === j ? 1 : 0)));
    set(identity && !explicit() ? null : m, label);
  };

  for (const [text, title, change] of /** @type {[string, string, (m: number[][]) => number[][]][]} */ ([
    ["I", "the identity", (m) => scaled(m.length)],
    ["−I", "minus the identity", (m) => scaled(m.length, -1)],
    ["symmetric", "its symmetric part", (m) => rows(m.length, (i, j) => (m[i][j] + m[j][i]) / 2)],
    ["turn", "turned by 15° in the plane of the first two axes", turned],
  ])) {
    const click = () => put(change(matrix()), "");
    row.append(make("button", { type: "button", title: `${name}: ${title}`, click }, text));
  }

  for (const [key, label, what, unit] of /** @type {[keyof typeof held, string, string, number][]} */ ([
    ["first", "<i>λ</i><sub>1</sub>", "First eigenvalue", 1],
    ["second", "<i>λ</i><sub>2</sub>", "Second eigenvalue", 1],
    ["angle", "angle", "Angle in degrees of the first eigenvector", DEGREE],
    ["twist", "twist", "Antisymmetric part", 1],
  ])) {
    const title = `${what} of ${name}`;
    const parse = asNumber(title, { least: -1e6, most: 1e6 });
    const field = fields.field({
      id: `${id}-${key}`, label, title, parse, text: shown,
      get: () => held[key] / unit,
      set: (x, id) => hold({ ...held, [key]: x * unit }, id),
    });
    numbers.append(field.element);
  }

  function hold(/** @type {typeof held} */ next, /** @type {string} */ label) {
    held = next;
    put(whole(held), label);
  }

  function turned(/** @type {number[][]} */ m) {
    const [c, s] = [Math.cos(TURN), Math.sin(TURN)];
    const first = m[0].map((x, j) => c * x - s * m[1][j]);
    const second = m[1].map((x, j) => s * m[0][j] + c * x);
    return [first, second, ...m.slice(2)];
  }

  function build() {
    size = dimension();
    cells.forEach((cell) => cell.remove());
    grid.replaceChildren();
    grid.dataset.size = String(size);
    cells = [];
    for (let i = 0; i < size; i++)
      for (let j = 0; j < size; j++) {
        const cell = fields.field({
          id: `${id}-${i + 1}-${j + 1}`, label: `${name} ${i + 1} ${j + 1}`, text: shown,
          parse: asNumber(`${name}, row ${i + 1}, column ${j + 1},`),
          get: () => matrix()[i]?.[j] ?? 0,
          set: (x, id) => put(matrix().with(i, matrix()[i].with(j, x)), id),
        });
        cell.caption.classList.add("hidden");
        cells.push(cell);
        grid.append(cell.element);
      }
    plane.hidden = size !== 2;
    row.lastChild.hidden = size === 1;
    row.children[2].hidden = size === 1;
  }

  /** Where the handle of eigenvector 0 or 1 is, in pixels; a negative one is on the other side of the centre. */
  function tip(/** @type {number} */ k) {
    const r = (SIDE / 2) * length(value(k)) * Math.sign(value(k));
    const angle = held.angle + (k * Math.PI) / 2;
    return [SIDE / 2 + r * Math.cos(angle), SIDE / 2 - r * Math.sin(angle)];
  }

  const value = (/** @type {number} */ k) => (k === 0 ? held.first : held.second);

  function draw() {
    if (!element.open || size !== 2) return;
    const { sheet } = cleared(canvas, SIDE, SIDE);
    const [tone, middle] = [shownTone(), SIDE / 2];
    sheet.disc(middle, middle, 0.97 * middle, { stroke: tone.wire });
    sheet.disc(middle, middle, length(1) * middle, { stroke: tone.wire, dash: [3, 3] });
    for (const k of [0, 1]) {
      const [x, y] = tip(k);
      // A dashed arm turns tokens away: its eigenvalue is negative.
      const dash = value(k) < 0 ? [4, 4] : [];
      segments(sheet, [[middle, middle, x, y]], { stroke: tone.palette[k], width: 2, dash });
      sheet.disc(x, y, 6.5, { fill: tone.palette[k] });
      sheet.text(x, y + 0.5, String(k + 1), { fill: tone.paper, size: 11, align: "middle", italic: true });
    }
  }

  /** The pointer in pixels of the handles, however large they are shown. @param {PointerEvent} event */
  function at(event) {
    const box = canvas.getBoundingClientRect();
    return [(event.clientX - box.left) * (SIDE / box.width), (event.clientY - box.top) * (SIDE / box.height)];
  }

  canvas.addEventListener("pointerdown", (event) => {
    const [x, y] = at(event);
    dragged = nearest([...tip(0), ...tip(1)], 2, x, y, GRAB);
    if (dragged < 0) return;
    canvas.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (dragged < 0) return;
    const [x, y] = at(event).map((pixel) => pixel / (SIDE / 2) - 1);
    const size = unlength(Math.hypot(x, y));
    // A handle that is pulled through the centre changes the sign of its eigenvalue, not its line.
    let change = Math.round(Math.atan2(-y, x) / DEGREE) * DEGREE - held.angle - (dragged * Math.PI) / 2;
    change -= 2 * Math.PI * Math.round(change / (2 * Math.PI));
    const flipped = Math.abs(change) > Math.PI / 2;
    if (flipped) change -= Math.PI * Math.sign(change);
    const angle = size < 0.05 ? held.angle : held.angle + change;
    hold({ ...held, angle, [dragged === 0 ? "first" : "second"]: flipped ? -size : size }, `${name} handles`);
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => (dragged = -1));

  return {
    element,
    draw,
    sync() {
      if (size !== dimension()) build();
      const m = matrix();
      if (size === 2 && m.length === 2) {
        const again = whole(held);
        const same = m.every((line, i) => line.every((x, j) => Math.abs(x - again[i][j]) < 1e-9));
        if (!same) held = parts(m);
      }
      const given = get();
      summary.textContent = described(given, size);
      draw();
    },
  };
}

/** @param {Matrix} m @param {number} size */
function described(m, size) {
  if (m === null) return " = identity";
  if (m.every((line, i) => line.every((x, j) => x === (i === j ? m[0][0] : 0)))) {
    return m[0][0] === 1 ? " = identity" : ` = ${shown(m[0][0])} × identity`;
  }
  if (size === 2) {
    const { first, second, twist } = parts(m);
    const sum = ` eigenvalues ${shown(Number(first.toFixed(2)))}, ${shown(Number(second.toFixed(2)))}`;
    return Math.abs(twist) < 1e-12 ? sum : `, symmetric part:${sum}`;
  }
  return ` ${size} × ${size}`;
}
