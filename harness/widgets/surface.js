// What all widgets share; it stands before the script of each of them, in one module.
// Texts of models and tools are hostile: elements are made here, and a text only ever becomes the text of one.

const FOCUSED = new Set(["button", "input", "select", "summary", "textarea"]);

/** An element. `given`: attributes by name; `text` is its text, `on` its listeners by event. Children are elements or texts. */
function make(tag, given = {}, ...children) {
  const made = document.createElement(tag);
  // A shortcut of the notebook looks at the focused element first, so it is not enough that the stage turns them off.
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

/** A part of a drawing, like `make`. */
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

/** So many of something: 1 trial, 2 trials. */
function counted(count, noun) {
  return `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** A number with its thousands apart, the same everywhere. */
const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
function number(value) {
  return typeof value === "number" && Number.isFinite(value) ? grouped.format(value) : "–";
}

/**
 * The root of a widget in its cell. Plain keys stay inside of it: the notebook would take an arrow from a slider, and an x would
 * cut the cell. Keys with Control, Alt or Meta still reach it.
 */
function stage(el, label) {
  const root = make("section", { class: "harness-surface", "aria-label": label, "data-lm-suppress-shortcuts": "true" });
  root.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.altKey && !event.metaKey) event.stopPropagation();
  });
  el.append(root);
  return root;
}

const SILENCE_MS = 10000;

/**
 * Listen to the kernel: items in order and each once, states as they come, both at most once a frame.
 * `hears.items(items)`, `hears.state(changed, whole)`, `hears.skipped(count)` of items that the kernel no longer has,
 * `hears.silent()` when no kernel answers; all may be missing. Returns what ends it.
 */
function connect(model, hears) {
  const whole = {};
  let [have, last, answered] = [0, null, false];
  let [items, changed, skipped, frame] = [[], {}, 0, 0];

  const ask = () => model.send({ kind: "sync", have });
  const tell = () => {
    frame = 0;
    const now = [items, changed, skipped];
    [items, changed, skipped] = [[], {}, 0];
    if (now[2]) hears.skipped?.(now[2]);
    if (now[0].length) hears.items?.(now[0]);
    if (Object.keys(now[1]).length) hears.state?.(now[1], Object.assign(whole, now[1]));
  };
  const hear = (message) => {
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
      for (const item of fresh) items.push(item);
    }
    if (gap || lost) ask();
    Object.assign(changed, message.state);
    frame ||= requestAnimationFrame(tell);
  };
  model.on("msg:custom", hear);
  const silence = setTimeout(() => answered || hears.silent?.(), SILENCE_MS);
  ask();
  return () => {
    model.off("msg:custom", hear);
    clearTimeout(silence);
    cancelAnimationFrame(frame);
  };
}
