// The card of a story: one large sentence, one thing to do, what happened; and the list of all stories.

import { make } from "./elements.js";
import { typeset } from "./mathtext.js";

const TICK = `<svg viewBox="0 0 20 20" aria-hidden="true"><path d="M4.5 10.5 8.5 14.5 15.5 6"/></svg>`;
const CLOSE = `<svg viewBox="0 0 20 20" aria-hidden="true"><path d="M5.5 5.5 14.5 14.5M14.5 5.5 5.5 14.5"/></svg>`;

/** Put a text in an element, unless it is there: read out anew, it would disturb. @param {HTMLElement & {said?: string}} element */
function put(element, /** @type {string} */ text) {
  if (element.said === text) return;
  element.said = text;
  element.replaceChildren(...typeset(text));
}

/**
 * @typedef {"waiting" | "tried" | "reached"} Progress nothing was done, something else was done, the goal was reached
 * @param {{go: (index: number) => void, next: () => void, back: () => void, leave: () => void}} actions
 */
export function createStoryCard(actions) {
  const title = make("p", { class: "story-title" });
  const dots = make("div", { class: "story-dots", role: "group", "aria-label": "Steps" });
  const close = make("button", {
    type: "button", class: "story-close", id: "story-skip", title: "Leave the story (Esc)", html: `${CLOSE}<span>Skip</span>`,
    click: actions.leave,
  });
  const sentence = make("p", { class: "story-say", id: "story-say", tabindex: -1, "aria-live": "polite" });
  const task = make("p", { class: "story-task", id: "story-task" });
  const hint = make("p", { class: "story-hint", id: "story-hint", "aria-live": "polite" });
  const reaction = make("p", { class: "story-reaction", id: "story-reaction", "aria-live": "polite" });
  const back = make("button", { type: "button", id: "story-back", click: actions.back }, "Back");
  const next = make("button", { type: "button", id: "story-next", click: actions.next });
  const card = make(
    "section",
    { id: "story-card", "aria-label": "Story", hidden: true },
    make("div", { class: "story-head" }, title, dots, close),
    sentence,
    make(
      "div",
      { class: "story-body" },
      make("div", { class: "story-do" }, task, hint, make("div", { class: "story-done" }, make("span", { class: "story-tick", html: TICK }), reaction)),
      make("div", { class: "story-turn" }, back, next),
    ),
  );

  return {
    card,
    /** @param {any} story @param {number} index @param {Progress} progress */
    show(story, index, progress) {
      const step = story.steps[index];
      const last = index === story.steps.length - 1;
      card.hidden = false;
      card.dataset.progress = progress;
      title.textContent = story.title;
      if (dots.children.length !== story.steps.length || dots.dataset.story !== story.name) {
        dots.dataset.story = story.name;
        const dot = (_, /** @type {number} */ k) =>
          make("button", { type: "button", "aria-label": `Step ${k + 1}`, title: `Step ${k + 1}`, click: () => actions.go(k) });
        dots.replaceChildren(...story.steps.map(dot));
      }
      for (const [k, dot] of [...dots.children].entries()) {
        dot.classList.toggle("past", k < index || (k === index && progress === "reached"));
        k === index ? dot.setAttribute("aria-current", "step") : dot.removeAttribute("aria-current");
      }
      put(sentence, step.say);
      put(task, step.task);
      put(hint, progress === "tried" ? step.hint : "");
      put(reaction, progress === "reached" ? step.reaction : "");
      back.disabled = index === 0;
      next.textContent = last ? "Finish" : "Next";
      next.title = progress === "reached" ? "" : "Go on without doing it";
      next.classList.toggle("primary", progress === "reached");
    },
    hide() {
      card.hidden = true;
    },
    /** Let the space bar play, not press the button again; and let screen readers read the sentence. */
    focus: () => sentence.focus({ preventScroll: true }),
  };
}

/** The list of all stories, in a dialog. @param {(name: string) => void} chosen */
export function createStoryList(chosen) {
  const list = make("ul", {});
  const dialog = make(
    "dialog",
    { id: "stories", "aria-labelledby": "stories-title" },
    make("h2", { id: "stories-title" }, "Stories"),
    list,
    make("form", { method: "dialog" }, make("button", {}, "Close")),
  );
  document.body.append(dialog);

  /** @param {any} story */
  function item(story) {
    const count = `${story.steps.length} ${story.steps.length === 1 ? "step" : "steps"}`;
    const about = make("span", { class: "story-about" }, ...typeset(story.about));
    const head = make("span", { class: "story-name" }, story.title, make("small", {}, count));
    const open = () => {
      dialog.close();
      chosen(story.name);
    };
    return make("li", {}, make("button", { type: "button", "data-story": story.name, click: open }, head, about));
  }

  return {
    /** @param {any[]} stories */
    open(stories) {
      list.replaceChildren(...stories.map(item));
      dialog.showModal();
    },
  };
}
