// The second of two sides that are compared. Its tokens, time and seed are those of the first; its law and motion are
// its own, and kept by the store of the first, so that undo and links cover both.

import { fitted, model, solvedExactly } from "./models.js";
import { createStore, dimension } from "./store.js";

/**
 * @typedef {ReturnType<typeof createStore>} Store
 * @typedef {import("./store.js").Other} Other
 * @typedef {import("./store.js").State} State
 */

/**
 * What a state is compared with at first: the same law at its limit, if the motion takes that; from there, the law
 * before its limit; and where there is no limit, the same.
 * @param {State} state @returns {Other}
 */
export function firstOther({ law, motion }) {
  const end = model("law", law.name).parameters.find((one) => one.limit);
  if (!end) return { law, motion };
  if (law[end.key] === "inf") return { law: { ...law, [end.key]: end.start ?? end.default }, motion };
  const taken = model("motion", motion.name).takes_jumping_laws || solvedExactly(motion.name, end.limit);
  return { law: taken ? { ...law, [end.key]: "inf" } : law, motion };
}

/** Return the store of the second side of what is in the store of the first. @param {Store} first */
export function createOtherStore(first) {
  const store = createStore();
  /** @type {{from: State, other: Other | null, state: State}} what the state was last made of */
  let made = { from: first.state, other: null, state: first.state };
  let view = { of: first.view, copy: { ...first.view } };

  function state() {
    const { state: from, other } = first;
    if (from === made.from && other === made.other) return made.state;
    const next = { ...from, ...other };
    const keys = /** @type {(keyof State)[]} */ (Object.keys(next));
    // An edit of the first side alone is none of this one.
    const same = keys.every((key) => next[key] === made.state[key]);
    made = { from, other, state: same ? made.state : next };
    return made.state;
  }

  Object.defineProperties(store, {
    state: { get: state },
    view: {
      get() {
        // A copy, as the moment that is shown is written into it.
        if (view.of !== first.view) view = { of: first.view, copy: { ...first.view } };
        return view.copy;
      },
    },
    label: { get: () => first.label },
    pointed: { get: () => first.pointed },
  });

  return Object.assign(store, {
    /** @param {Partial<State>} patch @param {{label?: string, within?: boolean}} [how] */
    setState(patch, how = {}) {
      const { law, motion, ...common } = patch;
      const own = { law: law ?? store.state.law, motion: motion ?? store.state.motion };
      const next = { ...first.state, ...common };
      const parts = fitted(first.state, dimension(next));
      const anew = parts === first.state ? {} : { law: parts.law, motion: parts.motion };
      first.setState({ ...common, ...anew }, { ...how, other: own });
    },
    setView: first.setView,
    point: first.point,
    undo: first.undo,
    redo: first.redo,
  });
}
