// The stage as a file: PNG and SVG.

import { make } from "./elements.js";
import { canvasSheet, svgSheet } from "./sheet.js";
import { describe } from "./words.js";

/** @param {import("./scene.js").Scene} scene @param {() => void} update */
export function createPictures(scene, store, update) {
  const { player } = scene;
  /** Draw the scene without chosen token and overlays of another frame. @param {import("./sheet.js").Sheet} onto */
  function print(onto) {
    atFrame(() => {
      Object.assign(scene, { chosen: -1, pointed: -1, note: "" });
      if (scene.late) Object.assign(scene, { overlays: null, late: false });
      if (scene.n > 0) scene.mode.draw(onto, scene);
    });
    update();
  }

  /** Do something while the player is where there is something to show. @template T @param {() => T} what */
  function atFrame(what) {
    const [{ position }, { run, frame }] = [player, store.overlays ?? {}];
    // While the run plays, the frame with the last overlays is taken.
    if (player.playing && run === player.id && frame < player.count) player.position = frame;
    else if (player.discrete) player.position = Math.round(position);
    update();
    const found = what();
    player.position = position;
    return found;
  }

  return {
    png() {
      const scale = Math.max(2, scene.ratio);
      const canvas = make("canvas", { width: scene.width * scale, height: scene.height * scale });
      const onto = canvas.getContext("2d");
      onto.scale(scale, scale);
      onto.fillStyle = scene.tone.paper;
      onto.fillRect(0, 0, scene.width, scene.height);
      // The layer of trajectories has the pixels of the screen: a file is drawn without it.
      print({ ...canvasSheet(onto, scene.width, scene.height), layer: undefined });
      const failed = new Error("The picture could not be written: make the window smaller and try again.");
      return new Promise((resolve, reject) =>
        canvas.toBlob((blob) => (blob ? resolve(blob) : reject(failed)), "image/png"),
      );
    },
    svg() {
      const onto = svgSheet(scene.width, scene.height, scene.tone.paper, atFrame(() => describe(scene)));
      print(onto);
      return onto.svg();
    },
  };
}
