// The stage as a file: PNG and SVG.

import { canvasPen, svgPen } from "./pen.js";
import { describe } from "./words.js";

/** @param {import("./scene.js").Scene} scene @param {any} store @param {any} film @param {() => void} update */
export function createPictures(scene, store, film, update) {
  /** Draw the scene without what belongs to the hand or to another frame. @param {import("./pen.js").Pen} onto */
  function print(onto) {
    atFrame(() => {
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
    update();
    const found = what();
    film.position = position;
    return found;
  }

  return {
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
      const onto = svgPen(scene.width, scene.height, scene.tone.paper, atFrame(() => describe(scene)));
      print(onto);
      return onto.svg();
    },
  };
}
