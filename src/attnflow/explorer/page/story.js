// A guided story on the live stage. The story is in one of two states:
//
//   off
//   on     at a step, which is "waiting" (nothing was done), "tried" (something was done that is not the goal) or
//          "reached" (and stays so until another step is opened)
//
//   enter: any -> on, waiting;   look: waiting -> tried | reached, tried -> reached;   leave: on -> off

import { byId, make } from "./elements.js";
import { createStoryCard, createStoryList } from "./story_card.js";
import { missing } from "./story_goals.js";
import { controlOf, createStoryScreen, tabOf } from "./story_screen.js";

/** How long nothing is done before the hint is shown, in milliseconds. */
const REST = 1200;
/** Under this key the browser remembers that a story was opened. */
const SEEN = "attnflow story";
const ADDRESS = /^story(?:\/([a-z][a-z0-9-]*))?(?:\/(\d{1,3}))?$/;

/**
 * @typedef {import("./story_card.js").Progress} Progress
 * @typedef {{name: "off"} | {name: "on", story: any, index: number, progress: Progress,
 *   opening: import("./story_goals.js").Opening}} State
 */

/**
 * @param {import("./player.js").Player} player @param {any} stage
 * @param {{opened: (screen: any) => void, left: () => void}} page puts a screen in the place of this one; keeps this
 *   screen for Back
 */
export function createStory(store, player, stage, page) {
  const { opened, left } = page;
  const screen = createStoryScreen(store, player, stage);
  const list = fetch("/stories.json").then((answer) => (answer.ok ? answer.json() : [])).catch(() => []);
  /** @type {State} */
  let state = { name: "off" };
  let resting = 0;
  /** @type {Element[]} */
  let marked = [];

  const { card, ...shown } = createStoryCard({ go, next, back: () => state.name === "on" && go(state.index - 1), leave });
  byId("stage").closest("main").prepend(card);
  const stories = createStoryList((name) => list.then((all) => begin(all, all.find((one) => one.name === name))));
  const menu = make("button", { type: "button", id: "stories-open", click: () => list.then(stories.open) }, "Stories");
  document.querySelector(".figure-choice")?.before(menu);

  /** @param {any} all @param {any} story @param {number} index */
  const address = (all, story, index) => `#story/${all[0] === story ? "" : `${story.name}/`}${index + 1}`;

  /** Return the screen of a step that an address names, or throw a sentence. @param {string} hash */
  async function find(hash) {
    const all = await list;
    const [, name, step = "1"] = ADDRESS.exec(hash) ?? [];
    const story = name === undefined ? all[0] : all.find((one) => one.name === name);
    if (!story) throw new Error(`There is no story “${name ?? ""}”: choose one under Stories. Here is the first screen.`);
    const index = Math.min(Math.max(Number(step), 1), story.steps.length) - 1;
    const { state, view } = story.steps[index];
    return { state, view, story, index };
  }

  /** Show a step; its screen is on the stage, or soon will be. @param {any} story @param {number} index */
  function enter(story, index) {
    state = { name: "on", story, index, progress: "waiting", opening: screen.opening() };
    document.body.dataset.story = story.name;
    // A token of another cloud is not the one that was chosen.
    if (!story.steps[index].keep) stage.choose(-1);
    // The other tools are out of sight.
    if (store.view.tool !== "move") store.setView({ tool: "move" });
    remember();
    // Undo stops here now, also where the screen stayed as it was.
    store.endGesture();
    store.notify("view");
    shown.show(story, index, "waiting");
    look();
  }

  async function begin(all, story) {
    if (!story) return;
    const { state, view } = story.steps[0];
    left();
    opened({ state, view });
    history.pushState(null, "", address(all, story, 0));
    enter(story, 0);
    shown.focus();
  }

  /** Go to a step: one that keeps the screen does so when the step before was just done. @param {number} index */
  async function go(index) {
    if (state.name !== "on" || index < 0 || index >= state.story.steps.length) return;
    const { story, index: before, progress } = state;
    const all = await list;
    const step = story.steps[index];
    if (!(step.keep && index === before + 1 && progress === "reached")) opened({ state: step.state, view: step.view });
    // The step that is begun anew is no other entry of the history.
    const write = index === before ? "replaceState" : "pushState";
    history[write](null, "", address(all, story, index));
    enter(story, index);
    shown.focus();
  }

  function next() {
    if (state.name !== "on") return;
    if (state.index < state.story.steps.length - 1) return go(state.index + 1);
    leave();
    list.then(stories.open);
  }

  /** Take the card away; the screen stays, and gets an address of its own. */
  function leave() {
    if (state.name === "off") return;
    close();
    store.notify("view");
    byId("stage").focus({ preventScroll: true });
  }

  function close() {
    state = { name: "off" };
    clearTimeout(resting);
    mark([]);
    delete document.body.dataset.story;
    shown.hide();
  }

  /** Look whether the goal is reached. */
  function look() {
    if (state.name === "off" || state.progress === "reached") return;
    screen.complete(state.opening);
    const { story, index, opening } = state;
    // Before the run of the step is there, nothing can have been done.
    if (opening.rows.length === 0) return mark([]);
    const left = missing(story.steps[index].goal, screen.seen(opening));
    clearTimeout(resting);
    if (left.length === 0) advance("reached");
    else if (state.progress === "waiting" && screen.touched(opening)) resting = setTimeout(rest, REST);
    mark(left);
  }

  /** Something was done, and it is not what was asked for. */
  function rest() {
    if (state.name === "off" || state.progress !== "waiting") return;
    if (screen.settled()) advance("tried");
    else resting = setTimeout(rest, REST);
  }

  function advance(/** @type {Progress} */ progress) {
    if (state.name === "off") return;
    state.progress = progress;
    shown.show(state.story, state.index, progress);
  }

  /** Mark the control of the first condition that is not met. @param {import("./story_goals.js").Condition[]} left */
  function mark(left) {
    const control = left.map(controlOf).find((one) => one !== null) ?? null;
    const wanted = control ? [tabOf(control) ?? control] : [];
    if (wanted[0] === marked[0]) return;
    for (const one of marked) one.classList.remove("story-target");
    for (const one of wanted) {
      one.classList.add("story-target");
      if (one === control) one.scrollIntoView({ block: "nearest" });
    }
    marked = wanted;
  }

  /** @returns {boolean} whether this browser has seen a story; one that keeps nothing is not asked again and again */
  function known() {
    try {
      return localStorage.getItem(SEEN) !== null;
    } catch {
      return true;
    }
  }

  function remember() {
    try {
      localStorage.setItem(SEEN, "seen");
    } catch {
      // Nothing is kept here.
    }
  }

  store.on(["state", "view", "run", "overlays", "player", "series", "claims"], look);

  let free = true;
  const escape = (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && state.name === "on";
  addEventListener("keydown", (event) => escape(event) && (free = stage.chosen < 0), true);
  addEventListener("keydown", (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if (!escape(event) || target.closest?.("dialog, input[type=text], textarea, select")) return;
    // On the picture Escape lets a token go first.
    if (target === byId("stage") ? free : !event.defaultPrevented) leave();
  });

  return {
    /** Whether a story is on: then the address is that of its step. */
    get on() {
      return state.name === "on";
    },
    /** Whether the screen is the one that the step opened: what came before belongs to another step. */
    get opening() {
      return state.name === "on" && store.state === state.opening.state && store.other === null;
    },
    /** Go to the next step, or to the one before; false when no story is on. @param {number} by */
    step(by) {
      if (state.name === "off") return false;
      if (by > 0) next();
      else go(state.index - 1);
      return true;
    },
    /** Whether an address is that of a story. @param {string} hash */
    names: (hash) => ADDRESS.test(hash),
    find,
    /** The screen that was found is on the stage, or another one is. @param {any} found */
    followed(found) {
      if (found?.story) enter(found.story, found.index);
      else if (state.name === "on") close();
    },
    close,
    /** Open the first story on the first visit. */
    async welcome() {
      if (known()) return false;
      const all = await list;
      // Somebody was faster.
      if (all.length === 0 || state.name === "on" || location.hash !== "" || store.canUndo) return false;
      const found = await find("story");
      opened(found);
      history.replaceState(null, "", address(all, found.story, 0));
      enter(found.story, 0);
      return true;
    },
  };
}
