// Page side of SessionInspector: timeline, current step, all messages of the step, and keyboard navigation.

class Inspector {
  constructor(model, el) {
    this.model = model;
    this.ask = createRequester(model);
    this.root = createRoot(el, "Session inspector");
    this.root.classList.add("harness-looking");
    this.known = {};
    this.place = 1;
    this.build();
    this.stop = connect(model, {
      state: (changed, whole) => this.receive(changed, whole),
      silent: () => { this.error.textContent = "The kernel does not answer. Run this cell to browse the session."; },
    });
  }

  build() {
    this.name = make("span", { class: "h-faint" });
    this.facts = make("tbody");
    this.error = make("p", { class: "h-error", role: "alert" });
    this.line = createTimeline((index) => this.goTo(index + 1));
    this.step = make("input", {
      type: "range", min: 1, max: 1, step: 1, value: 1, "aria-label": "step", name: "step",
      on: { input: () => this.goTo(Number(this.step.value)) },
    });
    this.at = make("output", { class: "h-at", "aria-live": "polite" });
    const button = (text, title, act) =>
      make("button", { type: "button", text, title, "aria-label": title, on: { click: act } });
    this.stepFacts = make("tbody");
    this.compactions = make("div", { class: "h-compactions" });
    this.texts = make("div", { class: "h-texts", tabindex: "0", "aria-label": "text of the selected message", role: "region" });
    this.list = createRowList(
      "messages of this step", (row) => this.buildRow(row),
      (index) => this.model.send({ kind: "read", message: index }), (wanted) => this.model.send({ kind: "rows", rows: wanted }),
    );
    this.root.append(
      make("header", { class: "h-head" }, make("strong", { text: "Session inspector" }), this.name),
      make("details", { class: "h-more" }, make("summary", { text: "about the session" }), make("table", { class: "h-facts" }, this.facts)),
      this.error, this.line.element,
      make("div", { class: "h-steps" },
        button("◀ step", "previous step", () => this.goTo(this.place - 1)), this.step,
        button("step ▶", "next step", () => this.goTo(this.place + 1)), this.at,
        button("◀ compaction", "previous compaction", () => this.jump(-1)),
        button("compaction ▶", "next compaction", () => this.jump(1))),
      make("p", { class: "h-faint h-keys", text: "keys: ← → previous and next step; page up, page down previous and next compaction; home, end first and last step; ↑ ↓ messages in the list" }),
      make("table", { class: "h-facts" }, this.stepFacts), this.compactions,
      make("div", { class: "h-pair" }, this.list.element, this.texts),
    );
    this.root.tabIndex = 0;
    this.root.addEventListener("keydown", (event) => this.handleKey(event));
  }

  handleKey(event) {
    if (event.target.matches("input, select, textarea") || event.altKey || event.ctrlKey || event.metaKey) return;
    const acts = {
      ArrowLeft: () => this.goTo(this.place - 1), ArrowRight: () => this.goTo(this.place + 1),
      PageUp: () => this.jump(-1), PageDown: () => this.jump(1),
      Home: () => this.goTo(1), End: () => this.goTo(this.known.session.steps.length),
    };
    if (!(event.key in acts)) return;
    event.preventDefault();
    acts[event.key]();
  }

  goTo(place) {
    const { steps } = this.known.session;
    this.place = Math.min(steps.length, Math.max(1, place));
    this.step.value = this.place;
    this.at.textContent = `step ${formatNumber(steps[this.place - 1])} of ${formatNumber(steps.length)}`;
    this.ask.want({ step: this.place });
  }

  buildMarks() {
    const { steps, attempts } = this.known.session;
    const place = new Map(steps.map((step, index) => [step, index]));
    return attempts.map(([step, before, after, status, reason]) => ({
      index: place.get(step) ?? steps.length - 1,
      kind: status === "applied" ? "applied" : "fruitless",
      text: `before step ${formatNumber(step)}: ${formatNumber(before)} → ${formatNumber(after)} tokens, ${status}: ${reason}`,
    }));
  }

  jump(way) {
    const places = this.buildMarks().map((mark) => mark.index + 1);
    const next = way > 0 ? places.find((place) => place > this.place) : places.findLast((place) => place < this.place);
    if (next !== undefined) this.goTo(next);
  }

  receive(changed, whole) {
    this.known = whole;
    if (!whole.session || !whole.step) return;
    if (changed.session) this.showSession(whole.session);
    const { refused } = changed; // null once the kernel accepts a request again
    if (refused) this.ask.acceptAnswer(refused.request);
    if (changed.step) {
      if (this.ask.acceptAnswer(whole.step.request)) this.place = whole.step.place;
      this.draw(whole);
    }
    if (refused !== undefined) this.error.textContent = refused?.text ?? "";
    if (changed.rows) this.list.receive(whole.rows);
    if (changed.reading && whole.reading.message === this.list.chosen()) { // another page may have selected another message
      const { title, text } = whole.reading;
      this.texts.replaceChildren(make("h4", { text: title }), make("pre", { text }));
    }
  }

  showSession(session) {
    this.name.textContent = ` ${session.name}`;
    this.step.max = session.steps.length;
    this.facts.replaceChildren(...session.facts.map(([name, text]) => this.buildFactRow(name, text)));
  }

  buildFactRow(name, text) {
    return make("tr", {}, make("th", { scope: "row", text: name }), make("td", { text }));
  }

  draw({ session, step }) {
    const limits = [];
    if (session.threshold_tokens !== null) limits.push({ tokens: session.threshold_tokens, name: "threshold", kind: "threshold" });
    const most = session.curve.reduce((one, other) => Math.max(one, other), 0);
    if (session.window_tokens > 0 && session.window_tokens < 4 * most)
      limits.push({ tokens: session.window_tokens, name: "window", kind: "window" });
    const marks = this.buildMarks();
    const label = `tokens in view over ${formatCount(session.steps.length, "step")}, ${formatCount(marks.length, "compaction")}`;
    this.line.show({ whole: [], curve: session.curve, limits, marks, at: step.place - 1, label });
    this.step.value = step.place;
    this.at.textContent = `step ${formatNumber(session.steps[step.place - 1])} of ${formatNumber(session.steps.length)}`;
    this.stepFacts.replaceChildren(...step.facts.map(([name, text]) => this.buildFactRow(name, text)));
    this.list.show(step);
    if (step.place === this.drawn) return; // sent again, e.g. to another page: what the reader has opened stays open
    this.drawn = step.place;
    this.compactions.replaceChildren(...step.compactions.map((compaction) => this.buildCompaction(compaction)));
    this.list.scrollTo(step.count - 1);
    this.list.select(step.answer);
  }

  buildCompaction({ title, reason, summary }) {
    const parts = [make("p", { class: "h-compacted", text: `${title}. ${reason}` })];
    if (summary) parts.push(make("details", {}, make("summary", { text: "summary" }), make("pre", { tabindex: "0", text: summary })));
    return make("div", { class: "h-compaction" }, ...parts);
  }

  buildRow([kind, role, mark, text]) {
    return {
      class: `h-part-${kind}`,
      children: [
        make("span", { class: "h-kind", text: kind }),
        make("span", { class: "h-role", text: role }),
        make("span", { class: "h-new", text: mark }),
        make("span", { class: "h-label", text }),
      ],
    };
  }
}

export default {
  render({ model, el }) {
    const inspector = new Inspector(model, el);
    return () => {
      inspector.stop();
      inspector.ask.end();
    };
  },
};
