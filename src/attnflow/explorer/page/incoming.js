// A run that begins to come in is "held" until it has come to the moment on the screen, so that the picture does not
// jump; then it takes the place of the one before and is "shown", and what still comes is appended to the film.

/** A run that comes slowly is shown after this time, in milliseconds. */
const PATIENCE = 250;

/** @typedef {{name: "held", start: any, chunks: [any, Float64Array][], look: any, timer: any}} Held */

/**
 * @param {any} store
 * @param {any} film
 * @param {ReturnType<typeof import("./moment.js").createMoment>} moment
 * @param {{look: (answer: any) => void, answered: () => void}} tell the look that came with a run; that it was answered
 */
export function createIncoming(store, film, moment, tell) {
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
    const { start, chunks, look } = state;
    const late = moment.chasing;
    drop();
    film.clear(start.id, start.n, start.d);
    film.done = false;
    store.first = null;
    store.put("series", null);
    store.put("run", start);
    store.put("refused", null);
    for (const [header, numbers] of chunks) film.append(header, numbers);
    moment.follow();
    if (look) tell.look(look);
    if (late || look) tell.answered();
    store.notify("film");
  }

  return {
    drop,
    /** The id of the run that is held, or else of the one shown. @returns {number | undefined} */
    get id() {
      return state.name === "held" ? state.start.id : store.run?.id;
    },
    get held() {
      return state.name === "held";
    },
    /** @param {any} header what was asked for is its `state` */
    start(header) {
      drop();
      moment.start();
      state = { name: "held", start: header, chunks: [], look: null, timer: setTimeout(release, PATIENCE) };
      if (!moment.chasing || film.count === 0) release();
    },
    frames(/** @type {any} */ header, /** @type {Float64Array} */ numbers) {
      if (state.name === "held") {
        state.chunks.push([header, numbers]);
        if (moment.reachedBy(header.times[header.times.length - 1])) release();
      } else {
        film.append(header, numbers);
        moment.follow();
        store.notify("film");
      }
    },
    /** Keep a look at the run that is held, to be shown with it; return whether it is one. @param {any} header */
    keep(header) {
      if (state.name !== "held" || header.run !== state.start.id) return false;
      state.look = header;
      return true;
    },
    end(/** @type {any} */ header) {
      release();
      film.done = true;
      Object.assign(store.run, { stopped: header.stopped, engine: header.engine });
      moment.follow();
    },
  };
}
