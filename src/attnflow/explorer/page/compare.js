// Two sides that are compared, live: one cloud, one time, one camera, two laws or motions. The first side is the page as
// it is without comparing; the second has a store, a player, a stage and a line to the server of its own, and is there
// while the store of the first says what is compared.

import { createChosenSide } from "./chosen_side.js";
import { createDifferenceChart } from "./difference_chart.js";
import { DENSE } from "./density.js";
import { comparable, distanceAt } from "./difference.js";
import { byId, make } from "./elements.js";
import { typeset } from "./mathtext.js";
import { partText } from "./model_text.js";
import { createOtherStore, firstOther } from "./other_side.js";
import { createPlayer } from "./player.js";
import { createRequests } from "./requests.js";
import { createSameTime } from "./same_time.js";
import { createSocket } from "./socket.js";
import { createStage } from "./stage.js";
import { timeText } from "./timebar.js";
import { written } from "./ticks.js";

/** @import { Side } from "./chosen_side.js" */

const SIDES = /** @type {Side[]} */ (["left", "right"]);
const KINDS = /** @type {const} */ (["law", "motion"]);
const NAMES = { left: "Left", right: "Right" };
const RINGS = "Where the tokens of the other side are: a ring, and a line that leads to it";
const TOO_MANY = `rings are drawn of at most ${DENSE} tokens`;

/**
 * @param {{store: any, player: import("./player.js").Player, stage: any, surface: (motion: string) => string,
 *   say: (sentence: string) => void}} first
 */
export function createCompare({ store, player: lead, stage: left, surface, say: tell }) {
  const other = createOtherStore(store);
  const player = createPlayer();
  const time = createSameTime(lead, player);
  const chosen = createChosenSide(store, other);
  /** Whether the second side is on the screen. */
  let shown = false;
  /** The state of the second side that it was last told of. */
  let told = other.state;
  /** What was compared before the last time it ended, to come back to. @type {import("./store.js").Other | null} */
  let before = null;
  /** @type {ReturnType<typeof createSocket> | null} */
  let socket = null;

  // The elements
  const label = byId("stage").ariaLabel;
  const canvas = make("canvas", { id: "other-stage", tabindex: 0, "aria-label": "Tokens of the right side" });
  const wrap = make("div", { class: "stage-wrap", hidden: true }, canvas);
  const stages = byId("stage").closest(".stages");
  stages.append(wrap);
  const captions = SIDES.map((side) =>
    make("button", { type: "button", class: "side-caption", hidden: true, click: () => take(side) }),
  );
  byId("stage").before(captions[0]);
  canvas.before(captions[1]);
  // What is refused on the left is read out from the line of status, which says the same.
  const aloud = [{ "aria-hidden": "true" }, { role: "status" }];
  const notes = aloud.map((how) => make("p", { class: "side-note", ...how, hidden: true }));
  byId("stage").parentElement.append(notes[0]);
  wrap.append(notes[1]);
  const toggle = make("button", { type: "button", id: "compare", "aria-pressed": "false", click: turn }, "Compare");
  toggle.title = "Two laws or motions side by side, on the same tokens";
  byId("tools").after(toggle);
  const apart = make("output", { id: "apart", "aria-live": "off" });
  const rings = make("button", { type: "button", id: "show-beside", click: showBeside }, "Other side");
  const swap = make("button", { type: "button", id: "swap", title: "The law and motion of the left go to the right, and back", click: exchange }, "Swap");
  const strip = make("div", { class: "apart", hidden: true }, apart, make("div", { class: "chips" }, rings), swap);
  stages.after(strip);
  const radios = SIDES.map((side) =>
    make("input", { type: "radio", name: "side", value: side, id: `side-${side}`, change: () => take(side) }),
  );
  const labels = SIDES.map((side, k) => make("label", {}, radios[k], make("span", {}, NAMES[side])));
  const about = { role: "radiogroup", class: "segments sides", "aria-label": "Side that the controls change" };
  const switches = make("div", { ...about, hidden: true }, ...labels);
  const saved = make("span", { class: "saved-side", hidden: true });
  byId("export-png").before(saved);
  for (const id of ["claims", "charts", "attention"])
    byId(id).before(make("p", { class: "of-left" }, "Of the left side:"));

  // The second side
  const line = {
    get open() {
      return socket?.open ?? false;
    },
    send: (message) => socket?.send(message) ?? -1,
  };
  const requests = createRequests(other, player, line, {
    attention: () => false,
    claims: false,
    token: () => stage.looked(),
    waiting: (report) => say(1, report ? "Computing." : "", "wait"),
  });
  const moved = () => {
    time.follow();
    store.notify("player");
  };
  const stage = createStage(canvas, other, player, surface, { player: lead, moved });
  stage.say = tell;
  // Both stages show one orbit: a drag on the right one stops it, as a drag on the left one does.
  stage.orbit = left.orbit;
  const refused = () => [store, other].some((side) => side.refused?.about === "run");
  const seek = (/** @type {number} */ part) => {
    lead.pause();
    lead.seekFraction(part);
    store.notify("player");
  };
  const chart = createDifferenceChart(lead, player, { seek, refused });
  byId("charts-section").querySelector("summary").after(chart.element);

  // A token that is chosen on one side is the same token on the other.
  for (const [here, there] of [[left, stage], [stage, left]]) {
    const { choose } = here;
    here.choose = (/** @type {number} */ i) => {
      choose(i);
      there.chosen = i;
      there.draw();
      // The panels are about the left side.
      store.notify("looked");
    };
  }

  /** Say a sentence over a stage; of one kind, or nothing of that kind. @param {number} k */
  function say(k, /** @type {string} */ sentence, /** @type {string} */ kind) {
    const note = notes[k];
    if (sentence === "" && note.dataset.kind !== kind) return;
    if (note.textContent !== sentence) note.textContent = sentence;
    note.dataset.kind = kind;
    note.hidden = sentence === "" || !shown;
    note.parentElement.classList.toggle("refused", !note.hidden && kind === "refused");
  }

  function open() {
    shown = true;
    Object.assign(left.scene, { beside: stage.scene });
    Object.assign(stage.scene, { beside: left.scene, spin: left.scene.spin });
    requests.showTime(store.view.t);
    if (socket) socket.reopen();
    else
      socket = createSocket("/ws", {
        receive: requests.receive,
        line(on, pause) {
          const why = other.refused?.about === "message" ? other.refused.sentence : "No connection to attnflow explore";
          say(1, on ? "" : `${why}; trying again in ${Math.ceil(pause / 1000)} s.`, "line");
          if (on) requests.refresh();
        },
      });
  }

  function close() {
    shown = false;
    socket?.close();
    time.end();
    player.clear(-1, 0, 0);
    Object.assign(other, { run: null, overlays: null, first: null, series: null, refused: null });
    for (const k of [0, 1]) say(k, "", notes[k].dataset.kind);
    for (const { scene } of [left, stage]) Object.assign(scene, { beside: null });
    chosen.take("left");
    left.draw();
  }

  /** Begin to compare, or end it. */
  function turn() {
    const begins = store.other === null;
    if (!begins) before = store.other;
    store.setState({}, { other: begins ? (before ?? firstOther(store.state)) : null });
    // The next edit is to make a difference.
    if (begins) take("right");
  }

  function take(/** @type {Side} */ side) {
    chosen.take(side);
    mark();
  }

  function exchange() {
    const { law, motion } = store.state;
    store.setState({ ...store.other }, { other: { law, motion } });
  }

  function showBeside() {
    store.setView({ show: { ...store.view.show, beside: !store.view.show.beside } });
    if (store.view.show.beside && lead.n > DENSE) tell(`${rings.textContent}: ${TOO_MANY}.`);
  }

  /** Say at the switch of the rings what they are, or why there are none. */
  function markRings() {
    const on = Boolean(store.view.show.beside);
    const missing = on && lead.n > DENSE;
    rings.ariaPressed = String(on);
    rings.classList.toggle("missing", missing);
    rings.title = missing ? `Not drawn: ${TOO_MANY}.` : RINGS;
  }

  /** Bring the page up to date with what is compared. */
  function mark() {
    const on = store.other !== null;
    const sides = [store, other];
    for (const [k, side] of SIDES.entries()) {
      captions[k].hidden = !on;
      captions[k].ariaPressed = String(chosen.side === side);
      const [law, motion] = KINDS.map((kind) => partText(kind, sides[k].state[kind]));
      const lines = [law, motion].map((text) => make("span", { title: text }, ...typeset(text)));
      captions[k].replaceChildren(make("b", {}, NAMES[side]), make("span", { class: "lines" }, ...lines));
      radios[k].checked = chosen.side === side;
    }
    wrap.hidden = strip.hidden = switches.hidden = chart.element.hidden = saved.hidden = !on;
    stages.classList.toggle("two", on);
    document.body.classList.toggle("comparing", on);
    saved.textContent = `(${chosen.side} side)`;
    toggle.ariaPressed = String(on);
    markRings();
    byId("stage").ariaLabel = on ? label.replace(/^Tokens/, "Tokens of the left side") : label;
    if (on) byId("hint").hidden = true;
    if (switches.parentElement === null) byId("controls").prepend(switches);
  }

  /** Write how far both sides are apart at the time shown. */
  function measure() {
    chart.draw();
    markRings();
    if (refused()) apart.textContent = "No distance: there is no run on one of the sides.";
    if (refused() || !comparable(lead, player)) return;
    const t = Math.min(lead.exactTime(), player.times[player.count - 1]);
    const { largest, rms } = distanceAt(lead, player, t);
    const discrete = lead.discrete || player.discrete;
    const said = `Distance at t = ${timeText(t, discrete)}: largest ${written(largest)}, root mean square ${written(rms)}`;
    apart.replaceChildren(...typeset(said));
  }

  store.on(["state", "other"], () => {
    const on = store.other !== null;
    if (on !== shown) on ? open() : close();
    mark();
    if (on && told !== other.state) {
      told = other.state;
      other.notify("state");
    }
  });
  store.on(["view"], () => {
    if (!shown) return;
    mark();
    other.notify("view");
    chart.draw();
  });
  store.on(["player", "run"], () => {
    if (!shown) return;
    if (time.follow()) store.notify("player");
    other.notify("player");
  });
  store.on(["looked"], () => shown && other.notify("looked"));
  other.on(["player", "run"], () => {
    if (!shown) return;
    if (time.follow()) store.notify("player");
    measure();
    left.draw();
    stage.draw();
  });
  for (const [k, side] of [store, other].entries())
    side.on(["refused", "run", "other"], () => {
      if (!shown) return;
      say(k, side.refused?.about === "run" ? side.refused.sentence : "", "refused");
      measure();
    });

  return {
    chosen,
    store: other,
    player,
    stage,
    requests,
    chart,
    /** Put the switch of the sides above the controls. */
    mark,
    /** The second side, while it is chosen: what is saved is that side. */
    get saved() {
      // The second player goes with the first: that is stopped.
      const pause = () => {
        lead.pause();
        moved();
      };
      return chosen.side === "right" ? { store: other, player, stage, requests, socket, pause } : null;
    },
    /** Whether both runs are here, whole. */
    idle: () => shown && requests.idle(),
  };
}
