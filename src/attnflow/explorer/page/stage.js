// The stage: draws what the store and the film hold, when something changed, and lets hands move tokens.

import { canvasPen, svgPen } from "./pen.js";
import { DARK, LIGHT } from "./colours.js";
import { boxOf, createScene, flat, joined, labelsOf, membersOf } from "./scene.js";
import { planeHull, runsAway, shownBox, startRows } from "./scene.js";
import { createTrails } from "./trails.js";
import { handleKeys, handlePointers } from "./hands.js";
import { measure } from "./marks.js";
import { nearest } from "./shapes.js";
import { place as writtenPlace, written } from "./ticks.js";
import * as line from "./line.js";
import * as plane from "./plane.js";
import * as space from "./space.js";

/** @typedef {ReturnType<typeof createScene>} Scene */

/** How near a pointer must be to a token, in pixels. */
const [NEAR, NEAR_TOUCH] = [12, 24];
/** The time in which the picture comes to a new box, in seconds. */
const EASE = 0.07;
/** Marks of another frame than the one that rests are pale after the first of these times, in milliseconds, as paling
 * at each step would flicker; and after the second they are gone. */
const [PALING, OUTDATED] = [80, 400];
const SPHERES = ["sphere-flow", "sphere-layers"];
const MODES = { 1: line, 2: plane, 3: space };

/**
 * @param {HTMLCanvasElement} canvas
 * @param {any} store
 * @param {any} film
 */
export function createStage(canvas, store, film) {
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { alpha: false }));
  const scene = createScene();
  scene.film = film;
  scene.trails = createTrails();
  /** @type {import("./pen.js").Pen | null} */
  let pen = null;
  let [asked, before] = [0, 0];
  // What was seen when labels, hulls and boxes were last found: they are found again only when it changes.
  /** @type {{look: any, rows: any, n: number, done: boolean, run: number, film: number, count: number}} */
  const seen = { look: null, rows: null, n: -1, done: false, run: -1, film: -1, count: -1 };
  /** The token in the hand, the way from its middle, and the tokens as the hand left them.
   * @type {{i: number, dx: number, dy: number, rows: number[][]} | null} */
  let held = null;
  /** The tokens as they were when a hand came down on one that it has not moved yet. @type {number[][] | null} */
  let touched = null;
  /** Where the hand is, until the next picture. @type {{x: number, y: number} | null} */
  let moved = null;
  /** The edges of the hull at frame 0 of a run, kept while looks at later frames come. */
  const edges = { run: -1, pairs: /** @type {number[][]} */ ([]) };
  /** Since when the look has been of another frame than the one that rests, if it is. */
  let lateSince = 0;
  /** Whether the film goes so far that the picture goes with the tokens. */
  let away = false;
  let target = scene.box;
  /** The camera that hands fixed. @type {any} */
  let kept = null;
  const announcer = hidden(canvas);

  function ask() {
    if (!asked) asked = requestAnimationFrame(picture);
  }

  /** @param {number} now */
  function picture(now) {
    asked = 0;
    const seconds = Math.min((now - before) / 1000, 0.1);
    before = now;
    if (moved) carry();
    if (film.playing) {
      film.tick(seconds);
      store.notify("film");
    }
    update();
    const eased = ease(seconds);
    if (eased) update();
    const moving = scene.show.paths && scene.n > 0 && film.n === scene.n && film.d === scene.d;
    const more = moving && scene.trails.prepare(scene);
    paint();
    if (film.playing || eased || more) ask();
    else before = now;
  }

  /** Bring the scene up to date with the store and the film. */
  function update() {
    const { state, view, run } = store;
    const rows = startRows(store);
    letGo();
    if (rows !== seen.rows) {
      if (stage.chosen >= rows.length) stage.chosen = -1;
      // Tokens that did not come from the hand are others than before.
      if (!Array.isArray(state.tokens)) {
        stage.chosen = -1;
        if (kept && view.camera === kept) stage.fit();
      }
      scene.start = flat(rows);
      scene.d = rows[0]?.length ?? 2;
      scene.startHull = planeHull(scene.start, scene.d);
    }
    const { d } = scene;
    scene.mode = MODES[/** @type {1 | 2 | 3} */ (d)] ?? plane;
    const still = film.position === 0 || film.count === 0 || film.d !== d;
    scene.tokens = still || held ? scene.start : film.positions();
    scene.n = scene.tokens.length / d;
    scene.sphere = SPHERES.includes(state.motion?.name);
    scene.show = view.show;
    scene.camera = view.camera;
    scene.discrete = run?.discrete ?? true;
    scene.until = Number(run?.until ?? 0);
    scene.tone = document.documentElement.dataset.theme === "dark" ? DARK : LIGHT;
    film.clock = state.clock === "log" ? "log" : "linear";
    if (scene.screen.length !== 2 * scene.n) resizeArrays(scene.n);
    if (scene.sphere && !still) ontoSphere();
    const fresh = rows !== seen.rows || film.id !== seen.film || film.count !== seen.count;
    relabel(rows);
    if ((fresh || away) && scene.n > 0 && !held) fitBox(!still);
    Object.assign(seen, { rows, film: film.id, count: film.count });
    if (d !== 3) scene.depth = scene.order = null;
    scene.mode.aim(scene);
    scene.mode.project(scene);
    measure(scene);
    scene.middle = [0, 0];
    for (let k = 0; k < 2 * scene.n; k++) scene.middle[k % 2] += scene.screen[k] / scene.n;
    scene.chosen = stage.chosen < scene.n ? stage.chosen : -1;
    const noted = scene.chosen >= 0 && (held || document.activeElement === canvas);
    scene.note = noted ? about(scene.chosen, "\n") : "";
  }

  /** Find the box that is to be shown. @param {boolean} on whether the film is beyond its start */
  function fitBox(on) {
    const { d, n, start, tokens } = scene;
    const first = boxOf(start, d);
    const whole = film.count > 0 && film.n === n && film.d === d ? film.box : null;
    away = !scene.sphere && runsAway(first, whole);
    const now = away ? boxOf(tokens, d) : whole;
    const wanted = shownBox(first, now, scene.sphere);
    const [other, follows] = [scene.box.low.length !== d, away && on];
    if (other || apart(wanted, target) > 0) target = wanted;
    if (other || (apart(scene.box, target) > 0.6 && !follows)) scene.box = target;
    // However fast tokens run away, they are never out of sight.
    if (follows && apart(joined(scene.box, now), scene.box) > 0) scene.box = joined(scene.box, now);
  }

  /** Let go of the held token when tokens are others than the hand made: it may be gone. */
  function letGo() {
    if (held && held.rows !== startRows(store)) held = moved = null;
  }

  function resizeArrays(/** @type {number} */ n) {
    scene.screen = new Float64Array(2 * n);
    scene.sizes = new Float64Array(n);
    scene.met = new Int32Array(n);
  }

  /** Between two frames tokens on the sphere would cut through it. */
  function ontoSphere() {
    const { d, n } = scene;
    if (film.position === film.frameIndex()) return;
    for (let i = 0; i < n; i++) {
      const row = scene.tokens.subarray(i * d, (i + 1) * d);
      const length = Math.hypot(...row);
      if (length > 0) for (let c = 0; c < d; c++) row[c] /= length;
    }
  }

  /** Find colours anew when the look, the number of tokens, or the end of the film is new. @param {any} rows */
  function relabel(rows) {
    const { look } = store;
    const { n, d } = scene;
    // The last look stays until the next one comes, so that cells do not flicker while a token is dragged.
    const fits = look && (look.run === store.run?.id || rows.length === n) && (look.labels?.length ?? n) === n;
    const told = fits || look?.run === store.run?.id ? look : null;
    scene.look = outdated(told) ? null : told;
    keepEdges();
    scene.startEdges = d === 3 ? edges.pairs.filter((pair) => Math.max(...pair) * 3 < scene.start.length) : [];
    if (told === seen.look && n === seen.n && film.done === seen.done && film.id === seen.run) return;
    Object.assign(seen, { look: told, n, done: film.done, run: film.id });
    const found = labelsOf(told, film, n, scene.sphere);
    // While a new film comes, tokens keep the colours that they had.
    const known = !scene.sphere && (told?.cells || told?.follows);
    if (!film.done && !known && scene.labels.length === n) return;
    Object.assign(scene, found);
    scene.groups = membersOf(scene.labels);
  }

  /** Note whether a look is of another frame than the one that rests; return whether for too long. @param {any} look */
  function outdated(look) {
    scene.late = Boolean(look) && !held && !film.playing && film.count > 0 && look.frame !== film.frameIndex();
    if (!scene.late) lateSince = 0;
    else if (lateSince === 0) {
      lateSince = performance.now();
      for (const wait of [PALING, OUTDATED]) setTimeout(ask, wait);
    }
    const waited = scene.late ? performance.now() - lateSince : 0;
    scene.pale = waited >= PALING;
    return waited >= OUTDATED;
  }

  /** Keep the edges of the start of this run; those of another are of other tokens, unless a hand moves one. */
  function keepEdges() {
    const run = store.run?.id ?? -1;
    const first = [store.first, store.look].find((look) => look?.frame === 0 && look.run === run && look.edges);
    if (first) Object.assign(edges, { run, pairs: first.edges });
    else if (edges.run !== run && !held) Object.assign(edges, { run, pairs: [] });
  }

  /** Come closer to the box that is to be shown; return whether there is a way to go. @param {number} seconds */
  function ease(seconds) {
    if (scene.box === target) return false;
    if (apart(scene.box, target) < 2e-3 || matchMedia("(prefers-reduced-motion: reduce)").matches) scene.box = target;
    else {
      const part = 1 - Math.exp(-seconds / EASE);
      const { low, high } = scene.box;
      scene.box = {
        low: low.map((value, c) => value + part * (target.low[c] - value)),
        high: high.map((value, c) => value + part * (target.high[c] - value)),
      };
    }
    return true;
  }

  function paint() {
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== wide || canvas.height !== high) Object.assign(canvas, { width: wide, height: high });
    if (!pen || pen.width !== width || pen.height !== height) pen = canvasPen(context, width, height);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.globalAlpha = 1;
    context.lineJoin = "round";
    context.fillStyle = scene.tone.paper;
    context.fillRect(0, 0, width, height);
    if (scene.n > 0) scene.mode.draw(pen, scene);
  }

  /** Draw the scene without what belongs to the hand or to another frame. @param {import("./pen.js").Pen} onto */
  function print(onto) {
    atFrame(() => {
      update();
      scene.chosen = -1;
      if (scene.late) Object.assign(scene, { look: null, late: false });
      if (scene.n > 0) scene.mode.draw(onto, scene);
    });
    update();
  }

  /** Do something while the film stands where there is something to show. @template T @param {() => T} what */
  function atFrame(what) {
    const { position } = film;
    // A film that plays is caught at the frame that was looked at last.
    if (film.playing && store.look?.run === film.id && store.look.frame < film.count) film.position = store.look.frame;
    else if (film.discrete) film.position = Math.round(position);
    const found = what();
    film.position = position;
    return found;
  }

  function resize() {
    scene.width = canvas.clientWidth;
    scene.height = canvas.clientHeight;
    scene.ratio = window.devicePixelRatio || 1;
    ask();
  }

  /** Say what token i is, where, and in which cell. @param {number} i @param {string} separator */
  function about(i, separator) {
    const { d, tokens } = scene;
    const look = scene.late ? null : scene.look;
    const parts = [`token ${i}`, writtenPlace(tokens.subarray(i * d, (i + 1) * d))];
    const cell = look?.cells?.[look.labels?.[i]];
    if (cell) parts.push(`cell of ${cell.vertex === i ? "its own" : `token ${cell.vertex}`}`);
    else if (look?.follows?.[i] >= 0)
      parts.push(look.follows[i] === i ? "leads itself" : `follows token ${look.follows[i]}`);
    return parts.join(separator);
  }

  function rewind() {
    if (film.position === 0 && !film.playing) return;
    film.pause();
    film.seek(0);
    store.notify("film");
  }

  /** Keep the picture where it is while hands are at work, in the link as well; other tokens let it go again. */
  function keepCamera() {
    if (store.view.camera || scene.d === 3) return;
    kept = scene.mode.camera(scene.eye);
    store.setView({ camera: kept });
  }

  /** Put other tokens at the start. @param {number[][]} rows @param {string} label */
  function edit(rows, label) {
    rewind();
    keepCamera();
    store.setState({ tokens: rows }, { label });
    if (held) held.rows = rows;
    ask();
  }

  /** Take the held token to where the hand is. */
  function carry() {
    letGo();
    if (held && moved) moveTo(held.i, moved.x - held.dx, moved.y - held.dy);
    moved = null;
  }

  /** Move token i to a pixel. @param {number} i @param {number} x @param {number} y */
  function moveTo(i, x, y) {
    const rows = [...startRows(store)];
    if (!rows[i]) return;
    rows[i] = scene.mode.lift(scene.eye, x, y, rows[i], scene.sphere);
    edit(rows, `drag token ${i}`);
  }

  /** Return the lens of the camera as it is now: between two pictures it may turn more than once. */
  function eye() {
    scene.camera = store.view.camera;
    scene.mode.aim(scene);
    return scene.eye;
  }

  const actions = {
    tool: () => store.view.tool ?? "move",
    pick(/** @type {number} */ x, /** @type {number} */ y, touch = false) {
      update();
      const radius = touch ? NEAR_TOUCH : NEAR;
      const here = nearest(scene.screen, scene.n, x, y, radius);
      if (here >= 0 || scene.d !== 1 || Math.abs(x - scene.eye.left) > radius) return here;
      // On the line tokens can be taken at the left edge as well, where they start.
      const starts = Array.from(scene.start, (value) => [scene.eye.left, line.row(scene.eye, value)]).flat();
      return nearest(starts, scene.start.length, x, y, radius);
    },
    /** Choose a token that may be taken. @param {number} i */
    touch(i) {
      touched = startRows(store);
      stage.choose(i);
    },
    grab(/** @type {number} */ i, /** @type {number} */ x, /** @type {number} */ y) {
      if (touched !== startRows(store)) return;
      rewind();
      held = null;
      update();
      // A token taken where it is later starts elsewhere: it moves as the hand does.
      held = { i, dx: x - scene.screen[2 * i], dy: y - scene.screen[2 * i + 1], rows: touched };
      ask();
    },
    holding: () => held !== null || touched !== null,
    carry(/** @type {number} */ x, /** @type {number} */ y) {
      if (held) moved = { x, y };
      ask();
    },
    drop() {
      if (moved) carry();
      held = touched = null;
      seen.count = -1;
      announce();
      ask();
    },
    pull: (/** @type {number} */ dx, /** @type {number} */ dy) =>
      store.setView({ camera: scene.mode.pulled(eye(), dx, dy) }),
    zoom: (/** @type {number} */ x, /** @type {number} */ y, /** @type {number} */ factor) =>
      store.setView({ camera: scene.mode.zoomed(eye(), x, y, factor) }),
    /** Begin to move the moment shown, if the pointer is at its line or at the axis of time. */
    atTime(/** @type {number} */ x, /** @type {number} */ y) {
      if (scene.d !== 1 || film.count < 2 || x < scene.eye.left - 8) return false;
      return y > scene.eye.bottom || Math.abs(x - line.now(scene)) < 6;
    },
    seekTo(/** @type {number} */ x) {
      film.pause();
      film.seek(film.at(line.timeAt(scene.eye, x)));
      store.notify("film");
      ask();
    },
    add(/** @type {number} */ x, /** @type {number} */ y) {
      update();
      const rows = [...startRows(store)];
      if (!rows.length) return -1;
      rows.push(scene.mode.lift(scene.eye, x, y, null, scene.sphere));
      edit(rows, `add token ${rows.length - 1}`);
      stage.choose(rows.length - 1);
      return rows.length - 1;
    },
    remove(/** @type {number} */ i) {
      const all = startRows(store);
      const rows = all.filter((_, k) => k !== i);
      // Without a token there is nothing to look at.
      if (rows.length === all.length || !rows.length) return;
      edit(rows, `delete token ${i}`);
      stage.choose(-1);
    },
    /** Choose the next token, or the one before; return whether there is one. @param {number} by */
    next(by) {
      const i = stage.chosen < 0 && by < 0 ? scene.n - 1 : stage.chosen + by;
      const there = i >= 0 && i < scene.n;
      stage.choose(there ? i : -1);
      return there;
    },
    /** Move the chosen token by so many pixels. @param {number} dx @param {number} dy */
    nudge(dx, dy) {
      update();
      const i = stage.chosen;
      if (i < 0) return false;
      rewind();
      update();
      moveTo(i, scene.screen[2 * i] + dx, scene.screen[2 * i + 1] + dy);
      announce();
      return true;
    },
    step(/** @type {number} */ by) {
      film.step(by);
      store.notify("film");
    },
    toggle() {
      film.playing ? film.pause() : film.play();
      store.notify("film");
    },
    fit: () => stage.fit(),
    size: () => scene,
    chosen: () => stage.chosen,
    choose: (/** @type {number} */ i) => stage.choose(i),
  };

  let saying = 0;
  /** Tell screen readers what is chosen, once the hand rests. */
  function announce() {
    clearTimeout(saying);
    saying = setTimeout(() => (announcer.textContent = stage.describe()), 150);
  }

  const stage = {
    chosen: -1,
    choose(/** @type {number} */ i) {
      stage.chosen = i;
      announce();
      ask();
    },
    /** Return the middle of token i in pixels of the window. */
    place(/** @type {number} */ i) {
      update();
      const { left, top } = canvas.getBoundingClientRect();
      return { x: left + scene.screen[2 * i], y: top + scene.screen[2 * i + 1] };
    },
    /** Say in words what is on the stage, and what the chosen token is. */
    describe() {
      update();
      const { n, d, chosen } = scene;
      const look = scene.late ? null : scene.look;
      const where = { 1: "on the line", 2: "in the plane", 3: "in space" }[d];
      const moment = `${scene.discrete ? "step" : "time"} ${written(film.time())}`;
      const said = [`${n} ${n === 1 ? "token" : "tokens"} ${where}, ${moment}.`];
      if (chosen >= 0) {
        const parts = [about(chosen, ", ")];
        if (look?.hull?.includes(chosen)) parts.push("a vertex of the hull");
        if (look?.leaders?.includes(chosen)) parts.push("a leader");
        said.push(`Chosen: ${parts.join(", ")}.`);
      }
      return said.join(" ");
    },
    /** Let the picture fit the cloud again. */
    fit() {
      kept = null;
      store.setView({ camera: null });
    },
    draw: ask,
    /** @returns {Promise<Blob>} */
    png() {
      const scale = Math.max(2, scene.ratio);
      const size = { width: scene.width * scale, height: scene.height * scale };
      const sheet = Object.assign(document.createElement("canvas"), size);
      const onto = /** @type {CanvasRenderingContext2D} */ (sheet.getContext("2d"));
      onto.scale(scale, scale);
      onto.fillStyle = scene.tone.paper;
      onto.fillRect(0, 0, scene.width, scene.height);
      // The layer of trajectories has the pixels of the screen: a file is drawn without it.
      print({ ...canvasPen(onto, scene.width, scene.height), layer: undefined });
      const failed = new Error("The picture could not be written: make the window smaller and try again.");
      return new Promise((resolve, reject) =>
        sheet.toBlob((blob) => (blob ? resolve(blob) : reject(failed)), "image/png"),
      );
    },
    svg() {
      const onto = svgPen(scene.width, scene.height, scene.tone.paper, atFrame(stage.describe));
      print(onto);
      return onto.svg();
    },
  };

  canvas.tabIndex = 0;
  canvas.style.touchAction = "none";
  canvas.setAttribute("role", "application");
  canvas.setAttribute(
    "aria-label",
    "Tokens. Tab or the square brackets choose one, arrows move it, Delete removes it, n adds one, Escape lets go.",
  );
  new ResizeObserver(resize).observe(canvas);
  for (const change of ["focus", "blur"]) canvas.addEventListener(change, ask);
  handlePointers(canvas, actions);
  handleKeys(canvas, actions);
  store.subscribe((/** @type {Set<string>} */ what) => {
    if (what.has("run")) {
      film.discrete = store.run?.discrete ?? false;
      const { position } = film;
      if (!film.playing) film.seek(position);
      if (film.position !== position) store.notify("film");
    }
    ask();
  });
  resize();
  return stage;
}

/** Return how far two boxes are apart, as a part of their size. @param {Scene["box"]} a @param {Scene["box"]} b */
function apart(a, b) {
  const size = Math.max(...b.low.map((low, c) => b.high[c] - low));
  const gaps = b.low.map((low, c) => Math.max(Math.abs(low - a.low[c]), Math.abs(b.high[c] - a.high[c])));
  return Math.max(...gaps) / size;
}

/** Return an element after another one that is read aloud, but not seen. @param {HTMLElement} after */
function hidden(after) {
  const element = document.createElement("div");
  element.setAttribute("aria-live", "polite");
  const size = { position: "absolute", width: "1px", height: "1px" };
  Object.assign(element.style, { ...size, overflow: "hidden", clipPath: "inset(50%)", whiteSpace: "nowrap" });
  after.after(element);
  return element;
}
