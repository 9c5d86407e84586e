// Pointers and keys on the stage: which actions they call.

import { markScale } from "./screen.js";

/** Pixels that a key moves a token, and with Shift. */
const [STRIDE, FINE] = [12, 1];
/** Pixels that a pointer may slip in a click. */
const SLIP = 3;
/** How much a key, and a pixel of the wheel, zooms. */
const [KEY_ZOOM, WHEEL_ZOOM] = [1.25, 0.0016];

/** @typedef {ReturnType<typeof import("./actions.js").createActions>} Actions */

/** @param {HTMLCanvasElement} canvas @param {Actions} actions */
export function handlePointers(canvas, actions, stage) {
  /** Fingers on the stage, in pixels of it. @type {Map<number, {x: number, y: number}>} */
  const down = new Map();
  /** @type {"" | "token" | "pull" | "time" | "pinch" | "stroke"} */
  let doing = "";
  let [gap, moved] = [0, false];
  /** The token under the pointer, and where that came down: it is taken when the pointer leaves the place. */
  let [under, from] = [-1, { x: 0, y: 0 }];

  const place = (/** @type {MouseEvent} */ event) => {
    const { left, top } = canvas.getBoundingClientRect();
    return { x: (event.clientX - left) / markScale(), y: (event.clientY - top) / markScale() };
  };
  const touch = (/** @type {PointerEvent} */ event) => event.pointerType === "touch";

  function shape(/** @type {PointerEvent} */ event) {
    const { x, y } = place(event);
    const [tool, under] = [actions.tool(), actions.pick(x, y, touch(event))];
    const over = under >= 0;
    stage.point(under);
    if (tool === "delete") return over ? "not-allowed" : "default";
    if (tool === "draw") return "crosshair";
    if (over) return "grab";
    if (tool === "add") return "copy";
    return actions.atTime(x, y) ? "ew-resize" : "default";
  }

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.focus({ preventScroll: true });
    canvas.setPointerCapture(event.pointerId);
    const { x, y } = place(event);
    down.set(event.pointerId, { x, y });
    moved = false;
    if (down.size === 2) {
      if (doing === "token") actions.drop();
      if (doing === "stroke") actions.drawEnd();
      doing = "pinch";
      gap = spread().gap;
      return;
    }
    if (down.size > 2) return;
    const tool = actions.tool();
    let i = actions.pick(x, y, touch(event));
    if (tool === "delete") {
      if (i >= 0) actions.remove(i);
      return;
    }
    if (tool === "draw") {
      doing = "stroke";
      actions.drawFrom(x, y);
      return;
    }
    if (i < 0 && tool === "add") i = actions.add(x, y);
    if (i >= 0) {
      doing = "token";
      [under, from] = [i, { x, y }];
      actions.touch(i);
    } else if (actions.atTime(x, y)) {
      doing = "time";
      actions.seekTo(x);
    } else doing = "pull";
    stage.point(-1);
    canvas.style.cursor = doing === "time" ? "ew-resize" : "grabbing";
  });

  canvas.addEventListener("pointerleave", () => stage.point(-1));

  canvas.addEventListener("pointermove", (event) => {
    const before = down.get(event.pointerId);
    if (!before) {
      if (!touch(event)) canvas.style.cursor = shape(event);
      return;
    }
    const now = place(event);
    if (now.x === before.x && now.y === before.y) return;
    const old = doing === "pinch" ? spread() : null;
    down.set(event.pointerId, now);
    moved = true;
    if (doing === "token") {
      if (under >= 0 && Math.hypot(now.x - from.x, now.y - from.y) <= SLIP) return;
      if (under >= 0) actions.grab(under, from.x, from.y);
      under = -1;
      actions.carry(now.x, now.y);
    } else if (doing === "stroke") actions.drawTo(now.x, now.y);
    else if (doing === "time") actions.seekTo(now.x);
    else if (doing === "pull") actions.pull(now.x - before.x, now.y - before.y);
    else if (old) {
      const wide = spread();
      actions.zoom(wide.x, wide.y, wide.gap / (gap || 1));
      actions.pull(wide.x - old.x, wide.y - old.y);
      gap = wide.gap;
    }
  });

  function release(/** @type {PointerEvent} */ event) {
    if (!down.delete(event.pointerId)) return;
    if (doing === "token") actions.drop();
    else if (doing === "stroke") actions.drawEnd();
    else if (doing === "pull" && !moved) stage.choose(-1);
    // The finger that stays after a pinch does nothing until it is lifted.
    doing = "";
    canvas.style.cursor = touch(event) ? "" : shape(event);
  }
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);

  canvas.addEventListener("dblclick", (event) => {
    const { x, y } = place(event);
    if (actions.tool() === "move" && actions.pick(x, y) < 0 && !actions.atTime(x, y)) actions.add(x, y);
  });

  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const { x, y } = place(event);
      const pixels = event.deltaY * [1, 16, 400][event.deltaMode];
      actions.zoom(x, y, Math.exp(-Math.min(Math.max(pixels, -300), 300) * WHEEL_ZOOM));
    },
    { passive: false },
  );

  /** Return the middle of two fingers, and how far they are apart. */
  function spread() {
    const [a, b] = [...down.values()];
    return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, gap: Math.hypot(a.x - b.x, a.y - b.y) };
  }
}

/**
 * @param {HTMLCanvasElement} canvas @param {Actions} actions
 * @param {import("./scene.js").Scene} scene
 */
export function handleKeys(canvas, actions, stage, scene) {
  // After Escape the next Tab leaves the stage, as it does from any other place of the page.
  let leaving = false;

  const zoom = (/** @type {number} */ factor) => actions.zoom(scene.width / 2, scene.height / 2, factor);
  const arrow = (/** @type {number} */ x, /** @type {number} */ y) => (/** @type {KeyboardEvent} */ event) => {
    const pixels = event.shiftKey ? FINE : STRIDE;
    if (!actions.nudge(x * pixels, y * pixels) && x) actions.step(x);
    return true;
  };
  const remove = () => actions.remove(stage.chosen);
  /** @type {Record<string, (event: KeyboardEvent) => unknown>} each returns false when the key is not for the stage */
  const keys = {
    Tab: (event) => !leaving && actions.next(event.shiftKey ? -1 : 1),
    "]": () => actions.next(1) || actions.next(1),
    "[": () => actions.next(-1) || actions.next(-1),
    ArrowLeft: arrow(-1, 0),
    ArrowRight: arrow(1, 0),
    ArrowUp: arrow(0, -1),
    ArrowDown: arrow(0, 1),
    Delete: remove,
    Backspace: remove,
    n() {
      const { width, height, chosen, screen } = scene;
      if (chosen < 0) actions.add(width / 2, height / 2);
      else actions.add(screen[2 * chosen] + 24, screen[2 * chosen + 1] - 24);
    },
    Escape() {
      stage.choose(-1);
      leaving = true;
    },
    "+": () => zoom(KEY_ZOOM),
    "=": () => zoom(KEY_ZOOM),
    "-": () => zoom(1 / KEY_ZOOM),
    0: stage.fit,
    " ": actions.toggle,
    ",": () => actions.step(-1),
    ".": () => actions.step(1),
  };

  canvas.addEventListener("focus", () => (leaving = false));
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(keys, event.key)) return;
    // A token that the pointer holds is moved by the pointer alone.
    if (actions.holding()) {
      event.preventDefault();
      return;
    }
    if (event.key !== "Tab" && event.key !== "Escape") leaving = false;
    if (keys[event.key](event) !== false) event.preventDefault();
  });
}
