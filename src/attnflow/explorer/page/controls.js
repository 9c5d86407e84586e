// The controls of the run: attention, motion, tokens.

import { choice, make } from "./elements.js";
import { asNumber, createFields } from "./fields.js";
import { scaled } from "./forms.js";
import { markup } from "./mathtext.js";
import * as models from "./models.js";
import { createParameters } from "./parameters.js";
import { greyOut, takenLaw } from "./possible.js";
import { dimension } from "./store.js";

/** @typedef {"law" | "motion"} Part */

/** @param {HTMLElement} element */
export function createControls(element, store) {
  const fields = createFields(store);
  /** The laws, motions and cloud that were left, to come back to. @type {Map<string, any>} */
  const left = new Map();
  const d = () => dimension(store.state);
  const identity = (size = d()) => scaled(size);

  // Attention and motion
  /** @param {Part} kind @param {string} label @param {(name: string) => void} choose */
  const menu = (kind, label, choose) => {
    const select = choice({ id: kind, "aria-label": label, change: () => choose(select.value) }, models.menu(kind));
    const formula = make("p", { class: "formula" });
    const parameters = createParameters(kind, store, fields);
    return { kind, select, formula, parameters };
  };
  const law = menu("law", "Law of attention", (name) =>
    store.setState({ law: takenLaw(next("law", name), store.state.motion.name, finite) }));
  const motion = menu("motion", "Motion", chooseMotion);
  const ofRun = (/** @type {"until" | "seed"} */ id, how) =>
    fields.field({ id, get: () => store.state[id], set: (x) => store.setState({ [id]: x }, { label: id }), ...how });
  const until = ofRun("until", { label: "until <i>t</i> =", wide: true, parse: asNumber("until", { least: 0 }) });
  const chance = ofRun("seed", {
    label: "chance", title: "seed of what is drawn at random",
    parse: asNumber("the seed of what is drawn", { least: 0, whole: true }),
  });

  // Tokens
  const cloudChoice = choice(
    { id: "cloud", "aria-label": "Cloud", change: () => chooseCloud(cloudChoice.value) },
    models.menu("cloud"),
  );
  const byHand = make("option", { value: "hand" });
  const whole = (/** @type {string} */ key, /** @type {string} */ label, /** @type {string} */ name, least = 1) =>
    fields.field({
      id: key === "seed" ? "cloud-seed" : key, label, title: name, parse: asNumber(name, { whole: true, least }),
      get: () => store.state.tokens[key], set: (value, id) => cloud({ [key]: value }, id),
    });
  const n = whole("n", "<i>n</i>", "the number of tokens");
  const k = whole("k", "<i>k</i>", "the number of vertices, or of points on an axis");
  const seed = whole("seed", "seed", "the seed of the cloud", 0);
  const dimensions = [["1", "1"], ["2", "2"], ["3", "3"]];
  const dim = choice({ id: "d", change: () => chooseDimension(Number(dim.value)) }, dimensions);
  const dimRow = make("label", { class: "field" }, make("i", {}, "d"), dim);
  const reseed = () => cloud({ seed: Math.floor(Math.random() * 10000) });
  const again = make("button", { type: "button", id: "new-seed", click: reseed }, "New seed");
  const common = () => models.commonSurface(store.motions());
  // One token has to be there for a run; 0 has no place on a surface around it.
  const middle = () => Array.from({ length: d() }, (_, c) => Number(c === 0 && common() !== "space"));
  const empty = () => store.setState({ tokens: [middle()] });
  const clear = make("button", { type: "button", id: "clear", click: empty }, "Clear");

  element.append(
    section("Attention", law.select, law.formula, law.parameters.element),
    section("Motion", motion.select, motion.formula, motion.parameters.element, line(until.element, chance.element)),
    section("Tokens", cloudChoice, line(n.element, k.element, dimRow, seed.element), row(again, clear)),
  );

  /** The law or motion that was chosen: as it was left, with the matrices of the one before. */
  function next(/** @type {Part} */ kind, /** @type {string} */ name) {
    const before = store.state[kind];
    left.set(`${kind} ${before.name}`, before);
    const chosen = left.get(`${kind} ${name}`) ?? models.fresh(kind, name, identity);
    return { ...chosen, ...matricesOf(kind, chosen, before), ...around(kind, name, before) };
  }

  /** What stands around a law or a motion stays there when another one is chosen, with other parameters if needed. */
  function around(/** @type {Part} */ kind, /** @type {string} */ name, before) {
    const [from, to] = [before.name, name].map((one) => models.model(kind, one));
    const there = (from.around ?? []).filter((one) => models.stands(one, before));
    const kept = (to.around ?? []).flatMap(({ name, together, parameters }) => {
      const own = there.find((one) => one.name === name)?.parameters.map(({ key }) => key);
      const start = (one) => (together ? models.startOf(to, one, identity) : null);
      const value = (one) => (own?.includes(one.key) ? before[one.key] : null) ?? start(one);
      return own ? parameters.map((one) => [one.key, value(one)]) : [];
    });
    return Object.fromEntries(kept.filter(([, value]) => value !== null));
  }

  /** The matrices of a law or motion, taken from another one that has them; those of no use are the identity. */
  function matricesOf(/** @type {Part} */ kind, of, from) {
    const found = models.model(kind, of.name);
    const kept = models.matrices(found).filter(({ key }) => key in of && key in from);
    const fits = (/** @type {string} */ key) => (from[key]?.length === d() ? from[key] : null);
    return Object.fromEntries(kept.map((one) => [one.key, fits(one.key) ?? models.startOf(found, one, identity)]));
  }

  function chooseMotion(/** @type {string} */ name) {
    const usual = (/** @type {string} */ one) => models.model("motion", one).usual_time;
    const ends = store.state.until === usual(store.state.motion.name) ? { until: usual(name) } : {};
    store.setState({ motion: next("motion", name), ...lawFor(name), ...cloudFor(name), ...ends });
  }

  /** A motion may take a law only where its slider does not end, or only there. */
  const lawFor = (/** @type {string} */ name) => ({ law: takenLaw(store.state.law, name, finite) });
  const finite = (/** @type {string} */ key) => left.get(`finite ${key}`) ?? null;

  /** Tokens of a motion on a surface are there at the start. @param {string} name */
  function cloudFor(name) {
    const tokens = broughtTo(models.surfaceOf(name), store.state.tokens);
    // Tokens that stay as they are leave the other side as it is.
    return tokens === store.state.tokens ? {} : { tokens };
  }

  /** Return tokens on a surface, or instead of a cloud that is not there one that is. @param {string} surface */
  function broughtTo(surface, tokens) {
    if (surface === "space") return tokens;
    if (Array.isArray(tokens)) {
      return tokens.map((/** @type {number[]} */ x) => x.map((c) => c / (Math.hypot(...x) || 1)));
    }
    const there = models.cloudOn(surface);
    if (models.model("cloud", tokens.cloud).surface === surface || !there) return tokens;
    const size = dimension({ ...store.state, tokens });
    return { cloud: there, n: tokens.n ?? tokens.k ** (tokens.d ?? 1), d: size, seed: tokens.seed ?? 0 };
  }

  function cloud(patch, label = "") {
    const { tokens } = store.state;
    const now = Array.isArray(tokens) ? (left.get("cloud") ?? { ...models.FIRST_STATE.tokens, d: d() }) : tokens;
    store.setState({ tokens: broughtTo(common(), { ...now, ...patch }) }, { label });
  }

  function chooseCloud(/** @type {string} */ name) {
    const now = store.state.tokens;
    const size = Array.isArray(now) ? now.length : (left.get("n") ?? now.k);
    const keys = models.counts(name);
    const side = keys.includes("d") ? Math.max(2, Math.round(size ** (1 / d()))) : size;
    const given = { n: models.atMostDimension(name) ? d() : size, k: side, d: d(), seed: now.seed ?? 0 };
    const tokens = { cloud: name, ...Object.fromEntries(keys.map((key) => [key, given[key]])) };
    store.setState({ tokens: broughtTo(common(), tokens), ...(keys.includes("d") ? {} : reshaped(2)) });
  }

  function chooseDimension(/** @type {number} */ size) {
    const now = store.state.tokens;
    const many = Array.isArray(now) ? now.length : now.k;
    const base = "d" in now ? now : { ...models.FIRST_STATE.tokens, n: many, seed: 0 };
    const few = models.atMostDimension(base.cloud) ? { n: Math.min(base.n, size) } : {};
    store.setState({ tokens: broughtTo(common(), { ...base, ...few, d: size }), ...reshaped(size) });
  }

  /** The law and the motion for tokens of another dimension. @param {number} size */
  function reshaped(size) {
    const { law, motion } = models.fitted(store.state, size);
    return { law, motion };
  }

  function sync() {
    const { tokens } = store.state;
    for (const { kind, select, formula, parameters } of [law, motion]) {
      greyOut(select, kind, store.state);
      select.value = store.state[kind].name;
      formula.innerHTML = markup(models.formulaOf(kind, store.state[kind]));
      parameters.sync();
    }
    for (const { limit, key } of models.model("law", store.state.law.name).parameters) {
      if (limit && typeof store.state.law[key] === "number") left.set(`finite ${key}`, store.state.law[key]);
    }
    chance.element.hidden = !models.isRandom(store.state.motion);

    const hand = Array.isArray(tokens);
    if (!hand) left.set("cloud", tokens);
    if (!hand && !models.atMostDimension(tokens.cloud) && tokens.n) left.set("n", tokens.n);
    if (hand) {
      byHand.textContent = `${tokens.length} placed by hand`;
      cloudChoice.prepend(byHand);
    } else byHand.remove();
    cloudChoice.value = hand ? "hand" : tokens.cloud;
    const keys = hand ? ["d"] : models.counts(tokens.cloud);
    n.element.hidden = !keys.includes("n");
    k.element.hidden = !keys.includes("k");
    seed.element.hidden = !keys.includes("seed");
    again.hidden = !hand && !keys.includes("seed");
    dimRow.hidden = !keys.includes("d");
    dim.value = String(d());
    fields.sync();
  }

  store.on(["state"], sync);
  store.on(["view"], () => [law, motion].forEach(({ parameters }) => parameters.draw()));
  store.on(["refused"], () => {
    const { refused } = store;
    if (refused?.about === "run") fields.refuse(refused.state, refused.sentence);
  });
  store.on(["run"], () => fields.accept(store.run.state));
  sync();
}

function section(/** @type {string} */ title, ...children) {
  return make("section", { "aria-label": title }, make("h2", {}, title), ...children);
}

const line = (...children) => make("div", { class: "line" }, ...children);
const row = (...children) => make("div", { class: "row" }, ...children);
