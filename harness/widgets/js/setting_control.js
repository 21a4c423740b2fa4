// Controls for the settings of a policy.

import { make } from "./elements.js";
import { formatNumber } from "./numbers.js";

/** @typedef {number | string | boolean | null} Value */
/**
 * @typedef {object} Control Control of a field of a policy; `controls.py` documents its values.
 * @property {string} name
 * @property {"share" | "count" | "amount" | "switch" | "choice"} kind
 * @property {Value} [value]
 * @property {number} least
 * @property {number} most
 * @property {number} notch
 * @property {string[]} choices
 * @property {boolean} optional
 * @property {boolean} [first]
 */

/**
 * Create a slider, switch or choice with name and value.
 *
 * @param {Control} control
 * @param {Value | undefined} value
 * @param {(value: Value) => void} change Called on every change.
 */
export function createControl(control, value, change) {
  const title = control.name.replaceAll("_", " ");
  const output = make("output", { class: "h-value" });
  const given = { "aria-label": title, name: control.name };
  const input =
    control.kind === "switch"
      ? createSwitch(given, value, change)
      : control.kind === "choice"
        ? createChoice(given, control.choices, value, change)
        : createSlider(given, control, /** @type {number | null} */ (value), change, output);
  return make("label", { class: "h-knob" }, make("span", { text: title }), input, output);
}

/**
 * @param {object} given
 * @param {Value | undefined} value
 * @param {(value: boolean) => void} change
 */
function createSwitch(given, value, change) {
  /** @type {HTMLInputElement} */
  const input = make("input", {
    ...given,
    type: "checkbox",
    checked: Boolean(value),
    on: { change: () => change(input.checked) },
  });
  return input;
}

/**
 * @param {object} given
 * @param {string[]} choices
 * @param {Value | undefined} value
 * @param {(value: string) => void} change
 */
function createChoice(given, choices, value, change) {
  const options = choices.map((choice) => make("option", { value: choice, text: choice, selected: choice === value }));
  /** @type {HTMLSelectElement} */
  const select = make("select", { ...given, on: { change: () => change(select.value) } }, ...options);
  return select;
}

/**
 * Create a slider; the slider of an optional field has one more notch at its beginning, which stands for no value.
 *
 * @param {object} given
 * @param {Control} control
 * @param {number | null | undefined} value
 * @param {(value: number | null) => void} change
 * @param {HTMLElement} output
 */
function createSlider(given, { kind, least, most, notch, optional }, value, change, output) {
  /** @param {number | null} now */
  const showValue = (now) => {
    output.textContent = now === null ? "off" : kind === "share" ? now.toFixed(2) : formatNumber(now);
  };
  const off = optional ? least - notch : least;
  const move = () => {
    const now = Number(input.value);
    const chosen = optional && now <= off ? null : now;
    showValue(chosen);
    change(chosen);
  };
  const range = { type: "range", min: off, max: Math.max(most, value ?? 0), step: notch };
  const input = make("input", { ...given, ...range, value: value ?? off, on: { input: move } });
  showValue(value ?? (optional ? null : off));
  return input;
}
