// Page side of AgentWidget: transcript, context gauge, token curve with compactions, and buttons.
// All content comes from the kernel. A page remembers only typed text, unfolded rows and the scroll position.

const MOST_ROWS = 2000;
const BEAT_MS = 5000;
const MISSED_MS = 16000;
const MOST_BUTTONS = 60;
const WORDS = {
  new: "not started", starting: "starting", working: "working", compacting: "compacting", asking: "asking you",
  idle: "waiting for you", failed: "failed", closed: "closed",
};
const DISPOSITIONS = { summary: "inserted", dropped: "dropped", summarized: "summarized", masked: "masked", kept: "kept" };
const SPEAKERS = { user: "you", assistant: "agent", system: "system", thought: "thinking", note: "note", notice: "note", ended: "end" };

const formatTokens = (tokens = 0) => (tokens < 10000 ? formatNumber(tokens) : `${(tokens / 1000).toFixed(tokens < 100000 ? 1 : 0)}K`);
/** Title of a folded thought: its beginning, or its newest text while it is streamed. */
const formatThought = (row) => (row.live ? `thinking… · ${row.text.slice(-100)}` : `thinking · ${row.text.slice(0, 100)}`);
const formatCost = (usd) => (typeof usd === "number" ? `$${usd.toFixed(usd < 1 ? 4 : 2)}` : "unknown price");

/** Enable or disable a button. A disabled button keeps the focus: otherwise keys would go to the notebook and could cut the cell. */
const enable = (button, yes) => button.setAttribute("aria-disabled", String(!yes));
const isEnabled = (button) => button.getAttribute("aria-disabled") !== "true";

/** Style that hides the static form below a live view. */
const buildHidingStyle = (mark) => (/^[0-9a-f]+$/.test(mark) ? `.harness-saved-${mark} { display: none; }` : "");

/** Create the elements of the page and return them by name. */
function buildLayout(root) {
  const parts = {};
  const keep = (name, element) => (parts[name] = element);
  const card = (title, ...children) => make("section", { class: "a-card", "aria-label": title }, make("h4", { text: title }), ...children);
  const button = (name, text, hint) => keep(name, make("button", { type: "button", text, title: hint }));
  root.append(
    make("header", { class: "a-head" },
      keep("phase", make("span", { class: "a-phase", role: "status" })),
      keep("about", make("span", { class: "a-about h-faint" })),
      make("span", { class: "a-buttons" },
        button("start", "Start", "Start the session"),
        button("stop", "Stop", "Stop the running turn; text written so far is kept"),
        button("resume", "Resume", "Continue the interrupted turn"),
        button("compact", "Compact", "Compact now, even if the policy is not triggered"),
        button("end", "End", "End the session: run the checks of its task and remove its sandbox"))),
    keep("silence", make("div", { class: "a-alarm", role: "alert", hidden: true })),
    keep("failure", make("div", { class: "a-alarm", role: "alert", hidden: true })),
    keep("alerts", make("div", { class: "a-alarm a-alerts", role: "status", hidden: true })),
    keep("question", make("div", { class: "a-question", role: "group", hidden: true })),
    make("div", { class: "a-columns" },
      make("div", { class: "a-main" },
        keep("scroll", make("div", { class: "a-scroll", role: "log", "aria-live": "off", "aria-label": "Transcript", tabindex: "0" },
          keep("earlier", make("button", { type: "button", class: "a-earlier", hidden: true })),
          keep("rows", make("div", { class: "a-rows" })),
          make("p", { class: "a-hint h-faint", text: "No message yet. The button Start begins the session." }))),
        keep("newest", make("button", { type: "button", class: "a-newest", text: "Back to the newest rows", hidden: true })),
        keep("waiting", make("div", { class: "a-waiting h-faint", role: "status" })),
        keep("queue", make("ol", { class: "a-queue", "aria-label": "Queued messages" })),
        keep("sending", make("ul", { class: "a-sending", "aria-label": "Messages that the kernel has not received yet" })),
        make("form", { class: "a-form" },
          keep("draft", make("textarea", {
            rows: "2", "aria-label": "Message to the agent", placeholder: "Message to the agent. Enter sends, Shift+Enter starts a new line.",
          })),
          keep("send", make("button", { type: "submit", text: "Send" }))),
        keep("note", make("p", { class: "h-faint", hidden: true }))),
      make("div", { class: "a-side" },
        card("Context", keep("gauge", make("div", { class: "a-gauge", role: "meter", "aria-label": "Context in use", "aria-valuemin": "0", "aria-valuemax": "0", "aria-valuenow": "0" })),
          keep("gaugeWords", make("div", { class: "a-words h-faint", text: "empty until the session starts" })), keep("rule", make("div", { class: "a-words h-faint" }))),
        card("Compactions", keep("curve", make("div", { class: "a-curve" })),
          keep("rounds", make("div", { class: "a-rounds", role: "group", "aria-label": "Compactions" }))),
        card("Totals", keep("figures", make("table", { class: "a-figures" }, make("tbody", {}, make("tr", {}, make("td", { class: "h-faint", text: "none yet" })))))),
        card("Branch", make("div", { class: "a-bar" },
          make("label", {}, "step ", keep("branchStep", make("input", { type: "number", min: "0", value: "0", name: "step" }))),
          button("fork", "Fork", "Open another session, below, that continues from the end of this step"),
          button("rollback", "Roll back", "Restore the conversation and the files as they were at the end of this step"))),
        card("Workspace", keep("diffBar", make("div", { class: "a-bar" }, button("diff", "Changed in this turn", "Files that the newest turn changed"), button("all", "Since the start", "Files that the session changed"))),
          keep("files", make("div", { class: "a-files", "aria-live": "polite", role: "group", "aria-label": "Changed files", tabindex: "0" }))))),
    keep("saved", make("style")),
    keep("forked", make("div", { class: "a-forked" })),
    keep("details", make("section", { class: "a-details", "aria-label": "Compaction", tabindex: "-1", hidden: true })));
  return parts;
}

/** Draw the context gauge: tokens in use, reserved tokens at the end, and the threshold of the policy. */
function showGauge(parts, gauge) {
  const { tokens = 0, window: size = 0, reserved = 0, threshold = null, reported = 0, messages = 0 } = gauge;
  const at = (value) => (size ? Math.min(100, (100 * value) / size) : 0);
  const over = threshold !== null && tokens >= threshold;
  const bar = draw("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    draw("rect", { x: 0, y: 0, width: at(tokens), height: 10, class: over ? "a-used a-over" : "a-used" }),
    draw("rect", { x: 100 - at(reserved), y: 0, width: at(reserved), height: 10, class: "a-reserved" }));
  if (threshold !== null) bar.append(draw("rect", { x: Math.min(99.4, at(threshold)), y: 0, width: 0.6, height: 10, class: "a-threshold" }));
  parts.gauge.replaceChildren(bar);
  parts.gauge.setAttribute("aria-valuemax", size);
  parts.gauge.setAttribute("aria-valuenow", tokens);
  const due = threshold === null ? "no threshold" : over ? `over the threshold of ${formatNumber(threshold)}` : `threshold ${formatNumber(threshold)}`;
  const words = `about ${formatNumber(tokens)} of ${size ? formatNumber(size) : "an unknown number of"} tokens in ${formatCount(messages, "message")}; ${due}`;
  parts.gauge.setAttribute("aria-valuetext", words);
  parts.gauge.classList.toggle("a-is-over", over);
  const rest = [];
  if (reserved) rest.push(`${formatNumber(reserved)} reserved`);
  if (reported) rest.push(`${formatNumber(reported)} at the last call, as counted by the provider`);
  parts.gaugeWords.classList.remove("h-faint");
  parts.gaugeWords.replaceChildren(words, ...rest.flatMap((text) => [make("br"), make("span", { class: "h-faint", text })]));
}

/** Draw tokens in view over steps, with a mark for each applied compaction. */
function showCurve(parts, points, rounds, gauge) {
  const [width, height, floor] = [300, 84, 74];
  const applied = rounds.filter((round) => round.status === "applied");
  const threshold = gauge.threshold ?? null;
  const steps = Math.max(10, ...points.map((point) => point[0]), ...applied.map((round) => round.step));
  const largest = Math.max(0, ...points.map((point) => point[1]), ...applied.map((round) => round.before));
  const most = Math.max(1, threshold ?? 0, largest) * 1.08;
  const [x, y] = [(step) => (step / steps) * (width - 8) + 4, (tokens) => floor - (tokens / most) * (floor - 6)];
  const falls = applied.flatMap((round) => [[round.step - 0.6, round.before], [round.step - 0.5, round.after]]);
  const line = [...points, ...falls].sort((a, b) => a[0] - b[0]).map(([step, tokens]) => `${x(step).toFixed(1)},${y(tokens).toFixed(1)}`);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
    draw("line", { x1: 4, x2: width - 4, y1: floor, y2: floor, class: "a-axis" }),
    draw("polyline", { points: line.join(" "), class: "a-line" }),
    draw("text", { x: width - 4, y: height - 1, "text-anchor": "end", text: `step ${formatNumber(steps)}` }),
    draw("text", { x: 4, y: height - 1, text: `tokens in view over the steps, at most ${formatNumber(largest)}` }));
  if (threshold !== null) svg.append(draw("line", { x1: 4, x2: width - 4, y1: y(threshold), y2: y(threshold), class: "a-limit" }));
  for (const round of applied) {
    const at = x(round.step - 0.5);
    svg.append(draw("path", { d: `M${at - 4} 1h8l-4 6z`, class: "a-mark" }));
  }
  parts.curve.replaceChildren(svg);
}

function showFigures(parts, figures, session, step) {
  if (!("steps" in figures) && !step) return;
  const facts = [["steps", formatNumber(figures.steps ?? 0) + (step ? `, working on step ${formatNumber(step)}` : "")]];
  if ("steps" in figures) facts.push(
    ["compactions", formatNumber(figures.compactions)],
    ["tokens in", formatTokens(figures.prompt_tokens)],
    ["tokens out", formatTokens(figures.output_tokens)],
    ["tokens in all", `${formatTokens(figures.total_tokens)}, summaries included`],
    ...(figures.sub_agent_tokens ? [["of which sub-agents", `${formatTokens(figures.sub_agent_tokens)} tokens in and out`]] : []),
    ["cost", formatCost(figures.cost_usd) + (session.simulated && typeof figures.cost_usd === "number" ? " (simulated)" : "")],
    ...(figures.summary_prompt_tokens ? [["of which summaries", `${formatCost(figures.summary_cost_usd)}, for further ${formatTokens(figures.summary_prompt_tokens)} tokens in and ${formatTokens(figures.summary_output_tokens)} out`]] : []),
    ...figures.metrics,
  );
  parts.figures.replaceChildren(...facts.map(([name, value]) => make("tr", {}, make("th", { scope: "row", text: name }), make("td", { text: value }))));
}

/** Show the details of a compaction. */
function showDetails(box, content, close) {
  const lines = [];
  const title = content.status === "applied" ? `Compaction ${content.round} before step ${content.step}` : `Compaction before step ${content.step}: ${content.status}`;
  const closeButton = make("button", { type: "button", text: "Close", on: { click: close } });
  lines.push(make("div", { class: "a-bar" }, make("h4", { text: title }), closeButton));
  lines.push(make("p", {
    text: `${formatNumber(content.before)} → ${formatNumber(content.after)} tokens, ${content.messages_before} → ${formatCount(content.messages_after, "message")}, ${formatNumber(content.messages_removed)} removed. ${content.reason}`,
  }));
  if (content.failure) lines.push(make("p", { class: "h-error", text: `Summary failed: ${content.failure}` }));
  if (content.facts) lines.push(...buildFactLines(content.facts));
  if (content.summary) {
    const by = content.summarizer ? ` by ${content.summarizer}` : "";
    lines.push(make("details", { open: true }, make("summary", { text: `Summary${by}` }), make("pre", { class: "a-text", text: content.summary })));
  }
  for (const disposition of Object.keys(DISPOSITIONS)) {
    const messages = content.messages.filter((message) => message.disposition === disposition);
    if (messages.length) lines.push(buildDispositionLines(disposition, messages, content.counts[disposition] ?? messages.length));
  }
  if (content.left_out) lines.push(make("p", { class: "h-faint", text: `not listed: ${formatCount(content.left_out, "message")} in the middle` }));
  box.replaceChildren(...lines);
  box.hidden = false;
}

function buildFactLines({ lost, kept }) {
  const again = (fact) => (fact.again_calls === null ? "cannot be fetched again" : `can be fetched again with ${formatCount(fact.again_calls, "call")}`);
  const words = `Facts of the task in view before: ${lost.length + kept.length}; lost: ${lost.length}`;
  const found = [make("p", { class: lost.length ? "a-lost" : "a-none-lost", text: words })];
  if (lost.length) found.push(make("ul", { class: "a-facts" }, ...lost.map((fact) => make("li", { text: `${fact.name} (${fact.kind}): ${again(fact)}` }))));
  if (kept.length) found.push(make("p", { class: "h-faint", text: `still in view: ${kept.map((fact) => fact.name).join(", ")}` }));
  return found;
}

function buildDispositionLines(disposition, messages, count) {
  const [before, after] = ["before", "after"].map((when) => messages.reduce((sum, message) => sum + message[when], 0));
  const tokens = disposition === "kept" ? formatNumber(after) : `${formatNumber(before)} → ${formatNumber(after)}`;
  const rows = messages.map((message) => make("tr", {},
    make("td", { class: "h-faint", text: message.role }), make("td", { class: "a-what", text: message.text }),
    make("td", { class: "a-number", text: disposition === "kept" || disposition === "summary" ? formatNumber(message.after) : `${formatNumber(message.before)} → ${formatNumber(message.after)}` })));
  return make("details", { open: disposition === "summary" ? false : undefined },
    make("summary", {}, make("span", { class: `a-disposition a-${disposition}`, text: DISPOSITIONS[disposition] }), ` ${formatCount(count, "message")}, ${tokens} tokens`),
    make("table", {}, make("tbody", {}, ...rows)));
}

function showFiles(box, content) {
  if (content.error) return box.replaceChildren(make("p", { class: "h-error", text: content.error }));
  const back = content.changed_back ? [make("p", { class: "h-faint", text: `${formatCount(content.changed_back, "more file")} changed and changed back` })] : [];
  if (!content.files.length) return box.replaceChildren(make("p", { class: "h-faint", text: content.whole ? "No files have changed since the start." : "No files have changed in this turn." }), ...back);
  const rows = content.files.map((file) => make("tr", {},
    make("td", { class: `a-${file.kind}`, text: file.kind }), make("td", { class: "a-what", text: file.path }),
    make("td", { class: "a-number", text: `+${file.added} −${file.removed}` })));
  const more = content.count > content.files.length ? [make("p", { class: "h-faint", text: `and ${formatNumber(content.count - content.files.length)} more` })] : [];
  const lines = make("details", {}, make("summary", { text: "Changes line by line" }), make("pre", { text: content.patch }));
  box.replaceChildren(make("table", {}, make("tbody", {}, ...rows)), ...more, ...back, lines);
}

/** Transcript: rows by number, at most MOST_ROWS of them in the page. */
class Transcript {
  constructor(parts, ask, memory, openRound) {
    Object.assign(this, { parts, ask, memory, openRound });
    this.rows = new Map();
    this.elements = new Map();
    this.lowest = 0;
    this.count = 0;
    this.detached = false; // the newest rows were dropped to make room for earlier ones
    this.sticks = true;
    parts.scroll.addEventListener("scroll", () => {
      const box = parts.scroll;
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

  put(row) {
    this.count = Math.max(this.count, row.n + 1);
    if (this.rows.size === 0) this.lowest = row.n;
    if (row.n < this.lowest || (this.detached && !this.rows.has(row.n))) return;
    const fresh = this.buildRow(row);
    const old = this.elements.get(row.n);
    this.rows.set(row.n, row);
    this.elements.set(row.n, fresh);
    if (old) keepFocus(this.parts.rows, () => old.replaceWith(fresh));
    else this.parts.rows.append(fresh);
    while (this.rows.size > MOST_ROWS) this.drop(this.lowest++);
  }

  grow({ n, at, text }) {
    const row = this.rows.get(n);
    if (!row || at > row.text.length) return; // the whole row follows at the end of its step
    row.text += text.slice(row.text.length - at);
    const element = this.elements.get(n);
    if (row.kind === "thought") element.querySelector(".a-title").textContent = formatThought(row);
    const shown = element.querySelector("pre"); // missing in a folded row
    if (shown) shown.textContent = row.text;
  }

  /** Replace all rows by the newest. */
  replace(rows) {
    this.discardRows();
    for (const row of rows) this.put(row);
    this.updateControls();
  }

  /** Insert rows before the first row. */
  prepend(rows) {
    const known = rows.filter((row) => row.n < this.lowest || this.rows.size === 0);
    if (!known.length) return;
    const [box, height] = [this.parts.scroll, this.parts.scroll.scrollHeight];
    const made = known.map((row) => [row, this.buildRow(row)]);
    for (const [row, element] of made) {
      this.rows.set(row.n, row);
      this.elements.set(row.n, element);
    }
    this.parts.rows.prepend(...made.map(([, element]) => element));
    this.lowest = known[0].n;
    let highest = Math.max(...this.rows.keys());
    while (this.rows.size > MOST_ROWS) {
      this.drop(highest--);
      this.detached = true;
    }
    if (!this.sticks) box.scrollTop += box.scrollHeight - height;
    this.updateControls();
  }

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

  buildRow(row) {
    if (row.kind === "tool") return this.buildFoldedRow(row, `${row.status === "running" ? "…" : row.status} · ${row.title}`, row.size ? `${formatNumber(row.size)} characters` : "");
    if (row.kind === "compaction") return this.buildCompactionRow(row);
    if (row.kind === "thought") return this.buildFoldedRow(row, formatThought(row), "");
    if (row.kind === "system") return this.buildFoldedRow(row, `system prompt · ${row.text.slice(0, 100)}`, "");
    const box = make("div", { class: `a-row a-${row.kind}`, "data-n": row.n },
      make("span", { class: "a-who h-faint", text: SPEAKERS[row.kind] ?? row.kind }), make("pre", { class: "a-text", text: row.text }));
    if (row.more) box.append(this.buildFoldedRow(row, "show the whole text", ""));
    return box;
  }

  buildFoldedRow(row, title, aside) {
    const body = make("div", { class: "a-body" });
    const open = this.memory.open.has(row.n);
    const wrong = row.status === "error" || /^exit code (?!0$)/.test(row.status ?? "");
    const line = make("summary", { "data-key": `row ${row.n}` }, make("span", { class: wrong ? "a-title a-wrong" : "a-title", text: title }), make("span", { class: "h-faint a-aside", text: aside }));
    const box = make("details", { class: `a-row a-${row.kind}`, "data-n": row.n, open }, line, body);
    const fill = () => {
      if (row.kind !== "tool" && !row.more) body.replaceChildren(make("pre", { class: "a-text", tabindex: "0", text: row.text }));
      else this.ask({ kind: "body", row: row.n });
    };
    box.addEventListener("toggle", () => {
      this.memory.open[box.open ? "add" : "delete"](row.n);
      if (box.open) fill();
      else body.replaceChildren();
    });
    return box;
  }

  /** Fill an unfolded row with its content. */
  fill({ n, parts }) {
    const body = this.elements.get(n)?.matches("details") ? this.elements.get(n).querySelector(".a-body") : this.elements.get(n)?.querySelector("details .a-body");
    body?.replaceChildren(...parts.flatMap(([name, text]) => [
      ...(name ? [make("div", { class: "a-name h-faint", text: name })] : []), make("pre", { class: "a-text", tabindex: "0", text })]));
  }

  buildCompactionRow(row) {
    const lost = row.lost === null || row.lost === undefined ? "" : `, ${row.lost} fact${row.lost === 1 ? "" : "s"} lost`;
    const text = row.status === "applied" ? `Compaction ${row.round}: ${formatNumber(row.before)} → ${formatNumber(row.after)} tokens${lost}` : `Compaction ${row.status}: ${row.reason}`;
    return make("div", { class: "a-row a-compaction", "data-n": row.n },
      make("button", { type: "button", text, title: row.reason, "data-key": `row ${row.n}`, on: { click: (event) => this.openRound(row.seq, event.target.parentElement) } }));
  }
}

/** Line of Python that reopens the session; empty while nothing is logged. */
const formatReopening = ({ session = {} }) => (session.begun ? session.reopen : "");

/** Update the buttons and boxes that depend on the state of the session. */
function showPhase(parts, state) {
  const phase = state.phase ?? "new";
  parts.phase.textContent = WORDS[phase] ?? phase;
  parts.phase.className = `a-phase a-is-${phase}`;
  const busy = ["starting", "working", "compacting", "asking"].includes(phase);
  enable(parts.start, phase === "new");
  enable(parts.stop, busy);
  enable(parts.resume, phase === "idle" && state.interrupted);
  enable(parts.compact, phase === "idle");
  enable(parts.rollback, phase === "idle");
  enable(parts.fork, phase !== "new" && phase !== "starting");
  parts.note.textContent = state.session?.note ?? "";
  parts.note.hidden = !parts.note.textContent;
  const over = phase === "closed" || phase === "failed";
  enable(parts.end, !over && phase !== "new");
  enable(parts.send, !over);
  enable(parts.draft, !over);
  parts.draft.readOnly = over;
  for (const name of ["diff", "all"]) enable(parts[name], phase !== "new" && phase !== "starting");
  parts.waiting.textContent = state.waiting || "";
  const { model = "", policy = "", sandbox = "", id = "", kept = "" } = state.session ?? {};
  parts.about.textContent = [model, policy, sandbox && `sandbox ${sandbox}`, id && `session ${id}`].filter(Boolean).join(" · ");
  parts.about.title = kept;
  const again = over ? formatReopening(state) : "";
  const failure = state.failure && again ? `${state.failure}\nTo reopen the session, run:  ${again}` : state.failure;
  const words = failure || state.error || "";
  parts.failure.hidden = !words;
  parts.failure.textContent = words;
  const alerts = state.alerts ?? [];
  parts.alerts.hidden = !alerts.length;
  parts.alerts.textContent = alerts.map((text) => `Alert: ${text}`).join("\n");
}

function showQueue(parts, queued) {
  parts.queue.replaceChildren(...queued.map((text, index) => make("li", {},
    make("span", { class: "h-faint", text: index ? `queued, position ${index + 1}: ` : "queued, next: " }), text.slice(0, 300))));
}

/** Show messages sent from this page until the kernel confirms them. */
function showSending(parts) {
  parts.sending.replaceChildren(...[...memory.sending.values()].map((text) => make("li", {},
    make("span", { class: "h-faint", text: "sending: " }), text)));
}

function showQuestion(parts, question, ask) {
  if (!question && parts.question.contains(document.activeElement)) parts.scroll.focus();
  parts.question.hidden = !question;
  if (!question) return parts.question.replaceChildren();
  const button = (answer, text) => make("button", { type: "button", text, on: { click: () => ask({ kind: "answer", answer }) } });
  parts.question.replaceChildren(
    make("span", { text: question }), button("continue", "Continue"), button("stop", "Stop"), button("always", "Always allow"));
}

/** Create one view of the session in a page. */
function createView({ model, el }) {
  const root = createRoot(el, "Agent session");
  root.classList.add("a-root");
  const parts = buildLayout(root);
  const me = Math.random().toString(36).slice(2);
  let heardAt = performance.now();
  const ask = (message) => model.send({ ...message, view: me });
  let place = parts.rounds.parentElement; // element in which the details of a compaction are shown: the one that was clicked
  const openRound = (seq, clicked) => {
    place = clicked;
    ask({ kind: "round", seq });
  };
  const transcript = new Transcript(parts, ask, memory, openRound);
  let state = {};

  const showSilence = (yes) => {
    parts.silence.hidden = !yes;
    if (yes) [parts.phase.textContent, parts.phase.className] = ["no answer", "a-phase a-is-failed"];
    else showPhase(parts, state);
    if (yes) enable(parts.send, false);
    const again = formatReopening(state);
    parts.silence.textContent = !yes ? "" : "The kernel does not answer. If it is busy, the display continues by itself. " +
      (again ? `If it was restarted, the logged session is not lost: run  ${again}  to continue.` : "If it was restarted, run the cell again.");
  };
  const keepDraft = () => (memory.draft = parts.draft.value);
  const send = (event) => {
    event?.preventDefault();
    const text = parts.draft.value.trim();
    if (!text || !isEnabled(parts.send)) return;
    const request = `${me}:${(memory.sent += 1)}`;
    memory.sending.set(request, text);
    showSending(parts);
    parts.draft.value = memory.draft = "";
    ask({ kind: "send", text, request });
  };
  parts.draft.value = memory.draft;
  showSending(parts);
  showRounds(parts, [], openRound);
  parts.draft.addEventListener("input", keepDraft);
  parts.draft.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send(event);
  });
  parts.send.form.addEventListener("submit", send);
  for (const name of ["start", "stop", "resume", "compact", "end"]) parts[name].addEventListener("click", () => isEnabled(parts[name]) && ask({ kind: name }));
  parts.diff.addEventListener("click", () => isEnabled(parts.diff) && ask({ kind: "diff" }));
  parts.all.addEventListener("click", () => isEnabled(parts.all) && ask({ kind: "diff", whole: true }));
  const closeDetails = () => {
    parts.details.hidden = true;
    memory.round = null;
    (parts.details.parentElement?.querySelector("button") ?? parts.scroll).focus();
  };
  for (const name of ["fork", "rollback"]) {
    parts[name].addEventListener("click", () => isEnabled(parts[name]) && ask({ kind: name, step: Number(parts.branchStep.value) }));
  }
  const nested = nest(model, "forked", parts.forked);
  parts.details.addEventListener("keydown", (event) => event.key === "Escape" && closeDetails());

  const answers = {
    body: (content) => transcript.fill(content),
    rows: (content) => content.view === me && (content.newest ? transcript.replace(content.rows) : transcript.prepend(content.rows)),
    round: (content) => {
      if (content.view !== me) return;
      (place.isConnected ? place : parts.rounds.parentElement).append(parts.details);
      showDetails(parts.details, content, closeDetails);
      memory.round = content.seq;
      parts.details.focus();
    },
    files: (content) => showFiles(parts.files, content),
    sent: ({ request, taken }) => {
      const text = memory.sending.get(request);
      memory.sending.delete(request);
      showSending(parts);
      if (text === undefined || taken) return;
      parts.draft.value = memory.draft = [text, parts.draft.value].filter(Boolean).join("\n");
    },
  };
  const answer = (message) => {
    heardAt = performance.now();
    if (!parts.silence.hidden) showSilence(false);
    answers[message?.kind]?.(reveal(message));
  };
  model.on("msg:custom", answer);

  const end = connect(model, {
    items(items) {
      for (const item of items) (item.kind === "grown" ? transcript.grow(item) : transcript.put(item));
      transcript.updateControls();
    },
    state(changed, whole) {
      state = whole;
      if ("count" in changed) transcript.count = Math.max(transcript.count, changed.count);
      showPhase(parts, whole);
      if ("saved" in changed) parts.saved.textContent = buildHidingStyle(changed.saved);
      if ("queued" in changed) showQueue(parts, changed.queued);
      if ("question" in changed) showQuestion(parts, changed.question, ask);
      if ("gauge" in changed) showGauge(parts, changed.gauge);
      if ("gauge" in changed) parts.rule.textContent = changed.gauge.rule ?? "";
      if ("last_step" in changed) showBranchStep(parts, changed.last_step);
      if ("figures" in changed || "session" in changed || "step" in changed) showFigures(parts, whole.figures ?? {}, whole.session ?? {}, whole.step);
      if ("curve" in changed || "rounds" in changed) {
        showCurve(parts, whole.curve ?? [], whole.rounds ?? [], whole.gauge ?? {});
      }
      if ("rounds" in changed) showRounds(parts, changed.rounds, openRound);
    },
    skipped: () => transcript.restart(),
    silent: () => showSilence(true),
  });
  const beat = setInterval(() => {
    if (document.hidden || state.phase === "closed") heardAt = performance.now();
    else if (performance.now() - heardAt > MISSED_MS) showSilence(true);
    trySend(model, { kind: "beat", view: me });
  }, BEAT_MS);
  if (memory.round) openRound(memory.round, parts.rounds.parentElement);
  return () => {
    end();
    clearInterval(beat);
    model.off("msg:custom", answer);
    nested();
  };
}

/** Offer the newest step for a fork or a rollback, unless the user has chosen another one. */
function showBranchStep(parts, step) {
  const input = parts.branchStep;
  if (input.value === input.dataset.newest || !input.dataset.newest) input.value = step;
  [input.dataset.newest, input.max] = [String(step), step];
}

function showRounds(parts, rounds, openRound) {
  const button = (round) => {
    const applied = round.status === "applied";
    const text = applied ? `${round.round}${round.lost ? ` · ${round.lost} lost` : ""}` : `${round.status} at step ${round.step}`;
    const title = `before step ${round.step}: ${formatNumber(round.before)} → ${formatNumber(round.after)} tokens`;
    return make("button", { type: "button", text, title, "data-key": `round ${round.seq}`, "aria-label": `Compaction ${text}, ${title}`, on: { click: () => openRound(round.seq, parts.rounds.parentElement) } });
  };
  const earlier = rounds.length - MOST_BUTTONS;
  const words = rounds.length ? [] : [make("span", { class: "h-faint", text: "none yet" })];
  if (earlier > 0) words.push(make("span", { class: "h-faint", text: `${formatNumber(earlier)} earlier compactions can be opened from the transcript ` }));
  const box = parts.rounds;
  const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 24;
  keepFocus(box, () => box.replaceChildren(...words, ...rounds.slice(-MOST_BUTTONS).map(button)));
  if (isAtEnd) box.scrollTop = box.scrollHeight;
}

// Every widget has its own module, so this state survives when a view is created again.
const memory = { draft: "", sent: 0, sending: new Map(), open: new Set(), round: null };

export default { render: createView };
