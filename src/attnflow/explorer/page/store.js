// What is on the screen, and who wants to know when it changes.

import { counts, FIRST_STATE, fitted } from "./models.js";

/**
 * @typedef {number[][] | null} Matrix
 * @typedef {{cloud: string, n?: number, k?: number, d?: number, seed?: number}} Cloud
 * @typedef {"linear" | "log"} Clock
 * @typedef {{tokens: Cloud | number[][], law: any, motion: any, until: number, seed: number, clock: Clock}} State
 * @typedef {"auto" | "light" | "dark"} Theme
 * @typedef {{name: string, note: string, state: State}} Figure a preset, and the state that it put on the screen
 * @typedef {{law: any, motion: any}} Other the law and the motion of the second side while two are compared
 * @typedef {{state: State, other: Other | null, label: string, figure: Figure | null, show: View["show"],
 *   camera: any}} Step
 * @typedef {{t: number, show: Record<string, boolean>, threshold: number, theme: Theme, camera: any, tool: string}} View
 * @typedef {"state" | "other" | "view" | "run" | "overlays" | "player" | "series" | "claims" | "refused" | "row"
 *   | "looked"} Topic
 * @typedef {(topics: Topic[], listener: (what: Set<Topic>) => void) => void} Listen
 */

/** @type {View} */
const FIRST_VIEW = {
  t: 0,
  show: {
    cells: true,
    hull: true,
    limits: false,
    leaders: true,
    quiescent: false,
    influence: false,
    paths: true,
    numbers: false,
  },
  threshold: 0.1,
  theme: "auto",
  camera: null,
  tool: "move",
};

/** A token stays pointed at for this time, in milliseconds, after the pointer left it, so that nothing flickers. */
const LINGER = 120;

/** Edits under one label that follow each other within this time are undone together. */
const ONE_GESTURE = 800;
const MOST_STEPS_BACK = 200;

/** Return the dimension of the tokens of a state. @param {State} state */
export function dimension(state) {
  if (Array.isArray(state.tokens)) return state.tokens[0]?.length ?? 2;
  const { cloud, d, n } = state.tokens;
  return counts(cloud).includes("d") ? (d ?? n ?? 2) : 2;
}

export function createStore() {
  const listeners = [];
  /** @type {Set<Topic>} */
  let news = new Set();
  /** @type {[Step[], Step[]]} */
  let [past, future] = [[], []];
  let gesture = { label: "", at: -Infinity };
  let screens = 0;
  let leaving = 0;

  function deliver() {
    const what = news;
    news = new Set();
    for (const { topics, listener } of listeners) {
      try {
        if (!topics.some((topic) => what.has(topic))) continue;
        listener(what);
      } catch (error) {
        // One panel that fails must not silence the others.
        console.error(error);
      }
    }
  }

  /** Move between past and future. @param {typeof past} from @param {typeof past} to */
  function travel(from, to) {
    const step = from.pop();
    if (!step) return false;
    to.push(present(step.label));
    const opening = step.label.startsWith("open ");
    enter(step.state, opening ? step.label : "", step.other);
    store.figure = step.figure;
    // A screen that was opened came with its own overlays.
    if (opening) store.setView({ show: step.show, camera: step.camera });
    gesture = { label: "", at: -Infinity };
    return true;
  }

  /** @param {string} label */
  function present(label) {
    const { state, other, figure, view } = store;
    return { state, other, label, figure, show: view.show, camera: view.camera };
  }

  function enter(/** @type {State} */ state, /** @type {string} */ label, /** @type {Other | null} */ other) {
    // A camera of the plane sees nothing in space.
    if (dimension(state) !== dimension(store.state)) store.setView({ camera: null });
    // An edit of the second side leaves the state as it is: the first side is not computed anew.
    if (other !== store.other) store.notify("other");
    if (state !== store.state) store.notify("state");
    Object.assign(store, { state, other, label });
  }

  const store = {
    state: structuredClone(FIRST_STATE),
    /** @type {Other | null} what is compared with the state, if anything */
    other: null,
    view: structuredClone(FIRST_VIEW),
    /** @type {any} the start of the run that the player holds */
    run: null,
    overlays: null,
    /** @type {any} what was seen of the first frame of the run */
    first: null,
    series: null,
    /** The token that a pointer is at, on the stage or in the attention matrix; -1 for none. */
    pointed: -1,
    /** @type {import("./row_requests.js").Row | null} whom the token that is looked at hears */
    row: null,
    /** @type {Map<string, any>} the claims that apply, each with its verdict once there is one */
    claims: new Map(),
    /** @type {{sentence: string, about: string, state: State} | null} */
    refused: null,
    /** The label of the last edit; one that begins with "open " put another screen in the place of this one. */
    label: "",
    /** @type {Figure | null} the preset that all edits since began from */
    figure: null,

    /** Call a listener, with the set of what changed, soon after one of the topics did. @type {Listen} */
    on(topics, listener) {
      listeners.push({ topics, listener });
    },

    /** @param {...Topic} topics */
    notify(...topics) {
      if (news.size === 0) queueMicrotask(deliver);
      for (const topic of topics) news.add(topic);
    },

    /** Put a value that came from the server. @param {Topic} topic */
    put(topic, value) {
      Object.assign(store, { [topic]: value });
      store.notify(topic);
    },

    /**
     * Change the state: the keys of `patch` replace those of the state.
     * @param {Partial<State>} patch
     * @param {{label?: string, within?: boolean, other?: Other | null}} [how] edits of one label in quick succession are
     *   one step of undo; so are those `within` one gesture, however slow it is; `other` replaces what is compared
     */
    setState(patch, { label = "", within = false, other = store.other } = {}) {
      const now = performance.now();
      const quick = within || now - gesture.at < ONE_GESTURE;
      const same = label !== "" && label === gesture.label && quick;
      if (!same) {
        past.push(present(label));
        if (past.length > MOST_STEPS_BACK) past.shift();
      }
      future = [];
      gesture = { label, at: now };
      const state = Object.keys(patch).length > 0 ? { ...store.state, ...patch } : store.state;
      enter(state, label, other && fitted(other, dimension(state)));
    },

    /** @param {Partial<View>} patch */
    setView(patch) {
      store.view = { ...store.view, ...patch };
      store.notify("view");
    },

    /** Point at a token, or at none. @param {number} i */
    point(i) {
      clearTimeout(leaving);
      const put = () => {
        store.pointed = i;
        store.notify("looked");
      };
      if (i === store.pointed) return;
      if (i < 0) leaving = setTimeout(put, LINGER);
      else put();
    },

    /** Replace the whole screen, as a link does or a preset, which has a name; it can be undone. */
    open({ state, view, other = null, name = "", note = "" }) {
      store.setState(structuredClone({ ...FIRST_STATE, ...state }), { label: `open ${++screens}`, other });
      store.figure = name === "" ? null : { name, note, state: store.state };
      const { theme, tool } = store.view;
      const show = { ...FIRST_VIEW.show, ...view?.show };
      store.setView(structuredClone({ ...FIRST_VIEW, theme, tool, ...view, show }));
    },

    /** Return the names of the motions of all sides that are shown: tokens start where each of them takes them. */
    motions: () => [store.state, store.other].flatMap((side) => (side ? [side.motion.name] : [])),

    /** Let the next edit be a step of undo of its own, however soon it follows. */
    endGesture() {
      gesture = { label: "", at: -Infinity };
    },

    undo: () => travel(past, future),
    redo: () => travel(future, past),
    get canUndo() {
      return past.length > 0;
    },
    get canRedo() {
      return future.length > 0;
    },
  };
  return store;
}
