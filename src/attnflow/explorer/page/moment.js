// The moment on the screen when another run comes in. It is in one of three states:
//
//   free      the film is where the user put it
//   opening   another screen was opened: until its run is there, the film of the one before says nothing about t
//   chasing   the film of the new run grows, and is kept at time t or as near to it as it has come
//
//   open: any -> opening;   start: any -> chasing if t > 0, else free;   follow: chasing -> free once t is reached;
//   notice: chasing -> free when the user seeks.

/** @typedef {{name: "free"} | {name: "opening", t: number} | {name: "chasing", t: number, placed: number}} State
 *   `placed` is where the chase itself put the film: a film that is elsewhere was moved by the user */

/** @param {any} store @param {any} film */
export function createMoment(store, film) {
  /** @type {State} */
  let state = { name: "free" };
  return {
    get chasing() {
      return state.name === "chasing";
    },
    /** Return whether a film that has come to this time shows the moment. @param {number} time */
    reachedBy: (time) => state.name !== "chasing" || time >= state.t,
    /** Show time t of the screen that was opened as soon as its run is there. @param {number} t */
    open(t) {
      store.view.t = t;
      state = { name: "opening", t };
    },
    /** A run begins to come in. */
    start() {
      const t = state.name !== "free" && state.t > 0 ? state.t : store.view.t;
      state = t > 0 ? { name: "chasing", t, placed: -1 } : { name: "free" };
    },
    /** Keep the film at the moment, as soon as it is there. */
    follow() {
      if (state.name !== "chasing" || film.count === 0) return;
      film.seek(Math.min(film.at(state.t), film.count - 1));
      state.placed = film.position;
      if (film.done || film.playing || film.times[film.count - 1] >= state.t) state = { name: "free" };
    },
    /** Take the moment from the film, if the user moves that. */
    notice() {
      if (state.name === "chasing" && film.position !== state.placed) state = { name: "free" };
      if (state.name === "free") store.view.t = film.time();
    },
  };
}
