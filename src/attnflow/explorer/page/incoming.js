// A run that begins to come in is "held" until it has come to the time on the screen, so that the picture does not
// jump; then it takes the place of the one before and is "shown", and what still comes is appended to its frames.

/** A run that comes slowly is shown after this time, in milliseconds. */
const PATIENCE = 250;

/** @typedef {{name: "held", start: any, chunks: [any, import("./player.js").Numbers][], overlays: any, timer: any}} Held */

/**
 *
 * @param {ReturnType<typeof import("./shown_time.js").createShownTime>} shownTime
 * @param {{overlays: (answer: any) => void, answered: () => void}} tell
 */
export function createIncoming(store, player, shownTime, tell) {
  /** @type {{name: "shown"} | Held} */
  let state = { name: "shown" };

  /** Forget the run that is held. */
  function drop() {
    if (state.name === "held") clearTimeout(state.timer);
    state = { name: "shown" };
  }

  /** Put the held run on the screen in place of the old one. */
  function release() {
    if (state.name !== "held") return;
    const { start, chunks, overlays } = state;
    const late = shownTime.chasing;
    drop();
    player.clear(start.id, start.n, start.d);
    store.first = null;
    store.put("series", null);
    store.put("run", start);
    store.put("refused", null);
    for (const [header, numbers] of chunks) player.append(header, numbers);
    shownTime.follow();
    if (overlays) tell.overlays(overlays);
    if (late || overlays) tell.answered();
    store.notify("player");
  }

  return {
    drop,
    /** The id of the run that is held, or else of the one shown. */
    get id() {
      return state.name === "held" ? state.start.id : store.run?.id;
    },
    get held() {
      return state.name === "held";
    },
    /** @param {any} header what was asked for is its `state` */
    start(header) {
      drop();
      shownTime.start();
      state = { name: "held", start: header, chunks: [], overlays: null, timer: setTimeout(release, PATIENCE) };
      if (!shownTime.chasing || player.count === 0) release();
    },
    frames(header, /** @type {import("./player.js").Numbers} */ numbers) {
      if (state.name === "held") {
        state.chunks.push([header, numbers]);
        if (shownTime.reachedBy(header.times[header.times.length - 1])) release();
      } else {
        player.append(header, numbers);
        shownTime.follow();
        store.notify("player");
      }
    },
    /** Keep overlays of the run that is held, to be shown with it; return whether they are. */
    keep(header) {
      if (state.name !== "held" || header.run !== state.start.id) return false;
      state.overlays = header;
      return true;
    },
    end(header) {
      release();
      Object.assign(player, { done: true, endsWith: header.ends_with });
      Object.assign(store.run, { stopped: header.stopped, engine: header.engine });
      shownTime.follow();
    },
  };
}
