// The controls of the run: attention, motion, tokens.

import { choice, make } from "./elements.js";
import { asFormula, asNumber, createFields } from "./fields.js";
import { createForm, scaled } from "./forms.js";
import * as models from "./models.js";
import { dimension, FIRST_STATE } from "./store.js";

/** @param {HTMLElement} element @param {any} store */
export function createControls(element, store) {
  const fields = createFields(store);
  /** The law, motion and cloud that were left, to come back to. @type {Map<string, any>} */
  const left = new Map();
  const d = () => dimension(store.state);
  const law = (/** @type {any} */ patch, label = "") =>
    store.setState({ law: { ...store.state.law, ...patch } }, { label });
  const motion = (/** @type {any} */ patch, label = "") =>
    store.setState({ motion: { ...store.state.motion, ...patch } }, { label });

  // Attention
  const lawChoice = choice(
    { id: "law", "aria-label": "Law of attention", change: () => chooseLaw(lawChoice.value) },
    models.LAWS,
  );
  const lawFormula = make("p", { class: "formula" });
  const slider = make("input", {
    type: "range", id: "beta", min: 0, max: 1, step: 0.001, "aria-label": "beta, from 0 to infinity",
    input() {
      beta.write(models.betaOf(slider.valueAsNumber));
    },
  });
  const beta = fields.field({
    id: "beta-value", label: "<i>β</i>", parse: asFormula("beta", true),
    get: () => store.state.law.beta, set: (value, id) => law({ beta: value }, id),
  });
  beta.input.setAttribute("aria-label", "beta: a number, inf, or a formula in t");
  const betaName = make("span", { class: "regime", "aria-hidden": "true" });
  const [zero, infinity] = ["0", "∞"].map((text) => make("span", {}, text));
  const ticks = make("div", { class: "ticks", "aria-hidden": "true" }, zero, betaName, infinity);
  const betaRow = make("div", { class: "beta" }, beta.element, slider, ticks);
  const delta = fields.field({
    id: "delta", label: "<i>δ</i>", title: "delta: a number or a formula in t", parse: asFormula("delta"),
    get: () => store.state.law.delta, set: (value, id) => law({ delta: value }, id),
  });
  const threshold = choice({ id: "threshold", change: () => law({ threshold: threshold.value }) }, [
    ["additive", "additive"], ["relative", "relative"], ["normalized", "normalized"],
  ]);
  const thresholdRow = make("label", { class: "field" }, make("span", {}, "threshold"), threshold);
  const eps = fields.field({
    id: "eps", label: "<i>ε</i>", title: "eps: a number or a formula in t", parse: asFormula("eps"),
    get: () => store.state.law.eps, set: (value, id) => law({ eps: value }, id),
  });
  const B = createForm({
    name: "B", fields, dimension: d, explicit: () => false,
    get: () => store.state.law.B ?? null, set: (m, label) => law({ B: m }, label),
  });

  // Motion
  const motionChoice = choice(
    { id: "motion", "aria-label": "Motion", change: () => chooseMotion(motionChoice.value) },
    models.MOTIONS,
  );
  const motionFormula = make("p", { class: "formula" });
  const rate = choice({ id: "rate", "aria-label": "What sets the step", change: () => chooseRate(rate.value) }, [
    ["gamma", "by γ"], ["alpha", "by α"], ["V", "by V"],
  ]);
  const rateRow = make("label", { class: "field" }, make("span", {}, "step"), rate);
  const gamma = fields.field({
    id: "gamma", label: "<i>γ</i>", title: "gamma: a number or a formula in t", parse: asFormula("gamma"), wide: true,
    get: () => store.state.motion.gamma, set: (value, id) => motion({ gamma: value }, id),
  });
  const alpha = fields.field({
    id: "alpha", label: "<i>α</i>", title: "alpha: a number or a formula in t", parse: asFormula("alpha"), wide: true,
    get: () => store.state.motion.alpha, set: (value, id) => motion({ alpha: value }, id),
  });
  const dt = fields.field({
    id: "dt", label: "d<i>t</i>", title: "step size: a number or a formula in t", parse: asFormula("dt"), wide: true,
    get: () => store.state.motion.dt, set: (value, id) => motion({ dt: value }, id),
  });
  const normalized = make("input", {
    type: "checkbox", id: "normalized", change: () => motion({ normalized: normalized.checked }),
  });
  const normalizedRow = make("label", { class: "check" }, normalized, " normalized");
  const V = createForm({
    name: "V", fields, dimension: d, explicit: () => store.state.motion.name === "layers",
    get: () => store.state.motion.V ?? null, set: (m, label) => motion({ V: m }, label),
  });
  const until = fields.field({
    id: "until", label: "until <i>t</i> =", wide: true, parse: asNumber("until", { least: 0 }),
    get: () => store.state.until, set: (value, id) => store.setState({ until: value }, { label: id }),
  });
  const chance = fields.field({
    id: "seed", label: "chance", title: "seed of the random jumps",
    parse: asNumber("the seed of the jumps", { least: 0, whole: true }),
    get: () => store.state.seed, set: (value, id) => store.setState({ seed: value }, { label: id }),
  });

  // Tokens
  const cloudChoice = choice(
    { id: "cloud", "aria-label": "Cloud", change: () => chooseCloud(cloudChoice.value) },
    models.CLOUDS,
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
  // One token has to be there for a run.
  const empty = () => store.setState({ tokens: [new Array(d()).fill(0)] });
  const clear = make("button", { type: "button", id: "clear", click: empty }, "Clear");

  element.append(
    section("Attention", lawChoice, lawFormula, betaRow, line(delta.element, thresholdRow), eps.element, B.element),
    section(
      "Motion",
      motionChoice,
      motionFormula,
      line(rateRow, gamma.element, alpha.element, dt.element),
      normalizedRow,
      V.element,
      line(until.element, chance.element),
    ),
    section(
      "Tokens",
      cloudChoice,
      line(n.element, k.element, dimRow, seed.element),
      make("div", { class: "row" }, again, clear),
    ),
  );

  function chooseLaw(/** @type {string} */ name) {
    const before = store.state.law;
    left.set(before.name, before);
    const next = { ...(left.get(name) ?? models.FRESH[name]) };
    if ("B" in next && "B" in before) next.B = before.B;
    store.setState({ law: next });
  }

  function chooseMotion(/** @type {string} */ name) {
    const before = store.state.motion;
    left.set(before.name, before);
    const next = { ...(left.get(name) ?? models.FRESH[name]) };
    if ("V" in next && before.V) next.V = before.V;
    const patch = /** @type {any} */ ({ motion: next });
    Object.assign(patch, lawFor(name), cloudFor(name));
    const usual = (/** @type {string} */ one) => models.UNTIL[one] ?? FIRST_STATE.until;
    if (store.state.until === usual(before.name)) patch.until = usual(name);
    store.setState(patch);
  }

  /** The exact flow is that of hardmax, other flows and leaps take laws without jumps. */
  function lawFor(/** @type {string} */ name) {
    const { law } = store.state;
    if (name === "hardmax-flow") return { law: { name: "softmax", beta: "inf", B: law.B ?? null } };
    if (!["flow", "sphere-flow", "leaps"].includes(name) || law.beta !== "inf") return {};
    return { law: { ...law, beta: left.get("beta") ?? models.FRESH.softmax.beta } };
  }

  /** On the sphere tokens have length 1. */
  function cloudFor(/** @type {string} */ name) {
    const { tokens } = store.state;
    if (!models.SPHERES.includes(name)) return {};
    if (!Array.isArray(tokens)) {
      const { cloud, n, d, seed = 0 } = tokens;
      return ["gaussian", "uniform"].includes(cloud) ? { tokens: { cloud: "sphere", n, d, seed } } : {};
    }
    const onSphere = tokens.map((/** @type {number[]} */ x) => x.map((c) => c / (Math.hypot(...x) || 1)));
    return { tokens: onSphere };
  }

  function chooseRate(/** @type {string} */ key) {
    const value = key === "V" ? scaled(d()) : key === "alpha" ? 1 : 0.5;
    store.setState({ motion: { name: "layers", [key]: value } });
  }

  function cloud(/** @type {any} */ patch, label = "") {
    const { tokens } = store.state;
    const now = Array.isArray(tokens) ? (left.get("cloud") ?? { ...FIRST_STATE.tokens, d: d() }) : tokens;
    store.setState({ tokens: { ...now, ...patch } }, { label });
  }

  function chooseCloud(/** @type {string} */ kind) {
    const now = store.state.tokens;
    const size = Array.isArray(now) ? now.length : (left.get("n") ?? now.k);
    const side = kind === "grid" ? Math.max(2, Math.round(size ** (1 / d()))) : size;
    /** @type {any} */
    const given = { n: kind === "orthogonal" ? d() : size, k: side, d: d(), seed: now.seed ?? 0 };
    const tokens = Object.fromEntries(models.KEYS[kind].map((key) => [key, given[key]]));
    store.setState({ tokens: { cloud: kind, ...tokens }, ...(kind === "polygon" ? reshaped(2) : {}) });
  }

  function chooseDimension(/** @type {number} */ size) {
    const now = store.state.tokens;
    const many = Array.isArray(now) ? now.length : now.k;
    const base = "d" in now ? now : { cloud: "gaussian", n: many, seed: 0 };
    const few = base.cloud === "orthogonal" ? { n: Math.min(base.n, size) } : {};
    store.setState({ tokens: { ...base, ...few, d: size }, ...reshaped(size) });
  }

  /** Matrices of another size are of no use: the identity takes their place. */
  function reshaped(/** @type {number} */ size) {
    const { law, motion } = store.state;
    const V = motion.name === "layers" ? scaled(size) : null;
    return {
      law: law.B && law.B.length !== size ? { ...law, B: null } : law,
      motion: motion.V && motion.V.length !== size ? { ...motion, V } : motion,
    };
  }

  function sync() {
    const { law, motion, tokens } = store.state;
    lawChoice.value = law.name;
    lawFormula.innerHTML = models.entry(models.LAW_FORMULAS, law.name)?.(law) ?? "";
    const soft = law.name === "softmax";
    betaRow.hidden = !soft;
    const place = models.slideOf(law.beta);
    slider.classList.toggle("unknown", place === null);
    if (place !== null && Math.abs(slider.valueAsNumber - place) > 0.0006) slider.value = String(place);
    const hard = law.beta === "inf";
    betaName.textContent = hard ? "hardmax" : law.beta === 0 ? "plain mean" : "softmax";
    slider.setAttribute("aria-valuetext", hard ? "infinity, hardmax" : String(law.beta));
    delta.element.hidden = thresholdRow.hidden = law.name !== "localmax";
    threshold.value = law.threshold ?? "additive";
    eps.element.hidden = law.name !== "hegselmann-krause";
    B.element.hidden = law.name === "hegselmann-krause";

    motionChoice.value = motion.name;
    motionFormula.innerHTML = models.entry(models.MOTION_FORMULAS, motion.name)?.(motion) ?? "";
    const layers = motion.name === "layers";
    const fresh = models.entry(models.FRESH, motion.name) ?? {};
    rateRow.hidden = !layers;
    const by = motion.gamma !== undefined ? "gamma" : motion.alpha !== undefined ? "alpha" : "V";
    rate.value = by;
    gamma.element.hidden = motion.gamma === undefined;
    alpha.element.hidden = motion.alpha === undefined;
    dt.element.hidden = fresh.dt === undefined;
    normalizedRow.hidden = motion.name !== "sphere-flow";
    normalized.checked = motion.normalized ?? true;
    V.element.hidden = layers ? by !== "V" : !("V" in fresh);
    chance.element.hidden = motion.name !== "jumps";

    const hand = Array.isArray(tokens);
    if (!hand) left.set("cloud", tokens);
    if (!hand && tokens.cloud !== "orthogonal" && tokens.n) left.set("n", tokens.n);
    if (typeof law.beta === "number") left.set("beta", law.beta);
    if (hand) {
      byHand.textContent = `${tokens.length} placed by hand`;
      cloudChoice.prepend(byHand);
    } else byHand.remove();
    cloudChoice.value = hand ? "hand" : tokens.cloud;
    const keys = hand ? ["d"] : (models.entry(models.KEYS, tokens.cloud) ?? []);
    n.element.hidden = !keys.includes("n");
    k.element.hidden = !keys.includes("k");
    seed.element.hidden = !keys.includes("seed");
    again.hidden = !hand && !keys.includes("seed");
    dimRow.hidden = !keys.includes("d") && !hand;
    dim.value = String(d());
    B.sync();
    V.sync();
    fields.sync();
  }

  store.subscribe((/** @type {Set<string>} */ what) => {
    if (what.has("state")) sync();
    if (what.has("view")) [B, V].forEach((form) => form.draw());
    const { refused } = store;
    if (what.has("refused") && refused?.about === "run") fields.refuse(refused.state, refused.sentence);
    if (what.has("run")) fields.accept(store.run.state);
  });
  sync();
}

function section(/** @type {string} */ title, /** @type {any[]} */ ...children) {
  return make("section", { "aria-label": title }, make("h2", {}, title), ...children);
}

function line(/** @type {any[]} */ ...children) {
  return make("div", { class: "line" }, ...children);
}
