// Buttons on a compaction that continue the session from there with another effect of the compaction.

import { enable, isEnabled, make } from "./elements.js";
import "./twin_buttons.css";

/** @typedef {{ arm: string, text: string, why: string }} Choice `why` says why it is not possible; empty if it is. */
/**
 * @typedef {object} Choices
 * @property {Choice[]} buttons
 * @property {string[]} policies
 * @property {string} why Why another policy is not possible; empty if it is.
 * @property {string} [about] Sentence on the session and the compaction that are continued.
 */

let chosenPolicy = "none"; // a page remembers it when the buttons are drawn again

/**
 * Return the buttons, and below them the reasons why some are disabled.
 *
 * @param {Choices} choices
 * @param {(arm: string) => void} act Receives the arm, or the name of another policy.
 */
export function makeTwinButtons({ buttons, policies, why, about = "" }, act) {
  /** @type {HTMLSelectElement} */
  const select = make(
    "select",
    { "aria-label": "other policy", on: { change: () => (chosenPolicy = select.value) } },
    ...policies.map((name) => make("option", { value: name, text: name })),
  );
  select.value = policies.includes(chosenPolicy) ? chosenPolicy : (policies[0] ?? "");
  const made = buttons.map((choice) => makeButton(choice, () => act(choice.arm)));
  const other = makeButton({ arm: "", text: "fork here with another policy:", why }, () => act(select.value));
  const reasons = new Map();
  for (const { text, why: reason } of buttons) {
    if (reason) reasons.set(reason, [...(reasons.get(reason) ?? []), text]);
  }
  const lines = [...reasons].map(([reason, texts]) =>
    make("p", { class: "h-faint", text: `${texts.join(", ")}: not possible, ${reason}` }),
  );
  if (about) lines.unshift(make("p", { class: "h-faint", text: about }));
  const bar = make("div", { class: "t-bar" }, ...made, other, select);
  return make("div", { class: "t-twins", role: "group", "aria-label": "continue from this compaction" }, bar, ...lines);
}

/**
 * @param {Choice} choice
 * @param {() => void} act
 */
function makeButton({ text, why }, act) {
  /** @type {HTMLButtonElement} */
  const button = make("button", {
    type: "button",
    text,
    title: why,
    on: {
      click: () => {
        if (isEnabled(button)) act();
      },
    },
  });
  enable(button, !why);
  return button;
}
