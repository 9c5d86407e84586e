// The actions that pointers and keys call: on tokens, on the camera, on the time shown.

import { DOTTED } from "./density.js";
import { nearest } from "./shapes.js";
import { createStroke, leastStride, moved, partners, snapped, withImages } from "./placing.js";
import { startRows } from "./scene.js";
import * as line from "./line.js";

/** How near a pointer must be to a token, in pixels. */
const [NEAR, NEAR_TOUCH] = [12, 24];

/**
 * @param {import("./scene.js").Scene} scene
 * @param {ReturnType<typeof import("./held_token.js").createHeldToken>} heldToken
 * @param {{update: () => void, announce: () => void, forgetBox: () => void,
 *   time: {player: import("./player.js").Player, moved: () => void}}} picture
 */
export function createActions(scene, store, stage, heldToken, picture) {
  const { update, time } = picture;
  const { player } = time;
  /** Whether tokens are to stay on the sphere: the motion of this stage keeps them there, or that beside it. */
  const onSphere = () => scene.sphere || Boolean(scene.beside?.sphere);
  /** The mirror images that go with the held token, since it was taken. @type {ReturnType<typeof partners> | null} */
  let images = null;
  /** Where the pointer goes that draws, and the points that it made. */
  let stroke = /** @type {{follow: ReturnType<typeof createStroke>, made: Set<string>} | null} */ (null);
  /** Edits of one hold of the pointer are one step of undo, however long it lasts. */
  let going = false;
  let strokes = 0;

  function rewind() {
    if (player.position === 0 && !player.playing) return;
    player.pause();
    player.seek(0);
    time.moved();
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
    store.setState({ tokens: rows }, { label, within: going });
    going = heldToken.held !== null || stroke !== null;
    heldToken.made(rows);
    stage.draw();
  }

  /** Return the point at a pixel, on the grid if that is on. @param {number} x @param {number} y */
  const lifted = (x, y, /** @type {number[] | null} */ from = null) =>
    snapped(scene.mode.lift(scene.eye, x, y, from, onSphere()), scene.eye, onSphere());

  /**
   * Add tokens at pixels, with their mirror images; return the number of the first.
   * @param {number[][]} pixels @param {string} label @param {Set<string>} made what a stroke on a grid does not make twice
   */
  function addAt(pixels, label, made) {
    const rows = [...editable()];
    if (!rows.length) return -1;
    const first = rows.length;
    for (const point of pixels.flatMap(([x, y]) => withImages(lifted(x, y)))) {
      if (!made.has(String(point))) rows.push(point);
      made.add(String(point));
    }
    if (rows.length > first) edit(rows, label);
    return first;
  }

  /** Move token i to a pixel. @param {number} i @param {number} x @param {number} y */
  function moveTo(i, x, y) {
    const rows = editable();
    if (!rows[i]) return;
    edit(moved(rows, i, lifted(x, y, rows[i]), images ?? partners(rows, i)), `drag token ${i}`);
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
    for (const each of [scene, scene.beside]) if (each) each.spin = 0;
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
      images = partners(editable(), i);
      going = false;
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
      images = null;
      going = false;
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
      if (scene.d !== 1 || scene.player.count < 2 || x < scene.eye.left - 8) return false;
      return y > scene.eye.bottom || Math.abs(x - line.now(scene)) < 6;
    },
    seekTo(/** @type {number} */ x) {
      player.pause();
      player.seek(player.at(line.timeAt(scene.eye, x)));
      time.moved();
      stage.draw();
    },
    add(/** @type {number} */ x, /** @type {number} */ y) {
      update();
      const i = addAt([[x, y]], `add token ${startRows(store).length}`, new Set());
      if (i >= 0) stage.choose(i);
      return i;
    },
    /** Begin to draw at a pixel. @param {number} x @param {number} y */
    drawFrom(x, y) {
      update();
      stroke = { follow: createStroke(x, y), made: new Set() };
      strokes += 1;
      going = false;
      stage.choose(-1);
      addAt([[x, y]], `draw ${strokes}`, stroke.made);
    },
    drawTo(/** @type {number} */ x, /** @type {number} */ y) {
      if (stroke) addAt(stroke.follow(x, y), `draw ${strokes}`, stroke.made);
    },
    drawEnd() {
      stroke = null;
      going = false;
      picture.forgetBox();
      picture.announce();
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
      const least = leastStride(scene.eye, onSphere());
      const [right, down] = [dx, dy].map((by) => Math.sign(by) * Math.max(Math.abs(by), by && least));
      moveTo(i, scene.screen[2 * i] + right, scene.screen[2 * i + 1] + down);
      picture.announce();
      return true;
    },
    step(/** @type {number} */ by) {
      player.step(by);
      time.moved();
    },
    toggle() {
      player.toggle();
      time.moved();
    },
  };
}
