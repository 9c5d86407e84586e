// The two questions of which at most one is under way: the run of the state, and the overlays of a frame. A table says
// which event leads from which state to which; what is not in it changes nothing.

/** A question that got no answer for this time, in milliseconds, is asked anew. */
export const FORGOTTEN = 4000;

/** @typedef {"settled" | "due" | "asked" | "superseded"} State */

/** @type {Record<State, {change?: State, send?: State, answer?: State}>} */
const NEXT = {
  // The answer is here.
  settled: { change: "due", send: "asked" },
  // To be asked.
  due: { send: "asked" },
  // Under way.
  asked: { change: "superseded", send: "asked", answer: "settled" },
  // Under way, but to be asked again, as something changed since.
  superseded: { send: "asked", answer: "due" },
};

/** @param {State} first */
export function createQuestion(first) {
  let [state, at] = [first, 0];
  const question = {
    /** The id under which it was sent last. */
    id: -1,
    /** Whether it is to be asked, now or after the answer under way. */
    get due() {
      return state === "due" || state === "superseded";
    },
    get underWay() {
      return state === "asked" || state === "superseded";
    },
    /** Whether it may be sent: no answer is under way, or it was forgotten. @param {number} now */
    free: (now) => !question.underWay || now - at > FORGOTTEN,
    /** @param {number} id @param {number} now */
    sent(id, now) {
      [question.id, at] = [id, now];
      go("send");
    },
    /** What it asks about has changed. */
    changed: () => go("change"),
    answered: () => go("answer"),
    /** Forget what is under way. @param {State} next */
    reset(next) {
      state = next;
    },
  };

  function go(/** @type {"change" | "send" | "answer"} */ event) {
    state = NEXT[state][event] ?? state;
  }

  return question;
}
