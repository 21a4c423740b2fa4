// Tables of the page.

import { make } from "#widgets/elements.js";

/**
 * Create a table in a box that scrolls sideways and can be reached with the keyboard.
 *
 * @param {object} table
 * @param {string} table.label Accessible name of the box.
 * @param {string} table.key Name by which the focus returns to the box after it was drawn again.
 * @param {Node[]} table.head Cells of the first row.
 * @param {Node[]} table.rows
 * @param {string} [table.kind] CSS class of the table.
 * @param {string} [table.caption]
 */
export function makeTable({ label, key, head, rows, kind = "p-table", caption = "" }) {
  return make(
    "div",
    { class: "p-scroll", tabindex: "0", role: "region", "aria-label": label, "data-key": key },
    make(
      "table",
      { class: kind },
      ...(caption ? [make("caption", { text: caption })] : []),
      make("thead", {}, make("tr", {}, ...head)),
      make("tbody", {}, ...rows),
    ),
  );
}

/**
 * Create the cells of a first row.
 *
 * @param {string[]} texts
 */
export function makeHead(texts) {
  return texts.map((text) => make("th", { scope: "col", text }));
}

/** Explanations that the reader has opened, by the name of their part of the page; they stay open when it is drawn again. */
const opened = new Set();

/**
 * Create the folded explanation below a part of the page, and the hint on what to click, which is not printed.
 *
 * @param {string} part Name of the part of the page, such as `chart`.
 * @param {string} text
 * @param {string} hint
 */
export function explain(part, text, hint) {
  /** @type {HTMLDetailsElement} */
  const box = make(
    "details",
    { class: "p-how", open: opened.has(part), on: { toggle: () => (box.open ? opened.add(part) : opened.delete(part)) } },
    make("summary", { text: `How to read the ${part}`, "data-key": `how ${part}` }),
    make("p", { text }),
  );
  return make("div", { class: "h-faint p-key" }, make("span", { class: "p-hint", text: hint }), box);
}
