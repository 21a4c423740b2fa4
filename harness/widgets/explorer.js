// Page side of CompactionExplorer: controls, timeline, tokens in view, and every message with its disposition.

const MEANS = {
  kept: "kept unchanged",
  masked: "masked: replaced by a shorter text",
  summarized: "summarized: removed, and described by a summary",
  dropped: "dropped: removed without a summary",
  summary: "inserted by a compaction",
};

/** Create a slider, switch or choice with name and value; `turned(value)` is called on every change. */
function createControl(control, value, turned) {
  const title = control.name.replaceAll("_", " ");
  const output = make("output", { class: "h-value" });
  const showValue = (now) => {
    output.textContent = now === null || now === undefined ? "off" : control.kind === "share" ? Number(now).toFixed(2) : formatNumber(now);
  };
  const offered = { "aria-label": title, name: control.name };
  let input;
  if (control.kind === "switch") {
    input = make("input", { ...offered, type: "checkbox", checked: Boolean(value), on: { change: () => turned(input.checked) } });
  } else if (control.kind === "choice") {
    const options = control.choices.map((choice) => make("option", { value: choice, text: choice, selected: choice === value }));
    input = make("select", { ...offered, on: { change: () => turned(input.value) } }, ...options);
  } else {
    const off = control.optional ? control.least - control.notch : control.least;
    const now = () => (control.optional && Number(input.value) <= off ? null : Number(input.value));
    const move = () => { showValue(now()); turned(now()); };
    const range = { type: "range", min: off, max: Math.max(control.most, value ?? 0), step: control.notch };
    input = make("input", { ...offered, ...range, value: value ?? off, on: { input: move } });
    showValue(value ?? (control.optional ? null : off));
  }
  return make("label", { class: "h-knob" }, make("span", { text: title }), input, output);
}

/** View of the explorer, drawn from the states sent by the kernel. */
class Explorer {
  constructor(model, el) {
    this.model = model;
    this.ask = createRequester(model, () => this.list.visible());
    this.root = createRoot(el, "Compaction explorer");
    this.root.classList.add("harness-looking");
    this.look = null;
    this.known = {};
    this.build();
    const form = make("div", { class: "h-form" });
    el.append(form);
    this.close = nest(model, "form", form);
    this.stop = connect(model, {
      state: (changed, whole) => this.receive(changed, whole),
      silent: () => this.showError("The kernel does not answer. Run this cell to explore the session."),
    });
  }

  build() {
    this.name = make("span", { class: "h-faint" });
    this.policy = make("select", { "aria-label": "policy", on: { change: () => this.changeSettings({ policy: this.policy.value, fields: {} }) } });
    this.window = make("select", { "aria-label": "window", on: { change: () => this.changeSettings({ window_tokens: Number(this.window.value) }) } });
    this.scaled = make("input", { type: "checkbox", on: { change: () => this.changeSettings({ nominal_window_tokens: this.readNominalWindow() }) } });
    this.scaledLabel = make("span");
    this.first = make("div", { class: "h-knobs" });
    this.rest = make("div", { class: "h-knobs" });
    this.more = make("details", { class: "h-more" }, make("summary", { text: "all fields" }), this.rest);
    this.sentence = make("p", { class: "h-sentence" });
    this.rule = make("p", { class: "h-faint" });
    this.error = make("p", { class: "h-error", role: "alert" });
    this.line = createTimeline((index) => this.goTo(index));
    this.step = make("input", {
      type: "range", min: 1, max: 1, step: 1, value: 1, "aria-label": "step", name: "step",
      on: { input: () => this.goTo(Number(this.step.value) - 1) },
    });
    this.at = make("output", { class: "h-at" });
    const jump = (text, title, way) =>
      make("button", { type: "button", text, title, "aria-label": title, on: { click: () => this.jump(way) } });
    this.pin = make("button", { type: "button", on: { click: () => this.model.send({ kind: this.known.run.pinned ? "unpin" : "pin" }) } });
    const open = { title: "open a form for a grid with these values, below", on: { click: () => this.model.send({ kind: "form" }) } };
    this.use = make("button", { type: "button", text: "use in a grid", ...open });
    this.comparison = make("table", { class: "h-comparison", hidden: true });
    this.code = make("pre", { tabindex: "0", role: "region", "aria-label": "Python code" });
    this.plan = make("pre", { tabindex: "0", role: "region", "aria-label": "lines of a plan file" });
    this.status = make("p", { class: "h-said", "aria-live": "polite" });
    this.bars = make("div", { class: "h-bars" });
    this.sums = make("tbody");
    const heads = ["disposition", "messages", "tokens as logged", "tokens in view"].map((text) => make("th", { text, scope: "col" }));
    this.texts = make("div", { class: "h-texts", tabindex: "0", "aria-label": "text of the selected message", role: "region" },
      make("p", { class: "h-faint", text: "select a message in the list to read its text" }));
    this.list = createRowList(
      "messages", (row) => this.buildRow(row),
      (index) => this.model.send({ kind: "read", message: index }), (wanted) => this.model.send({ kind: "rows", rows: wanted }),
    );
    const field = (text, ...controls) => make("label", { class: "h-field" }, make("span", { text }), ...controls);
    this.root.append(
      make("header", { class: "h-head" }, make("strong", { text: "Compaction explorer" }), this.name),
      make("div", { class: "h-choices" }, field("policy", this.policy), field("window", this.window),
        make("label", { class: "h-field" }, this.scaled, this.scaledLabel), this.pin, this.use),
      this.first, this.more, this.sentence, this.rule, this.error, this.line.element,
      make("div", { class: "h-steps" }, this.step, this.at,
        jump("◀ compaction", "previous compaction", -1), jump("compaction ▶", "next compaction", 1)),
      this.status, this.comparison, this.bars,
      make("table", { class: "h-sums" }, make("thead", {}, make("tr", {}, ...heads)), this.sums),
      make("div", { class: "h-pair" }, this.list.element, this.texts),
      make("details", { class: "h-more h-use" }, make("summary", { text: "these values as Python code and as lines of a plan" }),
        make("p", { text: "Python, for any task:" }), this.code, make("p", { text: "plan.toml, for any task:" }), this.plan),
    );
  }

  readNominalWindow() {
    return this.scaled.checked ? this.known.offered.nominal : null;
  }

  /** Change settings and request the resulting view. */
  changeSettings(change) {
    this.look = { ...this.look, ...change };
    this.ask.want(this.look);
  }

  goTo(index) {
    this.at.textContent = `step ${formatNumber(this.known.session.steps[index])} of ${formatNumber(this.known.session.steps.length)}`;
    this.changeSettings({ step: index + 1 });
  }

  /** Go to the previous (-1) or next (1) compaction. */
  jump(way) {
    const places = this.buildMarks().filter((mark) => mark.kind === "applied").map((mark) => mark.index);
    const here = this.look.step - 1;
    const next = way > 0 ? places.find((index) => index > here) : places.findLast((index) => index < here);
    if (next === undefined) return;
    this.step.value = next + 1;
    this.goTo(next);
  }

  buildMarks() {
    const { session, run } = this.known;
    const place = new Map(session.steps.map((step, index) => [step, index]));
    return run.attempts.map(([step, before, after, status, reason]) => ({
      index: place.get(step) ?? 0,
      kind: status === "applied" ? "applied" : "fruitless",
      text: `before step ${formatNumber(step)}: ${formatNumber(before)} → ${formatNumber(after)} tokens, ${status}: ${reason}`,
    }));
  }

  receive(changed, whole) {
    this.known = whole;
    const { picture } = whole;
    if (!whole.session || !whole.offered || !picture) return;
    if (changed.session || changed.offered) this.showSession(whole);
    const { refused } = changed; // null once the kernel accepts a request again
    if (refused) this.ask.acceptAnswer(refused.request);
    if (changed.picture) {
      const newest = this.ask.acceptAnswer(picture.request);
      if (newest) this.showSettings(picture.look, Boolean(changed.policy));
      this.draw(whole);
      if (newest && !picture.done) this.ask.want(this.look);
    }
    if (changed.rows) this.list.receive(whole.rows);
    if (refused !== undefined) this.showError(refused?.text ?? "");
    if (changed.reading !== undefined) this.showText(whole.reading);
  }

  showError(text) {
    this.error.textContent = text;
    this.root.classList.toggle("h-refused", text !== "");
  }

  showSession({ session, offered, picture }) {
    this.name.textContent = ` ${session.name}`;
    this.policy.replaceChildren(...offered.policies.map((name) => make("option", { value: name, text: name })));
    const windows = [...new Set([...offered.windows, picture.look.window_tokens])].sort((a, b) => a - b);
    this.window.replaceChildren(...windows.map((tokens) => make("option", { value: tokens, text: `${formatNumber(tokens)} tokens` })));
    this.scaledLabel.textContent = `constants scaled from ${formatNumber(offered.nominal)}`;
    this.step.max = session.steps.length;
  }

  /** Show the current settings on the controls. */
  showSettings(look, other) {
    const fresh = other || this.look === null || JSON.stringify(look.fields) !== JSON.stringify(this.look.fields);
    this.look = look;
    [this.policy.value, this.window.value] = [look.policy, String(look.window_tokens)];
    [this.scaled.checked, this.step.value] = [look.nominal_window_tokens !== null, look.step];
    if (fresh) this.buildControls(look);
  }

  buildControls(look) {
    const create = (control) => {
      const value = control.name in look.fields ? look.fields[control.name] : control.value;
      return createControl(control, value, (now) => this.changeSettings({ fields: { ...this.look.fields, [control.name]: now } }));
    };
    const summary = { name: "length_of_summaries", kind: "amount", least: 1, most: 8000, notch: 100, choices: [], optional: false };
    const { controls } = this.known.policy;
    this.first.replaceChildren(...controls.filter((control) => control.first).map(create));
    const rest = controls.filter((control) => !control.first).map(create);
    this.rest.replaceChildren(...rest, createControl(summary, look.summary_tokens, (now) => this.changeSettings({ summary_tokens: now })));
    this.sentence.textContent = this.known.policy.sentence;
  }

  draw({ session, run, picture, offered }) {
    const { index, sums } = picture;
    const limits = [{ tokens: run.window_tokens, name: "window", kind: "window" }];
    if (run.threshold_tokens !== null) limits.unshift({ tokens: run.threshold_tokens, name: "threshold", kind: "threshold" });
    const marks = this.buildMarks();
    const applied = marks.filter((mark) => mark.kind === "applied").length;
    const label = `tokens in view over ${formatCount(session.steps.length, "step")}, ${formatCount(applied, "compaction")}`;
    const pinned = run.pinned?.curve ?? [];
    this.line.show({ whole: session.whole, pinned, curve: run.curve, oversized: run.oversized, limits, marks, at: index, label });
    this.pin.textContent = run.pinned ? "unpin" : "pin to compare";
    this.pin.title = run.pinned ? `compared with ${run.pinned.name}` : "compare the settings chosen next with these";
    this.drawComparison(run.comparison, picture);
    [this.code.textContent, this.plan.textContent] = [run.code, run.plan];
    this.rule.replaceChildren(run.rule, ...run.warnings.map((text) => make("span", { class: "x-warning", text: `Warning: ${text}` })));
    const until = picture.done ? "" : `, computed to step ${formatNumber(session.steps[run.curve.length - 1])} so far`;
    this.at.textContent = `step ${formatNumber(session.steps[index])} of ${formatNumber(session.steps.length)}${until}`;
    const here = marks.filter((mark) => mark.index === index).map((mark) => mark.text).join("; ");
    const dispositions = sums.filter(([, count]) => count).map(([disposition, count]) => `${formatNumber(count)} ${disposition}`).join(", ");
    const excess = picture.view_tokens - run.window_tokens;
    const refused = excess > 0 ? `This request exceeds the window by ${formatNumber(excess)} tokens, so a provider would refuse it. ` : "";
    this.status.textContent = `${refused}${formatNumber(picture.view_tokens)} of ${formatNumber(session.whole[index])} tokens in view: ${dispositions}. ${here}`;
    this.drawBars(session, picture, offered, run);
    this.sums.replaceChildren(...sums.map((sum) => this.buildSumRow(sum)));
    this.list.show(picture);
    if (this.list.chosen() >= 0) this.model.send({ kind: "read", message: this.list.chosen() });
  }

  /** Show the current settings beside the pinned ones, over the whole session and at the current step. */
  drawComparison(rows, picture) {
    this.comparison.hidden = rows.length === 0;
    if (!rows.length) return;
    const sums = new Map(picture.pinned_sums.map(([disposition, count, , after]) => [disposition, [count, after]]));
    const cell = (count, after) => `${formatCount(count, "message")}, ${formatNumber(after)} tokens`;
    const here = picture.sums.map(([disposition, count, , after]) => [`at this step: ${disposition}`, cell(count, after), cell(...sums.get(disposition))]);
    const [[, shown, pinned], ...rest] = rows;
    const heads = ["", `shown: ${shown}`, `pinned (dashed line): ${pinned}`].map((text) => make("th", { text, scope: "col" }));
    const body = [...rest, ...here].map(([name, ours, theirs]) =>
      make("tr", {}, make("th", { scope: "row", text: name }), make("td", { text: ours }), make("td", { text: theirs })));
    this.comparison.replaceChildren(make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...body));
  }

  buildSumRow([disposition, count, before, after]) {
    const swatch = make("span", { class: `h-swatch h-disposition-${disposition}`, "aria-hidden": "true" });
    const cells = [count, before, after].map((value) => make("td", { class: "h-number", text: formatNumber(value) }));
    return make("tr", {}, make("th", { scope: "row", title: MEANS[disposition] }, swatch, disposition), ...cells);
  }

  drawBars(session, picture, offered, run) {
    const widest = Math.max(session.whole[picture.index], picture.view_tokens, 1);
    this.bars.replaceChildren(
      this.buildBar("as logged", picture.logged, session.whole[picture.index], widest, offered),
      this.buildBar("in view", picture.shown, picture.view_tokens, widest, offered),
    );
  }

  buildBar(name, runs, total, widest, offered) {
    const parts = runs.map(([disposition, tokens]) => {
      const part = make("span", { class: `h-disposition-${offered.dispositions[disposition]}`, title: `${offered.dispositions[disposition]}: ${formatNumber(tokens)} tokens` });
      part.style.flexGrow = String(tokens);
      return part;
    });
    const bar = make("span", { class: "h-bar", role: "img", "aria-label": `${name}: ${formatNumber(total)} tokens` }, ...parts);
    bar.style.width = `${(100 * total) / widest}%`;
    return make("div", { class: "h-barline" }, make("span", { class: "h-faint", text: name }), make("span", {}, bar));
  }

  buildRow([role, text, disposition, before, after, changed]) {
    const tokens = disposition === "masked" ? `${formatNumber(before)}→${formatNumber(after)}` : formatNumber(before);
    const since = changed ? ` since step ${formatNumber(changed)}` : "";
    return {
      class: `h-is-${disposition}`,
      children: [
        make("span", { class: `h-swatch h-disposition-${disposition}`, "aria-hidden": "true" }),
        make("span", { class: "h-disposition", text: disposition, title: `${MEANS[disposition]}${since}` }),
        make("span", { class: "h-role", text: role }),
        make("span", { class: "h-number", text: tokens }),
        make("span", { class: "h-label", text }),
      ],
    };
  }

  showText(reading) {
    if (!reading) {
      this.texts.replaceChildren(make("p", { class: "h-faint", text: "this message comes after the current step" }));
      return;
    }
    const parts = [["in view", reading.shown], [`${reading.role}, as logged`, reading.logged], ["summary that replaces it", reading.summary]];
    this.texts.replaceChildren(
      ...parts.filter(([, text]) => text !== null).flatMap(([title, text]) => [make("h4", { text: title }), make("pre", { text })]),
    );
  }
}

export default {
  render({ model, el }) {
    const explorer = new Explorer(model, el);
    return () => {
      explorer.stop();
      explorer.ask.end();
      explorer.close();
    };
  },
};
