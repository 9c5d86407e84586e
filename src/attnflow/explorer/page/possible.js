// Which laws and motions go together, as the catalogue says: the others are grey in the menus, with the reason.

import { atLimit, model } from "./models.js";

/** Return why a motion does not take a law, if so. @param {string} motion @param {any} law */
export const refusalOf = (motion, law) => model("motion", motion).refuses?.[atLimit(law)?.limit ?? law.name];

/**
 * Return a law as a motion takes it: at the other end of its slider, where the motion does not take it as it is.
 * @param {any} law @param {string} motion @param {(key: string) => any} finite a number that the slider was left at
 */
export function takenLaw(law, motion, finite) {
  if (!refusalOf(motion, law)) return law;
  const ends = model("law", law.name).parameters.filter(({ limit }) => limit);
  const others = ends.map(({ key, start, default: usual }) =>
    ({ ...law, [key]: law[key] === "inf" ? (finite(key) ?? start ?? usual) : "inf" }));
  return others.find((other) => !refusalOf(motion, other)) ?? law;
}

/** Let a menu show what goes together with the rest of the state. @param {HTMLSelectElement} menu */
export function greyOut(menu, /** @type {"law" | "motion"} */ kind, { law, motion }) {
  for (const option of menu.options) {
    const [chosen, name] = kind === "motion" ? [option.value, law.name] : [motion.name, option.value];
    const given = takenLaw(name === law.name ? law : { name }, chosen, () => null);
    const why = refusalOf(chosen, given);
    option.dataset.title ??= option.textContent ?? "";
    // What is on the screen stays to be seen, whatever it is.
    option.disabled = Boolean(why) && option.value !== (kind === "motion" ? motion : law).name;
    option.title = why?.sentence ?? "";
    const text = option.disabled ? `${option.dataset.title} (${why?.[kind]})` : option.dataset.title;
    if (option.textContent !== text) option.textContent = text;
  }
}
