// Elements of the page, made in one call.

/**
 * @param {string} tag
 * @param {Record<string, any>} [attributes] functions are listeners, `html` is trusted text of this page
 * @param {...(Node | string)} children @returns {any}
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (name === "html") element.innerHTML = value;
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children);
  return element;
}

/** Fields that hold text. */
export const TEXTS = "input:not([type=range]):not([type=radio]):not([type=checkbox]), textarea, [contenteditable]";
/** Fields that keep the keys pressed in them: in a menu a letter finds an entry. */
export const TYPING = `${TEXTS}, select`;

/** @param {string} id @returns {any} */
export const byId = (id) => document.getElementById(id);

/**
 * A select with the given options, [value, text] or [group, options].
 * @param {Record<string, any>} attributes
 */
export function choice(attributes, options) {
  return make("select", attributes, ...options.map(([value, text]) => option(value, text)));
}

function option(/** @type {string} */ value, text) {
  if (typeof text === "string") return make("option", { value }, text);
  return make("optgroup", { label: value }, ...text.map(([v, t]) => option(v, t)));
}
