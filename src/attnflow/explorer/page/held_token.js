// Which token the pointer holds. It is in one of four states:
//
//   free     touch ->   touched
//   touched  grab ->    held, or lost if the tokens were replaced meanwhile, as an undo does
//   held     compare -> lost if the tokens were replaced
//   lost     until the pointer is lifted, it moves nothing
//
// and `release` leads from any of them to free.

/**
 * @typedef {{x: number, y: number}} Place
 * @typedef {import("./hues.js").Rows} Rows
 * @typedef {{name: "touched", rows: Rows}} Touched the tokens when the pointer came down on one of them
 * @typedef {{name: "held", i: number, dx: number, dy: number, rows: Rows, to: Place | null}} Held token i, the
 *   way from its middle to the pointer, the tokens as the pointer left them, and where it went since
 * @typedef {{name: "free"} | Touched | Held | {name: "lost"}} State
 */

/** @param {() => Rows} tokens the tokens of the start as they are now */
export function createHeldToken(tokens) {
  /** @type {State} */
  let state = { name: "free" };
  return {
    /** The token that is held, if one is. */
    get held() {
      return state.name === "held" ? state : null;
    },
    get free() {
      return state.name === "free";
    },
    touch() {
      state = { name: "touched", rows: tokens() };
    },
    /** Return whether the touched token is still there to be held; otherwise it is lost. */
    grab() {
      if (state.name === "touched" && state.rows !== tokens()) state = { name: "lost" };
      return state.name === "touched";
    },
    /** Hold token i. @param {number} i @param {number} dx @param {number} dy */
    hold(i, dx, dy) {
      state = { name: "held", i, dx, dy, rows: tokens(), to: null };
    },
    /** Note where the pointer takes the token. @param {Place | null} to */
    carry(to) {
      if (state.name === "held") state = { ...state, to };
    },
    /** Note the tokens that the pointer made. @param {Rows} rows */
    made(rows) {
      if (state.name === "held") state = { ...state, rows };
    },
    /** Lose the held token if the tokens are others than the pointer made: it may be gone. */
    compare() {
      if (state.name === "held" && state.rows !== tokens()) state = { name: "lost" };
    },
    release() {
      state = { name: "free" };
    },
  };
}
