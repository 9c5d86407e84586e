// The actions that pointers and keys call: on tokens, on the camera, on the time shown.

import { DOTTED } from "./density.js";
import { nearest } from "./shapes.js";
import { startRows } from "./scene.js";
import * as line from "./line.js";

/** How near a pointer must be to a token, in pixels. */
const [NEAR, NEAR_TOUCH] = [12, 24];

/**
 * @param {import("./scene.js").Scene} scene
 * @param {ReturnType<typeof import("./held_token.js").createHeldToken>} heldToken
 * @param {{update: () => void, announce: () => void, forgetBox: () => void}} picture
 */
export function createActions(scene, store, stage, heldToken, picture) {
  const [{ player }, { update }] = [scene, picture];

  function rewind() {
    if (player.position === 0 && !player.playing) return;
    player.pause();
    player.seek(0);
    store.notify("player");
  }

  /** Return the rows of the start to be edited; of too many tokens none, and the stage says so. */
  function editable() {
    const rows = startRows(store);
    if (Array.isArray(rows)) return rows;
    const most = DOTTED.toLocaleString("en");
    stage.say(`These are ${scene.n.toLocaleString("en")} tokens: single ones are edited of at most ${most}, take fewer.`);
    return [];
  }

  /** Put other tokens at the start. @param {number[][]} rows @param {string} label */
  function edit(rows, label) {
    rewind();
    stage.keepCamera();
    store.setState({ tokens: rows }, { label });
    heldToken.made(rows);
    stage.draw();
  }

  /** Move token i to a pixel. @param {number} i @param {number} x @param {number} y */
  function moveTo(i, x, y) {
    const rows = [...editable()];
    if (!rows[i]) return;
    rows[i] = scene.mode.lift(scene.eye, x, y, rows[i], scene.sphere);
    edit(rows, `drag token ${i}`);
  }

  /** Take the held token to where the pointer is. */
  function bring() {
    heldToken.compare();
    const { held } = heldToken;
    if (!held?.to) return;
    moveTo(held.i, held.to.x - held.dx, held.to.y - held.dy);
    heldToken.carry(null);
  }

  /** Return the lens of the camera as it is now: between two pictures it may turn more than once. */
  function eye() {
    scene.camera = store.view.camera;
    scene.mode.aim(scene);
    // The camera that is made of it has what an orbit turned.
    scene.spin = 0;
    return scene.eye;
  }

  return {
    bring,
    tool: () => store.view.tool ?? "move",
    pick(/** @type {number} */ x, /** @type {number} */ y, touch = false) {
      update();
      if (!Array.isArray(startRows(store))) return -1;
      const radius = touch ? NEAR_TOUCH : NEAR;
      const here = nearest(scene.screen, scene.n, x, y, radius);
      if (here >= 0 || scene.d !== 1 || Math.abs(x - scene.eye.left) > radius) return here;
      // On the line tokens can be taken at the left edge as well, where they start.
      const starts = Array.from(scene.start, (value) => [scene.eye.left, line.row(scene.eye, value)]).flat();
      return nearest(starts, scene.start.length, x, y, radius);
    },
    /** Choose a token that may be taken. @param {number} i */
    touch(i) {
      heldToken.touch();
      if (stage.orbit.turning) stage.orbit.stop();
      stage.choose(i);
    },
    grab(/** @type {number} */ i, /** @type {number} */ x, /** @type {number} */ y) {
      if (!heldToken.grab()) return;
      rewind();
      update();
      // A token taken where it is later starts elsewhere: it moves as the pointer does.
      heldToken.hold(i, x - scene.screen[2 * i], y - scene.screen[2 * i + 1]);
      stage.draw();
    },
    holding: () => !heldToken.free,
    carry(/** @type {number} */ x, /** @type {number} */ y) {
      heldToken.carry({ x, y });
      stage.draw();
    },
    drop() {
      bring();
      heldToken.release();
      picture.forgetBox();
      picture.announce();
      stage.draw();
    },
    pull(/** @type {number} */ dx, /** @type {number} */ dy) {
      if (stage.orbit.turning) stage.orbit.stop();
      store.setView({ camera: scene.mode.pulled(eye(), dx, dy) });
    },
    zoom: (/** @type {number} */ x, /** @type {number} */ y, /** @type {number} */ factor) =>
      store.setView({ camera: scene.mode.zoomed(eye(), x, y, factor) }),
    /** Return whether the pointer is at the line of the time shown, or at the axis of time. */
    atTime(/** @type {number} */ x, /** @type {number} */ y) {
      if (scene.d !== 1 || player.count < 2 || x < scene.eye.left - 8) return false;
      return y > scene.eye.bottom || Math.abs(x - line.now(scene)) < 6;
    },
    seekTo(/** @type {number} */ x) {
      player.pause();
      player.seek(player.at(line.timeAt(scene.eye, x)));
      store.notify("player");
      stage.draw();
    },
    add(/** @type {number} */ x, /** @type {number} */ y) {
      update();
      const rows = [...editable()];
      if (!rows.length) return -1;
      rows.push(scene.mode.lift(scene.eye, x, y, null, scene.sphere));
      edit(rows, `add token ${rows.length - 1}`);
      stage.choose(rows.length - 1);
      return rows.length - 1;
    },
    remove(/** @type {number} */ i) {
      const all = editable();
      const rows = all.filter((_, k) => k !== i);
      // Without a token there is nothing to see.
      if (rows.length === all.length || !rows.length) return;
      edit(rows, `delete token ${i}`);
      stage.choose(-1);
    },
    /** Choose the next token, or the one before; return whether there is one. @param {number} by */
    next(by) {
      if (!Array.isArray(startRows(store))) return false;
      const i = stage.chosen < 0 && by < 0 ? scene.n - 1 : stage.chosen + by;
      const there = i >= 0 && i < scene.n;
      stage.choose(there ? i : -1);
      return there;
    },
    /** Move the chosen token by dx and dy pixels. @param {number} dx @param {number} dy */
    nudge(dx, dy) {
      update();
      const i = stage.chosen;
      if (i < 0) return false;
      rewind();
      update();
      moveTo(i, scene.screen[2 * i] + dx, scene.screen[2 * i + 1] + dy);
      picture.announce();
      return true;
    },
    step(/** @type {number} */ by) {
      player.step(by);
      store.notify("player");
    },
    toggle() {
      player.toggle();
      store.notify("player");
    },
  };
}
