// What a story sees of the page: the present screen and the one that the step began with; and which control is next.

import { byId } from "./elements.js";
import { startRows } from "./scene.js";

/** @typedef {import("./story_goals.js").Seen} Seen */
/** @typedef {import("./story_goals.js").Opening} Opening */

/** The corner whose cell each token is in at the start of the run, -1 where there is none. @returns {number[] | null} */
function cellsOf(store) {
  const known = [store.first, store.overlays].filter((one) => one?.frame === 0 && one.run === store.run?.id);
  for (const one of known) {
    if (one.cells && one.labels) return one.labels.map((/** @type {number} */ k) => one.cells[k]?.vertex ?? -1);
    if (one.follows) return one.follows;
  }
  return null;
}

/** The rows of the start; of very many tokens, which nobody drags, none. @returns {number[][]} */
function rowsOf(store) {
  const rows = startRows(store);
  return Array.isArray(rows) ? rows : [];
}

/** @param {import("./player.js").Player} player @param {{chosen: number}} stage */
export function createStoryScreen(store, player, stage) {
  /** Whether the run on the screen is that of the present state. */
  const fresh = () => store.run?.state === store.state && player.id === store.run?.id && player.count > 0;

  function clusters() {
    const { series } = store;
    const whole = fresh() && player.done && series?.frames?.at(-1) === player.count - 1;
    return whole ? (series.clusters?.at(-1) ?? null) : null;
  }

  return {
    fresh,
    /** Return the screen as a step begins with it. @returns {Opening} */
    opening: () => ({ state: store.state, rows: [], cells: null, time: store.view.t, show: store.view.show }),

    /** Complete the opening by what is known only once its run is there. @param {Opening} opening */
    complete(opening) {
      const { tokens } = opening.state;
      if (opening.rows.length === 0 && Array.isArray(tokens)) opening.rows = tokens;
      // A visitor may change the tokens before the run of the step is there: these are not the tokens that it opened.
      if (store.state.tokens !== tokens || !fresh()) return;
      if (opening.rows.length === 0) opening.rows = rowsOf(store);
      opening.cells ??= cellsOf(store);
    },

    /** @param {Opening} opening @returns {Seen} */
    seen(opening) {
      const here = fresh();
      return {
        state: store.state,
        opening,
        time: here ? player.time() : null,
        playing: player.playing,
        rows: rowsOf(store),
        cells: here ? cellsOf(store) : null,
        show: store.view.show,
        chosen: stage.chosen,
        clusters: clusters(),
        claims: store.claims,
      };
    },

    /** Whether somebody has done something since. @param {Opening} opening */
    touched(opening) {
      const shown = Object.keys(opening.show).some((name) => opening.show[name] !== store.view.show[name]);
      return store.state !== opening.state || shown || player.playing || (fresh() && player.time() > opening.time);
    },

    /** Whether nothing is under way that could still reach the goal. */
    settled: () => fresh() && player.done && !player.playing && !store.claims.waiting,
  };
}

/** The control that a condition is about. @param {import("./story_goals.js").Condition} one @returns {HTMLElement | null} */
export function controlOf(one) {
  const named = {
    parameter: () => {
      const id = one.key.replace(".", "-");
      return byId(`${id}-slider`) ?? byId(id);
    },
    model: () => byId(one.part),
    time: () => byId("at_most" in one ? "scrub" : "play"),
    until: () => byId("until"),
    clock: () => byId("clock"),
    overlay: () => byId(`show-${one.name}`),
    claim: () => document.querySelector(`[data-claim="${CSS.escape(one.claim)}"]`),
  }[one.what];
  return named?.() ?? null;
}

/** The tab that leads to a control which is not on the screen. @param {HTMLElement} control */
export function tabOf(control) {
  if (control.offsetParent !== null) return null;
  const panel = control.closest("#controls") ? "controls" : control.closest("#claims-panel") ? "claims" : "";
  return panel ? document.querySelector(`.tabs [data-panel="${panel}"]`) : null;
}
