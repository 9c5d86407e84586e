// The fields of a law or a motion: one for each of its parameters, as the catalogue describes them.

import { choice, make } from "./elements.js";
import { asFormula, asNumber } from "./fields.js";
import { createForm, scaled } from "./forms.js";
import {
  aroundParameters, explicit, formulaFor, given, model, placeOf, shownParameters, stands, startOf, valueAt,
} from "./models.js";
import { markup, typeset } from "./mathtext.js";
import { dimension } from "./store.js";

/**
 * @typedef {import("./models.js").Parameter} Parameter
 * @typedef {{element: any, sync?: (value: any) => void, draw?: () => void}} Widget
 * @typedef {import("./models.js").Around} Around
 */

/** @param {"law" | "motion"} kind @param {import("./fields.js").Fields} fields */
export function createParameters(kind, store, fields) {
  const element = make("div", { class: "parameters" });
  /** By all that is known of a parameter: laws that share it share its field. @type {Map<string, Widget>} */
  const known = new Map();
  /** @type {{of: any, widgets: [Parameter, Widget][], by: any, folds: {sync: () => void}[]}} */
  let now = { of: null, widgets: [], by: null, folds: [] };

  const identity = () => scaled(dimension(store.state));
  const value = (/** @type {Parameter} */ one) => store.state[kind][one.key] ?? one.default;
  function put(patch, label = "") {
    const [before, after] = [store.state[kind], { ...store.state[kind], ...patch }];
    store.setState({ [kind]: after }, { label });
    const ordered = (now.of?.around ?? []).filter((one) => one.ordered);
    // Where the order of tokens begins to matter, their numbers show it.
    if (ordered.some((one) => stands(one, after)) && !ordered.some((one) => stands(one, before))) {
      store.setView({ show: { ...store.view.show, numbers: true } });
    }
  }

  /** @type {Record<string, (one: Parameter, id: string) => Widget>} */
  const MAKERS = {
    function: (one, id) => (one.limit ? slider(one, id) : text(one, id, asFormula(one.key))),
    number: (one, id) => text(one, id, asNumber(one.key, bounds(one))),
    count: (one, id) => text(one, id, asNumber(one.key, { ...bounds(one), whole: true })),
    frequencies: (one, id) => text(one, id, asFormula(one.key)),
    matrix(one, id) {
      return createForm({
        id, name: one.symbol, fields, dimension: () => dimension(store.state), explicit: () => explicit(now.of, one),
        get: () => store.state[kind][one.key] ?? null, set: (m, label) => put({ [one.key]: m }, label),
      });
    },
    choice(one, id) {
      if (one.choices.length === 0) return text(one, id, (word) => word.trim());
      const options = one.choices.map((word) => [word, word]);
      const take = (/** @type {string} */ word) => put({ ...useless(one, word), [one.key]: word });
      const select = choice({ id, change: () => take(select.value) }, options);
      const name = make("span", {}, words(one.key));
      const element = make("label", { class: "field choice", title: one.help }, name, select);
      return { element, sync: (word) => (select.value = word) };
    },
    graph(one, id) {
      const options = [["", "all"], ...one.choices.map((word) => [word, words(word)])];
      const select = choice({ id, change: () => put({ [one.key]: select.value || null }) }, options);
      const name = make("span", {}, words(one.key));
      const element = make("label", { class: "field choice", title: one.help }, name, select);
      return { element, sync: (word) => (select.value = word ?? "") };
    },
    // Numbers for all pairs of tokens come with a link: the page says that they are there, and takes them away.
    scores(one, id) {
      const said = make("span");
      const remove = make("button", { type: "button", id, click: () => put({ [one.key]: null }) }, "Remove");
      const element = make("div", { class: "row given", title: one.help }, said, remove);
      const sync = (/** @type {number[][] | null} */ m) => {
        element.hidden = !m;
        said.textContent = `${words(one.key)} of ${m?.length} × ${m?.length} numbers`;
      };
      return { element, sync };
    },
    switch(one, id) {
      const box = make("input", { type: "checkbox", id, change: () => put({ [one.key]: box.checked }) });
      const element = make("label", { class: "check", title: one.help }, box, ` ${words(one.key)}`);
      return { element, sync: (on) => (box.checked = on) };
    },
  };

  /** The parameters that do nothing when another word of a choice is taken, to be left out. @param {Parameter} one */
  const useless = (one, /** @type {string} */ word) =>
    Object.fromEntries(
      shownParameters(now.of)
        .filter(({ only_for: only }) => only && only !== word && one.choices.includes(only))
        .map(({ key }) => [key, null]),
    );

  const words = (/** @type {string} */ key) => key.replaceAll("_", " ");
  // What stands around a law by itself is not there at 0.
  const optional = (/** @type {Parameter} */ one) =>
    (now.of?.around ?? []).some(({ together, parameters }) => !together && parameters.includes(one));
  const bounds = (/** @type {Parameter} */ one) =>
    optional(one) ? { least: 0, most: one.most } : { least: one.least, above: one.above, most: one.most };

  function text(/** @type {Parameter} */ one, /** @type {string} */ id, /** @type {(text: string) => any} */ parse) {
    const formula = one.kind === "function" ? "a number or a formula in t" : "a number";
    const label = one.symbol === one.key && /_../.test(one.key) ? words(one.key) : markup(one.symbol);
    const free = optional(one);
    const none = free ? ", 0 for none" : "";
    return fields.field({
      id, label, title: `${one.key}, ${one.help}: ${formula}${none}`, parse, wide: kind === "motion",
      get: () => value(one) ?? (free ? 0 : null),
      set: (x, label) => put({ [one.key]: free && x === 0 ? null : x }, label),
    });
  }

  /** A number from 0 to infinity, where the law turns into another one. @param {Parameter} one @param {string} id */
  function slider(one, id) {
    const field = text(one, id, asFormula(one.key, true));
    field.input.ariaLabel = `${one.key}: a number, inf, or a formula in t`;
    const middle = one.start ?? 1;
    const range = make("input", {
      type: "range", id: `${id}-slider`, min: 0, max: 1, step: 0.001, "aria-label": `${one.key}, from 0 to infinity`,
      input: () => field.write(valueAt(range.valueAsNumber, middle)),
    });
    const regime = make("span", { class: "regime", "aria-hidden": "true" });
    const [zero, infinity] = ["0", "∞"].map((end) => make("span", {}, end));
    const ticks = make("div", { class: "ticks", "aria-hidden": "true" }, zero, regime, infinity);
    return {
      element: make("div", { class: "to-infinity" }, field.element, range, ticks),
      sync(x) {
        const place = placeOf(x, middle);
        range.classList.toggle("unknown", place === null);
        if (place !== null && Math.abs(range.valueAsNumber - place) > 0.0006) range.value = String(place);
        const limit = model(kind, one.limit).title.toLowerCase();
        const zero = x === 0 && one.at_zero;
        regime.textContent = x === "inf" ? limit : zero || model(kind, store.state[kind].name).title.toLowerCase();
        range.ariaValueText = x === "inf" ? `infinity, ${limit}` : String(x);
      },
    };
  }

  /** A menu of the parameters of which one is to be given. */
  function alternatives(of) {
    const named = shownParameters(of).filter((one) => of.alternatives.includes(one.key));
    const options = named.map((one) => [one.key, `by ${make("span", {}, ...typeset(one.symbol)).textContent}`]);
    const label = `What sets the ${named[0].help}`;
    const select = choice({ id: `${kind}-given-by`, "aria-label": label, change: () => choose(select.value) }, options);
    const choose = (/** @type {string} */ key) => {
      const rest = Object.entries(store.state[kind]).filter(([name]) => !of.alternatives.includes(name));
      const one = named.find((each) => each.key === key);
      store.setState({ [kind]: { ...Object.fromEntries(rest), [key]: one && startOf(of, one, identity) } });
    };
    return { element: make("div", { class: "given-by" }, select), sync: (key) => (select.value = key) };
  }

  function widget(/** @type {Parameter} */ one) {
    const all = JSON.stringify(one);
    const found = known.get(all) ?? MAKERS[one.kind](one, `${kind}-${one.key}`);
    known.set(all, found);
    return found;
  }

  function build(of) {
    const shown = shownParameters(of);
    now = { of, widgets: [], by: of.alternatives.length ? alternatives(of) : null, folds: [] };
    now.widgets = [...shown, ...aroundParameters(of)].map((one) => [one, widget(one)]);
    const [whole, single] = [true, false].map((wanted) => (of.around ?? []).filter((one) => one.together === wanted));
    const folds = [...whole.map((one) => together(of, one)), ...(single.length ? [apart(single)] : [])];
    now.folds = folds;
    const those = (/** @type {(one: Parameter) => any} */ wanted) =>
      now.widgets.filter(([one]) => shown.includes(one) && wanted(one)).map(([, { element }]) => element);
    const inLine = (/** @type {Parameter} */ one) => !one.limit && !["matrix", "switch"].includes(one.kind);
    element.replaceChildren(
      ...those((one) => one.limit),
      make("div", { class: "line" }, ...(now.by ? [now.by.element] : []), ...those(inLine)),
      ...those((one) => one.kind === "switch"),
      ...those((one) => one.kind === "matrix"),
      ...folds.map(({ element }) => element),
    );
  }

  const fieldsOf = (/** @type {Parameter[]} */ some) =>
    now.widgets.filter(([one]) => some.includes(one)).map(([, { element }]) => element);

  /** What stands around a law or a motion with each of its parameters alone, folded up until it is there. */
  function apart(/** @type {Around[]} */ those) {
    const all = those.flatMap(({ parameters }) => parameters);
    const ofKinds = (/** @type {string[]} */ ...kinds) => all.filter((one) => kinds.includes(one.kind));
    const [boxes, rows] = [ofKinds("switch"), ofKinds("graph", "scores")];
    const texts = fieldsOf(all.filter((one) => !boxes.includes(one) && !rows.includes(one)));
    const line = make("div", { class: "line" }, ...texts);
    const body = make("div", { class: "form-body" }, ...fieldsOf(boxes), line, ...fieldsOf(rows));
    const title = those.map(({ adds }) => adds).join(" and ");
    const element = make("details", { class: "form" }, make("summary", {}, title), body);
    let there = false;
    return {
      element,
      sync() {
        const before = there;
        there = those.some((one) => stands(one, store.state[kind]));
        if (there && !before) element.open = true;
      },
    };
  }

  /** What stands around a law or a motion with all of its parameters: a box, and their fields when it is there. */
  function together(of, /** @type {Around} */ one) {
    const set = (/** @type {boolean} */ on) =>
      put(Object.fromEntries(one.parameters.map((each) => [each.key, on ? startOf(of, each, identity) : null])));
    const box = make("input", { type: "checkbox", id: `${kind}-${one.name}`, change: () => set(box.checked) });
    const formula = make("p", { class: "formula" });
    const line = make("div", { class: "line" }, ...fieldsOf(one.parameters));
    const body = make("div", { class: "form-body" }, formula, line);
    return {
      element: make("div", {}, make("label", { class: "check", title: one.summary }, box, ` ${one.adds}`), body),
      sync() {
        box.checked = stands(one, store.state[kind]);
        body.hidden = !box.checked;
        formula.innerHTML = markup(formulaFor(one, store.state[kind]));
      },
    };
  }

  return {
    element,
    draw: () => now.widgets.forEach(([, { draw }]) => draw?.()),
    sync() {
      const of = model(kind, store.state[kind].name);
      if (of !== now.of) build(of);
      const by = given(of, store.state[kind]);
      now.by?.sync(by);
      now.folds.forEach((one) => one.sync());
      const taken = now.widgets.map(([one]) => value(one));
      for (const [one, { element, sync }] of now.widgets) {
        const idle = one.only_for && !taken.includes(one.only_for);
        element.hidden = Boolean(idle) || (of.alternatives.includes(one.key) && one.key !== by);
        sync?.(value(one));
      }
    },
  };
}
