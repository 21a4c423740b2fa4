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
function draw(tag, given = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(given)) {
    if (name === "text") element.textContent = String(value);
    else if (/^on|href$|^style$/i.test(name)) throw new Error(`no attribute ${name} in a drawing`);
    else element.setAttribute(name, String(value));
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
function enable(button, yes) {
  button.setAttribute("aria-disabled", String(!yes));
}
function isEnabled(button) {
  return button.getAttribute("aria-disabled") !== "true";
}

// harness/widgets/js/numbers.js
var grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
function formatNumber(value) {
  return typeof value === "number" && Number.isFinite(value) ? grouped.format(value) : "–";
}
function formatCount(count, noun) {
  return `${formatNumber(count)} ${noun}${count === 1 ? "" : "s"}`;
}
function formatTokens(tokens = 0) {
  if (tokens < 1e4) return formatNumber(tokens);
  if (tokens < 999500) return `${(tokens / 1e3).toFixed(tokens < 99950 ? 1 : 0)}K`;
  return `${(tokens / 1e6).toFixed(tokens < 9995e4 ? 1 : 0)}M`;
}

// harness/widgets/js/autopsy.js
var HEADS = ["before", "what the policy did", "view after", "first consequence"];
var WORD_HEADS = [...HEADS.slice(0, 3), "later"];
var SURVIVAL_HEADS = ["kind", "in evicted messages", "if nothing is kept", "extractive stand-in", "in view aft\
er"];
var SURVIVAL_NOTE = "Words of the evicted messages in the view after the compaction, beside stand-ins for its \
summary: one that keeps nothing, and the beginnings of the evicted messages cut to the summary's length. A sum\
mary that keeps everything keeps them all.";
var ROWS_SHOWN = 12;
var KEPT_SHOWN = 3;
function showAutopsy(box, autopsy, asked, acts) {
  const { number, count, title, about, says, notice, checks } = autopsy;
  const { open, goTo } = acts;
  const button = (text, name, act) => make("button", { type: "button", text, "aria-label": name, "data-key": name,
  on: { click: act } });
  const bar = make("div", { class: "u-bar" }, make("h4", { class: "u-title", tabindex: "-1", text: title }));
  const buttons = make("span", { class: "u-buttons" });
  if (goTo) buttons.append(button("transcript here", "transcript at this compaction", () => goTo(autopsy.place)));
  if (open && number > 1) buttons.append(button("◀ previous", "autopsy of the previous compaction", () => open(
  number - 1)));
  if (open && number < count) buttons.append(button("next ▶", "autopsy of the next compaction", () => open(number +
  1)));
  if (acts.close) buttons.append(button("close", "close the autopsy", acts.close));
  bar.append(buttons);
  const lines = [make("p", { class: "h-faint u-about", text: about })];
  if (notice) lines.push(make("p", { class: "u-notice", role: "note", text: notice }));
  if (says) lines.push(make("p", { class: "u-says", text: says }));
  if (asked) lines.push(make("p", { class: "u-asked", text: asked.text }));
  const summary = autopsy.summary ? [
    make(
      "details",
      { class: "u-summary" },
      make("summary", { text: `the whole summary${autopsy.summarizer && `, by ${autopsy.summarizer}`}` }),
      make("pre", { tabindex: "0", text: autopsy.summary })
    )
  ] : [];
  const failed = checks.length ? [
    make(
      "details",
      { class: "u-checks" },
      make("summary", { text: `failed checks that need a fact lost here: ${formatNumber(checks.length)}` }),
      make("ul", {}, ...checks.map((text) => make("li", { text })))
    )
  ] : [];
  box.replaceChildren(
    bar,
    ...lines,
    ...makeTable(autopsy, asked?.fact, acts),
    ...makeSurvival(autopsy.survival),
    ...failed,
    ...summary
  );
  box.hidden = false;
}
function makeTable({ rows: ordered, subject }, fact, { goTo }) {
  if (!ordered.length) return [];
  const rows = [...ordered.filter((row) => row.name === fact), ...ordered.filter((row) => row.name !== fact)];
  const head = make(
    "tr",
    {},
    ...[subject, ...subject === "word" ? WORD_HEADS : HEADS].map((text) => make("th", { scope: "col", text }))
  );
  const lost = rows.filter((row) => !row.kept).length;
  const count = subject === "fact" ? Math.min(ROWS_SHOWN, lost + KEPT_SHOWN) : ROWS_SHOWN;
  const body = make("tbody", {}, ...rows.slice(0, count).map((row) => makeRow(row, goTo)));
  const label = `${subject}s before and after the compaction`;
  const table = make("table", { class: "u-table" }, make("thead", {}, head), body);
  const scroll = make("div", { class: "u-scroll", tabindex: "0", role: "region", "aria-label": label }, table);
  const rest = rows.slice(count);
  if (!rest.length) return [scroll];
  const kept = rest.filter((row) => row.kept).length;
  const gone = subject === "word" ? "not in view" : "lost";
  const more = make("button", {
    type: "button",
    text: `show ${formatNumber(rest.length)} more: ${formatNumber(rest.length - kept)} ${gone}, ${formatNumber(
    kept)} in view`,
    on: {
      click: () => {
        body.append(...rest.map((row) => makeRow(row, goTo)));
        more.remove();
        scroll.focus({ preventScroll: true });
      }
    }
  });
  return [scroll, more];
}
function makeSurvival(survival) {
  if (!survival.length) return [];
  const head = make("tr", {}, ...SURVIVAL_HEADS.map((text) => make("th", { scope: "col", text })));
  const rows = survival.map(
    ([kind, ...numbers]) => make("tr", {}, make("th", { scope: "row", text: kind }), ...numbers.map((one) => make(
    "td", { text: formatNumber(one) })))
  );
  const table = make("table", { class: "u-survival" }, make("thead", {}, head), make("tbody", {}, ...rows));
  const label = "survival of distinctive words by kind";
  const scroll = make("div", { class: "u-scroll", tabindex: "0", role: "region", "aria-label": label }, table);
  const note = make("p", { class: "h-faint u-about", text: SURVIVAL_NOTE });
  return [make("details", { class: "u-summary", open: "" }, make("summary", { text: label }), note, scroll)];
}
function makeRow({ name, kind, outcome, kept, before, action, why, after, lines, place }, goTo) {
  const [first, ...rest] = lines;
  const said = ["wrong", "stale"].includes(outcome) && !kept ? make("b", { text: first }) : first;
  const link = (step) => make(
    "button",
    { type: "button", class: "u-link", "aria-label": `transcript: ${name} ${first}`, on: { click: () => goTo?.(
    step) } },
    said
  );
  const consequence = [
    goTo && place !== null ? link(place) : said,
    ...rest.map((text) => make("span", { class: "u-line", text }))
  ];
  const state = kept ? "✓ in view" : "— not in view";
  return make(
    "tr",
    { class: `u-row u-${outcome.replaceAll(" ", "-")} ${kept ? "u-kept" : "u-lost"}` },
    make("th", { scope: "row" }, name, make("small", { text: kind })),
    makeCell("before", ...makeQuote(before)),
    makeCell("what the policy did", make("span", { class: `u-chip u-is-${action}`, text: action }), why && ` ${why}`),
    makeCell("view after", make("span", { class: "u-state", text: state }), ...after ? makeQuote(after) : []),
    makeCell("first consequence", ...consequence)
  );
}
function makeCell(name, ...children) {
  return make("td", {}, make("span", { class: "u-column", "aria-hidden": "true", text: name }), make("div", {},
  ...children));
}
function makeQuote([label, before, value, after]) {
  const place = label ? [make("span", { class: "u-place h-faint", text: label })] : [];
  return [...place, make("q", {}, before, ...value ? [make("mark", { text: value })] : [], after)];
}

// harness/widgets/js/copy_button.js
var SHOWN_MS = 1500;
var END_CHARACTERS = 6;
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = make("textarea", { "aria-hidden": "true", tabindex: "-1" });
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
}
function makeCopyButton(text, label) {
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
function makeSessionId(id, noun = "session") {
  const isShort = id.length <= 2 * END_CHARACTERS;
  const short = isShort ? id : `…${id.slice(-END_CHARACTERS)}`;
  return make(
    "span",
    { class: "h-id", title: id },
    `${noun} ${short} `,
    ...isShort ? [] : [makeCopyButton(id, `the ${noun} id`)]
  );
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

// harness/widgets/js/nested_view.js
var ARRIVAL_MS = 2e3;
function scrollTo(element) {
  const observer = new ResizeObserver(() => {
    const isHigh = element.offsetHeight > window.innerHeight / 2;
    element.scrollIntoView({ block: isHigh ? "start" : "nearest" });
  });
  observer.observe(element);
  setTimeout(() => observer.disconnect(), ARRIVAL_MS);
}
function nest(model, name, box) {
  let shown = (
    /** @type {any} */
    null
  );
  const notify = (view, type) => view.luminoWidget?.processMessage({ type, isConflatable: false, conflate: () => false });
  const remove = () => {
    if (!shown) return;
    for (const type of ["before-detach", "after-detach"]) notify(shown, type);
    shown.remove();
    shown = null;
  };
  const show = async (isNew) => {
    const reference = model.get(name);
    const manager = model.widget_manager;
    remove();
    if (!reference || !manager) return;
    const view = await manager.create_view(await manager.get_model(reference.replace("IPY_MODEL_", "")));
    if (model.get(name) !== reference) {
      view.remove();
      return;
    }
    shown = view;
    box.replaceChildren(view.el);
    notify(view, "after-attach");
    if (isNew) scrollTo(view.el);
  };
  const showNew = () => show(true);
  model.on(`change:${name}`, showNew);
  show(false);
  return () => {
    model.off(`change:${name}`, showNew);
    remove();
  };
}

// harness/widgets/js/row_list.js
var ROW_PIXELS = 24;
var ROWS_BEYOND = 6;
var listCount = 0;
function createRowList(label, fill, choose, need) {
  listCount += 1;
  const name = `h-list-${listCount}-${Math.random().toString(36).slice(2)}`;
  const seen = make("div", { class: "h-seen" });
  const whole = make("div", { class: "h-rows-whole" }, seen);
  const element = make("div", { class: "h-rows", role: "listbox", tabindex: "0", "aria-label": label }, whole);
  const known = /* @__PURE__ */ new Map();
  let [count, chosen, frame] = [0, -1, 0];
  let [version, asked] = [
    /** @type {number | string | null} */
    null,
    ""
  ];
  const visible = () => {
    const first = Math.max(0, Math.floor(element.scrollTop / ROW_PIXELS) - ROWS_BEYOND);
    const end = Math.ceil((element.scrollTop + (element.clientHeight || 300)) / ROW_PIXELS) + ROWS_BEYOND;
    return [first, Math.max(first + 1, end)];
  };
  const makeRow4 = (index) => {
    const data = known.get(index);
    const row = data === void 0 ? { children: ["…"] } : fill(data);
    return make(
      "div",
      {
        class: `h-row ${row.class ?? ""}`,
        id: `${name}-${index}`,
        role: "option",
        "aria-selected": String(index === chosen),
        "aria-setsize": count,
        "aria-posinset": index + 1,
        on: { click: () => select(index, false) }
      },
      ...row.children
    );
  };
  const paint = () => {
    frame = 0;
    const [first, end] = visible();
    const last = Math.min(count, end);
    const indices = Array.from({ length: Math.max(0, last - first) }, (_, place) => first + place);
    seen.replaceChildren(...indices.map(makeRow4));
    seen.style.transform = `translateY(${first * ROW_PIXELS}px)`;
    if (chosen >= first && chosen < last) element.setAttribute("aria-activedescendant", `${name}-${chosen}`);
    else element.removeAttribute("aria-activedescendant");
    if (!indices.every((index) => known.has(index)) && asked !== `${version}:${first}`) {
      asked = `${version}:${first}`;
      need([first, last]);
    }
  };
  const schedulePaint = () => {
    if (!frame) frame = requestAnimationFrame(paint);
  };
  const scrollTo2 = (index) => {
    const [top, height] = [index * ROW_PIXELS, element.clientHeight || 300];
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + ROW_PIXELS > element.scrollTop + height) element.scrollTop = top + ROW_PIXELS - height;
  };
  const select = (index, scroll = true) => {
    if (index < 0 || index >= count) return;
    chosen = index;
    if (scroll) scrollTo2(index);
    schedulePaint();
    choose(index);
  };
  element.addEventListener("scroll", schedulePaint);
  element.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(element.clientHeight / ROW_PIXELS) - 1);
    const steps = /* @__PURE__ */ new Map([
      ["ArrowDown", 1],
      ["ArrowUp", -1],
      ["PageDown", page],
      ["PageUp", -page],
      ["Home", -count],
      ["End", count]
    ]);
    const step = steps.get(event.key);
    if (step === void 0) return;
    event.preventDefault();
    event.stopPropagation();
    select(Math.min(count - 1, Math.max(0, chosen + step)));
  });
  const add = (block) => {
    for (const [place, row] of block.rows.entries()) known.set(block.first + place, row);
    schedulePaint();
  };
  const show = (block) => {
    [version, asked, count] = [block.version, "", block.count];
    known.clear();
    chosen = Math.min(chosen, count - 1);
    whole.style.height = `${count * ROW_PIXELS}px`;
    add(block);
  };
  const receive = (block) => {
    if (block.version !== version) return;
    asked = "";
    add(block);
  };
  return { element, show, receive, select, scrollTo: scrollTo2, visible, chosen: () => chosen };
}

// harness/widgets/js/fact_strip.js
var SHOWN = 8;
var SIGNS = { right: "●", wrong: "✕", stale: "✕", needed: "●", "looked up": "○" };
var WORDS = {
  right: "used right",
  wrong: "used wrong",
  stale: "used an outdated value",
  needed: "needed",
  "looked up": "looked up"
};
function createFactStrip(choose, point) {
  const rows = make("div", { class: "s-rows" });
  const pointer = make("div", { class: "s-pointer", hidden: true });
  const [wrongWords, rightWords] = [make("span"), make("span")];
  const key = make(
    "p",
    { class: "h-faint s-key" },
    make("span", { class: "s-swatch s-seen" }),
    "in view ",
    make("span", { class: "s-swatch s-again" }),
    "in view again after a loss ",
    make("span", { class: "s-sign s-wrong", text: SIGNS.wrong }),
    wrongWords,
    make("span", { class: "s-sign s-right", text: SIGNS.right }),
    rightWords,
    make("span", { class: "s-sign s-looked", text: SIGNS["looked up"] }),
    " looked up again"
  );
  const more = make("button", {
    type: "button",
    class: "s-more",
    "data-key": "all facts",
    on: {
      click: () => {
        showsAll = !showsAll;
        draw2();
      }
    }
  });
  const element = make("div", { class: "s-strip", role: "group", "aria-label": "facts of the task" }, rows, pointer);
  const foot = make("div", { class: "s-foot" }, more, key);
  let showsAll = false;
  let known = (
    /** @type {{ strips: Strip[], steps: number[], rounds: number[], chosen: number }} */
    {
      strips: [],
      steps: [],
      rounds: [],
      chosen: -1
    }
  );
  const draw2 = () => {
    const { strips, steps, rounds, chosen } = known;
    element.hidden = foot.hidden = strips.length === 0;
    const shown = showsAll ? strips : strips.slice(0, SHOWN);
    rows.replaceChildren(...shown.map((strip) => makeRow2(strip, steps, rounds, chosen, choose, point)));
    const isReplay = strips.some(({ marks }) => marks.some(([, kind]) => kind === "needed"));
    wrongWords.textContent = isReplay ? "" : " used wrong or outdated ";
    rightWords.textContent = isReplay ? " used in the recorded session " : " used right ";
    key.classList.toggle("s-replay", isReplay);
    more.hidden = strips.length <= SHOWN;
    more.textContent = showsAll ? "show fewer facts" : `show all ${formatNumber(strips.length)} facts`;
  };
  return {
    element,
    foot,
    /**
     * Mark the step below the pointer; null marks none.
     *
     * @param {number | null} index
     */
    mark: (index) => {
      pointer.hidden = index === null;
      pointer.style.setProperty("--s-at", String(((index ?? 0) + 0.5) / Math.max(1, known.steps.length)));
    },
    /**
     * @param {Strip[]} strips
     * @param {number[]} steps Numbers of the steps.
     * @param {number[]} rounds Index of the step before which each applied compaction took place.
     * @param {number} chosen Index of the step of the compaction that is open; -1 if none is.
     */
    show: (strips, steps, rounds, chosen) => {
      known = { strips, steps, rounds, chosen };
      draw2();
    }
  };
}
function makeRow2(strip, steps, rounds, chosen, choose, point) {
  const count = Math.max(1, steps.length);
  const at = (index) => `${100 * index / count}%`;
  const bars = strip.spans.map(([start, end, visibility]) => {
    const bar = make("span", { class: visibility === "in view" ? "s-span s-seen" : "s-span s-again" });
    [bar.style.left, bar.style.width] = [at(start), at(end - start)];
    return bar;
  });
  const cuts = [...new Set(rounds)].map((index) => {
    const cut = make("span", { class: index === chosen ? "s-cut s-chosen" : "s-cut" });
    cut.style.left = at(index);
    return cut;
  });
  const marks = strip.marks.map(([index, kind, value]) => {
    const title = `${strip.name}: ${WORDS[kind]} at step ${formatNumber(steps[index])}, value ${value}`;
    const mark = make("span", { class: `s-mark s-${kind === "looked up" ? "looked" : kind}`, title, text: SIGNS[kind] });
    mark.style.left = at(index + 0.5);
    mark.addEventListener("click", (event) => {
      event.stopPropagation();
      choose(index);
    });
    return mark;
  });
  const label = describeRow(strip, steps);
  const track = make("div", { class: "s-track", role: "img", "aria-label": label }, ...bars, ...cuts, ...marks);
  const find = (event) => {
    const box = track.getBoundingClientRect();
    return Math.min(count - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * count)));
  };
  track.addEventListener("pointermove", (event) => {
    const index = find(event);
    point(index, describePlace(strip, index));
  });
  track.addEventListener("pointerleave", () => point(null, ""));
  track.addEventListener("click", (event) => choose(find(event)));
  return make(
    "div",
    { class: "s-row" },
    make("span", { class: "s-name", title: `${strip.name} (${strip.kind})`, text: strip.name, "aria-hidden": "\
true" }),
    track
  );
}
function describePlace({ name, spans, marks }, index) {
  const span = spans.find(([start, end]) => start <= index && index < end);
  const acts = marks.flatMap(([place, kind, value]) => place === index ? [`${WORDS[kind]}, value ${value}`] : []);
  return `${name}: ${[span ? span[2] : "not in view", ...acts].join("; ")}`;
}
function describeRow({ name, spans, marks }, steps) {
  const seen = spans.map(([start, end]) => `${formatNumber(steps[start])} to ${formatNumber(steps[end - 1])}`);
  const parts = [seen.length ? `in view at steps ${seen.join(", ")}` : "never in view"];
  for (
    const kind of
    /** @type {Mark[1][]} */
    ["wrong", "stale", "needed", "looked up", "right"]
  ) {
    const places = marks.flatMap(([index, one]) => one === kind ? [formatNumber(steps[index])] : []);
    if (places.length) parts.push(`${WORDS[kind]} at ${places.join(", ")}`);
  }
  return `${name}: ${parts.join("; ")}`;
}

// harness/widgets/js/timeline.js
var TIMELINE = { width: 1e3, height: 150, points: 1e3, ticks: 80, short: 12, line: 16 };
function listMarks(steps, attempts) {
  const place = new Map(steps.map((step, index) => [step, index]));
  return attempts.map(([step, before, after, status, reason, round]) => ({
    round,
    index: place.get(step) ?? steps.length - 1,
    kind: status === "applied" ? "applied" : "fruitless",
    text: `before step ${formatNumber(step)}: ${formatNumber(before)} → ${formatNumber(after)} tokens, ${status}\
: ${reason}`
  }));
}
function findNext(indices, here, way) {
  return way > 0 ? indices.find((index) => index > here) : indices.findLast((index) => index < here);
}
function buildPoints(values, steps, top) {
  const group = Math.max(1, Math.ceil(values.length / TIMELINE.points));
  const points = [];
  for (let start = 0; start < values.length; start += group) {
    let at = start;
    for (let index = start; index < Math.min(start + group, values.length); index += 1) {
      if (values[index] > values[at]) at = index;
    }
    const x = (at + 0.5) / steps * TIMELINE.width;
    points.push(`${x.toFixed(1)},${(TIMELINE.height * (1 - values[at] / top)).toFixed(1)}`);
  }
  return points.join(" ");
}
function groupRanges(indices) {
  const ranges = [];
  for (const index of indices) {
    const last = ranges.at(-1);
    if (last && last[1] === index) last[1] += 1;
    else ranges.push([index, index + 1]);
  }
  return ranges;
}
function groupLimits(limits, level) {
  const groups = [];
  for (const limit of limits.toSorted((a, b) => b.tokens - a.tokens)) {
    const last = groups.at(-1);
    if (last && level(limit) - level(last[0]) < TIMELINE.line) last.push(limit);
    else groups.push([limit]);
  }
  return groups;
}
function listPlaces(steps) {
  const size = Math.max(1, Math.ceil(steps / 6));
  return Array.from({ length: Math.ceil(steps / size) }, (_, place) => place * size);
}
function describeLines(whole, isCut, hasPinned, marks) {
  const parts = ["Solid line: tokens in view"];
  if (whole.length) {
    const end = `${formatNumber(whole.at(-1))} tokens at the end`;
    parts.push(`dotted: the whole conversation, ${end}${isCut ? ", above the chart" : ""}`);
  }
  if (hasPinned) parts.push("dashed: pinned settings");
  if (marks) parts.push(marks);
  return `${parts.join("; ")}.`;
}
function listLevels(most) {
  const rough = most / 3;
  const power = 10 ** Math.floor(Math.log10(Math.max(1, rough)));
  const size = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? power;
  return Array.from({ length: Math.floor(most / size) + 1 }, (_, place) => place * size);
}
function createTimeline(choose, openRound) {
  const { width, height } = TIMELINE;
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img" });
  const names = make("div", { class: "h-limits", "aria-hidden": "true" });
  const ticks = make("div", { class: "h-marks" });
  const levels = make("div", { class: "h-levels h-faint", "aria-hidden": "true" });
  const key = make("p", { class: "h-key h-faint" });
  const readout = make("p", { class: "h-readout h-faint" });
  const axis = make("div", { class: "h-axis h-faint", "aria-hidden": "true" });
  const pointer = make("div", { class: "h-pointer", hidden: true });
  const point = (index, text = "") => {
    pointer.hidden = index === null;
    strip.mark(index);
    readout.textContent = index === null ? "" : `${describe(index)}${text && `; ${text}`}`;
    if (index !== null) pointer.style.left = `${100 * (index + 0.5) / steps}%`;
  };
  const strip = createFactStrip(choose, point);
  const element = make(
    "div",
    { class: "h-timeline" },
    make("div", { class: "h-chart" }, levels, make("div", { class: "h-plot" }, svg, names, ticks, pointer)),
    strip.element,
    axis,
    readout,
    strip.foot,
    key
  );
  let steps = 1;
  let describe = (_) => "";
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    point(Math.min(steps - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * steps))));
  });
  svg.addEventListener("pointerleave", () => point(null));
  svg.addEventListener("click", (event) => {
    const box = svg.getBoundingClientRect();
    const index = Math.floor((event.clientX - box.left) / box.width * steps);
    choose(Math.min(steps - 1, Math.max(0, index)));
  });
  const show = ({
    whole = [],
    pinned = [],
    curve,
    oversized = [],
    limits,
    marks,
    steps: numbers,
    strips = [],
    chosen = 0,
    at,
    label
  }) => {
    steps = Math.max(whole.length, curve.length, 1);
    const seen = [...curve, ...pinned, ...limits.map((limit) => limit.tokens)].reduce((most2, one) => Math.max(
    most2, one), 1);
    const most = 1.08 * Math.max(seen, Math.min(1.6 * seen, whole.at(-1) ?? 0));
    const end = whole.findIndex((tokens) => tokens > most);
    const uncut = end < 0 ? whole : whole.slice(0, end + 1);
    const isCrowded = marks.length > TIMELINE.ticks;
    const findMiddle = (index) => (index + 0.5) / steps;
    const level = (limit) => height * (1 - limit.tokens / most);
    const drawLine = (kind, values) => draw("polyline", { class: kind, points: buildPoints(values, steps, most) });
    const cursor = findMiddle(at) * width;
    svg.replaceChildren(
      ...marks.map((mark) => {
        const x = mark.index / steps * width;
        return draw("line", { class: `h-mark h-${mark.kind}`, x1: x, x2: x, y1: 0, y2: isCrowded ? TIMELINE.short :
        height });
      }),
      drawLine(
        "h-whole",
        uncut.map((tokens) => Math.min(tokens, most))
      ),
      drawLine("h-pinned", pinned),
      drawLine("h-curve", curve),
      ...limits.map((limit) => {
        const y = level(limit).toFixed(1);
        return draw("line", { class: `h-${limit.kind}`, x1: 0, x2: width, y1: y, y2: y });
      }),
      ...groupRanges(oversized).map(([first, last]) => {
        const wide = Math.max(last - first, steps / width);
        return draw("rect", { class: "h-oversized", x: first / steps * width, width: wide / steps * width, y: 0,
        height });
      }),
      draw("line", { class: "h-cursor", x1: cursor, x2: cursor, y1: 0, y2: height })
    );
    svg.setAttribute("aria-label", label);
    names.replaceChildren(
      ...groupLimits(limits, level).map((group) => {
        const name = ({ kind, name: name2, tokens }) => make("span", { class: `h-name-${kind}`, text: `${name2}\
 ${formatNumber(tokens)}` });
        const line = make("div", {}, ...group.map(name).reverse());
        line.style.top = `${100 * level(group[0]) / height}%`;
        return line;
      })
    );
    ticks.replaceChildren(
      ...(isCrowded ? [] : marks).map(({ index, kind, text, round }) => {
        const given = { type: "button", title: text, "aria-label": text, tabindex: "-1", text: "▼" };
        const act = () => openRound && round ? openRound(round, index) : choose(index);
        const isOpen = round > 0 && round === chosen ? " h-open" : "";
        const tick = make("button", { ...given, class: `h-tick h-${kind}${isOpen}`, on: { click: act } });
        tick.style.left = `${100 * index / steps}%`;
        return tick;
      })
    );
    levels.replaceChildren(
      ...listLevels(most / 1.04).map((tokens) => {
        const line = make("span", { text: tokens ? formatTokens(tokens) : "0 tokens" });
        line.style.top = `${100 * level({ tokens }) / height}%`;
        return line;
      })
    );
    axis.replaceChildren(
      ...listPlaces(steps).map((index) => {
        const tick = make("span", { text: `${index ? "" : "step "}${formatNumber(numbers[index] ?? index + 1)}` });
        tick.style.left = `${100 * findMiddle(index)}%`;
        return make("span", { class: "h-axis-place" }, tick);
      })
    );
    describe = (index) => {
      const here = marks.flatMap((mark) => mark.index === index ? [mark.text] : []);
      const size = index < curve.length ? `${formatCount(curve[index], "token")} in view` : "not computed yet";
      return [`step ${formatNumber(numbers[index] ?? index + 1)}: ${size}`, ...here].join("; ");
    };
    const rounds = marks.flatMap((mark) => mark.round ? [mark.index] : []);
    strip.show(strips, numbers, rounds, marks.find((mark) => chosen > 0 && mark.round === chosen)?.index ?? -1);
    element.classList.toggle("h-has-facts", strips.length > 0);
    const named = isCrowded ? "short lines at the top: compactions" : "▼ compactions";
    key.textContent = describeLines(whole, end >= 0, pinned.length > 0, marks.length ? named : "");
  };
  return { element, show };
}

// harness/widgets/js/twin_buttons.js
var chosenPolicy = "none";
function makeTwinButtons({ buttons, policies, why, about = "" }, act) {
  const select = make(
    "select",
    { "aria-label": "other policy", on: { change: () => chosenPolicy = select.value } },
    ...policies.map((name) => make("option", { value: name, text: name }))
  );
  select.value = policies.includes(chosenPolicy) ? chosenPolicy : policies[0] ?? "";
  const made = buttons.map((choice) => makeButton(choice, () => act(choice.arm)));
  const other = makeButton({ arm: "", text: "fork here with another policy:", why }, () => act(select.value));
  const reasons = /* @__PURE__ */ new Map();
  for (const { text, why: reason } of buttons) {
    if (reason) reasons.set(reason, [...reasons.get(reason) ?? [], text]);
  }
  const lines = [...reasons].map(
    ([reason, texts]) => make("p", { class: "h-faint", text: `${texts.join(", ")}: not possible, ${reason}` })
  );
  if (about) lines.unshift(make("p", { class: "h-faint", text: about }));
  const bar = make("div", { class: "t-bar" }, ...made, other, select);
  return make("div", { class: "t-twins", role: "group", "aria-label": "continue from this compaction" }, bar, ...lines);
}
function makeButton({ text, why }, act) {
  const button = make("button", {
    type: "button",
    text,
    title: why,
    on: {
      click: () => {
        if (isEnabled(button)) act();
      }
    }
  });
  enable(button, !why);
  return button;
}

// harness/widgets/js/view_requests.js
var PATIENCE_MS = 15e3;
function createRequester(model, rows = () => null) {
  const own = Math.random().toString(36).slice(2);
  let [count, timer] = [0, 0];
  let asked = (
    /** @type {string | null} */
    null
  );
  let wanted = (
    /** @type {object | null} */
    null
  );
  const sendNext = () => {
    if (asked !== null || wanted === null) return;
    count += 1;
    asked = `${own}:${count}`;
    model.send({ kind: "look", request: asked, look: wanted, rows: rows() });
    wanted = null;
    clearTimeout(timer);
    timer = setTimeout(() => {
      asked = null;
      sendNext();
    }, PATIENCE_MS);
  };
  return {
    /** @param {object} look */
    want: (look) => {
      wanted = look;
      sendNext();
    },
    /**
     * Return whether to show an answer: it answers the newest request of this page, or another page's while none is pending.
     *
     * @param {string | null} request
     */
    acceptAnswer: (request) => {
      if (request !== asked) return asked === null && wanted === null;
      asked = null;
      clearTimeout(timer);
      sendNext();
      return asked === null;
    },
    end: () => clearTimeout(timer)
  };
}

// harness/widgets/js/inspector.js
var KEYS_HELP = "keys: ← → previous and next step; page up, page down previous and next compaction; home, end \
first and last step; ↑ ↓ messages in the list";
var Inspector = class {
  place = 1;
  drawn = 0;
  name = make("span", { class: "h-faint" });
  facts = make("tbody");
  error = make("p", { class: "h-error", role: "alert" });
  line = createTimeline(
    (index) => this.goTo(index + 1),
    (round, index) => this.openRound(round, index + 1)
  );
  checks = make("details", { class: "h-more h-checks", hidden: true });
  autopsy = make("section", { class: "u-autopsy", "aria-label": "autopsy of a compaction", hidden: true });
  working = make("p", { class: "h-faint", role: "status" });
  forked = make("div", { class: "h-forked" });
  movesFocus = false;
  wantedCheck = (
    /** @type {string | null} */
    null
  );
  asked = (
    /** @type {Asked | null} */
    null
  );
  /** @type {HTMLInputElement} */
  step = make("input", {
    type: "range",
    min: 1,
    max: 1,
    step: 1,
    value: 1,
    "aria-label": "step",
    name: "step",
    on: { input: () => this.goTo(Number(this.step.value)) }
  });
  at = make("output", { class: "h-at", "aria-live": "polite" });
  stepFacts = make("tbody");
  compactions = make("div", { class: "h-compactions" });
  texts = make("div", { class: "h-texts", tabindex: "0", "aria-label": "text of the selected message", role: "\
region" });
  /**
   * @param {Channel} model
   * @param {HTMLElement} el
   */
  constructor(model, el) {
    this.model = model;
    this.known = /** @type {State} */
    {};
    this.ask = createRequester(model);
    this.list = createRowList(
      "messages of this step",
      makeRow3,
      (index) => model.send({ kind: "read", message: index }),
      (wanted) => model.send({ kind: "rows", rows: wanted })
    );
    this.root = createRoot(el, "Session inspector");
    this.root.classList.add("harness-looking");
    this.build();
    this.disconnect = connect(model, {
      state: (changed, whole) => this.receive(changed, whole),
      silent: () => {
        this.error.textContent = "The kernel does not answer. Run this cell to browse the session.";
      }
    });
  }
  close() {
    this.disconnect();
    this.ask.end();
  }
  build() {
    const button = (text, title, act) => make("button", { type: "button", text, title, "aria-label": title, on: {
    click: act } });
    this.root.append(
      make("header", { class: "h-head" }, make("strong", { text: "Session inspector" }), this.name),
      make(
        "details",
        { class: "h-more" },
        make("summary", { text: "about the session" }),
        make("table", { class: "h-facts" }, this.facts)
      ),
      this.error,
      this.checks,
      this.line.element,
      this.autopsy,
      this.working,
      make(
        "div",
        { class: "h-steps" },
        button("◀ step", "previous step", () => this.goTo(this.place - 1)),
        this.step,
        button("step ▶", "next step", () => this.goTo(this.place + 1)),
        this.at,
        button("◀ compaction", "previous compaction", () => this.jump(-1)),
        button("compaction ▶", "next compaction", () => this.jump(1))
      ),
      make("p", { class: "h-faint h-keys", text: KEYS_HELP }),
      make("table", { class: "h-facts" }, this.stepFacts),
      this.compactions,
      make("div", { class: "h-pair" }, this.list.element, this.texts),
      this.forked
    );
    this.root.tabIndex = 0;
    this.root.addEventListener("keydown", (event) => this.handleKey(event));
  }
  /** @param {KeyboardEvent} event */
  handleKey(event) {
    const target = (
      /** @type {HTMLElement} */
      event.target
    );
    if (target.matches("input, select, textarea") || event.altKey || event.ctrlKey || event.metaKey) return;
    const acts = /* @__PURE__ */ new Map([
      ["ArrowLeft", () => this.goTo(this.place - 1)],
      ["ArrowRight", () => this.goTo(this.place + 1)],
      ["PageUp", () => this.jump(-1)],
      ["PageDown", () => this.jump(1)],
      ["Home", () => this.goTo(1)],
      ["End", () => this.goTo(this.known.session.steps.length)]
    ]);
    const act = acts.get(event.key);
    if (!act) return;
    event.preventDefault();
    act();
  }
  /** @param {number} place */
  goTo(place) {
    this.place = Math.min(this.known.session.steps.length, Math.max(1, place));
    this.showPlace(this.place);
    this.ask.want({ step: this.place });
  }
  /**
   * Show the autopsy of an applied compaction, and the step before which it took place.
   *
   * @param {number} round
   * @param {number | null} place Number of another step to show; null shows that of the compaction.
   */
  openRound(round, place = null) {
    const shown = place ?? this.known.session.autopsy.rounds.find(({ number }) => number === round)?.place;
    this.movesFocus = true;
    this.asked = null;
    this.model.send({ kind: "autopsy", number: round });
    if (shown !== void 0) this.goTo(shown);
  }
  /**
   * Show the compaction that lost a fact which a failed check needs, and the step of the first consequence.
   *
   * If no compaction lost such a fact, show the list of failed checks and the last step.
   *
   * @param {string} name Name of the check; empty for the one with the earliest consequence.
   */
  openCheck(name) {
    if (!this.known.session) {
      this.wantedCheck = name;
      return;
    }
    const { autopsy, steps } = this.known.session;
    const check = name ? autopsy.checks?.find((one) => one.name === name) : findFirstConsequence(autopsy.checks ??
    []);
    if (check?.round) {
      this.openRound(check.round, check.place);
      this.asked = { text: `Failed check “${check.title}” needs ${check.says}.`, fact: check.fact };
      return;
    }
    this.goTo(check?.place ?? steps.length);
    this.checks.open = true;
    this.checks.querySelector("summary")?.focus({ preventScroll: true });
    this.checks.scrollIntoView({ block: "nearest" });
  }
  /** @param {number} place */
  showPlace(place) {
    const { steps } = this.known.session;
    this.step.value = String(place);
    this.at.textContent = `step ${formatNumber(steps[place - 1])} of ${formatNumber(steps.length)}`;
  }
  listMarks() {
    return listMarks(this.known.session.steps, this.known.session.attempts);
  }
  /** @param {number} way */
  jump(way) {
    const places = this.listMarks().map((mark) => mark.index + 1);
    const next = findNext(places, this.place, way);
    if (next !== void 0) this.goTo(next);
  }
  /**
   * @param {Partial<State>} changed
   * @param {State} whole
   */
  receive(changed, whole) {
    this.known = whole;
    if (!whole.session || !whole.step) return;
    if (changed.session) this.showSession(whole.session);
    if (this.wantedCheck !== null) {
      const name = this.wantedCheck;
      this.wantedCheck = null;
      this.openCheck(name);
    }
    const { refused } = changed;
    if (refused) this.ask.acceptAnswer(refused.request);
    if (changed.step) {
      if (this.ask.acceptAnswer(whole.step.request)) this.place = whole.step.place;
      this.draw(whole);
    }
    if (changed.autopsy !== void 0) this.showAutopsy(changed.autopsy);
    if (changed.working !== void 0) this.working.textContent = changed.working ? "continuing from the compacti\
on …" : "";
    if (refused !== void 0) this.error.textContent = refused?.text ?? "";
    if (changed.rows) this.list.receive(whole.rows);
    const { reading } = changed;
    if (reading && reading.message === this.list.chosen()) {
      this.texts.replaceChildren(make("h4", { text: reading.title }), make("pre", { text: reading.text }));
    }
  }
  /** @param {Session} session */
  showSession(session) {
    this.name.replaceChildren(" ", session.id ? makeSessionId(session.id) : session.name);
    this.step.max = String(session.steps.length);
    this.facts.replaceChildren(...session.facts.map(([name, text]) => makeFactRow(name, text)));
    this.showChecks(session.autopsy);
  }
  /** @param {SessionAutopsy} autopsy */
  showChecks({ checks, rounds }) {
    this.checks.hidden = !checks?.length;
    if (!checks?.length) return;
    const items = checks.map(({ name: id, title, detail, says, round, place }) => {
      const acts = [];
      if (round) {
        const open = () => this.openCheck(id);
        const name = `autopsy of compaction ${round}, on which ${title} rests`;
        acts.push(make("button", { type: "button", text: `compaction ${round}`, "aria-label": name, on: { click: open } }));
      }
      if (place) {
        const go = () => this.goTo(place);
        const name = `transcript at the step that decides ${title}`;
        acts.push(make("button", { type: "button", text: "transcript there", "aria-label": name, on: { click: go } }));
      }
      const facts = make("span", { class: "h-faint", text: `${detail}${detail && ". "}Facts: ${says}` });
      return make("li", {}, make("b", { text: title }), " ", ...acts, make("br"), facts);
    });
    const traced = checks.filter(({ round, recovered }) => round && !recovered).length;
    const rest = rounds.length ? `, ${formatNumber(traced)} with a fact that a compaction lost and that was no\
t used right then` : "";
    const text = `${formatCount(checks.length, "failed check")}${rest}`;
    this.checks.replaceChildren(make("summary", { text }), make("ul", { class: "h-check-list" }, ...items));
  }
  /** @param {OpenAutopsy | null} autopsy */
  showAutopsy(autopsy) {
    this.autopsy.hidden = autopsy === null;
    if (autopsy) {
      showAutopsy(this.autopsy, autopsy, this.asked ?? autopsy.asked ?? null, {
        open: (number) => this.openRound(number),
        close: () => this.closeAutopsy(),
        goTo: (place) => {
          this.goTo(place);
          this.list.element.scrollIntoView({ block: "nearest" });
        }
      });
      if (autopsy.twins) this.autopsy.append(this.makeTwins(autopsy.twins, autopsy));
      const title = (
        /** @type {HTMLElement} */
        this.autopsy.querySelector("h4")
      );
      if (this.movesFocus) title.focus({ preventScroll: true });
      if (this.movesFocus) this.line.element.scrollIntoView({ block: "start" });
    }
    this.movesFocus = false;
    if (this.known.step) this.drawLine(this.known);
  }
  /**
   * @param {Choices} choices
   * @param {OpenAutopsy} autopsy
   */
  makeTwins(choices, { number: round, compared }) {
    const act = (arm) => this.model.send(arm ? { kind: "twin", round, arm } : { kind: "compare", round });
    const buttons = makeTwinButtons(choices, act);
    if (compared) buttons.append(make("pre", { class: "t-results", tabindex: "0", text: compared }));
    return buttons;
  }
  closeAutopsy() {
    this.model.send({ kind: "autopsy", number: null });
    this.root.focus({ preventScroll: true });
  }
  /** @param {Pick<State, "session" | "step">} state */
  drawLine({ session, step }) {
    const marks = this.listMarks();
    const label = `tokens in view over ${formatCount(session.steps.length, "step")}, ${formatCount(marks.length,
    "compaction")}`;
    const { steps, curve } = session;
    const chosen = this.known.autopsy?.number ?? 0;
    const { strips } = session.autopsy;
    this.line.show({ curve, limits: listLimits(session), marks, steps, strips, chosen, at: step.place - 1, label });
  }
  /** @param {Pick<State, "session" | "step">} state */
  draw({ session, step }) {
    this.drawLine({ session, step });
    this.showPlace(step.place);
    this.stepFacts.replaceChildren(...step.facts.map(([name, text]) => makeFactRow(name, text)));
    this.list.show(step);
    if (step.place === this.drawn) return;
    this.drawn = step.place;
    this.compactions.replaceChildren(
      ...step.compactions.map((compaction) => makeCompaction(compaction, (round) => this.openRound(round, this.
      place)))
    );
    this.list.scrollTo(step.count - 1);
    this.list.select(step.answer);
  }
};
function findFirstConsequence(checks) {
  const explained = checks.filter(({ round, recovered }) => round && !recovered);
  const placed = explained.filter(({ place }) => place).sort((one, other) => (one.place ?? 0) - (other.place ??
  0));
  return placed[0] ?? explained[0];
}
function listLimits({ curve, threshold_tokens, window_tokens }) {
  const limits = [];
  if (threshold_tokens !== null) limits.push({ tokens: threshold_tokens, name: "threshold", kind: "threshold" });
  const most = curve.reduce((one, other) => Math.max(one, other), 0);
  if (window_tokens > 0 && window_tokens < 2 * most) limits.push({ tokens: window_tokens, name: "window", kind: "\
window" });
  return limits;
}
function makeCompaction({ round, title, reason, summary }, open) {
  const text = make("p", { class: "h-compacted", text: `${title}. ${reason}` });
  if (round) {
    const name = `autopsy of compaction ${round}`;
    text.append(
      " ",
      make("button", { type: "button", text: "what it lost", "aria-label": name, on: { click: () => open(round) } })
    );
  }
  if (!summary) return make("div", { class: "h-compaction" }, text);
  const details = make("details", {}, make("summary", { text: "summary" }), make("pre", { tabindex: "0", text: summary }));
  return make("div", { class: "h-compaction" }, text, details);
}
function makeRow3([kind, role, mark, text]) {
  return {
    class: `h-part-${kind}`,
    children: [
      make("span", { class: "h-kind", text: kind }),
      make("span", { class: "h-role", text: role }),
      make("span", { class: "h-new", text: mark }),
      make("span", { class: "h-label", text })
    ]
  };
}
var inspector_default = {
  /** @param {{ model: Model, el: HTMLElement }} view */
  render({ model, el }) {
    const inspector = new Inspector(model, el);
    const removeFork = nest(model, "forked", inspector.forked);
    return () => {
      removeFork();
      inspector.close();
    };
  }
};
export {
  Inspector,
  inspector_default as default
};
