// The screen as a link: JSON, compressed, in letters that an address may hold.

import { FIRST_STATE, matrices, model } from "./models.js";
import { createPastScreens } from "./past_screens.js";
import { dimension } from "./store.js";

const LARGEST = 4_000_000; // characters of JSON; a short link could otherwise unfold to gigabytes
const DAMAGED = "This link is damaged: here is the first screen instead. Ask for the link anew.";
const THEMES = ["auto", "light", "dark"];

/** Return what a link holds: the state, the view without the tool, and what is compared with the state. */
export function screenOf({ state, view, other }) {
  const { tool, ...rest } = view;
  return { state, view: rest, ...(other ? { other } : {}) };
}

export async function encode(screen) {
  const json = new Blob([JSON.stringify(screen)]);
  const packed = json.stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(packed).arrayBuffer());
  const letters = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** @param {string} text @returns {Promise<any>} the screen; an error with one sentence when there is none */
export async function decode(text) {
  let screen;
  try {
    const letters = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    screen = JSON.parse(await unpacked(new Blob([bytes])));
  } catch {
    throw new Error(DAMAGED);
  }
  if (!isState(screen?.state)) throw new Error(DAMAGED);
  const { law, motion } = screen.other ?? screen.state;
  if (!isState({ ...screen.state, law, motion })) throw new Error(DAMAGED);
  return sound(screen);
}

/** Return what can be shown of a screen that came from elsewhere. @param {any} screen */
export function sound({ state, view, other = null }) {
  const found = { state, view: viewOf(view) };
  return other === null ? found : { ...found, other: { law: other.law, motion: other.motion } };
}

async function unpacked(/** @type {Blob} */ blob) {
  const reader = blob.stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  const words = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + words.decode();
    text += words.decode(value, { stream: true });
    if (text.length > LARGEST) throw new Error(DAMAGED);
  }
}

const isTable = (x) => typeof x === "object" && x !== null && !Array.isArray(x);
const isRow = (row, /** @type {number} */ d) =>
  Array.isArray(row) && row.length === d && row.every(Number.isFinite);
const isMatrix = (m) =>
  Array.isArray(m) && [1, 2, 3].includes(m.length) && m.every((row) => isRow(row, m.length));

/** Whether the page can show it; what it means is for the server to check. */
function isState(x) {
  const sound = (/** @type {"law" | "motion"} */ kind) =>
    typeof x[kind]?.name === "string" &&
    matrices(model(kind, x[kind].name)).every(({ key }) => isMatrix(x[kind][key] ?? [[0]]));
  if (!isTable(x) || !sound("law") || !sound("motion")) return false;
  const cloud = isTable(x.tokens) && typeof x.tokens.cloud === "string";
  if (!cloud && !(Array.isArray(x.tokens) && x.tokens.length > 0)) return false;
  const d = dimension(x);
  return [1, 2, 3].includes(d) && (cloud || x.tokens.every((row) => isRow(row, d)));
}

/** Return what is sound in the view of a link. */
function viewOf(given) {
  const view = {};
  if (!isTable(given)) return view;
  if (Number.isFinite(given.t) && given.t >= 0) view.t = given.t;
  if (Number.isFinite(given.threshold) && given.threshold >= 0 && given.threshold <= 1) view.threshold = given.threshold;
  if (THEMES.includes(given.theme)) view.theme = given.theme;
  if (isTable(given.show)) {
    view.show = Object.fromEntries(Object.entries(given.show).filter(([, on]) => typeof on === "boolean"));
  }
  if (isTable(given.camera) && Object.values(given.camera).every(Number.isFinite)) view.camera = given.camera;
  return view;
}

/** Return a hash as it was meant: some programs write %2F for a slash. @param {string} hash */
function plain(hash) {
  try {
    return decodeURIComponent(hash);
  } catch {
    return hash;
  }
}

const PAUSE = 400; // milliseconds between changes of the address; browsers refuse more frequent ones

/** A page without stories. */
const NONE = { on: false, names: () => false, find: decode, followed() {}, close() {} };

/** Keep the address and the screen in step. @param {any} store @param {any} page */
export function createLink(store, { preset, opened, say, story = NONE }) {
  /** The screen that the address stands for, as text. */
  let written = "";
  /** The preset that the address names, and its screen before any edit. */
  let untouched = { name: "", text: "" };
  /** How many addresses were followed; only the last of them counts. */
  let followed = 0;
  let following = false;
  let timer = 0;

  const now = () => JSON.stringify(screenOf(store));

  async function write() {
    timer = 0;
    const text = now();
    if (text === written || following || story.on) return;
    const link = await encode(screenOf(store));
    // Another screen or another hash may have come while this was being written.
    if (following || timer !== 0 || story.on) return;
    if (now() === text) {
      history.replaceState(null, "", `#${link}`);
      written = text;
    } else later();
  }

  const later = () => (timer ||= setTimeout(write, PAUSE));

  function settled(/** @type {string | null} */ name) {
    clearTimeout(timer);
    timer = 0;
    written = now();
    untouched = { name: name ?? "", text: written };
  }

  /** Show what the address says; false when it says nothing. */
  async function follow() {
    const hash = plain(location.hash.slice(1));
    if (hash === "" || document.getElementById(hash)) return false;
    const mine = ++followed;
    following = true;
    let name = hash.startsWith("preset=") ? hash.slice("preset=".length) : null;
    let screen = { state: FIRST_STATE, view: {} };
    let wrong = "";
    try {
      screen = await (story.names(hash) ? story.find(hash) : name === null ? decode(hash) : preset(name));
    } catch (error) {
      name = null;
      wrong = /** @type {Error} */ (error).message;
    }
    if (mine !== followed) return true;
    following = false;
    opened(screen);
    if (wrong) say(wrong);
    settled(name);
    story.followed(screen);
    // When the story is left, its screen gets an address of its own.
    if (story.on) written = "";
    return true;
  }

  /** Put a screen that was left back; a figure that was not edited has its name in the address. */
  function restore(screen) {
    followed += 1;
    following = false;
    opened(screen);
    story.followed(screen);
    settled(screen.name ?? null);
    if (screen.name) return;
    written = "";
    later();
  }

  const past = createPastScreens({
    sound: isState,
    restore,
    async follow() {
      // Before the first edit the address of the first screen is empty.
      if (location.hash.length <= 1) restore({ state: FIRST_STATE, view: {} });
      else await follow();
    },
  });
  store.on(["state", "other", "view", "player"], later);

  return {
    follow,
    /** Keep this screen for Back, before another one is opened. */
    leave() {
      // The address of a step of a story leads back to it.
      if (story.on) return;
      const { figure, state } = store;
      const { name, note } = figure?.state === state ? figure : {};
      past.leave({ ...screenOf(store), ...(name ? { name, note } : {}) });
    },
    /** Say that the screen is that of a preset, which has a name of its own. @param {string} name */
    named(name) {
      past.enter(`#preset=${name}`);
      followed += 1;
      following = false;
      story.close();
      settled(name);
    },
    /** Return the whole address of the screen. */
    async address() {
      const named = untouched.name !== "" && now() === untouched.text;
      const hash = named ? `#preset=${untouched.name}` : `#${await encode(screenOf(store))}`;
      // A key in the address is for this page alone.
      return new URL(hash, location.origin + location.pathname).href;
    },
  };
}
