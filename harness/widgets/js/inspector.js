// Page side of SessionInspector: timeline, current step, all messages of the step, and keyboard navigation.

import { createRoot, make, makeFactRow } from "./elements.js";
import "./inspector.css";
import { connect } from "./kernel.js";
import { formatCount, formatNumber } from "./numbers.js";
import { createRowList } from "./row_list.js";
import { createTimeline, findNext, listMarks } from "./timeline.js";
import { createRequester } from "./view_requests.js";

/** @import { Channel } from "./kernel.js" */
/** @import { Block } from "./row_list.js" */
/** @import { Attempt, Limit } from "./timeline.js" */
/** @typedef {[name: string, text: string]} Fact */
/** @typedef {[kind: string, role: string, mark: string, text: string]} Row */
/** @typedef {{ title: string, reason: string, summary: string }} Compaction */
/**
 * @typedef {object} Session
 * @property {string} name
 * @property {Fact[]} facts
 * @property {number[]} steps
 * @property {number[]} curve
 * @property {number} window_tokens
 * @property {number | null} threshold_tokens
 * @property {Attempt[]} attempts
 */
/**
 * @typedef {object} OwnStep
 * @property {string | null} request
 * @property {number} place Number of the step, from 1.
 * @property {Fact[]} facts
 * @property {number} answer Index of the answer among the messages.
 * @property {Compaction[]} compactions
 */
/** @typedef {OwnStep & Block<Row>} Step */
/** @typedef {{ message: number, title: string, text: string }} Reading */
/**
 * @typedef {object} State
 * @property {Session} session
 * @property {Step} step
 * @property {{ request: string, text: string } | null} refused
 * @property {Block<Row>} rows
 * @property {Reading | null} reading
 */

const KEYS_HELP =
  "keys: ← → previous and next step; page up, page down previous and next compaction; home, end first and last step; " +
  "↑ ↓ messages in the list";

export class Inspector {
  place = 1;
  drawn = 0;
  name = make("span", { class: "h-faint" });
  facts = make("tbody");
  error = make("p", { class: "h-error", role: "alert" });
  line = createTimeline((index) => this.goTo(index + 1));
  /** @type {HTMLInputElement} */
  step = make("input", {
    type: "range",
    min: 1,
    max: 1,
    step: 1,
    value: 1,
    "aria-label": "step",
    name: "step",
    on: { input: () => this.goTo(Number(this.step.value)) },
  });
  at = make("output", { class: "h-at", "aria-live": "polite" });
  stepFacts = make("tbody");
  compactions = make("div", { class: "h-compactions" });
  texts = make("div", { class: "h-texts", tabindex: "0", "aria-label": "text of the selected message", role: "region" });

  /**
   * @param {Channel} model
   * @param {HTMLElement} el
   */
  constructor(model, el) {
    this.known = /** @type {State} */ ({});
    this.ask = createRequester(model);
    this.list = createRowList(
      "messages of this step",
      makeRow,
      (index) => model.send({ kind: "read", message: index }),
      (wanted) => model.send({ kind: "rows", rows: wanted }),
    );
    this.root = createRoot(el, "Session inspector");
    this.root.classList.add("harness-looking");
    this.build();
    this.disconnect = connect(model, {
      state: (changed, whole) => this.receive(changed, whole),
      silent: () => {
        this.error.textContent = "The kernel does not answer. Run this cell to browse the session.";
      },
    });
  }

  close() {
    this.disconnect();
    this.ask.end();
  }

  build() {
    /**
     * @param {string} text
     * @param {string} title
     * @param {() => void} act
     */
    const button = (text, title, act) => make("button", { type: "button", text, title, "aria-label": title, on: { click: act } });
    this.root.append(
      make("header", { class: "h-head" }, make("strong", { text: "Session inspector" }), this.name),
      make(
        "details",
        { class: "h-more" },
        make("summary", { text: "about the session" }),
        make("table", { class: "h-facts" }, this.facts),
      ),
      this.error,
      this.line.element,
      make(
        "div",
        { class: "h-steps" },
        button("◀ step", "previous step", () => this.goTo(this.place - 1)),
        this.step,
        button("step ▶", "next step", () => this.goTo(this.place + 1)),
        this.at,
        button("◀ compaction", "previous compaction", () => this.jump(-1)),
        button("compaction ▶", "next compaction", () => this.jump(1)),
      ),
      make("p", { class: "h-faint h-keys", text: KEYS_HELP }),
      make("table", { class: "h-facts" }, this.stepFacts),
      this.compactions,
      make("div", { class: "h-pair" }, this.list.element, this.texts),
    );
    this.root.tabIndex = 0;
    this.root.addEventListener("keydown", (event) => this.handleKey(event));
  }

  /** @param {KeyboardEvent} event */
  handleKey(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if (target.matches("input, select, textarea") || event.altKey || event.ctrlKey || event.metaKey) return;
    const acts = new Map([
      ["ArrowLeft", () => this.goTo(this.place - 1)],
      ["ArrowRight", () => this.goTo(this.place + 1)],
      ["PageUp", () => this.jump(-1)],
      ["PageDown", () => this.jump(1)],
      ["Home", () => this.goTo(1)],
      ["End", () => this.goTo(this.known.session.steps.length)],
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
    if (next !== undefined) this.goTo(next);
  }

  /**
   * @param {Partial<State>} changed
   * @param {State} whole
   */
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
    const { reading } = changed;
    if (reading && reading.message === this.list.chosen()) {
      // another page may have selected another message
      this.texts.replaceChildren(make("h4", { text: reading.title }), make("pre", { text: reading.text }));
    }
  }

  /** @param {Session} session */
  showSession(session) {
    this.name.textContent = ` ${session.name}`;
    this.step.max = String(session.steps.length);
    this.facts.replaceChildren(...session.facts.map(([name, text]) => makeFactRow(name, text)));
  }

  /** @param {State} state */
  draw({ session, step }) {
    const marks = this.listMarks();
    const label = `tokens in view over ${formatCount(session.steps.length, "step")}, ${formatCount(marks.length, "compaction")}`;
    this.line.show({ curve: session.curve, limits: listLimits(session), marks, at: step.place - 1, label });
    this.showPlace(step.place);
    this.stepFacts.replaceChildren(...step.facts.map(([name, text]) => makeFactRow(name, text)));
    this.list.show(step);
    if (step.place === this.drawn) return; // sent again, e.g. to another page: what the reader has opened stays open
    this.drawn = step.place;
    this.compactions.replaceChildren(...step.compactions.map(makeCompaction));
    this.list.scrollTo(step.count - 1);
    this.list.select(step.answer);
  }
}

/**
 * Return the lines that limit the tokens of a session; a window that is far above the curve would flatten it, and is left out.
 *
 * @param {Session} session
 */
function listLimits({ curve, threshold_tokens, window_tokens }) {
  /** @type {Limit[]} */
  const limits = [];
  if (threshold_tokens !== null) limits.push({ tokens: threshold_tokens, name: "threshold", kind: "threshold" });
  const most = curve.reduce((one, other) => Math.max(one, other), 0);
  if (window_tokens > 0 && window_tokens < 4 * most) limits.push({ tokens: window_tokens, name: "window", kind: "window" });
  return limits;
}

/** @param {Compaction} compaction */
function makeCompaction({ title, reason, summary }) {
  const text = make("p", { class: "h-compacted", text: `${title}. ${reason}` });
  if (!summary) return make("div", { class: "h-compaction" }, text);
  const details = make("details", {}, make("summary", { text: "summary" }), make("pre", { tabindex: "0", text: summary }));
  return make("div", { class: "h-compaction" }, text, details);
}

/** @param {Row} row */
function makeRow([kind, role, mark, text]) {
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

export default {
  /** @param {{ model: Channel, el: HTMLElement }} view */
  render({ model, el }) {
    const inspector = new Inspector(model, el);
    return () => inspector.close();
  },
};
