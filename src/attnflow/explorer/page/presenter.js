// Presenting: the stage fills the window, panels are drawers at its edges, a large caption says what is seen, marks are
// thick, a pen draws, and a clicker goes on. It is a mode of the window, in one of two states:
//
//   off     enter -> on, no drawer open
//   on      a drawer is open or none is;   leave -> off, the page is as it was

import { captionOf } from "./caption.js";
import { byId, make, TYPING } from "./elements.js";
import { createInk } from "./ink.js";
import { onceAFrame, setMarkScale } from "./screen.js";

/** @typedef {"left" | "right" | "bottom" | "top"} Side */

/** How much larger marks are, in a window of how many pixels, in others in proportion; the least and the most. */
const [LARGER, PIXELS, LEAST, MOST] = [1.7, 1280 * 720, 1.15, 3.4];
/** While a run plays, the caption is written this often, in milliseconds. */
const PACE = 150;
/** Of two stages the second is there while two sides are compared. */
const STAGES = "#stage, #other-stage";

/**
 * The drawers: what is in each, or first in it, its key, and what it is called.
 * @type {Record<Side, {key: string, name: string, panel: string}>}
 */
const DRAWERS = {
  left: { key: "1", name: "Controls", panel: "#controls" },
  right: { key: "2", name: "Claims and measures", panel: "aside" },
  bottom: { key: "3", name: "Tools and time", panel: ".toolbar" },
  top: { key: "4", name: "Figures and sharing", panel: "body > header" },
};

const ICONS = {
  present: '<path d="M3 4h14v9H3zM10 13v3M6.5 17h7" />',
  back: '<path d="M12.5 4 6.5 10l6 6" />',
  next: '<path d="m7.5 4 6 6-6 6" />',
  pen: '<path d="m4 16 1-4 8.5-8.5 3 3L8 15zM12 5l3 3" />',
  wipe: '<path d="m8 16-4.5-4.5L11 4l5.5 5.5L10 16zM6 9l5.5 5.5M9 16h8" />',
  leave: '<path d="m5 5 10 10M15 5 5 15" />',
};

/** @param {keyof typeof ICONS} name */
const icon = (name) => `<svg viewBox="0 0 20 20" aria-hidden="true">${ICONS[name]}</svg>`;

/** @param {import("./player.js").Player} player */
export function createPresenter(store, player, stage) {
  /** Where the focus was before this began, and before the drawer was opened, to be put back there.
   * @type {{name: "off"} | {name: "on", drawer: Side | null, before: Element | null, opener: Element | null}} */
  let state = { name: "off" };
  /** Who goes on: the last that does it. @type {((by: 1 | -1) => boolean)[]} */
  const goers = [];
  let [written, later] = [0, 0];

  const canvas = byId("stage");
  const main = canvas.closest("main");
  const ink = createInk(canvas.closest(".stages") ?? canvas.parentElement, (on) => (pen.ariaPressed = String(on)));

  function button(/** @type {keyof typeof ICONS} */ name, /** @type {string} */ title, /** @type {() => void} */ act) {
    const click = (/** @type {MouseEvent} */ event) => {
      act();
      // What a pointer pressed does not keep the space bar for itself.
      if (event.detail > 0) canvas.focus({ preventScroll: true });
    };
    return make("button", { type: "button", id: `presenter-${name}`, title, "aria-label": title, html: icon(name), click });
  }
  const open = button("present", "Present (p)", enter);
  byId("help-open").before(open);
  const pen = button("pen", "Pen (i)", ink.toggle);
  pen.ariaPressed = "false";
  const buttons = make(
    "div",
    { class: "presenter-buttons", role: "group", "aria-label": "Presenting" },
    button("back", "Back (Page Up)", () => go(-1)),
    button("next", "Next (Page Down)", () => go(1)),
    pen,
    button("wipe", "Wipe the ink (w)", ink.wipe),
    button("leave", "End presenting (p)", leave),
  );
  const handles = Object.entries(DRAWERS).map(([side, { key, name }]) => {
    const title = `${name} (${key})`;
    const handle = make("button", { type: "button", class: "handle", title, "aria-label": title, "data-side": side });
    handle.addEventListener("click", (/** @type {MouseEvent} */ event) => {
      turn(/** @type {Side} */ (side), event.detail > 0 ? canvas : handle);
    });
    return handle;
  });
  const [said, about] = ["said", "about"].map((name) => make("p", { class: name }));
  const passed = make("div", { class: "passed" });
  const caption = make("div", { id: "caption" }, passed, said, about);
  const layer = make("div", { id: "presenter" }, ...handles, buttons);
  main.append(caption, layer);
  explain();

  /** Say in the list of keys what keys do here. */
  function explain() {
    const rows = [
      ["p", "present, or end it; also Esc"],
      ["Page Down,Page Up", "next and back, from a clicker"],
      ["1,2,3,4", "controls, claims, tools, figures"],
      ["i,w", "pen; wipe the ink"],
    ];
    const row = (/** @type {string[]} */ [keys, what]) => {
      const each = keys.split(",").flatMap((key) => [make("kbd", {}, key), " "]);
      return make("div", {}, make("dt", {}, ...each), make("dd", {}, what));
    };
    byId("help").querySelector("p").before(make("h3", {}, "Presenting"), make("dl", {}, ...rows.map(row)));
  }

  function fit() {
    const larger = LARGER * Math.sqrt((innerWidth * innerHeight) / PIXELS);
    setMarkScale(state.name === "on" ? Math.min(Math.max(larger, LEAST), MOST) : 1);
  }

  function enter() {
    if (state.name === "on") return;
    state = { name: "on", drawer: null, before: document.activeElement, opener: null };
    document.body.classList.add("presenting");
    // What a drawer holds is out of sight until it is opened.
    mark();
    fit();
    write();
    canvas.focus({ preventScroll: true });
    // Who has left before the browser answers does not want it any more.
    const whole = document.documentElement.requestFullscreen?.();
    whole?.then(() => (state.name === "off" ? document.exitFullscreen() : undefined)).catch(() => {});
  }

  function leave() {
    if (state.name === "off") return;
    const { before } = state;
    state = { name: "off" };
    document.body.classList.remove("presenting");
    mark();
    fit();
    ink.layDown();
    ink.wipe();
    if (document.fullscreenElement) document.exitFullscreen().catch(() => {});
    (before instanceof HTMLElement && before.isConnected ? before : open).focus({ preventScroll: true });
  }

  /** Open a drawer, or close it. @param {Side | null} side @param {Element | null} opener */
  function turn(side, opener = document.activeElement) {
    if (state.name === "off") return;
    if (!state.drawer) state.opener = opener;
    state.drawer = side === state.drawer ? null : side;
    mark();
    if (state.drawer) panelOf(state.drawer).focus({ preventScroll: true });
    else if (state.opener instanceof HTMLElement) state.opener.focus({ preventScroll: true });
  }

  /** Return what a drawer holds; the next Tab leads to its first control. @param {Side} side */
  function panelOf(side) {
    const panel = /** @type {HTMLElement} */ (document.querySelector(DRAWERS[side].panel));
    panel.tabIndex = -1;
    return panel;
  }

  function mark() {
    const drawer = state.name === "on" ? state.drawer : null;
    if (drawer) document.body.dataset.drawer = drawer;
    else delete document.body.dataset.drawer;
    for (const handle of handles) handle.ariaExpanded = String(handle.dataset.side === drawer);
  }

  /** Go to what comes next or came before. @param {1 | -1} by */
  function go(by) {
    ink.wipe();
    if (!goers.findLast((goer) => goer(by))) figure(by);
  }

  /** Choose the next figure of the list, or the one before. @param {number} by */
  function figure(by) {
    const menu = byId("preset");
    if (menu.disabled) return;
    const names = [...menu.options].map((option) => option.value).filter((name) => name !== "");
    const now = names.indexOf(store.figure?.name ?? "");
    const wanted = now < 0 ? (by > 0 ? 0 : -1) : now + by;
    if (wanted < 0 || wanted >= names.length) return;
    menu.value = names[wanted];
    menu.dispatchEvent(new Event("change"));
  }

  const ask = onceAFrame(() => {
    if (state.name === "off") return;
    passed.style.setProperty("--part", String(player.count > 0 ? player.fraction() : 0));
    const wait = player.playing ? PACE - (performance.now() - written) : 0;
    if (wait <= 0) return write();
    clearTimeout(later);
    later = setTimeout(ask, wait);
  });

  /** Write what is seen at this moment. */
  function write() {
    written = performance.now();
    const now = captionOf(store, player);
    // Of two sides that are compared, the words are about the left one.
    if (store.other) now.said = `Left: ${now.said}`;
    const words = `${now.time} · ${now.law}`;
    if (said.textContent !== now.said) said.textContent = now.said;
    if (about.textContent !== words) about.textContent = about.title = words;
  }

  /** Tell the drawers where the caption begins. */
  const measure = () => document.body.style.setProperty("--caption-height", `${caption.offsetHeight}px`);

  /** @type {Record<string, () => void>} */
  const keys = {
    PageDown: () => go(1),
    PageUp: () => go(-1),
    w: ink.wipe,
    i: ink.press,
    ...Object.fromEntries(Object.values(DRAWERS).map(({ key }, k) => [key, () => turn(handles[k].dataset.side)])),
  };

  /** Return what a key does, if it is for the presenter. @param {KeyboardEvent} event */
  function actionOf(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey || target.closest?.("dialog")) return null;
    if (state.name === "on" && event.key === "Escape") return state.drawer ? () => turn(null) : leave;
    if (target.matches?.(TYPING)) return null;
    if (event.key === "p") return state.name === "on" ? leave : enter;
    if (state.name === "off") return null;
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    // A chosen token is moved by arrows, and so is what has arrows of its own.
    const free = target === document.body || (target.matches?.(STAGES) && stage.chosen < 0) || target.closest?.("#presenter");
    if (by !== undefined && free && !event.shiftKey) return () => go(/** @type {1 | -1} */ (by));
    return Object.hasOwn(keys, event.key) ? keys[event.key] : null;
  }

  // Before the stage, which has uses of its own for some of these keys.
  addEventListener(
    "keydown",
    (event) => {
      const action = actionOf(event);
      if (!action) return;
      event.preventDefault();
      event.stopPropagation();
      if (!event.repeat || event.key.startsWith("Page")) action();
    },
    { capture: true },
  );
  addEventListener("keyup", (event) => event.key === "i" && ink.release());
  // The browser takes Escape for itself when the page fills the screen.
  document.addEventListener("fullscreenchange", () => document.fullscreenElement || leave());
  addEventListener("resize", fit);
  new ResizeObserver(measure).observe(caption);
  store.on(["state", "other", "view", "run", "overlays", "player", "series", "claims"], ask);
  store.on(["view"], ink.draw);

  return {
    enter,
    leave,
    get on() {
      return state.name === "on";
    },
    ink,
    /**
     * Let something else than the list of figures go on, as a story does: called with 1 or -1, it returns whether it did.
     * @param {(by: 1 | -1) => boolean} goer
     */
    onNext: (goer) => goers.push(goer),
  };
}
