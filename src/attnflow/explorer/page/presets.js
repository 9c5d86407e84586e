// The figures of the papers, to start from.

import { byId, make } from "./elements.js";
import { typeset } from "./mathtext.js";

export function createPresets(store, { chosen }) {
  const menu = byId("preset");
  const note = byId("note");

  const list = fetch("/presets.json")
    .then((answer) => (answer.ok ? answer.json() : []))
    .catch(() => []);
  const first = make("option", { value: "" }, "Choose a figure …");
  menu.append(first);
  list.then((presets) => {
    const groups = Map.groupBy(presets, ({ paper }) => paper);
    const option = ({ name, title }) => make("option", { value: name }, title);
    for (const [label, some] of groups) menu.append(make("optgroup", { label }, ...some.map(option)));
    mark();
  });

  /** Once edited, it is no longer that figure; its note still says what to look for. */
  function mark() {
    const { figure, state } = store;
    menu.value = figure?.state === state ? figure?.name : "";
    if (menu.selectedIndex < 0) menu.value = "";
    if (note.title === (figure?.note ?? "")) return;
    note.title = figure?.note ?? "";
    note.replaceChildren(...typeset(note.title));
  }

  menu.addEventListener("change", async () => {
    const preset = await find(menu.value).catch(() => null);
    if (preset) chosen(preset);
    else mark();
  });

  async function find(/** @type {string} */ wanted) {
    const presets = await list;
    const found = presets.find((one) => one.name === wanted);
    if (!found) throw new Error(`There is no figure “${wanted}”: choose one from the list. Here is the first screen.`);
    return found;
  }

  store.on(["state"], mark);
  return { find };
}
