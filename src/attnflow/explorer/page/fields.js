// Text fields that keep what was typed, and say beside it what is wrong with it.

import { make } from "./elements.js";

/** @param {string} name @param {{least?: number, most?: number, whole?: boolean}} bounds */
export function asNumber(name, { least = -Infinity, most = Infinity, whole = false } = {}) {
  return (/** @type {string} */ text) => {
    const value = Number(text.replace("\u2212", "-"));
    const fits = text.trim() !== "" && Number.isFinite(value) && value >= least && value <= most;
    if (fits && (!whole || Number.isInteger(value))) return value;
    const from = least === -Infinity ? "" : most === Infinity ? ` of at least ${least}` : ` from ${least} to ${most}`;
    throw new Error(`${name} is “${text.trim()}”: give a ${whole ? "whole " : ""}number${from}.`);
  };
}

/**
 * Read a number, infinity, or a formula in t, which the server checks.
 * @param {string} name
 * @param {boolean} [unbounded]
 */
export function asFormula(name, unbounded = false) {
  return (/** @type {string} */ text) => {
    const plain = text.trim().replace("\u2212", "-");
    if (plain === "") throw new Error(`${name} is empty: give a number, or a formula in t such as 2 / (t + 2).`);
    if (unbounded && /^(\+?inf(inity)?|∞)$/i.test(plain)) return "inf";
    const value = Number(plain);
    return Number.isFinite(value) ? value : plain;
  };
}

/** @param {any} value */
export const asText = (value) =>
  value === "inf" ? "∞" : value === undefined || value === null ? "" : String(value).replace("e+", "e");

/**
 * Fields that change the state, each under its id as label: a refusal of the server is shown beside the one whose edit
 * was the last.
 * @param {any} store
 */
export function createFields(store) {
  /** @type {any[]} */
  const all = [];
  /** @type {any} */
  let edited = null;

  /**
   * @param {{id: string, label: string, title?: string, wide?: boolean, parse: (text: string) => any,
   *   get: () => any, set: (value: any, id: string) => void, text?: (value: any) => string}} how
   *   `label` may hold markup
   */
  function field({ id, label, title, wide, parse, get, set, text = asText }) {
    const error = make("p", { class: "error", id: `${id}-error`, hidden: true });
    const input = make("input", {
      id,
      type: "text",
      class: wide ? "wide" : "",
      autocomplete: "off",
      spellcheck: "false",
      "aria-describedby": `${id}-error`,
      input: () => read(),
    });
    const caption = make("label", { for: id, html: label, title });
    const element = make("div", { class: "field" }, caption, input, error);
    // The value that the text stands for: the text is rewritten only when the value changes elsewhere.
    /** @type {any} */
    let known = NaN;

    function say(/** @type {string} */ sentence) {
      error.textContent = sentence;
      error.hidden = sentence === "";
      input.setAttribute("aria-invalid", String(sentence !== ""));
      element.classList.toggle("invalid", sentence !== "");
    }

    function read() {
      try {
        const value = parse(input.value);
        say("");
        known = value;
        edited = one;
        set(value, id);
      } catch (mistake) {
        say(/** @type {Error} */ (mistake).message);
      }
    }

    const one = {
      element,
      input,
      caption,
      say,
      /** Take a value as if it had been typed. @param {any} value */
      write(value) {
        input.value = text(value);
        read();
      },
      sync() {
        const value = get();
        if (value === known || Math.abs(value - known) <= 1e-12 * Math.abs(value)) return;
        known = value;
        input.value = text(value);
        say("");
      },
      remove() {
        all.splice(all.indexOf(one), 1);
        element.remove();
      },
    };
    all.push(one);
    return one;
  }

  return {
    field,
    sync: () => all.forEach((one) => one.sync()),
    /** Show a refusal beside the field whose edit was refused. @param {string} sentence */
    refuse(sentence) {
      if (edited?.input.id === store.label) edited.say(sentence);
    },
    /** The server took the state: what it refused before is mended. */
    accept() {
      if (edited?.input.id === store.label) edited.say("");
    },
  };
}
