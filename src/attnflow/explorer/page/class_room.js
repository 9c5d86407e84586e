// A page among others: that of a teacher or of a notebook tells the server what is on its screen, those of a class
// begin with that screen. A page that is alone is none of these.

import { byId, make } from "./elements.js";
import { screenOf, sound } from "./link.js";

/** The screen is told when there was no change for this time, in milliseconds. */
const REST = 150;
const KEPT = "attnflow key";

/**
 * The key in the address. That of a teacher is taken out of it, since the class can read the address too, and is kept
 * for as long as the tab is open.
 */
function keyHere() {
  const given = new URLSearchParams(location.search).get("key");
  try {
    if (given === null) return sessionStorage.getItem(KEPT) ?? "";
    sessionStorage.setItem(KEPT, given);
    if (window === window.parent) history.replaceState(null, "", location.pathname + location.hash);
  } catch {
    // Without a place to keep it the address has to.
  }
  return given ?? "";
}

const key = keyHere();
const query = key === "" ? "" : `?key=${encodeURIComponent(key)}`;
/** Where the socket of this page is. */
export const SOCKET = `/ws${query}`;

/** @typedef {"alone" | "pupil" | "teacher" | "notebook"} Role */
/** @typedef {{role: Role, screen: any, version: number, open: boolean, link: string}} Audience */

/**
 * @param {any} store @param {{ask: (message: any) => Promise<any>, open: boolean}} socket
 * @param {{opened: (screen: any) => void, say: (sentence: string) => void}} page
 */
export function createClassRoom(store, socket, { opened, say }) {
  /** @type {Audience} */
  let about = { role: "alone", screen: null, version: 0, open: true, link: "" };
  /** The screen that the server has, as text, and the version of the teacher's that this page began with. */
  let [told, began] = ["", 0];
  /** The teacher's state as this page began with it, before any edit. */
  let start = null;
  let resting = 0;

  const ask = async () => (await fetch(`/audience.json${query}`, { cache: "no-store" })).json();
  const now = () => JSON.stringify(screenOf(store));
  const leads = () => about.role === "teacher" || about.role === "notebook";

  // What a page that leads does

  async function tell() {
    const text = now();
    if (!leads() || text === told || !socket.open) return;
    try {
      await socket.ask({ do: "screen", screen: JSON.parse(text) });
      told = text;
    } catch {
      // A screen that cannot be run is not shown to others; a lost connection tells it again when it is back.
    }
  }

  function later() {
    clearTimeout(resting);
    resting = setTimeout(tell, REST);
  }

  function showCode() {
    const dialog = make(
      "dialog",
      { id: "class-dialog", "aria-labelledby": "class-title" },
      make("h2", { id: "class-title" }, "Open this page on your own device"),
      make("img", { src: "/link.svg", alt: `QR code of ${about.link}` }),
      make("p", {}, make("a", { href: about.link }, about.link)),
      make("label", { class: "check" }, allow, " the class may change attention and motion"),
      make("form", { method: "dialog" }, make("button", {}, "Close")),
    );
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }

  const allow = make("input", { type: "checkbox", id: "class-allow", change: () => setOpen(allow.checked) });
  async function setOpen(/** @type {boolean} */ open) {
    try {
      await socket.ask({ do: "allow", open });
      about.open = open;
    } catch (error) {
      say(/** @type {Error} */ (error).message);
    }
    allow.checked = about.open;
  }

  // What a pupil's page does

  const back = make("button", { type: "button", id: "class-back", click: goBack }, "Back to the teacher's screen");
  const locked = make("p", { id: "class-locked" }, "The teacher chooses attention and motion. Tokens are yours to drag.");

  async function goBack() {
    try {
      about = await ask();
    } catch {
      return say("The teacher's screen cannot be reached: try again.");
    }
    if (about.screen === null) return say("The teacher's page is not open yet.");
    begin();
  }

  function begin() {
    began = about.version;
    opened(sound(about.screen));
    start = store.state;
    sync();
  }

  /** Attention and motion are set by the teacher, unless they are open to all. */
  function lock() {
    const on = about.role === "pupil" && !about.open;
    locked.hidden = !on;
    document.body.classList.toggle("locked", on);
    for (const set of byId("controls").querySelectorAll("fieldset.of-teacher")) set.disabled = on;
    // What leads to another law by itself.
    for (const id of ["preset", "compare", "swap", "stories-open"]) byId(id).disabled = on;
  }

  function sync() {
    // Where nothing has changed there is nothing to go back to, and the button would only cover tokens.
    back.hidden = about.version === began && store.state === start;
    back.classList.toggle("news", about.version > began);
    back.title = about.version > began ? "The teacher's screen has changed" : "";
    lock();
  }

  /** Put the first sections of the controls, but not that of the tokens, in sets that can be locked. */
  function wrap() {
    const controls = byId("controls");
    const sections = [...controls.querySelectorAll(":scope > section")].slice(0, 2);
    for (const section of sections) {
      const set = make("fieldset", { class: "of-teacher" });
      section.replaceWith(set);
      set.append(section);
    }
    controls.prepend(locked);
  }

  const parts = {
    alone() {},
    notebook() {},
    teacher() {
      allow.checked = about.open;
      document.querySelector("header .buttons")?.prepend(
        make("button", { type: "button", id: "class-open", title: "Show the class the way here", click: showCode }, "Class"),
      );
    },
    pupil() {
      wrap();
      document.querySelector(".stage-wrap")?.append(back);
    },
  };

  store.on(["state", "other", "view"], later);
  store.on(["state"], () => about.role === "pupil" && sync());

  return {
    /**
     * Find out what this page is among others, and begin with the screen there is; return whether there are others.
     * @param {boolean} followed
     */
    async begin(followed) {
      try {
        about = await ask();
      } catch {
        return false;
      }
      parts[about.role]();
      // An address with a screen of its own, as after a reload, is followed instead.
      if (about.screen !== null && !followed) begin();
      else began = about.version;
      sync();
      later();
      return about.role !== "alone";
    },
    /** The connection is there again. */
    again() {
      told = "";
      later();
    },
    /** Take news of the others; return whether it was. */
    receive(header) {
      if (header.kind !== "audience") return false;
      Object.assign(about, { version: header.version, open: header.open });
      if (about.role === "pupil") sync();
      return true;
    },
    /** Whether the server has the screen as it is. */
    get told() {
      return leads() && told === now();
    },
    get role() {
      return about.role;
    },
  };
}

/** Say on the picture that the page rests, until it is connected again. */
export function createRestNotice() {
  const sentence = "This page rested, to leave its place to others. Click to go on.";
  const notice = make("button", { type: "button", id: "rested", hidden: true }, sentence);
  document.querySelector(".stage-wrap")?.append(notice);
  return {
    show() {
      notice.hidden = false;
    },
    hide() {
      notice.hidden = true;
    },
  };
}
