// Page side of CompactionExplorer: controls, timeline, tokens in view, and every message with its disposition.

import { showAutopsy } from "./autopsy.js";
import { makeSessionId } from "./copy_button.js";
import { createRoot, make } from "./elements.js";
import "./explorer.css";
import { connect } from "./kernel.js";
import { nest } from "./nested_view.js";
import { formatCount, formatNumber, groupDigits } from "./numbers.js";
import { createRowList } from "./row_list.js";
import { createControl } from "./setting_control.js";
import { createTimeline, findNext, listMarks } from "./timeline.js";
import { makeTwinButtons } from "./twin_buttons.js";
import { createRequester } from "./view_requests.js";

/** @import { Autopsy } from "./autopsy.js" */
/** @import { Strip } from "./fact_strip.js" */
/** @import { Model } from "./nested_view.js" */
/** @import { Block } from "./row_list.js" */
/** @import { Control, Value } from "./setting_control.js" */
/** @import { Attempt, Limit } from "./timeline.js" */
/** @import { Choices } from "./twin_buttons.js" */
/** @typedef {"kept" | "masked" | "summarized" | "dropped" | "summary"} Disposition */
/** @typedef {[disposition: Disposition, count: number, before: number, after: number]} Sum */
/** @typedef {[disposition: number, tokens: number][]} Bar Parts of a bar; dispositions are indices in `offered.dispositions`. */
/** @typedef {[role: string, text: string, disposition: Disposition, before: number, after: number, changed: number]} Row */
/**
 * @typedef {object} Look Settings of the explorer.
 * @property {string} policy
 * @property {Record<string, Value>} fields
 * @property {number} window_tokens
 * @property {number | null} nominal_window_tokens
 * @property {number} summary_tokens
 * @property {number} step
 */
/**
 * @typedef {object} Run What does not depend on the step.
 * @property {number[]} curve
 * @property {Attempt[]} attempts
 * @property {number} window_tokens
 * @property {number | null} threshold_tokens
 * @property {string} rule
 * @property {string[]} warnings
 * @property {number[]} oversized
 * @property {{ notice: string, strips: Strip[] } | null} autopsy Facts over the steps; null while the policy runs.
 * @property {{ name: string, curve: number[] } | null} pinned
 * @property {[name: string, shown: string, pinned: string][]} comparison
 * @property {string} code
 * @property {string} plan
 */
/**
 * @typedef {object} Picture State at the step shown.
 * @property {string} request
 * @property {Look} look
 * @property {string} values Sentence on the values that are set.
 * @property {boolean} done
 * @property {number} index
 * @property {Bar} logged
 * @property {Bar} shown
 * @property {Sum[]} sums
 * @property {Sum[]} pinned_sums
 * @property {number} view_tokens
 * @property {string[]} kept Facts that other compactions lost and these settings would keep, in sentences.
 * @property {string} refusal Why a provider would refuse the request; empty if it would not.
 */
/** @typedef {{ message: number, role: string, logged: string, shown: string | null, summary: string | null }} Reading */
/**
 * @typedef {object} State
 * @property {{ name: string, id: string, steps: number[], whole: number[] }} session `id` is empty without a journal.
 * @property {{ policies: string[], windows: number[], nominal: number, dispositions: Disposition[] }} offered
 * @property {{ controls: Control[], sentence: string }} policy
 * @property {Run} run
 * @property {Picture & Block<Row>} picture
 * @property {Block<Row>} rows
 * @property {Reading | null} reading
 * @property {(Autopsy & { twins: Choices }) | null} autopsy Autopsy of the compaction that is open.
 * @property {boolean} [working] Whether a fork is being prepared.
 * @property {{ request: string, text: string } | null} refused
 */

/** @type {Record<Disposition, string>} */
const MEANS = {
  kept: "kept unchanged",
  masked: "masked: replaced by a shorter text",
  summarized: "summarized: removed, and described by a summary",
  dropped: "dropped: removed without a summary",
  summary: "inserted by a compaction",
};
/** @type {Control} */
const SUMMARY_LENGTH = {
  name: "length_of_summaries",
  kind: "amount",
  least: 1,
  most: 8000,
  notch: 100,
  choices: [],
  optional: false,
};
const HEADS = ["disposition", "messages", "tokens as logged", "tokens in view"];

/** View of the explorer, drawn from the states sent by the kernel. */
class Explorer {
  name = make("span", { class: "h-faint" });
  /** @type {HTMLSelectElement} */
  policy = make("select", {
    "aria-label": "policy",
    on: { change: () => this.changeSettings({ policy: this.policy.value, fields: {} }) },
  });
  /** @type {HTMLSelectElement} */
  window = make("select", {
    "aria-label": "window",
    on: { change: () => this.changeSettings({ window_tokens: Number(this.window.value) }) },
  });
  /** @type {HTMLInputElement} */
  scaled = make("input", {
    type: "checkbox",
    on: {
      change: () => this.changeSettings({ nominal_window_tokens: this.scaled.checked ? this.known.offered.nominal : null }),
    },
  });
  scaledLabel = make("span");
  first = make("div", { class: "h-knobs" });
  rest = make("div", { class: "h-knobs" });
  sentence = make("p", { class: "h-sentence" });
  rule = make("p", { class: "h-faint" });
  error = make("p", { class: "h-error", role: "alert" });
  line = createTimeline(
    (index) => this.goTo(index),
    (round, index) => {
      this.goTo(index);
      this.openRound(round);
    },
  );
  kept = make("p", { class: "x-kept", "aria-live": "polite" });
  autopsy = make("section", { class: "u-autopsy", "aria-label": "autopsy of a compaction", hidden: true });
  working = make("p", { class: "h-faint", role: "status" });
  movesFocus = false;
  /** @type {HTMLInputElement} */
  step = make("input", {
    type: "range",
    min: 1,
    max: 1,
    step: 1,
    value: 1,
    "aria-label": "step",
    name: "step",
    on: { input: () => this.goTo(Number(this.step.value) - 1) },
  });
  at = make("output", { class: "h-at" });
  pin = make("button", {
    type: "button",
    on: { click: () => this.model.send({ kind: this.known.run.pinned ? "unpin" : "pin" }) },
  });
  use = make("button", {
    type: "button",
    text: "use in a grid",
    title: "open a form for a grid with these values, below",
    on: { click: () => this.model.send({ kind: "form" }) },
  });
  lost = make("button", {
    type: "button",
    text: "what it lost",
    "aria-label": "autopsy of the compaction before this step",
    hidden: true,
    on: { click: () => this.openRound(this.findRound(this.known.picture.index)) },
  });
  comparison = make("table", { class: "h-comparison", hidden: true });
  code = make("pre", { tabindex: "0", role: "region", "aria-label": "Python code" });
  plan = make("pre", { tabindex: "0", role: "region", "aria-label": "lines of a plan file" });
  status = make("p", { class: "h-said", "aria-live": "polite" });
  bars = make("div", { class: "h-bars" });
  sums = make("tbody");
  texts = make(
    "div",
    { class: "h-texts", tabindex: "0", "aria-label": "text of the selected message", role: "region" },
    make("p", { class: "h-faint", text: "select a message in the list to read its text" }),
  );

  /**
   * @param {Model} model
   * @param {HTMLElement} el
   */
  constructor(model, el) {
    this.model = model;
    this.known = /** @type {State} */ ({});
    this.look = /** @type {Look | null} */ (null);
    this.list = createRowList(
      "messages",
      makeRow,
      (index) => model.send({ kind: "read", message: index }),
      (wanted) => model.send({ kind: "rows", rows: wanted }),
    );
    this.ask = createRequester(model, () => this.list.visible());
    this.root = createRoot(el, "Compaction explorer");
    this.root.classList.add("harness-looking");
    this.build();
    const [forked, form] = [make("div", { class: "h-forked" }), make("div", { class: "h-form" })];
    el.append(forked, form);
    this.removeFork = nest(model, "forked", forked);
    this.removeForm = nest(model, "form", form);
    this.disconnect = connect(model, {
      state: (changed, whole) => this.receive(changed, whole),
      silent: () => this.showError("The kernel does not answer. Run this cell to explore the session."),
    });
  }

  close() {
    this.disconnect();
    this.ask.end();
    this.removeFork();
    this.removeForm();
  }

  build() {
    /**
     * @param {string} text
     * @param {string} title
     * @param {number} way
     */
    const jump = (text, title, way) =>
      make("button", { type: "button", text, title, "aria-label": title, on: { click: () => this.jump(way) } });
    /**
     * @param {string} text
     * @param {Node} control
     */
    const field = (text, control) => make("label", { class: "h-field" }, make("span", { text }), control);
    const heads = HEADS.map((text) => make("th", { text, scope: "col" }));
    this.root.append(
      make("header", { class: "h-head" }, make("strong", { text: "Compaction explorer" }), this.name),
      make(
        "div",
        { class: "h-choices" },
        field("policy", this.policy),
        field("window", this.window),
        make("label", { class: "h-field" }, this.scaled, this.scaledLabel),
        this.pin,
        this.use,
      ),
      this.first,
      make("details", { class: "h-more" }, make("summary", { text: "all fields" }), this.rest),
      this.sentence,
      this.rule,
      this.error,
      this.line.element,
      make(
        "div",
        { class: "h-steps" },
        this.step,
        this.at,
        jump("◀ compaction", "previous compaction", -1),
        jump("compaction ▶", "next compaction", 1),
        this.lost,
      ),
      this.kept,
      this.autopsy,
      this.working,
      this.status,
      this.comparison,
      this.bars,
      make("table", { class: "h-sums" }, make("thead", {}, make("tr", {}, ...heads)), this.sums),
      make("div", { class: "h-pair" }, this.list.element, this.texts),
      make(
        "details",
        { class: "h-more h-use" },
        make("summary", { text: "these values as Python code and as lines of a plan" }),
        make("p", { text: "Python, for any task:" }),
        this.code,
        make("p", { text: "plan.toml, for any task:" }),
        this.plan,
      ),
    );
  }

  /**
   * Change settings and request the resulting view.
   *
   * @param {Partial<Look>} change
   */
  changeSettings(change) {
    this.look = { .../** @type {Look} */ (this.look), ...change };
    this.ask.want(this.look);
  }

  /** @param {number} index */
  goTo(index) {
    this.at.textContent = this.describePlace(index);
    this.changeSettings({ step: index + 1 });
  }

  /** @param {number} index */
  describePlace(index) {
    const { steps } = this.known.session;
    return `step ${formatNumber(steps[index])} of ${formatNumber(steps.length)}`;
  }

  /** @param {number} way 1 for the next compaction, -1 for the previous one. */
  jump(way) {
    const places = this.listMarks().flatMap((mark) => (mark.kind === "applied" ? [mark.index] : []));
    const next = findNext(places, (this.look?.step ?? 1) - 1, way);
    if (next === undefined) return;
    this.step.value = String(next + 1);
    this.goTo(next);
  }

  /** @param {number} round Number of an applied compaction; 0 opens none. */
  openRound(round) {
    if (!round) return;
    this.movesFocus = true;
    this.model.send({ kind: "autopsy", number: round });
  }

  /**
   * Return the number of the applied compaction before a step; 0 if there is none.
   *
   * @param {number} index
   */
  findRound(index) {
    return this.listMarks().find((mark) => mark.index === index && mark.round > 0)?.round ?? 0;
  }

  /** @param {State["autopsy"]} autopsy */
  showAutopsy(autopsy) {
    this.autopsy.hidden = autopsy === null;
    if (autopsy) {
      showAutopsy(this.autopsy, autopsy, null, {
        open: (number) => this.openRound(number),
        close: () => this.model.send({ kind: "autopsy", number: null }),
        goTo: (place) => this.goTo(place - 1),
      });
      const { number: round, twins } = autopsy;
      this.autopsy.append(makeTwinButtons(twins, (arm) => this.model.send({ kind: "twin", round, arm })));
      const title = /** @type {HTMLElement} */ (this.autopsy.querySelector("h4"));
      if (this.movesFocus) title.focus({ preventScroll: true });
    }
    this.movesFocus = false;
  }

  listMarks() {
    return listMarks(this.known.session.steps, this.known.run.attempts);
  }

  /**
   * @param {Partial<State>} changed
   * @param {State} whole
   */
  receive(changed, whole) {
    this.known = whole;
    const { picture } = whole;
    if (!whole.session || !whole.offered || !picture) return;
    if (changed.session || changed.offered) this.showSession(whole);
    const { refused } = changed; // null once the kernel accepts a request again
    if (refused) this.ask.acceptAnswer(refused.request);
    if (changed.autopsy !== undefined) this.showAutopsy(changed.autopsy);
    if (changed.working !== undefined) this.working.textContent = changed.working ? "continuing from the compaction …" : "";
    if (changed.picture) {
      const newest = this.ask.acceptAnswer(picture.request);
      if (newest) this.showSettings(picture.look, Boolean(changed.policy));
      this.draw(whole);
      if (newest && !picture.done && this.look) this.ask.want(this.look);
    } else if (changed.autopsy !== undefined) this.draw(whole);
    if (changed.rows) this.list.receive(whole.rows);
    if (refused !== undefined) this.showError(refused?.text ?? "");
    if (changed.reading !== undefined) this.showText(changed.reading);
  }

  /** @param {string} text */
  showError(text) {
    this.error.textContent = text;
    this.root.classList.toggle("h-refused", text !== "");
  }

  /** @param {State} state */
  showSession({ session, offered, picture }) {
    this.name.replaceChildren(" ", session.id ? makeSessionId(session.id) : session.name);
    this.policy.replaceChildren(...offered.policies.map((name) => make("option", { value: name, text: name })));
    const windows = [...new Set([...offered.windows, picture.look.window_tokens])].sort((a, b) => a - b);
    this.window.replaceChildren(
      ...windows.map((tokens) => make("option", { value: tokens, text: `${formatNumber(tokens)} tokens` })),
    );
    this.scaledLabel.textContent = `constants scaled from ${formatNumber(offered.nominal)}`;
    this.step.max = String(session.steps.length);
  }

  /**
   * Show the current settings on the controls.
   *
   * @param {Look} look
   * @param {boolean} isOther Whether the policy has other controls.
   */
  showSettings(look, isOther) {
    const isFresh = isOther || JSON.stringify(look.fields) !== JSON.stringify(this.look?.fields);
    this.look = look;
    [this.policy.value, this.window.value] = [look.policy, String(look.window_tokens)];
    [this.scaled.checked, this.step.value] = [look.nominal_window_tokens !== null, String(look.step)];
    if (isFresh) this.buildControls(look);
  }

  /** @param {Look} look */
  buildControls(look) {
    const { controls } = this.known.policy;
    /** @param {Control} control */
    const create = (control) => {
      const value = control.name in look.fields ? look.fields[control.name] : control.value;
      return createControl(control, value, (now) =>
        this.changeSettings({ fields: { ...this.look?.fields, [control.name]: now } }),
      );
    };
    const length = createControl(SUMMARY_LENGTH, look.summary_tokens, (now) =>
      this.changeSettings({ summary_tokens: Number(now) }),
    );
    this.first.replaceChildren(...controls.filter((control) => control.first).map(create));
    this.rest.replaceChildren(...controls.filter((control) => !control.first).map(create), length);
  }

  /** @param {State} state */
  draw({ session, run, picture, offered }) {
    const { index, sums } = picture;
    const marks = this.listMarks();
    const applied = marks.filter((mark) => mark.kind === "applied").length;
    const label = `tokens in view over ${formatCount(session.steps.length, "step")}, ${formatCount(applied, "compaction")}`;
    const pinned = run.pinned?.curve ?? [];
    const { curve, oversized } = run;
    const { whole, steps } = session;
    const [limits, strips, chosen] = [listLimits(run), run.autopsy?.strips ?? [], this.known.autopsy?.number ?? 0];
    this.line.show({ whole, pinned, curve, oversized, limits, marks, steps, strips, chosen, at: index, label });
    this.kept.textContent = picture.kept.join(" ");
    this.sentence.textContent = `${this.known.policy.sentence} ${picture.values}`;
    this.lost.hidden = !this.findRound(index);
    this.pin.textContent = run.pinned ? "unpin" : "pin to compare";
    this.pin.title = run.pinned ? `compared with ${run.pinned.name}` : "compare the settings chosen next with these";
    this.drawComparison(run.comparison, picture);
    [this.code.textContent, this.plan.textContent] = [run.code, run.plan];
    this.rule.replaceChildren(
      groupDigits(run.rule),
      ...run.warnings.map((text) => make("span", { class: "x-warning", text: `Warning: ${text}` })),
    );
    const until = picture.done ? "" : `, computed to step ${formatNumber(session.steps[run.curve.length - 1])} so far`;
    this.at.textContent = `${this.describePlace(index)}${until}`;
    const here = marks.flatMap((mark) => (mark.index === index ? [mark.text] : [])).join("; ");
    const counts = sums.flatMap(([disposition, count]) => (count ? [`${formatNumber(count)} ${disposition}`] : []));
    const tokens = `${formatNumber(picture.view_tokens)} of ${formatNumber(session.whole[index])} tokens in view`;
    this.status.textContent = `${picture.refusal} ${tokens}: ${counts.join(", ")}. ${here}`.trimStart();
    this.drawBars(session.whole[index], picture, offered.dispositions);
    this.sums.replaceChildren(...sums.map(makeSumRow));
    this.list.show(picture);
    if (this.list.chosen() >= 0) this.model.send({ kind: "read", message: this.list.chosen() });
  }

  /**
   * Show the current settings beside the pinned ones, over the whole session and at the current step.
   *
   * @param {Run["comparison"]} rows
   * @param {Picture} picture
   */
  drawComparison(rows, picture) {
    this.comparison.hidden = rows.length === 0;
    if (!rows.length) return;
    /** @param {Sum | undefined} sum */
    const cell = (sum) => (sum ? `${formatCount(sum[1], "message")}, ${formatNumber(sum[3])} tokens` : "");
    const pinnedSums = new Map(picture.pinned_sums.map((sum) => [sum[0], sum]));
    const here = picture.sums.map((sum) => [`at this step: ${sum[0]}`, cell(sum), cell(pinnedSums.get(sum[0]))]);
    const [[, shown, pinned], ...rest] = rows;
    const heads = ["", `shown: ${shown}`, `pinned (dashed line): ${pinned}`].map((text) => make("th", { text, scope: "col" }));
    const all = [...rest, ...here];
    const shownRows = all.filter(([name, one, other]) => one !== other || name === "facts kept");
    const equal = all.filter((row) => !shownRows.includes(row)).map(([name]) => name);
    const body = shownRows.map(([name, ...cells]) =>
      make("tr", {}, make("th", { scope: "row", text: name }), ...cells.map((text) => make("td", { text }))),
    );
    if (equal.length) {
      body.push(make("tr", {}, make("td", { class: "h-faint", colspan: 3, text: `equal in both: ${equal.join(", ")}` })));
    }
    this.comparison.replaceChildren(make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...body));
  }

  /**
   * @param {number} wholeTokens
   * @param {Picture} picture
   * @param {Disposition[]} dispositions
   */
  drawBars(wholeTokens, { logged, shown, view_tokens }, dispositions) {
    const widest = Math.max(wholeTokens, view_tokens, 1);
    this.bars.replaceChildren(
      makeBar("as logged", logged, wholeTokens, widest, dispositions),
      makeBar("in view", shown, view_tokens, widest, dispositions),
    );
  }

  /** @param {Reading | null} reading */
  showText(reading) {
    if (!reading) {
      this.texts.replaceChildren(make("p", { class: "h-faint", text: "this message comes after the current step" }));
      return;
    }
    const parts = [
      ["in view", reading.shown],
      [`${reading.role}, as logged`, reading.logged],
      ["summary that replaces it", reading.summary],
    ];
    const known = parts.filter(([, text]) => text !== null);
    this.texts.replaceChildren(...known.flatMap(([title, text]) => [make("h4", { text: title }), make("pre", { text })]));
  }
}

/** @param {Run} run */
function listLimits({ threshold_tokens, window_tokens }) {
  /** @type {Limit[]} */
  const limits = [{ tokens: window_tokens, name: "window", kind: "window" }];
  if (threshold_tokens !== null) limits.unshift({ tokens: threshold_tokens, name: "threshold", kind: "threshold" });
  return limits;
}

/** @param {Disposition} disposition */
function makeSwatch(disposition) {
  return make("span", { class: `h-swatch h-disposition-${disposition}`, "aria-hidden": "true" });
}

/** @param {Sum} sum */
function makeSumRow([disposition, ...numbers]) {
  const cells = numbers.map((value) => make("td", { class: "h-number", text: formatNumber(value) }));
  return make("tr", {}, make("th", { scope: "row", title: MEANS[disposition] }, makeSwatch(disposition), disposition), ...cells);
}

/**
 * @param {string} name
 * @param {Bar} runs
 * @param {number} total
 * @param {number} widest
 * @param {Disposition[]} dispositions
 */
function makeBar(name, runs, total, widest, dispositions) {
  const parts = runs.map(([index, tokens]) => {
    const disposition = dispositions[index];
    const title = `${disposition}: ${formatNumber(tokens)} tokens`;
    const part = make("span", { class: `h-disposition-${disposition}`, title });
    part.style.flexGrow = String(tokens);
    return part;
  });
  const label = `${name}: ${formatNumber(total)} tokens`;
  const bar = make("span", { class: "h-bar", role: "img", "aria-label": label }, ...parts);
  bar.style.width = `${(100 * total) / widest}%`;
  return make("div", { class: "h-barline" }, make("span", { class: "h-faint", text: name }), make("span", {}, bar));
}

/** @param {Row} row */
function makeRow([role, text, disposition, before, after, changed]) {
  const tokens = disposition === "masked" ? `${formatNumber(before)}→${formatNumber(after)}` : formatNumber(before);
  const since = changed ? ` since step ${formatNumber(changed)}` : "";
  return {
    class: `h-is-${disposition}`,
    children: [
      makeSwatch(disposition),
      make("span", { class: "h-disposition", text: disposition, title: `${MEANS[disposition]}${since}` }),
      make("span", { class: "h-role", text: role }),
      make("span", { class: "h-number", text: tokens }),
      make("span", { class: "h-label", text }),
    ],
  };
}

export default {
  /** @param {{ model: Model, el: HTMLElement }} view */
  render({ model, el }) {
    const explorer = new Explorer(model, el);
    return () => explorer.close();
  },
};
