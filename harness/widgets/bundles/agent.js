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
function keepFocus(box, act) {
  const focused = (
    /** @type {HTMLElement | null} */
    document.activeElement
  );
  const held = box.contains(focused) ? (
    /** @type {HTMLElement | null} */
    focused?.closest("[data-key]")?.dataset.key
  ) : void 0;
  act();
  if (held === void 0) return;
  const keyed = (
    /** @type {NodeListOf<HTMLElement>} */
    box.querySelectorAll("[data-key]")
  );
  const fresh = [...keyed].find((element) => element.dataset.key === held);
  if (fresh !== document.activeElement) fresh?.focus({ preventScroll: true });
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
function buildHidingStyle(mark) {
  return mark && /^[0-9a-f]+$/.test(mark) ? `.harness-saved-${mark} { display: none; }` : "";
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
function formatCost(usd) {
  return typeof usd === "number" ? `$${usd.toFixed(usd < 1 ? 4 : 2)}` : "unknown price";
}
function groupDigits(text) {
  return text.replace(/(?<![\d.,:/-])\d{4,}(?![\d.:/-])/g, (digits) => formatNumber(Number(digits)));
}

// harness/widgets/js/agent_panels.js
var MOST_BUTTONS = 60;
function showGauge(parts, gauge) {
  const { tokens = 0, window: size = 0, reserved = 0, threshold = null, is_over = false, reported = 0 } = gauge;
  const at = (value) => size ? Math.min(100, 100 * value / size) : 0;
  const bar = draw(
    "svg",
    { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    draw("rect", { x: 0, y: 0, width: at(tokens), height: 10, class: is_over ? "a-used a-over" : "a-used" }),
    draw("rect", { x: 100 - at(reserved), y: 0, width: at(reserved), height: 10, class: "a-reserved" })
  );
  if (threshold !== null) {
    bar.append(draw("rect", { x: Math.min(99.4, at(threshold)), y: 0, width: 0.6, height: 10, class: "a-thresh\
old" }));
  }
  parts.gauge.replaceChildren(bar);
  const words = describeGauge(gauge);
  parts.gauge.setAttribute("aria-valuemax", String(size));
  parts.gauge.setAttribute("aria-valuenow", String(tokens));
  parts.gauge.setAttribute("aria-valuetext", words);
  parts.gauge.classList.toggle("a-is-over", is_over);
  const rest = [];
  if (reserved) rest.push(`${formatNumber(reserved)} reserved`);
  if (reported) rest.push(`${formatNumber(reported)} at the last call, as counted by the provider`);
  parts.gaugeWords.classList.remove("h-faint");
  parts.gaugeWords.textContent = words;
  parts.gaugeRest.replaceChildren(...rest.map((text) => make("div", { text })));
  parts.rule.textContent = groupDigits(gauge.rule ?? "");
}
function describeGauge({ tokens = 0, window: size, threshold = null, is_over, messages = 0 }) {
  const limit = `threshold${is_over ? " of" : ""} ${formatNumber(threshold)}`;
  const due = threshold === null ? "no threshold" : is_over ? `over the ${limit}` : limit;
  const most = size ? formatNumber(size) : "an unknown number of";
  return `about ${formatNumber(tokens)} of ${most} tokens in ${formatCount(messages, "message")}; ${due}`;
}
function showCurve(parts, points, rounds, { threshold = null }, openRound) {
  const [width, height, floor] = [300, 84, 74];
  const applied = rounds.filter((round) => round.status === "applied");
  const steps = Math.max(10, ...points.map(([step]) => step), ...applied.map(({ step }) => step));
  const largest = Math.max(0, ...points.map(([, tokens]) => tokens), ...applied.map(({ before }) => before));
  const most = Math.max(1, threshold ?? 0, largest) * 1.08;
  const x = (step) => step / steps * (width - 8) + 4;
  const y = (tokens) => floor - tokens / most * (floor - 6);
  const falls = applied.flatMap(({ step, before, after }) => [
    [step - 0.6, before],
    [step - 0.5, after]
  ]);
  const line = [...points, ...falls].sort((a, b) => a[0] - b[0]);
  const axis = { x1: 4, x2: width - 4 };
  const svg = draw(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
    draw("line", { ...axis, y1: floor, y2: floor, class: "a-axis" }),
    draw("polyline", {
      points: line.map(([step, tokens]) => `${x(step).toFixed(1)},${y(tokens).toFixed(1)}`).join(" "),
      class: "a-line"
    }),
    draw("text", { x: width - 4, y: height - 1, "text-anchor": "end", text: `step ${formatNumber(steps)}` }),
    draw("text", { x: 4, y: height - 1, text: `tokens in view over the steps, at most ${formatNumber(largest)}` })
  );
  if (threshold !== null) svg.append(draw("line", { ...axis, y1: y(threshold), y2: y(threshold), class: "a-lim\
it" }));
  for (const { seq, step } of applied) {
    const mark = draw("path", { d: `M${x(step - 0.5) - 4} 1h8l-4 6z`, class: "a-mark" });
    mark.addEventListener("click", () => openRound(seq));
    svg.append(mark);
  }
  parts.curve.replaceChildren(svg);
}
function makeNothing() {
  return make("tr", {}, make("td", { class: "h-faint", text: "none yet" }));
}
function showFigures(parts, figures, isSimulated, step) {
  if (!figures && !step) {
    parts.totals.replaceChildren(makeNothing());
    return;
  }
  const running = step ? `, working on step ${formatNumber(step)}` : "";
  const facts = [["steps", `${formatNumber(figures?.steps ?? 0)}${running}`]];
  if (figures) facts.push(...listFigures(figures, isSimulated));
  parts.totals.replaceChildren(...facts.map(([name, text]) => makeFactRow(name, text)));
}
function listFigures(figures, isSimulated) {
  const simulated = isSimulated && typeof figures.cost_usd === "number" ? " (simulated)" : "";
  const facts = [
    ["compactions", formatNumber(figures.compactions)],
    ["tokens in", formatTokens(figures.prompt_tokens)],
    ["tokens out", formatTokens(figures.output_tokens)],
    ["tokens in all", `${formatTokens(figures.total_tokens)}, summaries included`]
  ];
  if (figures.sub_agent_tokens) {
    facts.push(["of which sub-agents", `${formatTokens(figures.sub_agent_tokens)} tokens in and out`]);
  }
  facts.push(["cost", `${formatCost(figures.cost_usd)}${simulated}`]);
  if (figures.summary_prompt_tokens) {
    const [read, written] = [figures.summary_prompt_tokens, figures.summary_output_tokens].map(formatTokens);
    const cost = formatCost(figures.summary_cost_usd);
    facts.push(["of which summaries", `${cost}, for further ${read} tokens in and ${written} out`]);
  }
  return [...facts, ...figures.metrics];
}
function showFiles(box, { error, files, count, changed_back, whole, patch }) {
  if (error) {
    box.replaceChildren(make("p", { class: "h-error", text: error }));
    return;
  }
  const note = (text) => make("p", { class: "h-faint", text });
  const back = changed_back ? [note(`${formatCount(changed_back, "more file")} changed and changed back`)] : [];
  if (!files.length) {
    box.replaceChildren(note(`No files have changed ${whole ? "since the start" : "in this turn"}.`), ...back);
    return;
  }
  const rows = files.map(
    ({ kind, path, added, removed }) => make(
      "tr",
      {},
      make("td", { class: `a-${kind}`, text: kind }),
      make("td", { class: "a-what", text: path }),
      make("td", { class: "a-number", text: `+${added} −${removed}` })
    )
  );
  const more = count > files.length ? [note(`and ${formatNumber(count - files.length)} more`)] : [];
  const lines = make("details", {}, make("summary", { text: "Changes line by line" }), make("pre", { text: patch }));
  box.replaceChildren(make("table", {}, make("tbody", {}, ...rows)), ...more, ...back, lines);
}
function showBranchStep({ branchStep }, step) {
  const { newest } = branchStep.dataset;
  if (branchStep.value === newest || !newest) branchStep.value = String(step);
  branchStep.dataset.newest = branchStep.max = String(step);
}
function showRounds({ rounds: box, roundsCard }, rounds, openRound) {
  const buttons = rounds.slice(-MOST_BUTTONS).map(({ seq, round, step, status, before, after, lost }) => {
    const text = status !== "applied" ? `${status} at step ${step}` : lost ? `${round} · ${lost} lost` : String(
    round);
    const title = `before step ${step}: ${formatNumber(before)} → ${formatNumber(after)} tokens`;
    return make("button", {
      type: "button",
      text,
      title,
      "data-key": `round ${seq}`,
      "aria-label": `Compaction ${text}, ${title}`,
      on: { click: () => openRound(seq, roundsCard) }
    });
  });
  const earlier = rounds.length - MOST_BUTTONS;
  const words = [];
  if (!rounds.length) words.push("none yet");
  if (earlier > 0) words.push(`${formatNumber(earlier)} earlier compactions can be opened from the transcript `);
  const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 24;
  keepFocus(box, () => box.replaceChildren(...words.map((text) => make("span", { class: "h-faint", text })), ...buttons));
  if (isAtEnd) box.scrollTop = box.scrollHeight;
}

// harness/widgets/js/agent_layout.js
function buildLayout(root) {
  const parts = createParts();
  root.append(
    make(
      "header",
      { class: "a-head" },
      parts.phase,
      parts.about,
      parts.sessionId,
      make("span", { class: "a-buttons" }, parts.start, parts.stop, parts.resume, parts.compact, parts.end)
    ),
    parts.silence,
    parts.failure,
    parts.alerts,
    parts.question,
    make("section", { class: "a-top", "aria-label": "Context" }, parts.gauge, parts.gaugeWords),
    make("div", { class: "a-columns" }, makeMain(parts), makeSide(parts)),
    parts.saved,
    parts.forked,
    parts.details
  );
  return parts;
}
function createParts() {
  return {
    phase: make("span", { class: "a-phase", role: "status" }),
    about: make("span", { class: "a-about h-faint" }),
    sessionId: make("span", { class: "h-faint" }),
    start: makeButton("Start", "Start the session", "h-primary"),
    stop: makeButton("Stop", "Stop the running turn; text written so far is kept"),
    resume: makeButton("Resume", "Continue the interrupted turn"),
    compact: makeButton("Compact", "Compact now, even if the policy is not triggered"),
    end: makeButton("End", "End the session: run the checks of its task and remove its sandbox"),
    silence: make("div", { class: "a-alarm", role: "alert", hidden: true }),
    failure: make("div", { class: "a-alarm", role: "alert", hidden: true }),
    alerts: make("div", { class: "a-alarm a-alerts", role: "status", hidden: true }),
    question: make("div", { class: "a-question", role: "group", hidden: true }),
    scroll: make("div", {
      class: "a-scroll",
      role: "log",
      "aria-live": "off",
      "aria-label": "Transcript",
      tabindex: "0"
    }),
    earlier: make("button", { type: "button", class: "a-earlier", hidden: true }),
    rows: make("div", { class: "a-rows" }),
    newest: make("button", { type: "button", class: "a-newest", text: "Back to the newest rows", hidden: true }),
    waiting: make("div", { class: "a-waiting h-faint", role: "status" }),
    queue: make("ol", { class: "a-queue", "aria-label": "Queued messages" }),
    sending: make("ul", { class: "a-sending", "aria-label": "Messages that the kernel has not received yet" }),
    form: make("form", { class: "a-form" }),
    draft: make("textarea", {
      rows: "2",
      "aria-label": "Message to the agent",
      placeholder: "Message to the agent. Enter sends, Shift+Enter starts a new line."
    }),
    send: make("button", { type: "submit", text: "Send" }),
    retry: makeButton("Retry", "Send the request that failed again", "h-primary"),
    note: make("p", { class: "h-faint", hidden: true }),
    gauge: make("div", {
      class: "a-gauge",
      role: "meter",
      "aria-label": "Context in use",
      "aria-valuemin": "0",
      "aria-valuemax": "0",
      "aria-valuenow": "0"
    }),
    gaugeWords: make("div", { class: "a-words h-faint", text: "empty until the session starts" }),
    gaugeRest: make("div", { class: "a-words h-faint", text: "none yet" }),
    rule: make("div", { class: "a-words h-faint" }),
    curve: make("div", { class: "a-curve" }),
    rounds: make("div", { class: "a-rounds", role: "group", "aria-label": "Compactions" }),
    roundsCard: makeCard("Compactions"),
    totals: make("tbody", {}, makeNothing()),
    policyCard: makeCard("Policy from the next step on"),
    knobs: make("div", { class: "a-knobs" }),
    apply: makeButton("Apply", "Use these values from the next step on; the change is logged"),
    tryFork: makeButton("Try in a fork", "Continue with these values in another session, below, from the end o\
f the newest step"),
    branchStep: make("input", { type: "number", min: "0", value: "0", name: "step" }),
    fork: makeButton("Fork", "Open another session, below, that continues from the end of this step"),
    rollback: makeButton("Roll back", "Restore the conversation and the files as they were at the end of this \
step"),
    diff: makeButton("Changed in this turn", "Files that the newest turn changed"),
    all: makeButton("Since the start", "Files that the session changed"),
    files: make("div", {
      class: "a-files",
      "aria-live": "polite",
      role: "group",
      "aria-label": "Changed files",
      tabindex: "0"
    }),
    saved: make("style"),
    forked: make("div", { class: "a-forked" }),
    details: make("section", { class: "a-details", "aria-label": "Compaction", tabindex: "-1", hidden: true })
  };
}
function makeButton(text, title, kind) {
  return make("button", { type: "button", text, title, class: kind });
}
function makeCard(title, ...children) {
  return make("section", { class: "a-card", "aria-label": title }, make("h4", { text: title }), ...children);
}
function makeMain(parts) {
  const hint = make("p", { class: "a-hint h-faint", text: "No message yet. The button Start begins the session\
." });
  parts.scroll.append(parts.earlier, parts.rows, hint);
  parts.form.append(parts.draft, parts.send);
  const { scroll, newest, waiting, queue, sending, form, note } = parts;
  return make("div", { class: "a-main" }, scroll, newest, waiting, queue, sending, form, note);
}
function makeSide(parts) {
  parts.roundsCard.append(parts.curve, parts.rounds);
  parts.policyCard.append(parts.knobs, make("div", { class: "a-bar" }, parts.apply, parts.tryFork));
  const step = make("label", {}, "step ", parts.branchStep);
  return make(
    "div",
    { class: "a-side" },
    makeCard("Threshold and reserves", parts.gaugeRest, parts.rule),
    parts.roundsCard,
    makeCard("Totals", make("table", { class: "a-figures" }, parts.totals)),
    parts.policyCard,
    makeCard("Branch", make("div", { class: "a-bar" }, step, parts.fork, parts.rollback)),
    makeCard("Workspace", make("div", { class: "a-bar" }, parts.diff, parts.all), parts.files)
  );
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
  const made = buttons.map((choice) => makeButton2(choice, () => act(choice.arm)));
  const other = makeButton2({ arm: "", text: "fork here with another policy:", why }, () => act(select.value));
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
function makeButton2({ text, why }, act) {
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

// harness/widgets/js/compaction_details.js
var DISPOSITIONS = [
  ["summary", "inserted"],
  ["dropped", "dropped"],
  ["summarized", "summarized"],
  ["masked", "masked"],
  ["kept", "kept"]
];
function showDetails(box, content, close, open, twin) {
  const { status, round, step } = content;
  const title = status === "applied" ? `Compaction ${round} before step ${step}` : `Compaction before step ${step}\
: ${status}`;
  const closeButton = make("button", { type: "button", text: "Close", on: { click: close } });
  const lines = [
    make("div", { class: "a-bar" }, make("h4", { text: title }), closeButton),
    make("p", { text: describeSizes(content) })
  ];
  if (content.twins) lines.push(makeTwinButtons(content.twins, twin));
  if (content.failure) lines.push(make("p", { class: "h-error", text: `Summary failed: ${content.failure}` }));
  if (content.facts) lines.push(...makeFactLines(content.facts.lost, content.facts.kept));
  if (content.autopsy) lines.push(...makeAutopsy(content.autopsy, open));
  if (content.summary) {
    const name = make("summary", { text: `Summary${content.summarizer && ` by ${content.summarizer}`}` });
    lines.push(make("details", { open: true }, name, make("pre", { class: "a-text", text: content.summary })));
  }
  for (const [disposition, name] of DISPOSITIONS) {
    const messages = content.messages.filter((message) => message.disposition === disposition);
    const count = formatCount(content.counts[disposition] ?? messages.length, "message");
    if (messages.length) lines.push(makeDisposition(disposition, name, count, messages));
  }
  if (content.left_out) {
    const text = `not listed: ${formatCount(content.left_out, "message")} in the middle`;
    lines.push(make("p", { class: "h-faint", text }));
  }
  box.replaceChildren(...lines);
  box.hidden = false;
}
function makeAutopsy({ session, compaction }, open) {
  const { steps, curve, attempts, strips } = session;
  const line = createTimeline(() => {
  }, open);
  const marks = listMarks(steps, attempts);
  const at = Math.max(0, compaction.place - 1);
  const label = `tokens in view over ${formatCount(steps.length, "step")}`;
  if (steps.length) line.show({ curve, limits: [], marks, steps, strips, chosen: compaction.number, at, label });
  const section = make("section", { class: "u-autopsy", "aria-label": "autopsy of this compaction" });
  showAutopsy(section, { ...compaction, summary: "" }, null, { open });
  return [make("div", { class: "harness-looking" }, ...steps.length ? [line.element] : []), section];
}
function describeSizes({ before, after, messages_before, messages_after, messages_removed, reason }) {
  const messages = `${messages_before} → ${formatCount(messages_after, "message")}, ${formatNumber(messages_removed)}\
 removed`;
  return `${formatNumber(before)} → ${formatNumber(after)} tokens, ${messages}. ${reason}`;
}
function makeFactLines(lost, kept) {
  const words = `Facts of the task in view before: ${lost.length + kept.length}; lost: ${lost.length}`;
  const lines = [make("p", { class: lost.length ? "a-lost" : "a-none-lost", text: words })];
  const items = lost.map(({ name, kind, again_calls }) => {
    const again = again_calls === null ? "cannot be fetched again" : `can be fetched again with ${formatCount(
    again_calls, "call")}`;
    return make("li", { text: `${name} (${kind}): ${again}` });
  });
  if (items.length) lines.push(make("ul", { class: "a-facts" }, ...items));
  const names = kept.map((fact) => fact.name).join(", ");
  if (names) lines.push(make("p", { class: "h-faint", text: `still in view: ${names}` }));
  return lines;
}
function makeDisposition(disposition, name, count, messages) {
  const before = messages.reduce((sum, message) => sum + message.before, 0);
  const after = messages.reduce((sum, message) => sum + message.after, 0);
  const tokens = disposition === "kept" ? formatNumber(after) : `${formatNumber(before)} → ${formatNumber(after)}`;
  const hasOneSize = disposition === "kept" || disposition === "summary";
  const rows = messages.map((message) => {
    const size = hasOneSize ? formatNumber(message.after) : `${formatNumber(message.before)} → ${formatNumber(
    message.after)}`;
    return make(
      "tr",
      {},
      make("td", { class: "h-faint", text: message.role }),
      make("td", { class: "a-what", text: message.text }),
      make("td", { class: "a-number", text: size })
    );
  });
  const title = make("span", { class: `a-disposition a-${disposition}`, text: name });
  return make(
    "details",
    {},
    make("summary", {}, title, ` ${count}, ${tokens} tokens`),
    make("table", {}, make("tbody", {}, ...rows))
  );
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
var BEAT_MS = 5e3;
var MISSED_MS = 16e3;
var RESTART_MS = 3e3;
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
function watchKernel(model, beat, { silent, heard, isOver = () => false }) {
  let heardAt = performance.now();
  let isCut = false;
  const receive = (message) => {
    heardAt = performance.now();
    isCut = false;
    heard(message);
  };
  let restart = 0;
  const suspectRestart = () => {
    isCut = !trySend(model, beat);
    clearTimeout(restart);
    restart = setTimeout(() => {
      if (isCut && !isOver()) silent(true);
    }, RESTART_MS);
  };
  model.on("msg:custom", receive);
  model.on("comm_live_update", suspectRestart);
  const timer = setInterval(() => {
    if (document.hidden || isOver()) heardAt = performance.now();
    else if (performance.now() - heardAt > MISSED_MS) silent(isCut);
    trySend(model, beat);
  }, BEAT_MS);
  return () => {
    clearInterval(timer);
    clearTimeout(restart);
    model.off("msg:custom", receive);
    model.off("comm_live_update", suspectRestart);
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

// harness/widgets/js/setting_control.js
function createControl(control, value, change) {
  const title = control.name.replaceAll("_", " ");
  const output = make("output", { class: "h-value" });
  const given = { "aria-label": title, name: control.name };
  const input = control.kind === "switch" ? createSwitch(given, value, change) : control.kind === "choice" ? createChoice(
  given, control.choices, value, change) : createSlider(
    given,
    control,
    /** @type {number | null} */
    value,
    change,
    output
  );
  return make("label", { class: "h-knob" }, make("span", { text: title }), input, output);
}
function createSwitch(given, value, change) {
  const input = make("input", {
    ...given,
    type: "checkbox",
    checked: Boolean(value),
    on: { change: () => change(input.checked) }
  });
  return input;
}
function createChoice(given, choices, value, change) {
  const options = choices.map((choice) => make("option", { value: choice, text: choice, selected: choice === value }));
  const select = make("select", { ...given, on: { change: () => change(select.value) } }, ...options);
  return select;
}
function createSlider(given, { kind, least, most, notch, optional }, value, change, output) {
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

// harness/widgets/js/transcript.js
var MOST_ROWS = 2e3;
var TITLE_CHARACTERS = 100;
var SPEAKERS = {
  user: "you",
  assistant: "agent",
  system: "system",
  thought: "thinking",
  note: "note",
  notice: "note",
  ended: "end"
};
function formatThought({ live, text }) {
  return live ? `thinking… · ${text.slice(-TITLE_CHARACTERS)}` : `thinking · ${text.slice(0, TITLE_CHARACTERS)}`;
}
var Transcript = class {
  lowest = 0;
  count = 0;
  detached = false;
  // the newest rows were dropped to make room for earlier ones
  sticks = true;
  /**
   * @param {Parts} parts
   * @param {(message: object) => void} ask Sends a message to the kernel.
   * @param {Set<number>} open Numbers of the unfolded rows; they stay unfolded in later views.
   * @param {(seq: number, clicked: HTMLElement) => void} openRound Shows the details of a compaction below an element.
   */
  constructor(parts, ask, open, openRound) {
    this.parts = parts;
    this.ask = ask;
    this.open = open;
    this.openRound = openRound;
    this.rows = /* @__PURE__ */ new Map();
    this.elements = /* @__PURE__ */ new Map();
    const box = parts.scroll;
    box.addEventListener("scroll", () => {
      this.sticks = box.scrollHeight - box.scrollTop - box.clientHeight < 24;
    });
    parts.earlier.addEventListener("click", () => ask({ kind: "rows", before: this.lowest }));
    parts.newest.addEventListener("click", () => this.restart());
  }
  discardRows() {
    this.rows.clear();
    this.elements.clear();
    this.parts.rows.replaceChildren();
    [this.detached, this.sticks, this.lowest] = [false, true, this.count];
  }
  /** Discard all rows and request the newest. */
  restart() {
    this.discardRows();
    this.ask({ kind: "rows", before: null });
    this.updateControls();
  }
  /** @param {Row} row */
  put(row) {
    this.count = Math.max(this.count, row.n + 1);
    if (this.rows.size === 0) this.lowest = row.n;
    if (row.n < this.lowest || this.detached && !this.rows.has(row.n)) return;
    const fresh = this.makeRow(row);
    const old = this.elements.get(row.n);
    this.rows.set(row.n, row);
    this.elements.set(row.n, fresh);
    if (old) keepFocus(this.parts.rows, () => old.replaceWith(fresh));
    else this.parts.rows.append(fresh);
    for (; this.rows.size > MOST_ROWS; this.lowest += 1) this.drop(this.lowest);
  }
  /** @param {Growth} growth */
  grow({ n, at, text }) {
    const [row, element] = [this.rows.get(n), this.elements.get(n)];
    if (!row || !("text" in row) || !element || at > row.text.length) return;
    row.text += text.slice(row.text.length - at);
    const title = row.kind === "thought" && element.querySelector(".a-title");
    if (title) title.textContent = formatThought(row);
    const shown = element.querySelector("pre");
    if (shown) shown.textContent = row.text;
  }
  /**
   * Replace all rows by the newest.
   *
   * @param {Row[]} rows
   */
  replace(rows) {
    this.discardRows();
    for (const row of rows) this.put(row);
    this.updateControls();
  }
  /**
   * Insert rows before the first row.
   *
   * @param {Row[]} rows
   */
  prepend(rows) {
    const earlier = rows.filter((row) => row.n < this.lowest || this.rows.size === 0);
    if (!earlier.length) return;
    const [box, height] = [this.parts.scroll, this.parts.scroll.scrollHeight];
    const elements = earlier.map((row) => this.makeRow(row));
    for (const [place, row] of earlier.entries()) {
      this.rows.set(row.n, row);
      this.elements.set(row.n, elements[place]);
    }
    this.parts.rows.prepend(...elements);
    this.lowest = earlier[0].n;
    for (let highest = Math.max(...this.rows.keys()); this.rows.size > MOST_ROWS; highest -= 1) {
      this.drop(highest);
      this.detached = true;
    }
    if (!this.sticks) box.scrollTop += box.scrollHeight - height;
    this.updateControls();
  }
  /** @param {number} n */
  drop(n) {
    this.elements.get(n)?.remove();
    this.elements.delete(n);
    this.rows.delete(n);
  }
  /** Update the controls around the rows, at most once per frame. */
  updateControls() {
    this.parts.earlier.hidden = this.lowest === 0;
    this.parts.earlier.textContent = `Show earlier (${formatNumber(this.lowest)} rows)`;
    this.parts.newest.hidden = !this.detached;
    if (this.sticks && !this.detached) this.parts.scroll.scrollTop = this.parts.scroll.scrollHeight;
  }
  /** @param {Row} row */
  makeRow(row) {
    const element = this.makeRowElement(row);
    if (row.undone) {
      element.classList.add("a-undone");
      element.title = "rolled back";
      element.prepend(make("span", { class: "a-undone-word", text: "rolled back" }));
    }
    return element;
  }
  /**
   * @param {Row} row
   * @returns {HTMLElement}
   */
  makeRowElement(row) {
    if (row.kind === "tool") {
      const title = `${row.status === "running" ? "…" : row.status} · ${row.title}`;
      return this.makeFoldedRow(row, title, row.size ? `${formatNumber(row.size)} characters` : "");
    }
    if (row.kind === "compaction") return this.makeCompactionRow(row);
    if (row.kind === "thought") return this.makeFoldedRow(row, formatThought(row));
    if (row.kind === "system") return this.makeFoldedRow(row, `system prompt · ${row.text.slice(0, TITLE_CHARACTERS)}`);
    const box = make(
      "div",
      { class: `a-row a-${row.kind}`, "data-n": row.n },
      make("span", { class: "a-who h-faint", text: SPEAKERS[row.kind] ?? row.kind }),
      make("pre", { class: "a-text", text: row.text })
    );
    if (row.more)
      box.append(
        this.makeFoldedRow(row, row.kind === "ended" || row.kind === "note" ? "what the provider said" : "show\
 the whole text")
      );
    return box;
  }
  /**
   * @param {TextRow | ToolRow} row
   * @param {string} title
   */
  makeFoldedRow(row, title, aside = "") {
    const body = make("div", { class: "a-body" });
    const isWrong = row.kind === "tool" && row.failed;
    const line = make(
      "summary",
      { "data-key": `row ${row.n}` },
      make("span", { class: isWrong ? "a-title a-wrong" : "a-title", text: title }),
      make("span", { class: "h-faint a-aside", text: aside })
    );
    const open = this.open.has(row.n);
    const box = make("details", { class: `a-row a-${row.kind}`, "data-n": row.n, open }, line, body);
    box.addEventListener("toggle", () => {
      this.open[box.open ? "add" : "delete"](row.n);
      if (!box.open) body.replaceChildren();
      else if (row.kind === "tool" || row.more) this.ask({ kind: "body", row: row.n });
      else body.replaceChildren(make("pre", { class: "a-text", tabindex: "0", text: row.text }));
    });
    return box;
  }
  /**
   * Fill an unfolded row with its content.
   *
   * @param {{ n: number, parts: [name: string, text: string][] }} content
   */
  fill({ n, parts }) {
    const element = this.elements.get(n);
    const body = element?.querySelector(element.matches("details") ? ".a-body" : "details .a-body");
    body?.replaceChildren(
      ...parts.flatMap(([name, text]) => [
        ...name ? [make("div", { class: "a-name h-faint", text: name })] : [],
        make("pre", { class: "a-text", tabindex: "0", text })
      ])
    );
  }
  /** @param {CompactionRow} row */
  makeCompactionRow({ n, seq, status, round, before, after, lost, reason }) {
    const facts = typeof lost === "number" ? `, ${formatCount(lost, "fact")} lost` : "";
    const sizes = `${formatNumber(before)} → ${formatNumber(after)} tokens`;
    const text = status === "applied" ? `Compaction ${round}: ${sizes}${facts}` : `Compaction ${status}: ${reason}`;
    const box = make("div", { class: "a-row a-compaction", "data-n": n });
    const open = () => this.openRound(seq, box);
    box.append(make("button", { type: "button", text, title: reason, "data-key": `row ${n}`, on: { click: open } }));
    return box;
  }
};

// harness/widgets/js/agent.js
var WORDS2 = {
  new: "not started",
  starting: "starting",
  working: "working",
  compacting: "compacting",
  asking: "asking you",
  idle: "waiting for you",
  failed: "failed",
  closed: "closed"
};
var ARRIVALS = {
  new: "arrives when the session has started",
  starting: "arrives when the session has started",
  idle: "arrives when you press Resume or send another message",
  failed: "waits until the session is reopened",
  closed: "waits until the session is reopened"
};
var ANSWERS = /* @__PURE__ */ new Set(["body", "rows", "round", "files", "sent"]);
var QUEUED_CHARACTERS = 300;
var memory = {
  draft: "",
  sent: 0,
  /** @type {Map<string, string>} */
  sending: /* @__PURE__ */ new Map(),
  /** @type {Set<number>} */
  open: /* @__PURE__ */ new Set(),
  round: (
    /** @type {number | null} */
    null
  )
};
function formatSeconds(seconds) {
  return seconds < 120 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}
function makeReopening(words, lines) {
  const code = make("pre", { tabindex: "0", role: "region", "aria-label": "lines that reopen the session", text: lines });
  const bar = make("div", { class: "a-reopening" }, code, makeCopyButton(lines, "the lines that reopen the ses\
sion"));
  return make("div", {}, make("div", { text: words }), bar);
}
var Agent = class {
  id = Math.random().toString(36).slice(2);
  fields = (
    /** @type {Record<string, unknown>} */
    {}
  );
  /**
   * @param {Model} model
   * @param {HTMLElement} el
   */
  constructor(model, el) {
    this.model = model;
    this.known = /** @type {Partial<State>} */
    {};
    const root = createRoot(el, "Agent session");
    root.classList.add("a-root");
    this.parts = buildLayout(root);
    this.place = this.parts.roundsCard;
    this.transcript = new Transcript(
      this.parts,
      (message) => this.ask(message),
      memory.open,
      (seq, clicked) => this.openRound(seq, clicked)
    );
    this.parts.draft.value = memory.draft;
    this.showSending();
    this.showRounds([]);
    this.listen();
    this.removeFork = nest(model, "forked", this.parts.forked);
    this.unwatch = watchKernel(
      model,
      { kind: "beat", view: this.id },
      {
        silent: (isRestarted) => this.showSilence(isRestarted),
        heard: (message) => this.handleAnswer(message),
        isOver: () => this.known.phase === "closed"
      }
    );
    this.disconnect = connect(model, {
      items: (items) => this.receiveItems(items),
      state: (changed, whole) => this.receive(changed, whole),
      skipped: () => this.transcript.restart(),
      silent: () => this.showSilence()
    });
    if (memory.round) this.openRound(memory.round, this.parts.roundsCard);
  }
  close() {
    this.disconnect();
    this.unwatch();
    this.removeFork();
  }
  /** @param {object} message */
  ask(message) {
    this.model.send({ ...message, view: this.id });
  }
  /**
   * @param {number} seq
   * @param {HTMLElement} clicked
   */
  openRound(seq, clicked) {
    this.place = clicked;
    this.ask({ kind: "round", seq });
  }
  /**
   * Show the controls of the policy's fields; what the user has moved stays until other values hold.
   *
   * @param {Control[]} controls
   */
  showFields(controls) {
    const { policyCard, knobs } = this.parts;
    policyCard.hidden = !controls.length;
    const key = JSON.stringify(controls);
    if (knobs.dataset.shown === key) return;
    knobs.dataset.shown = key;
    this.fields = Object.fromEntries(controls.map(({ name, value }) => [name, value]));
    knobs.replaceChildren(
      ...controls.map(
        (control) => createControl(control, control.value, (value) => {
          this.fields[control.name] = value;
        })
      )
    );
  }
  closeDetails() {
    const { details, scroll } = this.parts;
    details.hidden = true;
    memory.round = null;
    (details.parentElement?.querySelector("button") ?? scroll).focus();
  }
  listen() {
    const { parts } = this;
    const readStep = () => Number(parts.branchStep.value);
    const requests = [
      [parts.start, () => this.start()],
      [parts.stop, () => ({ kind: "stop" })],
      [parts.resume, () => ({ kind: "resume" })],
      [parts.retry, () => ({ kind: "resume" })],
      [parts.compact, () => ({ kind: "compact" })],
      [parts.end, () => ({ kind: "end" })],
      [parts.diff, () => ({ kind: "diff" })],
      [parts.all, () => ({ kind: "diff", whole: true })],
      [parts.fork, () => ({ kind: "fork", step: readStep() })],
      [parts.rollback, () => ({ kind: "rollback", step: readStep() })],
      [parts.apply, () => ({ kind: "policy", fields: this.fields })],
      [parts.tryFork, () => ({ kind: "policy", fields: this.fields, fork: true, step: this.known.last_step ?? 0 })]
    ];
    for (const [button, build] of requests) {
      button.addEventListener("click", () => {
        if (isEnabled(button)) this.ask(build());
      });
    }
    parts.draft.addEventListener("input", () => {
      memory.draft = parts.draft.value;
    });
    parts.draft.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.send();
    });
    parts.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    parts.details.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.closeDetails();
    });
  }
  /** Return the message that starts the session, and show at once that it is starting; the kernel may be busy for seconds. */
  start() {
    this.known.phase = "starting";
    this.showPhase();
    return { kind: "start" };
  }
  /** Send the text that the user typed. */
  send() {
    const { draft, send } = this.parts;
    const text = draft.value.trim();
    if (!text || !isEnabled(send)) return;
    memory.sent += 1;
    const request = `${this.id}:${memory.sent}`;
    memory.sending.set(request, text);
    this.showSending();
    draft.value = memory.draft = "";
    this.ask({ kind: "send", text, request });
  }
  /** @param {(Row | Growth)[]} items */
  receiveItems(items) {
    for (const item of items) {
      if (item.kind === "grown") this.transcript.grow(item);
      else this.transcript.put(item);
    }
    this.transcript.updateControls();
  }
  /**
   * @param {Partial<State>} changed
   * @param {Partial<State>} whole
   */
  receive(changed, whole) {
    this.known = whole;
    const { parts, transcript } = this;
    if (changed.count !== void 0) transcript.count = Math.max(transcript.count, changed.count);
    this.showPhase();
    if (changed.session) this.showFields(whole.session?.fields ?? []);
    if (changed.saved !== void 0) parts.saved.textContent = buildHidingStyle(changed.saved);
    if (changed.queued || changed.phase) this.showQueue(whole.queued ?? [], whole.phase ?? "new");
    if (changed.question !== void 0) this.showQuestion(changed.question);
    if (changed.gauge) showGauge(parts, changed.gauge);
    if (changed.last_step !== void 0) showBranchStep(parts, changed.last_step);
    if (changed.figures || changed.session || changed.step !== void 0) {
      showFigures(parts, whole.figures, Boolean(whole.session?.simulated), whole.step);
    }
    if (changed.curve || changed.rounds) {
      const open = (seq) => this.openRound(seq, parts.roundsCard);
      showCurve(parts, whole.curve ?? [], whole.rounds ?? [], whole.gauge ?? {}, open);
    }
    if (changed.rounds) this.showRounds(changed.rounds);
  }
  /**
   * Show the answer to a request of a page.
   *
   * @param {any} message
   */
  handleAnswer(message) {
    if (!this.parts.silence.hidden) this.endSilence();
    if (!ANSWERS.has(message?.kind)) return;
    const content = reveal(message);
    switch (content.kind) {
      case "body":
        this.transcript.fill(content);
        break;
      case "rows":
        if (content.view !== this.id) break;
        if (content.newest) this.transcript.replace(content.rows);
        else this.transcript.prepend(content.rows);
        break;
      case "round":
        if (content.view === this.id) this.showRound(content);
        break;
      case "files":
        showFiles(
          this.parts.files,
          /** @type {Files} */
          content
        );
        break;
      case "sent":
        this.confirm(content.request, content.taken);
        break;
    }
  }
  /** @param {Details} details */
  showRound(details) {
    const box = this.parts.details;
    (this.place.isConnected ? this.place : this.parts.roundsCard).append(box);
    showDetails(
      box,
      details,
      () => this.closeDetails(),
      (round) => this.openNumber(round),
      (arm) => this.ask({ kind: "twin", round: details.round, arm })
    );
    memory.round = details.seq;
    box.focus();
  }
  /**
   * Show the details of the applied compaction with a number.
   *
   * @param {number} round
   */
  openNumber(round) {
    const known = (this.known.rounds ?? []).find((one) => one.round === round && one.status === "applied");
    if (known) this.openRound(known.seq, this.place);
  }
  /**
   * Remove a message from those that the kernel has not received yet; a refused one returns to the input field.
   *
   * @param {string} request
   * @param {boolean} isTaken
   */
  confirm(request, isTaken) {
    const text = memory.sending.get(request);
    memory.sending.delete(request);
    this.showSending();
    if (text === void 0 || isTaken) return;
    const { draft } = this.parts;
    draft.value = memory.draft = [text, draft.value].filter(Boolean).join("\n");
  }
  /** @param {Round[]} rounds */
  showRounds(rounds) {
    showRounds(this.parts, rounds, (seq, card) => this.openRound(seq, card));
  }
  /** Update the buttons and boxes that depend on the state of the session. */
  showPhase() {
    const { phase = "new", session = {}, interrupted = false, waiting = "", alerts = [] } = this.known;
    const { parts } = this;
    const isOver = phase === "closed" || phase === "failed";
    const hasStarted = phase !== "new" && phase !== "starting";
    [parts.phase.textContent, parts.phase.className] = this.describePhase();
    enable(parts.start, phase === "new");
    enable(parts.stop, ["starting", "working", "compacting", "asking"].includes(phase));
    enable(parts.resume, phase === "idle" && interrupted);
    enable(parts.compact, phase === "idle");
    enable(parts.rollback, phase === "idle");
    enable(parts.apply, phase === "idle");
    enable(parts.tryFork, hasStarted);
    enable(parts.end, !isOver && phase !== "new");
    for (const button of [parts.fork, parts.diff, parts.all]) enable(button, hasStarted);
    for (const field of [parts.send, parts.draft]) enable(field, !isOver);
    parts.draft.readOnly = isOver;
    parts.start.classList.toggle("h-primary", phase === "new");
    parts.send.classList.toggle("h-primary", hasStarted && !isOver && !this.canRetry());
    parts.note.textContent = session.note ?? "";
    parts.note.hidden = !session.note;
    parts.waiting.textContent = waiting;
    const about = [session.model, session.policy, session.sandbox && `sandbox ${session.sandbox}`];
    parts.about.textContent = about.filter(Boolean).join(" · ");
    parts.about.title = session.kept ?? "";
    if (session.id && parts.sessionId.title !== session.id) {
      parts.sessionId.title = session.id;
      parts.sessionId.replaceChildren(makeSessionId(session.id));
    }
    this.showFailure(isOver);
    parts.alerts.hidden = !alerts.length;
    parts.alerts.textContent = alerts.map((text) => `Alert: ${text}`).join("\n");
  }
  /** Whether a call to the model failed for good, so that the turn can be tried again. */
  canRetry() {
    const { phase, interrupted = false, stop_reason } = this.known;
    return phase === "idle" && interrupted && stop_reason === "model_error";
  }
  /**
   * Return the words and the class of the state.
   *
   * @returns {[words: string, names: string]}
   */
  describePhase() {
    const { phase = "new", silent_seconds = 0 } = this.known;
    if (this.canRetry()) return ["model call failed", "a-phase a-is-failed"];
    if (silent_seconds && (phase === "working" || phase === "compacting")) {
      return [`no answer for ${formatSeconds(silent_seconds)}`, "a-phase a-is-asking"];
    }
    return [WORDS2[phase] ?? phase, `a-phase a-is-${phase}`];
  }
  /** @param {boolean} isOver Whether the session has ended. */
  showFailure(isOver) {
    const { failure = "", provider_text = "", error = "" } = this.known;
    const { parts } = this;
    const again = isOver && failure ? this.formatReopening() : "";
    const key = JSON.stringify([failure, provider_text, error, again, this.canRetry()]);
    if (parts.failure.dataset.shown === key) return;
    parts.failure.dataset.shown = key;
    parts.failure.hidden = !(failure || error);
    const lines = (
      /** @type {HTMLElement[]} */
      [make("div", { text: failure || error })]
    );
    if (failure && provider_text) {
      const name = make("summary", { text: "what the provider said" });
      lines.push(make("details", {}, name, make("pre", { tabindex: "0", text: provider_text })));
    }
    if (this.canRetry()) lines.push(parts.retry);
    if (again) lines.push(makeReopening("To reopen the session, run:", again));
    parts.failure.replaceChildren(...lines);
  }
  /** Return the line of Python that reopens the session; empty while nothing is logged. */
  formatReopening() {
    const { begun = false, reopen = "" } = this.known.session ?? {};
    return begun ? reopen : "";
  }
  /** @param {boolean} [isRestarted] Whether the kernel was restarted. */
  showSilence(isRestarted = false) {
    const { parts } = this;
    const again = this.formatReopening();
    const words = isRestarted ? "The kernel was restarted, and the session in it has ended." : "The kernel doe\
s not answer. If it is busy, the display continues by itself.";
    const logged = isRestarted ? "The" : "If it was restarted, the";
    const lines = again ? makeReopening(`${words} ${logged} logged session is not lost: run these lines to con\
tinue.`, again) : make("div", { text: `${words} ${isRestarted ? "Run" : "If it was restarted, run"} the cell a\
gain.` });
    if (parts.silence.dataset.shown !== `${words}${again}`) parts.silence.replaceChildren(lines);
    parts.silence.dataset.shown = `${words}${again}`;
    parts.silence.hidden = false;
    [parts.phase.textContent, parts.phase.className] = ["no answer", "a-phase a-is-failed"];
    enable(parts.send, false);
  }
  endSilence() {
    this.parts.silence.hidden = true;
    this.parts.silence.replaceChildren();
    delete this.parts.silence.dataset.shown;
    this.showPhase();
  }
  /**
   * @param {string[]} queued
   * @param {Phase} phase
   */
  showQueue(queued, phase) {
    this.parts.queue.replaceChildren(
      ...queued.map((text, index) => {
        const when = index ? "arrives in the turn after that" : ARRIVALS[phase] ?? "arrives when this turn end\
s";
        return make("li", {}, make("span", { class: "h-faint", text: `${when}: ` }), text.slice(0, QUEUED_CHARACTERS));
      })
    );
  }
  /** Show messages sent from this page until the kernel confirms them. */
  showSending() {
    this.parts.sending.replaceChildren(
      ...[...memory.sending.values()].map((text) => make("li", {}, make("span", { class: "h-faint", text: "sen\
ding: " }), text))
    );
  }
  /** @param {string} question */
  showQuestion(question) {
    const box = this.parts.question;
    if (!question && box.contains(document.activeElement)) this.parts.scroll.focus();
    box.hidden = !question;
    box.replaceChildren();
    if (!question) return;
    const button = (answer, text) => make("button", { type: "button", text, on: { click: () => this.ask({ kind: "\
answer", answer }) } });
    box.append(
      make("span", { text: question }),
      button("continue", "Continue"),
      button("stop", "Stop"),
      button("always", "Always allow")
    );
  }
};
var agent_default = {
  /** @param {{ model: Model, el: HTMLElement }} view */
  render({ model, el }) {
    const agent = new Agent(model, el);
    return () => agent.close();
  }
};
export {
  agent_default as default
};
