// A sheet to draw on: a canvas of the screen or an SVG file, which show the same picture.

import { make } from "./elements.js";

/**
 * @typedef {{fill?: string, stroke?: string, width?: number, dash?: number[], alpha?: number,
 *   cap?: "round" | "butt"}} Style the width of the stroke is 1 if left out, `alpha` is of fill and stroke alike
 * @typedef {{fill: string, size?: number, align?: "start" | "middle" | "end", halo?: string, bold?: boolean,
 *   italic?: boolean}} Type `halo` is a colour around the letters, so that they can be read on lines
 *
 * @typedef {object} Sheet
 * @property {number} width
 * @property {number} height
 * @property {(name: string) => void} group begin a part of the picture that has a name; it lasts until the next one
 * @property {() => void} begin a path
 * @property {(x: number, y: number) => void} move
 * @property {(x: number, y: number) => void} line
 * @property {() => void} close
 * @property {(style: Style) => void} paint the path
 * @property {(x: number, y: number, r: number, style: Style) => void} disc
 * @property {(x: number, y: number, r: number, style: Style) => void} stamp a disc as one of very many, with a style
 *   that is kept: it is drawn once and then copied
 * @property {(x: number, y: number, text: string, type: Type) => void} text its middle height at y
 * @property {(canvas: HTMLCanvasElement, from: number[], to: number[], alpha: number) => void} image a part of a canvas,
 *   drawn smoothly in a part of the picture: each is left, top, width and height
 * @property {(canvas: HTMLCanvasElement, from: number, to: number, alpha: number) => void} [layer] what was drawn on
 *   a canvas of the same size before, between two columns; not for files, which have no pixels
 */

const FONT = `"STIX Two Text", "STIXGeneral", "Cambria", "Georgia", serif`;
/** @type {number[]} */
const SOLID = [];

/** Return the font of a text, as canvases take it. */
export const font = (/** @type {Type} */ type) =>
  `${type.italic ? "italic " : ""}${type.bold ? "600 " : ""}${type.size ?? 12}px ${FONT}`;

/** Discs drawn before, by style, size and sharpness. @type {WeakMap<Style, Map<number, HTMLCanvasElement>>} */
const discs = new WeakMap();

/** @param {Style} style @param {number} r @param {number} ratio */
function drawnDisc(style, r, ratio) {
  const sizes = discs.get(style) ?? new Map();
  discs.set(style, sizes);
  const key = Math.round(r * 4) + 1e4 * ratio;
  if (!sizes.has(key)) {
    const size = 2 * Math.ceil((r + 1.5) * ratio);
    const canvas = make("canvas", { width: size, height: size });
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    canvasSheet(context, size, size).disc(size / 2 / ratio, size / 2 / ratio, Math.round(r * 4) / 4, style);
    sizes.set(key, canvas);
  }
  return sizes.get(key);
}

/** @param {CanvasRenderingContext2D} context @param {number} width @param {number} height @returns {Sheet} */
export function canvasSheet(context, width, height) {
  function apply(/** @type {Style} */ style) {
    context.globalAlpha = style.alpha ?? 1;
    if (style.fill) {
      context.fillStyle = style.fill;
      context.fill();
    }
    if (style.stroke) {
      context.strokeStyle = style.stroke;
      context.lineWidth = style.width ?? 1;
      context.lineCap = style.cap ?? "butt";
      context.setLineDash(style.dash ?? SOLID);
      context.stroke();
    }
  }
  context.lineJoin = "round";
  return {
    width,
    height,
    group() {},
    begin: () => context.beginPath(),
    move: (x, y) => context.moveTo(x, y),
    line: (x, y) => context.lineTo(x, y),
    close: () => context.closePath(),
    paint: apply,
    disc(x, y, r, style) {
      context.beginPath();
      context.arc(x, y, r, 0, 2 * Math.PI);
      apply(style);
    },
    stamp(x, y, r, style) {
      context.globalAlpha = 1;
      const ratio = context.canvas.width / width;
      const disc = drawnDisc(style, r, ratio);
      // On whole pixels of the screen copies are sharp, and fast.
      const size = disc.width;
      const [left, top] = [Math.round(x * ratio - size / 2), Math.round(y * ratio - size / 2)];
      context.drawImage(disc, left / ratio, top / ratio, size / ratio, size / ratio);
    },
    text(x, y, text, type) {
      context.globalAlpha = 1;
      context.font = font(type);
      context.textAlign = type.align === "middle" ? "center" : (type.align ?? "start");
      context.textBaseline = "middle";
      if (type.halo) {
        context.setLineDash(SOLID);
        context.lineWidth = 3;
        context.strokeStyle = type.halo;
        context.strokeText(text, x, y);
      }
      context.fillStyle = type.fill;
      context.fillText(text, x, y);
    },
    image(canvas, [u, v, wide, high], [x, y, w, h], alpha) {
      context.globalAlpha = alpha;
      context.drawImage(canvas, u, v, wide, high, x, y, w, h);
    },
    layer(canvas, from, to, alpha) {
      if (!(to > from)) return;
      const ratio = canvas.width / width;
      context.globalAlpha = alpha;
      context.drawImage(canvas, from * ratio, 0, (to - from) * ratio, canvas.height, from, 0, to - from, height);
    },
  };
}

const short = (/** @type {number} */ value) => String(Math.round(value * 100) / 100 + 0);
const safe = (/** @type {string} */ text) =>
  text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c] ?? c);

/**
 * Return a sheet that writes SVG; its `svg()` is what it wrote.
 * @param {number} width @param {number} height @param {string} paper @param {string} title
 * @returns {Sheet & {svg: () => string}}
 */
export function svgSheet(width, height, paper, title) {
  const size = `width="${short(width)}" height="${short(height)}"`;
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${short(width)} ${short(height)}" ${size} ` +
      `stroke-linejoin="round" role="img"><title>${safe(title)}</title>`,
    `<clipPath id="picture"><rect ${size}/></clipPath>`,
    `<rect class="paper" ${size} fill="${paper}"/><g clip-path="url(#picture)"><g>`,
  ];
  /** @type {string[]} */
  let path = [];
  const attributes = (/** @type {Style} */ style) => {
    const said = [`fill="${style.fill ?? "none"}"`];
    if (style.stroke) said.push(`stroke="${style.stroke}" stroke-width="${short(style.width ?? 1)}"`);
    if (style.stroke && style.cap) said.push(`stroke-linecap="${style.cap}"`);
    if (style.dash?.length) said.push(`stroke-dasharray="${style.dash.join(" ")}"`);
    if (style.alpha !== undefined && style.alpha !== 1) said.push(`opacity="${short(style.alpha)}"`);
    return said.join(" ");
  };
  /** @type {Sheet["disc"]} */
  const disc = (x, y, r, style) => {
    parts.push(`<circle cx="${short(x)}" cy="${short(y)}" r="${short(r)}" ${attributes(style)}/>`);
  };
  return {
    width,
    height,
    disc,
    stamp: disc,
    group: (name) => parts.push(`</g><g class="${safe(name)}">`),
    begin() {
      path = [];
    },
    move: (x, y) => path.push(`M${short(x)} ${short(y)}`),
    line: (x, y) => path.push(`L${short(x)} ${short(y)}`),
    close: () => path.push("Z"),
    paint(style) {
      if (path.length) parts.push(`<path d="${path.join("")}" ${attributes(style)}/>`);
    },
    text(x, y, text, type) {
      const face = `${type.bold ? ' font-weight="600"' : ""}${type.italic ? ' font-style="italic"' : ""}`;
      const halo = type.halo ? ` stroke="${type.halo}" stroke-width="3" paint-order="stroke"` : "";
      parts.push(
        `<text x="${short(x)}" y="${short(y)}" dominant-baseline="central" text-anchor="${type.align ?? "start"}" ` +
          `font-family="${safe(FONT)}" font-size="${type.size ?? 12}"${face} fill="${type.fill}"${halo}>` +
          `${safe(text)}</text>`,
      );
    },
    image(canvas, from, [x, y, w, h], alpha) {
      const part = make("canvas", { width: Math.ceil(from[2]), height: Math.ceil(from[3]) });
      const [wide, high] = [part.width, part.height];
      part.getContext("2d").drawImage(canvas, from[0], from[1], from[2], from[3], 0, 0, wide, high);
      const at = `x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${short(h)}" opacity="${short(alpha)}"`;
      parts.push(`<image ${at} preserveAspectRatio="none" href="${part.toDataURL("image/png")}"/>`);
    },
    svg: () => `${parts.join("\n")}\n</g></g></svg>\n`,
  };
}

/**
 * Draw lines, each through x, y, x, y...
 * @param {Sheet} sheet @param {Iterable<ArrayLike<number>>} lines @param {Style} style
 */
export function segments(sheet, lines, style) {
  sheet.begin();
  for (const xy of lines) through(sheet, xy);
  sheet.paint(style);
}

/** Begin a closed path through x, y, x, y... @param {Sheet} sheet @param {ArrayLike<number>} xy */
export function polygon(sheet, xy) {
  sheet.begin();
  through(sheet, xy);
  sheet.close();
}

/** Go on with a path through x, y, x, y... @param {Sheet} sheet @param {ArrayLike<number>} xy */
export function through(sheet, xy) {
  for (let k = 0; k < xy.length; k += 2) k === 0 ? sheet.move(xy[0], xy[1]) : sheet.line(xy[k], xy[k + 1]);
}
