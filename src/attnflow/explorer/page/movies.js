// A movie of the stage: the page goes through the run, draws each frame with the overlays of that very moment, and
// sends it to the server, which puts the frames together. One picture is under way at a time.

import { captionOf } from "./caption.js";
import { RATE, halved, planOf } from "./movie_plan.js";
import { written } from "./pictures.js";
import { bringBeside } from "./same_time.js";

/**
 * @typedef {{format: "mp4" | "gif", signal: AbortSignal, progress: (done: number, all: number) => void}} Wish
 */

/** A message has at most 2 MB: a larger picture is sent as JPEG. */
const MOST_BYTES = 1_900_000;
/** If frames take so long that all would take more than this, in milliseconds, every second one is left out. */
const LONGEST = 120_000;
const JUDGED = 6;
/** Frames of a GIF, which is a large file, are smaller. */
const WIDEST_GIF = 820;
/** Overlays that did not come within this time, in milliseconds, are asked for once more. */
const PATIENCE = 20_000;

/** @param {import("./export.js").Shown} shown */
export function createMovies({ store, player, stage, socket, requests, pause }) {
  /** Make a movie, and return its file. @param {Wish} wish @returns {Promise<Blob>} */
  async function record(wish) {
    const { state, overlays } = store;
    // Of two sides that are compared both go through the run.
    const players = [player, stage.scene.beside?.player].filter(Boolean);
    const positions = players.map((one) => one.position);
    let over = false;
    const stopped = () => {
      wish.signal.throwIfAborted();
      if (over) throw new Error("The movie has ended.");
      if (store.state !== state) throw new Error("The screen changed while the movie was made: begin again.");
    };
    pause();
    await whole(stopped);
    try {
      return await film(wish, stopped);
    } finally {
      over = true;
      // Where it was before, with the overlays that are known to be those of this frame.
      players.forEach((one, k) => (one.position = positions[k]));
      if (store.state === state) store.put("overlays", overlays);
      store.notify("player");
    }
  }

  /** Wait until the whole run is there. @param {() => void} stopped */
  async function whole(stopped) {
    while (!(player.done && player.count > 0 && requests.idle())) {
      await new Promise((resolve) => setTimeout(resolve, 60));
      stopped();
      if (store.refused?.about === "run") throw new Error("There is no run to make a movie of: change something first.");
    }
  }

  /** Ask for a movie, send its frames, and return its file. @param {Wish} wish @param {() => void} stopped */
  async function film(wish, stopped) {
    const pixels = stage.film(wish.format === "gif" ? WIDEST_GIF : undefined);
    const id = socket.next;
    const { width, height } = pixels;
    const made = socket.ask({ do: "movie", format: wish.format, width, height, rate: RATE });
    let refused = false;
    // It fails when something goes wrong there, whatever is waited for here.
    const failed = new Promise((_, reject) => {
      made.catch((/** @type {Error} */ error) => {
        refused = true;
        reject(error);
      });
    });
    failed.catch(() => {});
    const cancel = () => socket.open && socket.send({ do: "cancel" });
    wish.signal.addEventListener("abort", cancel, { once: true });
    try {
      await frames(id, pixels, wish, stopped, failed);
      const { type, payload } = await made;
      stopped();
      return new Blob([payload], { type });
    } catch (error) {
      // What went wrong here must not leave the server waiting.
      if (!refused && !wish.signal.aborted) cancel();
      throw error;
    }
  }

  /**
   * @param {number} movie its id @param {import("./pictures.js").Film} pixels @param {Wish} wish
   * @param {() => void} stopped @param {Promise<any>} failed
   */
  async function frames(movie, pixels, { progress }, stopped, failed) {
    let plan = planOf(player);
    let caption = captionOf(store, player);
    const begun = performance.now();
    for (let k = 0; k < plan.length; k++) {
      progress(k, plan.length);
      stopped();
      const { position, repeat } = plan[k];
      player.position = position;
      await Promise.race([showOverlays(stopped), failed]);
      player.position = position;
      bringBeside(stage.scene);
      // Of a place between two frames the words are those of the frame before.
      const { time, law, said } = captionOf(store, player);
      caption = { time, law, said: Number.isInteger(position) ? said : caption.said };
      const canvas = await stage.frame(pixels, caption);
      const picture = await encoded(canvas);
      const header = { do: "frame", movie, index: k, repeat, last: k === plan.length - 1 };
      await Promise.race([socket.ask(header, picture), failed]);
      const each = (performance.now() - begun) / (k + 1);
      if (k >= JUDGED && each * plan.length > LONGEST) plan = halved(plan, k + 1);
    }
    progress(plan.length, plan.length);
  }

  /** Show the overlays of the moment that the player is at, between two frames as well. @param {() => void} stopped */
  async function showOverlays(stopped) {
    const k = player.frameIndex();
    const want = requests.want().filter((/** @type {string} */ name) => name !== "attention");
    const part = Math.max(player.position - k, 0);
    const question = { do: "overlays", run: store.run.id, frame: k, part, want, ...requests.told() };
    // An answer that another question overtook does not come.
    const late = new Promise((resolve) => setTimeout(resolve, PATIENCE));
    const answer = (await Promise.race([socket.ask(question), late])) ?? (await socket.ask(question));
    // What comes late must not take the place of what is shown by then.
    stopped();
    store.put("overlays", { ...answer, payload: undefined });
    const token = stage.looked();
    if (token < 0) return;
    const row = await Promise.race([socket.ask({ do: "row", run: store.run.id, frame: k, token }), late]);
    if (row) store.put("row", { ...row, payload: undefined });
  }

  return { record };
}

/** Return a canvas as the bytes of a picture that a message can hold. @param {HTMLCanvasElement} canvas */
async function encoded(canvas) {
  const exact = await written(canvas, "image/png");
  const picture = exact.size <= MOST_BYTES ? exact : await written(canvas, "image/jpeg", 0.92);
  if (picture.size > MOST_BYTES) throw new Error("A frame is too large to be sent: make the window smaller.");
  return picture.arrayBuffer();
}
