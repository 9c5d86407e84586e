// The influence graph as an overlay: who hears whom above a threshold, and the slider that sets it.

import { colour } from "./colours.js";
import { byId, make } from "./elements.js";
import { largest, way } from "./attention_lines.js";
import { polygon } from "./sheet.js";
import { written } from "./ticks.js";

/** @import { Draw } from "./scene.js" */

/** The slider goes from 10 ** LOWEST to 1, evenly in the exponent. */
const LOWEST = -3;
/** The width of an edge of weight 0 at the token that is heard, and what weight 1 adds, in pixels. */
const [THIN, WIDE] = [1.4, 8];
/** How much of its colour an edge of weight 0 has, and what weight 1 adds. */
const [FAINT, STRONG] = [0.22, 0.5];
/** Of more edges than this each is thinner and paler, so that they stay apart. */
const FEW = 150;

/** Return the threshold at a place of the slider between 0 and 1, with two digits. @param {number} s */
export const thresholdAt = (s) => Number((10 ** (LOWEST * (1 - s))).toPrecision(2));

/** Return the place of a threshold on the slider. @param {number} threshold */
export const placeOf = (threshold) => Math.min(Math.max(1 - Math.log10(Math.max(threshold, 1e-9)) / LOWEST, 0), 1);

/** Draw each influence as a wedge, wide at the token that is heard and pointed at the one that hears. @type {Draw} */
export function influences(sheet, scene) {
  const { overlays, n, labels, tone } = scene;
  const graph = overlays?.influence;
  if (!graph) return;
  const most = largest(graph.weights);
  const calm = Math.min(1, Math.sqrt(FEW / graph.weights.length));
  sheet.group("influence");
  // The strongest come last.
  for (let k = graph.weights.length - 1; k >= 0; k--) {
    const [i, j, weight] = [graph.from[k], graph.to[k], graph.weights[k]];
    if (i >= n || j >= n) continue;
    const part = Math.abs(weight) / most;
    const outline = wedge(way(scene, j, i), (calm * (THIN + WIDE * part)) / 2);
    if (!outline.length) continue;
    polygon(sheet, outline);
    sheet.paint({ fill: colour(labels[j], tone), alpha: Math.sqrt(calm) * (FAINT + STRONG * part) });
  }
}

/** Return the outline of a wedge along a way, as wide as twice `half` at its beginning. @param {number[]} xy
 * @param {number} half */
function wedge(xy, half) {
  const [left, right] = [/** @type {number[]} */ ([]), /** @type {number[]} */ ([])];
  const last = xy.length / 2 - 1;
  for (let k = 0; k <= last; k++) {
    const [a, b] = [2 * Math.max(k - 1, 0), 2 * Math.min(k + 1, last)];
    const [dx, dy] = [xy[b] - xy[a], xy[b + 1] - xy[a + 1]];
    const length = Math.hypot(dx, dy);
    // Tokens that have met have no line between them.
    if (!(length > 1e-6)) return [];
    const w = (half * (1 - k / last)) / length;
    left.push(xy[2 * k] - w * dy, xy[2 * k + 1] + w * dx);
    right.unshift(xy[2 * k] + w * dy, xy[2 * k + 1] - w * dx);
  }
  return [...left, ...right];
}

/** Put the slider of the threshold before the chips, where it moves none of them. */
export function createInfluence(store) {
  const slider = make("input", { type: "range", id: "threshold", min: 0, max: 1, step: "any" });
  const said = make("output", { for: "threshold", "aria-live": "off" });
  slider.ariaLabel = "Influences above";
  const box = make("span", { class: "threshold", title: "Above which weight an influence is drawn" }, slider, said);
  byId("overlays").before(box);
  slider.addEventListener("input", () => store.setView({ threshold: thresholdAt(slider.valueAsNumber) }));

  function sync() {
    const { show, threshold } = store.view;
    box.hidden = !show.influence;
    if (thresholdAt(slider.valueAsNumber) !== threshold) slider.value = String(placeOf(threshold));
    const graph = store.overlays?.influence;
    const thinned = graph && graph.count > graph.weights.length;
    const what = `influence > ${written(threshold, 2)}`;
    const many = graph?.count.toLocaleString("en");
    if (!graph) said.textContent = what;
    else if (thinned) said.textContent = `${what}: the strongest ${graph.weights.length} of ${many}`;
    else said.textContent = `${what}: ${many === "1" ? "1 edge" : `${many} edges`}`;
    slider.ariaValueText = said.textContent;
  }

  store.on(["view", "overlays"], sync);
  sync();
}
