// Functions shared by all widgets; this file is placed before the script of each widget, in one module.
// Texts from models and tools may be hostile: elements are created here, and a text only ever becomes the text of an element.

const FOCUSED = new Set(["button", "input", "select", "summary", "textarea"]);

// Characters without a shape: controls, and marks that change the direction of a text or have no width.
const SHAPELESS = /[\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** Return a value of the kernel in whose texts these characters, except tabs and line ends, are written as their codes. */
function reveal(value) {
  if (typeof value === "string") {
    return value.replace(SHAPELESS, (sign) => ("\t\n\r".includes(sign) ? sign : `\\u${sign.codePointAt(0).toString(16).padStart(4, "0")}`));
  }
  if (Array.isArray(value)) return value.map(reveal);
  if (value === null || typeof value !== "object" || ArrayBuffer.isView(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, reveal(item)]));
}

/** Create an element. `given`: attributes by name, with `text` for its text and `on` for its listeners by event. */
function make(tag, given = {}, ...children) {
  const made = document.createElement(tag);
  // Shortcuts of the notebook check the focused element first, so switching them off on the root element is not enough.
  if (FOCUSED.has(tag) || "tabindex" in given) made.setAttribute("data-lm-suppress-shortcuts", "true");
  for (const [name, value] of Object.entries(given)) {
    if (name === "text") made.textContent = value;
    else if (name === "on") for (const [event, listener] of Object.entries(value)) made.addEventListener(event, listener);
    else if (/^on|^srcdoc$|^style$/i.test(name)) throw new Error(`no attribute ${name}: give a listener or a class`);
    else if (typeof value === "boolean") made.toggleAttribute(name, value);
    else if (value !== undefined && value !== null) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** Create an SVG element, like `make`. */
function draw(tag, given = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(given)) {
    if (name === "text") made.textContent = value;
    else if (/^on|href$|^style$/i.test(name)) throw new Error(`no attribute ${name} in a drawing`);
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

const SHAPES = {
  circle: "M-1,0A1,1 0 1,1 1,0A1,1 0 1,1 -1,0Z",
  square: "M-0.9,-0.9H0.9V0.9H-0.9Z",
  triangle: "M0,-1.05L1.05,0.85H-1.05Z",
  diamond: "M0,-1.25L1.25,0L0,1.25L-1.25,0Z",
  wedge: "M0,1.05L1.05,-0.85H-1.05Z",
  plus: "M-0.4,-1.1H0.4V-0.4H1.1V0.4H0.4V1.1H-0.4V0.4H-1.1V-0.4H-0.4Z",
  cross: "M-1.1,-0.6L-0.6,-1.1L0,-0.5L0.6,-1.1L1.1,-0.6L0.5,0L1.1,0.6L0.6,1.1L0,0.5L-0.6,1.1L-1.1,0.6L-0.5,0Z",
  star: "M0,-1.4L0.33,-0.45L1.33,-0.43L0.53,0.17L0.82,1.13L0,0.56L-0.82,1.13L-0.53,0.17L-1.33,-0.43L-0.33,-0.45Z",
};

/** Return the CSS class that gives an element the colour of an arm, from the text of its mark such as `blue circle`. */
function classifyMark(mark) {
  return `h-arm-${mark.split(" ")[0]}`;
}

/** Draw the mark of an arm at a place of a drawing: the colour and shape that the arm has in every chart. */
function drawMark(mark, x, y, radius) {
  const [, shape, half] = mark.split(" ");
  const group = draw("g", { class: `h-arm-mark ${classifyMark(mark)}`, transform: `translate(${x} ${y}) scale(${radius})` });
  group.append(draw("path", { class: half ? "h-arm-outline" : "h-arm-fill", d: SHAPES[shape] }));
  if (half) group.append(draw("path", { class: `h-arm-fill h-arm-${half}`, d: SHAPES[shape] }));
  return group;
}

/** Create the mark of an arm for a line of text. */
function makeMark(mark) {
  const svg = draw("svg", { class: "h-arm-box", viewBox: "-9 -9 18 18", "aria-hidden": "true" });
  svg.append(drawMark(mark, 0, 0, 6));
  return svg;
}

/** Run `act`, which replaces elements of a box, and restore the focus to the element with the same `data-key`. */
function keepFocus(box, act) {
  const held = box.contains(document.activeElement) ? document.activeElement.closest("[data-key]")?.dataset.key : undefined;
  act();
  const fresh = held === undefined ? undefined : [...box.querySelectorAll("[data-key]")].find((element) => element.dataset.key === held);
  if (fresh !== document.activeElement) fresh?.focus({ preventScroll: true });
}

/** Return a count with its noun: 1 trial, 2 trials. */
function formatCount(count, noun) {
  return `${formatNumber(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** Format a number with thousands separators, independent of the locale. */
const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
function formatNumber(value) {
  return typeof value === "number" && Number.isFinite(value) ? grouped.format(value) : "–";
}

/**
 * Create the root element of a widget in its cell. Plain keys do not reach the notebook, where an arrow key would move the cell
 * selection and an x would cut the cell. Keys with Control, Alt or Meta still do.
 */
function createRoot(el, label) {
  const root = make("section", { class: "harness-surface", "aria-label": label, "data-lm-suppress-shortcuts": "true" });
  root.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.altKey && !event.metaKey) event.stopPropagation();
  });
  el.append(root);
  return root;
}

/** Send a message that no user asked for. It fails if the kernel was restarted, about which the page informs the user after a while. */
function trySend(model, message) {
  try {
    model.send(message);
  } catch (error) {
    console.debug(error);
  }
}

const SILENCE_MS = 10000;

/**
 * Listen to the kernel: every item once and in order, and the newest state, both at most once per frame.
 * Optional `listeners`: `items(items)`, `state(changed, whole)`, `skipped(count)` for items that the kernel no
 * longer has, and `silent()` if no kernel answers. Returns a function that stops listening.
 */
function connect(model, listeners) {
  const whole = {};
  let [have, last, answered] = [0, null, false];
  let [items, changed, skipped, frame] = [[], {}, 0, 0];

  const ask = () => trySend(model, { kind: "sync", have });
  const deliver = () => {
    frame = 0;
    const now = [items, changed, skipped];
    [items, changed, skipped] = [[], {}, 0];
    if (now[2]) listeners.skipped?.(now[2]);
    if (now[0].length) listeners.items?.(now[0]);
    if (Object.keys(now[1]).length) listeners.state?.(now[1], Object.assign(whole, now[1]));
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

/**
 * Show the widget that is the value of the model's trait `name` in a box, and another one whenever the trait changes.
 * Returns a function that removes the view.
 */
function nest(model, name, box) {
  let shown = null;
  // A view gets its classes and its layout when it hears that it is in the page, which only its Lumino parent would tell it.
  const notify = (view, type) => view.luminoWidget?.processMessage({ type, isConflatable: false, conflate: () => false });
  const remove = () => {
    if (!shown) return;
    for (const type of ["before-detach", "after-detach"]) notify(shown, type);
    shown.remove();
    shown = null;
  };
  const show = async () => {
    const reference = model.get(name);
    remove();
    if (!reference || !model.widget_manager) return;
    const made = await model.widget_manager.create_view(await model.widget_manager.get_model(reference.replace("IPY_MODEL_", "")));
    if (model.get(name) !== reference) return made.remove();
    shown = made;
    box.replaceChildren(made.el);
    notify(made, "after-attach");
    made.el.scrollIntoView({ block: "nearest" });
  };
  model.on(`change:${name}`, show);
  show();
  return () => {
    model.off(`change:${name}`, show);
    remove();
  };
}
