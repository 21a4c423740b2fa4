// Built by `make js` from the modules named below, in which changes belong.

// harness/widgets/js/elements.js
var FOCUSED = /* @__PURE__ */ new Set(["button", "input", "select", "summary", "textarea"]);
function make(tag, given = {}, ...children) {
  const element = document.createElement(tag);
  if (FOCUSED.has(tag) || "tabindex" in given) element.setAttribute("data-lm-suppress-shortcuts", "true");
  const { text, on = {}, ...attributes } = given;
  if (text !== void 0) element.textContent = String(text ?? "");
  for (const [event, listener] of Object.entries(on)) element.addEventListener(
    event,
    /** @type {EventListener} */
    listener
  );
  for (const [name, value] of Object.entries(attributes)) {
    if (/^on|^srcdoc$|^style$/i.test(name)) throw new Error(`no attribute ${name}: give a listener or a class`);
    if (typeof value === "boolean") element.toggleAttribute(name, value);
    else if (value !== void 0 && value !== null) element.setAttribute(name, String(value));
  }
  element.append(...children);
  return element;
}
function createRoot(el, label) {
  const root = make("section", { class: "harness-surface", "aria-label": label, "data-lm-suppress-shortcuts": "\
true" });
  keepPlainKeys(root);
  el.append(root);
  return root;
}
function keepPlainKeys(element) {
  element.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.altKey && !event.metaKey) event.stopPropagation();
  });
}

// harness/widgets/js/untrusted_text.js
var SHAPELESS = /[\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu;
function reveal(value) {
  if (typeof value === "string") return value.replace(SHAPELESS, (sign) => "	\n\r".includes(sign) ? sign : formatCode(
  sign));
  if (Array.isArray(value)) return value.map(reveal);
  if (value === null || typeof value !== "object" || ArrayBuffer.isView(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, reveal(item)]));
}
function formatCode(sign) {
  return `\\u${(sign.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`;
}

// harness/widgets/js/kernel.js
var SILENCE_MS = 1e4;
function trySend(model, message) {
  try {
    model.send(message);
    return true;
  } catch (error) {
    console.debug(error);
    return false;
  }
}
function connect(model, listeners) {
  const whole = {};
  let have = 0;
  let answered = false;
  let last = (
    /** @type {number | null} */
    null
  );
  let items = (
    /** @type {any[]} */
    []
  );
  let [changed, skipped, frame] = [{}, 0, 0];
  const ask = () => trySend(model, { kind: "sync", have });
  const deliver = () => {
    frame = 0;
    const [newItems, newState, lost] = [items, changed, skipped];
    [items, changed, skipped] = [[], {}, 0];
    if (lost) listeners.skipped?.(lost);
    if (newItems.length) listeners.items?.(newItems);
    if (Object.keys(newState).length) listeners.state?.(newState, Object.assign(whole, newState));
  };
  const receive = (message) => {
    if (message?.kind !== "batch") return;
    const lost = last === null ? !message.whole : message.number !== last + 1;
    [last, answered] = [message.number, true];
    if (message.items.length && message.from > have + 1 && message.from === message.oldest) {
      skipped += message.from - have - 1;
      have = message.from - 1;
    }
    const gap = message.items.length > 0 && message.from > have + 1;
    if (!gap) {
      const fresh = message.items.slice(have + 1 - message.from);
      have += fresh.length;
      for (const item of fresh) items.push(reveal(item));
    }
    if (gap || lost) ask();
    Object.assign(changed, reveal(message.state));
    frame ||= requestAnimationFrame(deliver);
  };
  model.on("msg:custom", receive);
  const silence = setTimeout(() => answered || listeners.silent?.(), SILENCE_MS);
  ask();
  return () => {
    model.off("msg:custom", receive);
    clearTimeout(silence);
    cancelAnimationFrame(frame);
  };
}

// tests/widgets/js/list.js
var list_default = {
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
      }
    });
  }
};
export {
  list_default as default,
  make
};
