// A button that copies a text, and ids of sessions that are short to read and whole to copy.

import { make } from "./elements.js";

const SHOWN_MS = 1500;
const END_CHARACTERS = 6;

/** @param {string} text */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // not allowed in this page, such as a notebook served without encryption
    const field = make("textarea", { "aria-hidden": "true", tabindex: "-1" });
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
}

/**
 * @param {string} text
 * @param {string} label Name of the text for people who do not see the button.
 */
export function makeCopyButton(text, label) {
  const button = make("button", { type: "button", class: "h-copy", text: "copy", "aria-label": `copy ${label}` });
  button.addEventListener("click", async () => {
    await copy(text);
    button.focus({ preventScroll: true });
    button.textContent = "copied";
    setTimeout(() => {
      button.textContent = "copy";
    }, SHOWN_MS);
  });
  return button;
}

/**
 * Return the end of an id, which differs between sessions of a day, with a button that copies the whole id.
 *
 * @param {string} id
 * @param {string} [noun] Name of the thing that has the id.
 */
export function makeSessionId(id, noun = "session") {
  const isShort = id.length <= 2 * END_CHARACTERS;
  const short = isShort ? id : `…${id.slice(-END_CHARACTERS)}`;
  return make(
    "span",
    { class: "h-id", title: id },
    `${noun} ${short} `,
    ...(isShort ? [] : [makeCopyButton(id, `the ${noun} id`)]),
  );
}
