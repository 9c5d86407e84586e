// Which claims of the literature apply to what is on the screen, and whether they hold.

import { byId, make } from "./elements.js";
import { typeset } from "./mathtext.js";

/** For how long a change is marked, in milliseconds. */
const MARKED = 8000;
/** At most SAID changes are said in words. */
const SAID = 3;
const CROSS = "M5.5 5.5 14.5 14.5M14.5 5.5 5.5 14.5";
const ICONS = /** @type {Record<string, string>} */ ({
  holds: "M4.5 10.5 8.5 14.5 15.5 6",
  violated: CROSS,
  "hypotheses not met": "M6 10H14",
  fails: CROSS,
  undecided: "M7.3 7.6a2.7 2.7 0 1 1 4.1 2.3c-.9.6-1.4 1-1.4 2M10 14.5v.3",
  waiting: "M6 10h.1M10 10h.1M14 10h.1",
});

function icon(/** @type {string} */ outcome) {
  const path = ICONS[outcome] ?? ICONS.waiting;
  return make("span", { class: "icon", html: `<svg viewBox="0 0 20 20" aria-hidden="true"><path d="${path}"/></svg>` });
}

/** How outcomes are said of one claim, and counted of several. @type {Record<string, [string, string, string]>} */
const WORDS = {
  holds: ["holds", "holds", "hold"],
  violated: ["fails", "fails", "fail"],
  undecided: ["undecided", "undecided", "undecided"],
  "hypotheses not met": ["does not apply", "does not apply", "do not apply"],
};
/** The status of a claim that can be true here all the same. */
const FALSE = "false as printed";

/** Say an outcome of a claim with a status. @param {string} outcome @param {string} status */
export function said(outcome, status) {
  if (status === FALSE && outcome === "holds") return "false in general, true here";
  return WORDS[outcome]?.[0] ?? "…";
}

/** Count outcomes in words: 1 holds, 2 undecided, 5 do not apply. @param {string[]} outcomes */
export function counted(outcomes) {
  const counts = Object.entries(WORDS).map(([outcome, words]) => {
    const k = outcomes.filter((one) => one === outcome).length;
    return k ? `${k} ${words[k === 1 ? 1 : 2]}` : "";
  });
  return counts.filter(Boolean).join(", ");
}

/** Return the names of the hypotheses with an outcome. @param {any} verdict @param {string} outcome */
const hypothesesThat = ({ given }, outcome) => given.filter((one) => one.outcome === outcome).map(({ name }) => name);

/** @typedef {{broke: Set<string>, was: string, timer: number}} Mark */

export function createClaims(store) {
  const [list, count, news] = ["claims", "claims-count", "claims-news"].map(byId);
  const [tab, badge] = ["claims-tab", "claims-badge"].map(byId);
  /** The row of each claim. @type {Map<string, any>} */
  const rows = new Map();
  /** The last fresh verdict on each claim, to tell what changed. @type {Map<string, any>} */
  const known = new Map();
  /** What changed a moment ago: the hypotheses that broke, the outcome before. @type {Map<string, Mark>} */
  const marks = new Map();
  /** Claims whose hypotheses broke while the panel was not on the screen. @type {Set<string>} */
  const unseen = new Set();
  /** What is to be said once all verdicts are there. @type {Map<string, string>} */
  const changes = new Map();
  let revealed = false;
  let order = "";

  /** Build the rows anew when other claims apply. */
  function build() {
    const names = [...store.claims.keys()];
    if (names.join(" ") === order) return;
    order = names.join(" ");
    const open = new Set([...rows].filter(([, row]) => row.details.open).map(([name]) => name));
    rows.clear();
    list.replaceChildren();
    for (const [paper, some] of Map.groupBy(store.claims.values(), (one) => one.paper)) {
      for (const one of some) rows.set(one.claim, rowOf(one, open.has(one.claim)));
      const items = some.map(({ claim }) => rows.get(claim).item);
      list.append(make("h3", {}, paper), make("ul", { "aria-label": paper }, ...items));
    }
  }

  function rowOf(one, /** @type {boolean} */ open) {
    const outcome = make("span", { class: "outcome" });
    const was = make("span", { class: "was" });
    const mark = make("span", { class: "mark" });
    const name = one.claim.split("/").slice(1).join(", ").replaceAll("-", " ");
    const summary = make("summary", {}, mark, make("span", { class: "name" }, name), outcome, was);
    const because = make("p", { class: "because" });
    const given = make("ul", { class: "given" });
    const source = make("p", { class: "where" }, `${one.where} · ${one.status} · ${one.claim}`);
    const statement = make("p", { class: "statement" }, ...typeset(one.statement));
    const plain = make("p", { class: "plain" }, one.plain);
    const short = make("p", { class: "short" });
    const more = make("details", { class: "more", open: !one.plain }, make("summary", {}, "Details"));
    more.append(statement, because, source);
    const details = make("details", { open }, summary, ...(one.plain ? [plain] : []), short, given, more);
    if (one.status !== "proved") summary.insertBefore(make("span", { class: "status" }, one.status), outcome);
    const broken = make("span", { class: "broken", hidden: true });
    summary.append(broken);
    const item = make("li", { "data-claim": one.claim, "data-outcome": "waiting" }, details);
    return { item, details, outcome, was, mark, because, short, given, broken, name, status: one.status, shown: "" };
  }

  function sync() {
    build();
    const { others = 0, waiting = true, sentence } = store.claims;
    for (const [claim, one] of store.claims) {
      if (one.verdict && !one.stale) compare(rows.get(claim).name, one);
      show(rows.get(claim), one);
    }
    if (store.claims.size === 0) {
      const same = sentence && store.refused?.about === "run";
      const empty = same ? "Nothing runs here, so there is nothing to check." : sentence ?? (waiting ? "Looking for claims about this …" : "None of the claims is about this run.");
      list.replaceChildren(make("p", { class: "empty" }, empty));
      order = "";
    }
    list.ariaBusy = String(waiting);
    count.textContent = fresh();
    count.title = others ? `${others} others are about something else.` : "";
    reveal(waiting);
    if (!waiting) announce();
  }

  /** Count the verdicts that are about what is on the screen. */
  function fresh() {
    const found = [...store.claims.values()].filter((one) => one.verdict && !one.stale);
    if (store.claims.size === 0) return "";
    if (found.length === 0) return "…";
    return counted(found.map(({ verdict }) => verdict.outcome)) + (found.length < store.claims.size ? " …" : "");
  }

  function show(row, one) {
    const { verdict, stale } = one;
    const { broke = new Set(), was = "" } = marks.get(one.claim) ?? {};
    const outcome = verdict?.outcome ?? "waiting";
    row.item.classList.toggle("stale", stale);
    row.item.dataset.outcome = outcome;
    const text = JSON.stringify([verdict, [...broke], was]);
    if (text === row.shown) return;
    row.shown = text;
    row.item.classList.toggle("changed", was !== "" || broke.size > 0);
    row.outcome.textContent = said(outcome, row.status);
    row.item.classList.toggle("true-here", row.status === FALSE && outcome === "holds");
    row.was.textContent = was && `was: ${said(was, row.status)}`;
    row.mark.replaceChildren(icon(outcome));
    row.broken.hidden = broke.size === 0;
    row.broken.replaceChildren("no longer: ", ...typeset([...broke].join(", ")));
    row.because.replaceChildren(...typeset(verdict?.because ?? ""));
    row.because.hidden = !verdict?.because;
    row.short.replaceChildren(...typeset(verdict?.short ?? ""));
    row.short.hidden = !verdict?.short;
    const unknown = (/** @type {string} */ name) => ({ name, outcome: "waiting" });
    const given = verdict?.given ?? (one.given ?? []).map(unknown);
    row.given.hidden = given.length === 0;
    row.given.replaceChildren(...given.map((each) => hypothesis(each, broke.has(each.name))));
  }

  function hypothesis({ name, outcome }, /** @type {boolean} */ broke) {
    const word = ["holds", "fails", "undecided"].includes(outcome) ? outcome : "…";
    const text = make("span", {}, ...typeset(name));
    const attributes = { "data-given": name, "data-outcome": outcome, class: broke ? "broke" : null };
    return make("li", attributes, icon(outcome), text, make("em", {}, broke ? "no longer" : word));
  }

  /** Keep what this verdict changed: hypothesis by hypothesis, as one may break where others failed before. */
  function compare(/** @type {string} */ name, { claim, verdict }) {
    const before = known.get(claim);
    known.set(claim, verdict);
    if (!before || before === verdict) return;
    const [held, failing] = [hypothesesThat(before, "holds"), hypothesesThat(verdict, "fails")];
    const broke = failing.filter((each) => held.includes(each));
    const was = before.outcome === verdict.outcome ? "" : before.outcome;
    if (broke.length === 0 && was === "") {
      // Nothing new: what broke a moment ago stays marked while it fails.
      const mark = marks.get(claim);
      for (const each of mark?.broke ?? []) if (!failing.includes(each)) mark?.broke.delete(each);
      if (!mark?.broke.size && unseen.delete(claim)) forget(claim);
      tell();
      return;
    }
    clearTimeout(marks.get(claim)?.timer);
    marks.set(claim, { broke: new Set(broke), was, timer: 0 });
    const why = broke.length ? `, ${broke.join(" and ")} no longer ${broke.length > 1 ? "hold" : "holds"}` : "";
    const { status } = rows.get(claim);
    changes.set(claim, `${name}: ${said(verdict.outcome, status)}${was && `, was ${said(was, status)}`}${why}`);
    if (broke.length && list.offsetParent === null) unseen.add(claim);
    else {
      unseen.delete(claim);
      fade(claim);
    }
    tell();
  }

  /** Take the mark away once it was seen for long enough. @param {string} claim */
  function fade(claim) {
    const mark = marks.get(claim);
    if (mark) mark.timer = setTimeout(() => forget(claim), MARKED);
  }

  function forget(/** @type {string} */ claim) {
    clearTimeout(marks.get(claim)?.timer);
    marks.delete(claim);
    if (rows.has(claim) && store.claims.has(claim)) show(rows.get(claim), store.claims.get(claim));
  }

  /** The tab of a panel that is not on the screen tells how many claims lost a hypothesis. */
  function tell() {
    badge.hidden = unseen.size === 0;
    badge.textContent = String(unseen.size);
    tab.title = unseen.size ? "Claims that lost a hypothesis" : "";
  }

  /** Bring the first broken hypothesis into sight as it comes; when none broke, the first change at the end. */
  function reveal(/** @type {boolean} */ waiting) {
    if (revealed) return;
    const [claim] = [...changes.keys()].filter((each) => marks.get(each)?.broke.size || !waiting);
    const row = rows.get(claim);
    if (!row) return;
    revealed = true;
    scrollTo(row);
  }

  function scrollTo(row) {
    const place = row.details.open ? (row.given.querySelector(".broke") ?? row.item) : row.item;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    place.scrollIntoView({ block: "nearest", behavior: still ? "instant" : "smooth" });
  }

  /** Say all changes in one announcement. */
  function announce() {
    const found = [...changes.values()];
    if (found.length) {
      const more = found.length > SAID ? `; and ${found.length - SAID} more` : "";
      news.textContent = `${found.slice(0, SAID).join("; ")}${more}.`;
    }
    changes.clear();
    revealed = false;
  }

  tab.addEventListener("click", () => {
    const [first] = [...rows.keys()].filter((claim) => unseen.has(claim));
    unseen.forEach(fade);
    unseen.clear();
    tell();
    // The panel is turned to by another listener of the tab.
    if (first) requestAnimationFrame(() => scrollTo(rows.get(first)));
  });
  store.on(["state"], () => {
    // Another screen is no edit of this one: nothing on it has changed.
    if (!store.label.startsWith("open ")) return;
    known.clear();
    changes.clear();
    unseen.clear();
    [...marks.keys()].forEach(forget);
    tell();
  });
  store.on(["claims"], sync);
  sync();
}
