// Elements of pages. Texts from models and tools may be hostile: a text only ever becomes the text of an element.

import "./surface.css";

/**
 * @typedef {object} Given Attributes by name, with `text` for the text of an element and `on` for its listeners by event.
 * @property {string | number | null} [text]
 * @property {{ [Kind in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[Kind]) => unknown }} [on]
 */

const FOCUSED = new Set(["button", "input", "select", "summary", "textarea"]);

/**
 * Create an element.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Given & Record<string, unknown>} given
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, given = {}, ...children) {
  const element = document.createElement(tag);
  // Shortcuts of the notebook check the focused element first, so switching them off on the root element is not enough.
  if (FOCUSED.has(tag) || "tabindex" in given) element.setAttribute("data-lm-suppress-shortcuts", "true");
  const { text, on = {}, ...attributes } = given;
  if (text !== undefined) element.textContent = String(text ?? "");
  for (const [event, listener] of Object.entries(on)) element.addEventListener(event, /** @type {EventListener} */ (listener));
  for (const [name, value] of Object.entries(attributes)) {
    if (/^on|^srcdoc$|^style$/i.test(name)) throw new Error(`no attribute ${name}: give a listener or a class`);
    if (typeof value === "boolean") element.toggleAttribute(name, value);
    else if (value !== undefined && value !== null) element.setAttribute(name, String(value));
  }
  element.append(...children);
  return element;
}

/**
 * Create an SVG element, like `make`.
 *
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string | number>} given
 * @param {...Node} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function draw(tag, given = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(given)) {
    if (name === "text") element.textContent = String(value);
    else if (/^on|href$|^style$/i.test(name)) throw new Error(`no attribute ${name} in a drawing`);
    else element.setAttribute(name, String(value));
  }
  element.append(...children);
  return element;
}

/**
 * Create a row of a table with a name and a value.
 *
 * @param {string} name
 * @param {string | number} text
 */
export function makeFactRow(name, text) {
  return make("tr", {}, make("th", { scope: "row", text: name }), make("td", { text }));
}

/**
 * Run `act`, which replaces elements of a box, and restore the focus to the element with the same `data-key`.
 *
 * @param {HTMLElement} box
 * @param {() => void} act
 */
export function keepFocus(box, act) {
  const focused = /** @type {HTMLElement | null} */ (document.activeElement);
  const held = box.contains(focused)
    ? /** @type {HTMLElement | null} */ (focused?.closest("[data-key]"))?.dataset.key
    : undefined;
  act();
  if (held === undefined) return;
  const keyed = /** @type {NodeListOf<HTMLElement>} */ (box.querySelectorAll("[data-key]"));
  const fresh = [...keyed].find((element) => element.dataset.key === held);
  if (fresh !== document.activeElement) fresh?.focus({ preventScroll: true });
}

/**
 * Create the root element of a widget in its cell. Plain keys do not reach the notebook, where an arrow key would move the cell
 * selection and an x would cut the cell. Keys with Control, Alt or Meta still do.
 *
 * @param {HTMLElement} el
 * @param {string} label
 */
export function createRoot(el, label) {
  const root = make("section", { class: "harness-surface", "aria-label": label, "data-lm-suppress-shortcuts": "true" });
  keepPlainKeys(root);
  el.append(root);
  return root;
}

/**
 * Keep keys without Control, Alt or Meta from the elements around an element.
 *
 * @param {HTMLElement} element
 */
export function keepPlainKeys(element) {
  element.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.altKey && !event.metaKey) event.stopPropagation();
  });
}

/**
 * Return the style that hides the static form below a live view, given the mark of that form.
 *
 * @param {string | undefined} mark
 */
export function buildHidingStyle(mark) {
  return mark && /^[0-9a-f]+$/.test(mark) ? `.harness-saved-${mark} { display: none; }` : "";
}

/**
 * Enable or disable a button. A disabled button keeps the focus: otherwise keys would go to the notebook and could cut the cell.
 *
 * @param {HTMLElement} button
 * @param {boolean} yes
 */
export function enable(button, yes) {
  button.setAttribute("aria-disabled", String(!yes));
}

/** @param {HTMLElement} button */
export function isEnabled(button) {
  return button.getAttribute("aria-disabled") !== "true";
}
