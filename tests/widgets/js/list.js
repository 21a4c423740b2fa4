// Smallest widget: a list of the items that the kernel sends, its state, and a button.

import { createRoot, make } from "#widgets/elements.js";
import { connect } from "#widgets/kernel.js";

/** @import { Channel } from "#widgets/kernel.js" */

export { make };

export default {
  /** @param {{ model: Channel, el: HTMLElement }} view */
  render({ model, el }) {
    const root = createRoot(el, "List");
    const [list, state, note] = [make("ul"), make("p"), make("p", { class: "note" })];
    const ask = () => model.send({ kind: "ask", what: 7 });
    root.append(list, state, note, make("button", { text: "ask", on: { click: ask } }));
    return connect(model, {
      items: (items) => list.append(...items.map((item) => make("li", { text: item.text }))),
      state: (_changed, whole) => {
        state.textContent = JSON.stringify(whole);
      },
      skipped: (count) => {
        note.textContent = `${count} skipped`;
      },
    });
  },
};
