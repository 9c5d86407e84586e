// Text fields that keep what was typed, and say beside it what is wrong with it.

import { make } from "./elements.js";

/** @param {string} name @param {{least?: number, above?: number, most?: number, whole?: boolean}} bounds */
export function asNumber(name, { least = -Infinity, above = -Infinity, most = Infinity, whole = false } = {}) {
  return (/** @type {string} */ text) => {
    const value = Number(text.replace("\u2212", "-"));
    const fits = text.trim() !== "" && Number.isFinite(value) && value >= least && value > above && value <= most;
    if (fits && (!whole || Number.isInteger(value))) return value;
    let from = above > least ? ` above ${above}` : least > -Infinity ? ` of at least ${least}` : "";
    if (from && most < Infinity) from = above > least ? `${from}, up to ${most}` : ` from ${least} to ${most}`;
    throw new Error(`${name} is “${text.trim()}”: give a ${whole ? "whole " : ""}number${from}.`);
  };
}

/**
 * Read a number, infinity, or a formula in t, which the server checks.
 * @param {string} name @param {boolean} [unbounded]
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

/** @typedef {ReturnType<typeof createFields>} Fields */

const asText = (value) =>
  value === "inf" ? "∞" : value === undefined || value === null ? "" : String(value).replace("e+", "e");

/**
 * Fields that change the state, each under its id as label: a refusal of the server is shown beside a field only where
 * all that was edited since the last accepted state is that field.
 */
export function createFields(store) {
  const all = [];
  /** The edits since the last state that the server took. @type {{state: any, label: string}[]} */
  let edits = [];

  /**
   * @param {{id: string, label: string, title?: string, wide?: boolean, parse: (text: string) => any, get: () => any,
   *   set: (value: any, id: string) => void, text?: (value: any) => string}} how `label` may hold markup
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
    let known = NaN;
    // Who found fault with the text: this page cannot read it, or the server refused its value.
    /** @type {"" | "unread" | "refused"} */
    let fault = "";

    function say(/** @type {string} */ sentence, /** @type {typeof fault} */ why = "") {
      fault = why;
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
        set(value, id);
      } catch (mistake) {
        say(/** @type {Error} */ (mistake).message, "unread");
      }
    }

    const one = {
      element,
      input,
      caption,
      refuse: (/** @type {string} */ sentence) => say(sentence, "refused"),
      accept() {
        if (fault === "refused") say("");
      },
      /** Take a value as if it had been typed. */
      write(value) {
        input.value = text(value);
        read();
      },
      sync() {
        const value = get();
        const same = value === known || Math.abs(value - known) <= 1e-12 * Math.abs(value);
        if (same && (fault !== "unread" || document.activeElement === input)) return;
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
    sync() {
      if (store.state !== edits.at(-1)?.state) edits.push({ state: store.state, label: store.label });
      all.forEach((one) => one.sync());
    },
    /** Show a refusal of a state beside the field that alone led to it. @param {string} sentence */
    refuse(state, sentence) {
      const to = edits.findIndex((edit) => edit.state === state);
      const labels = new Set(edits.slice(0, to + 1).map(({ label }) => label));
      if (labels.size === 1) all.find((one) => one.element.isConnected && labels.has(one.input.id))?.refuse(sentence);
    },
    /** The server took a state: what it refused before is mended. */
    accept(state) {
      const to = edits.findLastIndex((edit) => edit.state === state);
      if (to < 0) return;
      edits = edits.slice(to + 1);
      all.forEach((one) => one.accept());
    },
  };
}
