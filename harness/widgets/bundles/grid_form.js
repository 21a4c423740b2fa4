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
function makeFactRow(name, text) {
  return make("tr", {}, make("th", { scope: "row", text: name }), make("td", { text }));
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

// harness/widgets/js/grid_form.js
var FIELDS = "input, select, textarea, button, summary";
function prepareControls(form, wrong) {
  if (!form.dataset.tended) {
    form.dataset.tended = "yes";
    keepPlainKeys(form);
  }
  for (const field of form.querySelectorAll(FIELDS)) field.setAttribute("data-lm-suppress-shortcuts", "true");
  for (const field of form.querySelectorAll("[class*=harness-control-] :is(input, select)")) {
    const own = field.closest("[class*=harness-control-]");
    const isWrong = wrong.some((name) => own?.classList.contains(`harness-control-${name}`));
    field.setAttribute("aria-invalid", String(isWrong));
  }
}
function makeListing(label) {
  return make("pre", { tabindex: "0", role: "region", "aria-label": label });
}
function createView({ model, el }) {
  const root = createRoot(el, "Summary of the grid");
  root.classList.add("f-root");
  const facts = make("tbody");
  const refusal = make("p", { class: "h-error", role: "alert", hidden: true });
  const wrong = make("p", { class: "h-error", role: "status", hidden: true });
  const [code, plan, command] = ["Python code", "plan.toml", "command"].map(makeListing);
  const same = make(
    "details",
    { class: "f-same" },
    make("summary", { text: "the same grid as Python code and as plan.toml" }),
    make("p", { text: "Python:" }),
    code,
    make("p", { text: "plan.toml, in a folder with the name of the grid:" }),
    plan,
    make("p", { text: "The command that runs it:" }),
    command
  );
  root.append(make("table", { class: "f-facts" }, facts), refusal, wrong, same);
  let known = (
    /** @type {State} */
    {}
  );
  const prepare = () => {
    const form = (
      /** @type {HTMLElement | null} */
      el.closest(".harness-form")
    );
    if (form) prepareControls(form, known.wrong ?? []);
  };
  const placed = new ResizeObserver(prepare);
  placed.observe(root);
  const end = connect(model, {
    state(_changed, whole) {
      known = whole;
      facts.replaceChildren(...(known.facts ?? []).map(([name, text]) => makeFactRow(name, text)));
      refusal.hidden = !known.refusal;
      refusal.textContent = known.refusal ?? "";
      const names = (known.wrong ?? []).map((name) => name.replaceAll("_", " "));
      wrong.hidden = !names.length;
      wrong.textContent = names.length ? `Correct ${names.join(", ")} to start the grid.` : "";
      [code.textContent, plan.textContent] = [known.code ?? "", known.plan ?? ""];
      command.textContent = known.command ?? "";
      same.hidden = !known.code;
      prepare();
      requestAnimationFrame(prepare);
    },
    silent() {
      refusal.hidden = false;
      refusal.textContent = "The kernel does not answer. Run this cell to use the form.";
    }
  });
  return () => {
    end();
    placed.disconnect();
  };
}
var grid_form_default = { render: createView };
export {
  grid_form_default as default
};
