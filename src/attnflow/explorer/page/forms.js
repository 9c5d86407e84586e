// A matrix as numbers, and in the plane as handles: the eigenvectors of its symmetric part, to be dragged.

import { make } from "./elements.js";
import { asNumber } from "./fields.js";

/** @typedef {import("./store.js").Matrix} Matrix */

const SIDE = 132; // of the square with the handles, in pixels
const GRAB = 22; // a finger reaches a handle from so far
const TURN = Math.PI / 12;

/** @param {number} d @param {number} [s] @returns {number[][]} s times the identity */
export const scaled = (d, s = 1) => rows(d, (i, j) => (i === j ? s : 0));

/** @param {number} d @param {(i: number, j: number) => number} entry */
function rows(d, entry) {
  return Array.from({ length: d }, (_, i) => Array.from({ length: d }, (_, j) => entry(i, j) + 0));
}

/** Numbers as people write them: rounding of the last digits is not shown. */
const shown = (/** @type {number} */ x) => String(Number(x.toPrecision(6))).replace("-", "\u2212");

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

/** Half the way out is 1, the rim is infinity. */
const length = (/** @type {number} */ value) => (Math.abs(value) / (1 + Math.abs(value))) * 0.92;
const unlength = (/** @type {number} */ part) => {
  const p = Math.min(part / 0.92, 0.98);
  return Number((p / (1 - p)).toFixed(2));
};

/**
 * @param {{id: string, name: string, fields: any, get: () => Matrix, set: (m: Matrix, label: string) => void,
 *   dimension: () => number, explicit: () => boolean}} how  `explicit` says that the identity has to be written out
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
  /** @type {any[]} */
  let cells = [];
  /** What the handles show; kept while they are dragged, as equal eigenvalues have no angle. */
  let held = { first: 1, second: 1, angle: 0, twist: 0 };
  /** @type {{which: 1 | 2} | null} */
  let dragged = null;

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

  /** @type {[keyof typeof held, string, string][]} */
  const names = [
    ["first", "<i>λ</i><sub>1</sub>", `First eigenvalue of ${name}`],
    ["second", "<i>λ</i><sub>2</sub>", `Second eigenvalue of ${name}`],
    ["angle", "angle", `Angle of the first eigenvector of ${name}, in degrees`],
    ["twist", "twist", `Antisymmetric part of ${name}`],
  ];
  const DEGREE = Math.PI / 180;
  for (const [key, label, title] of names) {
    const unit = key === "angle" ? DEGREE : 1;
    const field = fields.field({
      id: `${id}-${key}`,
      label,
      title,
      parse: asNumber(title, { least: -1e6, most: 1e6 }),
      text: (/** @type {number} */ x) => shown(x),
      get: () => held[key] / unit,
      set: (/** @type {number} */ x, /** @type {string} */ id) => hold({ ...held, [key]: x * unit }, id),
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
          id: `${id}-${i + 1}-${j + 1}`,
          label: `${name} ${i + 1} ${j + 1}`,
          parse: asNumber(`${name}, row ${i + 1}, column ${j + 1},`),
          text: (/** @type {number} */ x) => shown(x),
          get: () => matrix()[i]?.[j] ?? 0,
          set: (/** @type {number} */ x, /** @type {string} */ id) =>
            put(matrix().map((line, k) => line.map((y, l) => (k === i && l === j ? x : y))), id),
        });
        cell.caption.classList.add("hidden");
        cells.push(cell);
        grid.append(cell.element);
      }
    plane.hidden = size !== 2;
    row.lastChild.hidden = size === 1;
    row.children[2].hidden = size === 1;
  }

  /** Where the handle of an eigenvector is, from the centre, in units of the half side. */
  function tip(/** @type {1 | 2} */ which) {
    const value = which === 1 ? held.first : held.second;
    const angle = held.angle + (which === 1 ? 0 : Math.PI / 2);
    const r = length(value) * Math.sign(value);
    return [r * Math.cos(angle), -r * Math.sin(angle)];
  }

  function draw() {
    if (!element.open || size !== 2) return;
    const ratio = devicePixelRatio || 1;
    canvas.width = canvas.height = SIDE * ratio;
    const context = canvas.getContext("2d");
    const style = getComputedStyle(document.documentElement);
    const ink = (/** @type {string} */ which) => style.getPropertyValue(`--${which}`).trim();
    context.scale((SIDE / 2) * ratio, (SIDE / 2) * ratio);
    context.translate(1, 1);
    const line = 2 / SIDE;
    context.lineWidth = line;
    /** @type {[number, number[]][]} */
    const circles = [[0.97, []], [length(1), [3 * line, 3 * line]]];
    for (const [radius, dash] of circles) {
      context.strokeStyle = ink("wire");
      context.setLineDash(dash);
      context.beginPath();
      context.arc(0, 0, radius, 0, 7);
      context.stroke();
    }
    for (const which of /** @type {(1 | 2)[]} */ ([1, 2])) {
      const [x, y] = tip(which);
      context.strokeStyle = context.fillStyle = ink(which === 1 ? "accent" : "second");
      context.lineWidth = 2 * line;
      // A dashed arm turns tokens away: its eigenvalue is negative.
      context.setLineDash((which === 1 ? held.first : held.second) < 0 ? [4 * line, 4 * line] : []);
      context.beginPath();
      context.moveTo(0, 0);
      context.lineTo(x, y);
      context.stroke();
      context.setLineDash([]);
      context.beginPath();
      context.arc(x, y, 6.5 * line, 0, 7);
      context.fill();
      context.font = `italic ${11 * line}px serif`;
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.fillStyle = ink("paper");
      context.fillText(String(which), x, y + 0.5 * line);
    }
  }

  function at(/** @type {PointerEvent} */ event) {
    const box = canvas.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * 2 - 1, ((event.clientY - box.top) / box.height) * 2 - 1];
  }

  canvas.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
    const [x, y] = at(event);
    const far = [1, 2].map((which) => {
      const [a, b] = tip(/** @type {1 | 2} */ (which));
      return Math.hypot(a - x, b - y);
    });
    const which = far[1] < far[0] ? 2 : 1;
    if (far[which - 1] * (SIDE / 2) > GRAB) return;
    dragged = { which };
    canvas.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    if (!dragged) return;
    const [x, y] = at(event);
    const across = dragged.which === 1 ? 0 : Math.PI / 2;
    const value = unlength(Math.hypot(x, y));
    // A handle that is pulled through the centre changes the sign of its eigenvalue, not its line.
    const step = Math.PI / 180;
    const before = held.angle + across;
    let change = Math.round(Math.atan2(-y, x) / step) * step - before;
    change -= 2 * Math.PI * Math.round(change / (2 * Math.PI));
    const flipped = Math.abs(change) > Math.PI / 2;
    if (flipped) change -= Math.PI * Math.sign(change);
    const angle = value < 0.05 ? held.angle : held.angle + change;
    const signed = flipped ? -value : value;
    hold({ ...held, angle, [dragged.which === 1 ? "first" : "second"]: signed }, `${name} handles`);
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => (dragged = null));

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
