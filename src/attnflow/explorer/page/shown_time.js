// The time on the screen when another run comes in. It is in one of three states:
//
//   free      the player is where the user put it
//   opening   another screen was opened: until its run is there, the run before says nothing about t
//   chasing   the new run grows, and is shown at time t or as near to it as it has come
//
//   open: any -> opening;   start: any -> chasing if t > 0, else free;   follow: chasing -> free once t is reached;
//   notice: chasing -> free when the user seeks.

/** @typedef {{name: "free"} | {name: "opening", t: number} | {name: "chasing", t: number, placed: number}} State
 *   `placed` is where the chase itself put the player: if it is elsewhere, the user moved it */

export function createShownTime(store, player) {
  /** @type {State} */
  let state = { name: "free" };
  return {
    get chasing() {
      return state.name === "chasing";
    },
    /** Return whether a run that has come to this time can be shown. @param {number} time */
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
    /** Keep the player at the time, as soon as it is there. */
    follow() {
      if (state.name !== "chasing" || player.count === 0) return;
      player.seek(Math.min(player.at(state.t), player.count - 1));
      state.placed = player.position;
      if (player.done || player.playing || player.times[player.count - 1] >= state.t) state = { name: "free" };
    },
    /** Take the time from the player, if the user moves that. */
    notice() {
      if (state.name === "chasing" && player.position !== state.placed) state = { name: "free" };
      if (state.name === "free") store.view.t = player.time();
    },
  };
}
