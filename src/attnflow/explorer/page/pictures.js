// The stage as a file: PNG, SVG, and the frames of movies, each over a strip that says what is seen.

import { drawBeside } from "./beside_marks.js";
import { captionOf } from "./caption.js";
import { drawStrip, linesInMovie, stripOf } from "./caption_strip.js";
import { make } from "./elements.js";
import { bringBeside } from "./same_time.js";
import { canvasSheet, svgSheet } from "./sheet.js";
import { describe } from "./words.js";

/** @typedef {{width: number, height: number, scale: number, lines: number}} Film the pixels of a movie */

/** Frames of movies have at most WIDEST pixels across and down. */
const WIDEST = 1280;
/** Tries to finish the layer of trajectories before a frame is drawn as it is. */
const PATIENCE = 400;

/**
 * @param {import("./scene.js").Scene} scene @param {() => void} update
 * @param {(seconds: number) => boolean} ease bring the picture closer to the part of space that it is to show
 */
export function createPictures(scene, store, update, ease) {
  const { player } = scene;

  /** Draw the scene as it is, but no chosen token. @param {import("./sheet.js").Sheet} onto */
  function draw(onto) {
    Object.assign(scene, { chosen: -1, pointed: -1, note: "" });
    if (scene.late) Object.assign(scene, { overlays: null, late: false });
    if (scene.row?.run !== player.id || scene.row?.frame !== player.frameIndex()) scene.row = null;
    if (scene.n === 0) return;
    const sheet = { ...onto, width: scene.width, height: scene.height };
    scene.mode.draw(sheet, scene);
    drawBeside(sheet, scene);
  }

  /** Do something while the player is where there is something to show. @template T @param {() => T} what */
  function atFrame(what) {
    const [{ position }, { run, frame }] = [player, store.overlays ?? {}];
    const other = scene.beside?.player;
    const before = other?.position;
    // While the run plays, the frame with the last overlays is taken.
    if (player.playing && run === player.id && frame < player.count) player.position = frame;
    else if (player.discrete) player.position = Math.round(position);
    bringBeside(scene);
    update();
    const found = what();
    player.position = position;
    if (other) other.position = before;
    scene.beside?.update();
    update();
    return found;
  }

  /** @param {number} width @param {number} height @param {number} scale */
  function paper(width, height, scale) {
    const canvas = make("canvas", { width: Math.round(width * scale), height: Math.round(height * scale) });
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    context.fillStyle = scene.tone.paper;
    context.fillRect(0, 0, width, height);
    return { canvas, context };
  }

  return {
    png() {
      return atFrame(() => {
        const scale = Math.max(2, scene.ratio);
        const strip = stripOf(captionOf(store, player), scene.width);
        const { canvas, context } = paper(scene.width, scene.height + strip.height, scale);
        const sheet = canvasSheet(context, scene.width, scene.height + strip.height);
        // The layer of trajectories has the pixels of the screen: a file is drawn without it.
        draw({ ...sheet, layer: undefined });
        drawStrip(sheet, strip, scene.height, scene.tone);
        return written(canvas, "image/png");
      });
    },
    svg() {
      return atFrame(() => {
        const strip = stripOf(captionOf(store, player), scene.width);
        const title = describe(scene);
        const sheet = svgSheet(scene.width, scene.height + strip.height, scene.tone.paper, title);
        draw(sheet);
        drawStrip(sheet, strip, scene.height, scene.tone);
        return sheet.svg();
      });
    },
    /** Return the pixels of a movie of the stage as it is: even numbers, as films have them. @returns {Film} */
    film(widest = WIDEST) {
      update();
      const lines = linesInMovie(scene.width);
      const tall = scene.height + stripOf(captionOf(store, player), scene.width, lines).height;
      const wanted = Math.min(Math.max(scene.ratio, 1), widest / Math.max(scene.width, tall));
      const width = 2 * Math.max(Math.round((scene.width * wanted) / 2), 1);
      const scale = width / scene.width;
      return { width, height: 2 * Math.ceil((tall * scale) / 2), scale, lines };
    },
    /**
     * Draw the stage where the player is, with all of its trajectories, as a frame of a movie.
     * @param {Film} film @param {import("./caption.js").Caption} caption
     */
    async frame(film, caption) {
      const { scale } = film;
      update();
      if (ease(Infinity)) update();
      for (let k = 0; scene.show.paths && k < PATIENCE && scene.trails.prepare(scene); k++)
        if (k % 4 === 3) await new Promise((resolve) => setTimeout(resolve, 0));
      update();
      const [width, height] = [film.width / scale, film.height / scale];
      const { canvas, context } = paper(width, height, scale);
      const sheet = canvasSheet(context, scene.width, scene.height);
      draw(sheet);
      const strip = stripOf(caption, scene.width, film.lines);
      drawStrip(sheet, { ...strip, height: height - scene.height }, scene.height, scene.tone);
      update();
      return canvas;
    },
  };
}

/** Return a canvas as a file. @param {HTMLCanvasElement} canvas @param {string} type @param {number} [quality] */
export function written(canvas, type, quality) {
  const failed = new Error("The picture could not be written: make the window smaller and try again.");
  return /** @type {Promise<Blob>} */ (
    new Promise((resolve, reject) =>
      canvas.toBlob((blob) => (blob ? resolve(blob) : reject(failed)), type, quality),
    )
  );
}
