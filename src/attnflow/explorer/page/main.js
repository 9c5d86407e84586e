// Puts the parts of the page together.

import { createAttention } from "./attention.js";
import { createCharts } from "./charts.js";
import { SOCKET, createClassRoom, createRestNotice } from "./class_room.js";
import { createClaims } from "./claims.js";
import { createCompare } from "./compare.js";
import { createControls } from "./controls.js";
import { byId, TYPING } from "./elements.js";
import { createExport } from "./export.js";
import { createHint } from "./hint.js";
import { createOwnTokens } from "./own_tokens.js";
import { createPlacingBar } from "./placing_bar.js";
import { createOrbitButton } from "./orbit.js";
import { createPlayer } from "./player.js";
import { createInfluence } from "./influence.js";
import { createLink } from "./link.js";
import { returnFocusFromMenus } from "./menu_focus.js";
import { surfaceOf } from "./models.js";
import { createPresenter } from "./presenter.js";
import { createPresets } from "./presets.js";
import { createRefusal } from "./refusal.js";
import { createRequests } from "./requests.js";
import { isDark } from "./screen.js";
import { createSocket } from "./socket.js";
import { createStage } from "./stage.js";
import { createStore } from "./store.js";
import { createStory } from "./story.js";
import { createTimebar } from "./timebar.js";
import { createToolbar } from "./toolbar.js";
import { createWaitingRoom } from "./waiting_room.js";
import { waitingText } from "./waiting_text.js";
import { createTokenList } from "./words.js";

const store = createStore();
const player = createPlayer();
const system = matchMedia("(prefers-color-scheme: dark)");
applyTheme();

const status = byId("status");
/** Say a sentence: a refusal stays until it is mended, others until the next edit. */
let saidAt = store.state;
function say(/** @type {string} */ sentence, kind = "note") {
  saidAt = store.state;
  // Written anew, the same sentence would be read out again.
  if (status.textContent !== sentence) status.textContent = sentence;
  status.dataset.kind = kind;
}

const waitingRoom = createWaitingRoom(store);
const restNotice = createRestNotice();
const socket = createSocket(SOCKET, {
  receive: (header, payload) => classRoom.receive(header) || requests.receive(header, payload),
  rested: restNotice.show,
  line(open, pause) {
    restNotice.hide();
    if (open) {
      classRoom.again();
      return requests.refresh();
    }
    const why = store.refused?.about === "message" ? store.refused.sentence : "No connection to attnflow explore";
    say(`${why}; trying again in ${Math.ceil(pause / 1000)} s.`, "line");
    if (store.refused?.about === "message") waitingRoom.enter(why);
  },
});
const phone = matchMedia("(max-width: 820px), (max-height: 460px)"); // as in style.css
const attention = byId("attention-section");
const requests = createRequests(store, player, socket, {
  attention: () => attention.open && attention.offsetParent !== null,
  token: () => stage.looked(),
  waiting(report) {
    const free = !status.textContent || status.dataset.kind === "wait";
    if (report && free) say(waitingText(report), "wait");
    else if (!report && status.dataset.kind === "wait") say("");
  },
});
attention.addEventListener("toggle", () => {
  requests.again();
  // It opens below the charts, perhaps out of sight.
  if (attention.open && !phone.matches) attention.scrollIntoView({ block: "nearest" });
});

const stage = createStage(byId("stage"), store, player, surfaceOf);
stage.say = say;
createOrbitButton(byId("fit"), store, stage);
createCharts(byId("charts"), store, player);
createAttention(byId("attention"), store, stage);
const compare = createCompare({ store, player, stage, surface: surfaceOf, say });
createControls(byId("controls"), compare.chosen);
compare.mark();
createInfluence(store);
createToolbar(store, stage, say);
createPlacingBar(store);
createOwnTokens(store, stage, say);
createClaims(store);
createTokenList(store, player);
const timebar = createTimebar(store, player);
const hint = createHint(store, player);
returnFocusFromMenus(byId("stage"));
createRefusal(store, byId("stage"));
const presets = createPresets(store, {
  chosen(preset) {
    link.leave();
    opened(preset);
    link.named(preset.name);
  },
});
const story = createStory(store, player, stage, { opened, left: () => link.leave() });
const link = createLink(store, { preset: presets.find, opened, say: (sentence) => say(sentence, "link"), story });
const first = { store, player, stage, requests, socket, pause: () => player.pause() };
createExport(() => compare.saved ?? first, { link: link.address, pair: compare.chosen.pair, say });

/** Put the screen of a link or of a preset in the place of this one. */
function opened(screen) {
  player.pause();
  store.open(screen);
  requests.showTime(store.view.t);
  say("");
  hint.hide();
}

const presenter = createPresenter(store, player, stage);
presenter.onNext(story.step);
const classRoom = createClassRoom(store, socket, {
  say,
  opened(screen) {
    story.close();
    opened(screen);
  },
});

store.on(["view"], applyTheme);
store.on(["refused", "run", "state"], (what) => {
  const { kind = "" } = status.dataset;
  // A server without room opens the line only to say so: the note about the line says it too, and stays.
  const known = kind === "line" && store.refused?.about === "message";
  const side = store.other ? "Left: " : "";
  if (what.has("refused") && store.refused && !known) say(`${side}${store.refused.sentence}`, "refused");
  else if (what.has("run") && kind === "line") say("");
  else if (what.has("run") && !store.refused && kind === "refused") say("");
  else if (what.has("state") && store.state !== saidAt && ["note", "link"].includes(kind)) say("");
  if (what.has("run") && store.run?.stopped) byId("time").title = store.run.stopped;
});
store.on(["state", "other", "view"], () => {
  byId("undo").disabled = !store.canUndo || story.opening;
  byId("redo").disabled = !store.canRedo;
});

/** Light or dark, as the view says or else the system. */
function applyTheme() {
  const { theme } = store.view;
  document.documentElement.dataset.theme = theme === "auto" ? (system.matches ? "dark" : "light") : theme;
}
system.addEventListener("change", () => store.setView({}));
byId("theme").addEventListener("click", () => {
  // Back to what the system says is back to following it.
  const wanted = isDark() ? "light" : "dark";
  store.setView({ theme: (wanted === "dark") === system.matches ? "auto" : wanted });
});

/** In a story undo stops where its step began. */
const undo = () => story.opening || store.undo();
byId("undo").addEventListener("click", undo);
byId("redo").addEventListener("click", () => store.redo());
byId("undo").disabled = byId("redo").disabled = true;
// As a link it would take the place of the address of this screen.
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  byId("stage").focus();
});
byId("help-open").addEventListener("click", () => byId("help").showModal());

/** @type {NodeListOf<HTMLElement>} */
const tabs = document.querySelectorAll(".tabs button");
function turnTo(/** @type {string} */ panel) {
  document.body.dataset.panel = panel;
  for (const tab of tabs) tab.ariaPressed = String(tab.dataset.panel === panel);
  requests.again();
}
for (const tab of tabs) tab.addEventListener("click", () => turnTo(tab.dataset.panel ?? "controls"));
turnTo("controls");

addEventListener("keydown", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.defaultPrevented || target.closest?.("dialog")) return;
  const typing = target.matches?.(TYPING);
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && !event.altKey) {
    // Text that the page would not take has its own undo.
    if (target.getAttribute?.("aria-invalid") === "true") return;
    event.preventDefault();
    event.shiftKey ? store.redo() : undo();
  } else if (event.ctrlKey || event.metaKey || event.altKey || typing) return;
  else if (event.key === " " && !target.matches?.("button, summary, [type=checkbox], [type=radio]")) {
    event.preventDefault();
    timebar.toggle();
  } else if (event.key === "?") byId("help").showModal();
  else if (target === byId("stage") || target.closest?.(".time")) {
    if (event.key === "ArrowLeft") timebar.step(-1);
    if (event.key === "ArrowRight") timebar.step(1);
  }
});

Object.assign(window, { attnflow: { store, player, stage, socket, requests, compare, presenter, classRoom } });
link.follow().then(async (followed) => {
  // The pages of a class begin with the teacher's screen.
  const led = await classRoom.begin(followed);
  if (!followed && !led && !(await story.welcome())) hint.show();
});
