// The stage: draws what the store and the player hold when something changed, and lets users move tokens.

import { createShownRow } from "./attention_lines.js";
import { drawBeside } from "./beside_marks.js";
import { createFraming } from "./framing.js";
import { createActions } from "./actions.js";
import { DENSE, DOTTED } from "./density.js";
import { createHeldToken } from "./held_token.js";
import { frameOf } from "./models.js";
import { createOrbit } from "./orbit.js";
import { createPictures } from "./pictures.js";
import { createScene, startRows } from "./scene.js";
import { cleared, markScale, onMarkScale, onceAFrame, pixelRatio, shownTone } from "./screen.js";
import { hull } from "./shapes.js";
import { createShownOverlays } from "./shown_overlays.js";
import { dimension } from "./store.js";
import { createAnnouncer, describe, noteAt } from "./words.js";
import { handleKeys, handlePointers } from "./input.js";
import { measure } from "./marks.js";
import * as line from "./line.js";
import * as plane from "./plane.js";
import * as space from "./space.js";

const MODES = { 1: line, 2: plane, 3: space };

/**
 * @param {HTMLCanvasElement} canvas @param {import("./player.js").Player} player
 * @param {(motion: string) => string} surface on which a motion keeps tokens: "sphere" or "space"
 * @param {{player: import("./player.js").Player, moved: () => void}} time the player that users move, and whom to tell
 *   then: on the second of two stages that of the first
 */
export function createStage(canvas, store, player, surface, time = { player, moved: () => store.notify("player") }) {
  canvas.getContext("2d", { alpha: false });
  const scene = createScene(player);
  const heldToken = createHeldToken(() => startRows(store));
  const framing = createFraming(scene);
  /** The time of the last picture. */
  let before = 0;
  /** The rows that the start of the scene was made of. */
  let seen = null;
  /** The camera that an edit fixed. */
  let kept = null;

  const ask = onceAFrame((now) => {
    const seconds = Math.min((now - before) / 1000, 0.1);
    before = now;
    actions.bring();
    if (player.playing) {
      player.tick(seconds);
      store.notify("player");
    }
    const turning = orbit.turn(seconds);
    update();
    const eased = framing.ease(seconds);
    if (eased) update();
    const there = scene.n > 0 && player.n === scene.n && player.d === scene.d;
    const moving = there && (scene.dense ? scene.d === 1 : scene.show.paths);
    const more = moving && (scene.dense ? scene.timeDensity : scene.trails).prepare(scene);
    paint();
    tellBeside();
    if (player.playing || eased || more || turning) ask();
    else before = now;
  });

  /** The moment that the stage beside this one was last told of. */
  let told = "";
  /** Let the stage beside this one look again when tokens are elsewhere: both show the part of space that holds all. */
  function tellBeside() {
    const moment = `${player.id} ${player.count} ${player.position} ${scene.beside !== null}`;
    if (moment !== told) scene.beside?.ask();
    told = moment;
  }

  Object.assign(scene, { ask, update });
  const orbit = createOrbit(scene, store, () => ask());
  const shownOverlays = createShownOverlays(scene, store, ask);
  const shownRow = createShownRow(scene, store, ask);

  /** Bring the scene up to date with the store and the player. */
  function update() {
    const { state, view, run } = store;
    const rows = startRows(store);
    heldToken.compare();
    const held = (scene.held = heldToken.held !== null);
    if (rows !== seen) begin(rows);
    seen = rows;
    const { d } = scene;
    scene.mode = MODES[/** @type {1 | 2 | 3} */ (d)] ?? plane;
    const still = player.position === 0 || player.count === 0 || player.d !== d;
    scene.tokens = still || held ? scene.start : player.positions();
    scene.n = scene.tokens.length / d;
    Object.assign(scene, { dense: scene.n > DENSE, dotted: scene.n <= DOTTED });
    scene.sphere = surface(state.motion?.name) === "sphere";
    scene.frame = frameOf(state.motion);
    const length = { discrete: run?.discrete ?? true, until: Number(run?.until ?? 0) };
    Object.assign(scene, { show: view.show, camera: view.camera, tone: shownTone(), ...length });
    player.clock = state.clock === "log" ? "log" : "linear";
    const { n } = scene;
    if (scene.sizes.length !== n)
      Object.assign(scene, { screen: new Float64Array(2 * n), sizes: new Float64Array(n), met: new Int32Array(n) });
    if (scene.sphere && !still) ontoSphere();
    shownOverlays.update(rows, held);
    framing.update(rows, !still, held);
    // The hull of the start of very many tokens is left to the server.
    if (d === 2 && !scene.dotted) scene.startHull = store.first?.hull ?? scene.startHull;
    if (d !== 3) scene.depth = scene.order = null;
    scene.mode.aim(scene);
    scene.mode.project(scene);
    measure(scene);
    scene.middle = [0, 0];
    for (let k = 0; k < 2 * n; k++) scene.middle[k % 2] += scene.screen[k] / n;
    scene.chosen = stage.chosen < n ? stage.chosen : -1;
    scene.pointed = !held && store.pointed < n ? store.pointed : -1;
    scene.row = shownRow.update(held ? scene.chosen : stage.looked(), held);
    scene.noted = scene.pointed >= 0 ? scene.pointed : held || document.activeElement === canvas ? scene.chosen : -1;
    scene.note = scene.noted >= 0 ? noteAt(scene, scene.noted) : "";
  }

  /** Take other tokens for the start. @param {import("./hues.js").Rows} rows */
  function begin(rows) {
    const flat = !Array.isArray(rows);
    if (flat || stage.chosen >= rows.length) stage.chosen = -1;
    // Tokens that were not placed one by one are others than before.
    if (!Array.isArray(store.state.tokens)) {
      stage.chosen = -1;
      if (cameraState() === "kept") stage.fit();
    }
    scene.start = flat ? rows : Float64Array.from(rows.flat());
    scene.d = flat ? store.run.d : (rows[0]?.length ?? 2);
    scene.startHull = scene.d === 2 && !flat ? hull(scene.start) : [];
  }

  /** Between two frames tokens on the sphere would cut through it. */
  function ontoSphere() {
    const { d, n } = scene;
    if (player.position === player.frameIndex()) return;
    for (let i = 0; i < n; i++) {
      const row = scene.tokens.subarray(i * d, (i + 1) * d);
      const length = Math.hypot(...row);
      if (length > 0) for (let c = 0; c < d; c++) row[c] /= length;
    }
  }

  function paint() {
    const { context, sheet } = cleared(canvas, scene.width, scene.height);
    context.globalAlpha = 1;
    context.fillStyle = scene.tone.paper;
    context.fillRect(0, 0, sheet.width, sheet.height);
    if (scene.n > 0) scene.mode.draw(sheet, scene);
    if (scene.n > 0) drawBeside(sheet, scene);
  }

  function resize() {
    const [width, height] = [canvas.clientWidth, canvas.clientHeight].map((length) => length / markScale());
    Object.assign(scene, { width, height, ratio: pixelRatio() });
    ask();
  }

  /** Return who put the camera where it is: nobody, as it fits the cloud; an edit; or the user. */
  function cameraState() {
    const { camera } = store.view;
    if (!camera) return "fitted";
    return camera === kept ? "kept" : "placed";
  }

  const stage = {
    chosen: -1,
    /** Say why something is not done. @type {(sentence: string) => void} */
    say: () => {},
    choose(/** @type {number} */ i) {
      stage.chosen = i;
      store.notify("looked");
      announce();
      ask();
    },
    /** Point at a token, or at none. @param {number} i */
    point: (i) => store.point(i),
    /** Return the token whose attention is looked at: the one that a pointer is at, or else the chosen one. */
    looked: () => (store.pointed >= 0 ? store.pointed : stage.chosen),
    /** Return the middle of token i in pixels of the window. @param {number} i */
    place(i) {
      update();
      const { left, top } = canvas.getBoundingClientRect();
      return { x: left + markScale() * scene.screen[2 * i], y: top + markScale() * scene.screen[2 * i + 1] };
    },
    describe() {
      update();
      return describe(scene);
    },
    orbit,
    /** Whether there is a room to turn. */
    spatial: () => dimension(store.state) === 3,
    /** Let the picture fit the cloud again. */
    fit() {
      kept = null;
      store.setView({ camera: null });
    },
    /** Keep the picture where it is while tokens are edited, in the link as well; other tokens let it go again. */
    keepCamera() {
      if (cameraState() !== "fitted" || scene.d === 3) return;
      kept = scene.mode.camera(scene.eye);
      store.setView({ camera: kept });
    },
    draw: ask,
    scene,
    /** Return how many of many tokens are in each square of the picture. */
    density() {
      update();
      if (scene.d !== 1) return scene.density.count(scene);
      scene.timeDensity.prepare(scene, Infinity);
      return scene.timeDensity.counted();
    },
    ...createPictures(scene, store, update, framing.ease),
  };
  const announce = createAnnouncer(stage.describe, canvas);
  const actions = createActions(scene, store, stage, heldToken, { update, announce, forgetBox: framing.forget, time });

  canvas.tabIndex = 0;
  canvas.style.touchAction = "none";
  canvas.setAttribute("role", "application");
  const keys = "Tab or the square brackets choose one, arrows move it, Delete removes it, n adds one, Escape lets go.";
  canvas.ariaLabel = `${canvas.ariaLabel ?? "Tokens"}. ${keys}`;
  new ResizeObserver(resize).observe(canvas);
  onMarkScale(resize);
  for (const change of ["focus", "blur"]) canvas.addEventListener(change, ask);
  handlePointers(canvas, actions, stage);
  handleKeys(canvas, actions, stage, scene);
  store.on(["run"], () => {
    player.discrete = store.run?.discrete ?? false;
    const { position } = player;
    if (!player.playing) player.seek(position);
    if (player.position !== position) store.notify("player");
  });
  store.on(["state", "view", "run", "overlays", "player", "row", "looked"], ask);
  resize();
  return stage;
}
