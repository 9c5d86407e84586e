// The side that the controls edit and that is saved, of the two that are compared: a store for those who need only one.

/**
 * @import { Store } from "./other_side.js"
 * @import { Topic } from "./store.js"
 * @typedef {"left" | "right"} Side
 */

/** @param {Store} left @param {Store} right */
export function createChosenSide(left, right) {
  /** @type {Side} */
  let side = "left";
  /** @type {{topics: Topic[], listener: (what: Set<Topic>) => void}[]} */
  const listeners = [];

  const store = () => (side === "left" ? left : right);

  return {
    get side() {
      return side;
    },
    /** Take the other side; whoever listens is told as of an edit. @param {Side} wanted */
    take(wanted) {
      if (wanted === side) return;
      side = wanted;
      /** @type {Set<Topic>} */
      const news = new Set(["state", "view"]);
      if (store().refused) news.add("refused");
      for (const { topics, listener } of listeners) if (topics.some((topic) => news.has(topic))) listener(news);
    },
    get state() {
      return store().state;
    },
    get view() {
      return store().view;
    },
    get run() {
      return store().run;
    },
    get refused() {
      return store().refused;
    },
    get label() {
      return left.label;
    },
    motions: () => left.motions(),
    /** Both sides, for what is written of both; of one, nothing. */
    pair: () => (left.other ? { state: left.state, beside: left.other } : {}),
    /** @type {Store["on"]} */
    on(topics, listener) {
      listeners.push({ topics, listener });
      left.on(topics, (what) => side === "left" && listener(what));
      right.on(topics, (what) => side === "right" && listener(what));
    },
    /** @type {Store["setState"]} */
    setState: (patch, how) => store().setState(patch, how),
    /** @type {Store["setView"]} */
    setView: (patch) => left.setView(patch),
  };
}
