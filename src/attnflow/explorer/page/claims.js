// Which claims of the literature apply to what is on the screen, and whether they hold.

import { byId, make } from "./elements.js";
import { typeset } from "./mathtext.js";
import { PAPERS } from "./papers.js";

/** For how long a change is marked, in milliseconds. */
const MARKED = 6000;
const ICONS = /** @type {Record<string, string>} */ ({
  holds: "M4.5 10.5 8.5 14.5 15.5 6",
  violated: "M5.5 5.5 14.5 14.5M14.5 5.5 5.5 14.5",
  "hypotheses not met": "M6 10H14",
  fails: "M5.5 5.5 14.5 14.5M14.5 5.5 5.5 14.5",
  undecided: "M7.3 7.6a2.7 2.7 0 1 1 4.1 2.3c-.9.6-1.4 1-1.4 2M10 14.5v.3",
  waiting: "M6 10h.1M10 10h.1M14 10h.1",
});

const named = (/** @type {{name: string}} */ { name }) => name;

function icon(/** @type {string} */ outcome) {
  const path = ICONS[outcome] ?? ICONS.waiting;
  return make("span", { class: "icon", html: `<svg viewBox="0 0 20 20" aria-hidden="true"><path d="${path}"/></svg>` });
}

/** @param {any} store */
export function createClaims(store) {
  const [list, count, news] = ["claims", "claims-count", "claims-news"].map(byId);
  /** The row of each claim. @type {Map<string, any>} */
  const rows = new Map();
  /** The last outcome of each claim and of its hypotheses, to tell what changed. @type {Map<string, any>} */
  const known = new Map();
  let order = "";

  /** Build the rows anew when other claims apply. */
  function build() {
    const names = [...store.claims.keys()];
    if (names.join(" ") === order) return;
    order = names.join(" ");
    const open = new Set([...rows].filter(([, row]) => row.details.open).map(([name]) => name));
    rows.clear();
    list.replaceChildren();
    /** @type {Map<string, any>} */
    const groups = new Map();
    for (const one of store.claims.values()) {
      if (!groups.has(one.paper)) {
        const group = make("ul", { "aria-label": PAPERS[one.paper] ?? one.paper });
        groups.set(one.paper, group);
        list.append(make("h3", {}, PAPERS[one.paper] ?? one.paper), group);
      }
      const row = rowOf(one);
      row.details.open = open.has(one.claim);
      rows.set(one.claim, row);
      groups.get(one.paper).append(row.item);
    }
  }

  function rowOf(/** @type {any} */ one) {
    const outcome = make("span", { class: "outcome" });
    const was = make("span", { class: "was" });
    const mark = make("span", { class: "mark" });
    const name = one.claim.split("/").slice(1).join(", ").replaceAll("-", " ");
    const summary = make("summary", {}, mark, make("span", { class: "name" }, name), outcome, was);
    const because = make("p", { class: "because" });
    const given = make("ul", { class: "given" });
    const status = one.status === "proved" ? "proved" : one.status;
    const source = make("p", { class: "where" }, `${one.where} · ${status} · ${one.claim}`);
    const statement = make("p", { class: "statement" }, ...typeset(one.statement));
    const details = make("details", {}, summary, statement, given, because, source);
    if (one.status !== "proved") summary.insertBefore(make("span", { class: "status" }, one.status), outcome);
    const broken = make("span", { class: "broken", hidden: true });
    summary.append(broken);
    const item = make("li", { "data-claim": one.claim, "data-outcome": "waiting" }, details);
    return { item, details, outcome, was, mark, because, given, broken, name, timer: undefined, shown: "" };
  }

  function sync() {
    build();
    const { others = 0, waiting = true, sentence } = store.claims;
    for (const [claim, one] of store.claims) show(rows.get(claim), one);
    if (store.claims.size === 0) {
      const empty = sentence ?? (waiting ? "Looking for claims about this …" : "None of the claims is about this run.");
      list.replaceChildren(make("p", { class: "empty" }, empty));
      order = "";
    }
    list.setAttribute("aria-busy", String(waiting));
    const holding = [...store.claims.values()].filter((one) => one.verdict?.outcome === "holds").length;
    count.textContent = store.claims.size ? `${holding} of ${store.claims.size} hold` : "";
    count.title = others ? `${others} others are about something else.` : "";
  }

  function show(/** @type {any} */ row, /** @type {any} */ one) {
    const { verdict, stale } = one;
    const outcome = verdict?.outcome ?? "waiting";
    row.item.classList.toggle("stale", stale);
    row.item.dataset.outcome = outcome;
    const text = JSON.stringify([verdict, stale]);
    if (text === row.shown) return;
    row.shown = text;
    row.outcome.textContent = outcome === "waiting" ? "…" : outcome;
    row.mark.replaceChildren(icon(outcome));
    row.because.replaceChildren(...typeset(verdict?.because ?? ""));
    row.because.hidden = !verdict?.because;
    const unknown = (/** @type {string} */ name) => ({ name, outcome: "waiting" });
    const given = verdict?.given ?? (one.given ?? []).map(unknown);
    row.given.hidden = given.length === 0;
    row.given.replaceChildren(...given.map(hypothesis));
    if (!stale && verdict) compare(row, one);
  }

  function hypothesis(/** @type {any} */ { name, outcome }) {
    const word = { holds: "holds", fails: "fails", undecided: "undecided" }[outcome] ?? "…";
    const text = make("span", {}, ...typeset(name));
    return make("li", { "data-given": name, "data-outcome": outcome }, icon(outcome), text, make("em", {}, word));
  }

  /** Mark what this verdict changed. */
  function compare(/** @type {any} */ row, /** @type {any} */ { claim, verdict }) {
    const before = known.get(claim);
    known.set(claim, verdict);
    if (!before || before.outcome === verdict.outcome) return;
    /** @type {(verdict: any, outcome: string) => string[]} */
    const those = ({ given }, outcome) => given.filter((/** @type {any} */ g) => g.outcome === outcome).map(named);
    const fine = those(before, "holds");
    const broke = those(verdict, "fails").filter((name) => fine.includes(name));
    row.was.textContent = `was: ${before.outcome}`;
    row.item.classList.add("changed");
    row.broken.hidden = broke.length === 0;
    row.broken.replaceChildren("no longer: ", ...typeset(broke.join(", ")));
    for (const li of row.given.children) {
      li.classList.toggle("broke", broke.includes(li.dataset.given));
    }
    const why = broke.length ? `, since ${broke[0]} fails` : "";
    news.textContent = `${row.name}: ${verdict.outcome}, was ${before.outcome}${why}.`;
    reveal(broke.length && row.details.open ? row.given.querySelector(".broke") : row.item);
    clearTimeout(row.timer);
    row.timer = setTimeout(() => {
      row.item.classList.remove("changed");
      row.was.textContent = "";
      row.broken.hidden = true;
      for (const li of row.given.children) li.classList.remove("broke");
    }, MARKED);
  }

  /** Scroll the list, and nothing else, until the element is in it. */
  function reveal(/** @type {HTMLElement} */ element) {
    const [box, place] = [list.getBoundingClientRect(), element.getBoundingClientRect()];
    const over = place.bottom - box.bottom;
    const top = place.top < box.top ? place.top - box.top - 24 : over > 0 ? over + 12 : 0;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (top !== 0) list.scrollBy({ top, behavior: still ? "instant" : "smooth" });
  }

  store.subscribe((/** @type {Set<string>} */ what) => {
    // Another screen is no edit of this one: nothing on it has changed.
    if (what.has("state") && store.label.startsWith("open ")) known.clear();
    if (what.has("claims")) sync();
  });
  sync();
}
