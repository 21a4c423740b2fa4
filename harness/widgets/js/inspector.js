// Page side of SessionInspector: timeline, current step, all messages of the step, and keyboard navigation.

import { showAutopsy } from "./autopsy.js";
import { makeSessionId } from "./copy_button.js";
import { createRoot, make, makeFactRow } from "./elements.js";
import "./inspector.css";
import { connect } from "./kernel.js";
import { nest } from "./nested_view.js";
import { formatCount, formatNumber } from "./numbers.js";
import { createRowList } from "./row_list.js";
import { createTimeline, findNext, listMarks } from "./timeline.js";
import { makeTwinButtons } from "./twin_buttons.js";
import { createRequester } from "./view_requests.js";

/** @import { Asked, Autopsy } from "./autopsy.js" */
/** @import { Strip } from "./fact_strip.js" */
/** @import { Channel } from "./kernel.js" */
/** @import { Block } from "./row_list.js" */
/** @import { Attempt, Limit } from "./timeline.js" */
/** @import { Model } from "./nested_view.js" */
/** @import { Choices } from "./twin_buttons.js" */
/** @typedef {Autopsy & { twins?: Choices, compared?: string }} OpenAutopsy `twins` are missing where nothing can be run. */
/** @typedef {[name: string, text: string]} Fact */
/** @typedef {[kind: string, role: string, mark: string, text: string]} Row */
/** @typedef {{ round: number, title: string, reason: string, summary: string }} Compaction */
/**
 * @typedef {object} FailedCheck
 * @property {string} name
 * @property {string} title
 * @property {string} detail
 * @property {string} says Facts that the check needs, and which compaction lost them.
 * @property {number | null} round Number of the compaction to open.
 * @property {string} fact Name of the fact that this compaction lost; empty without such a compaction.
 * @property {boolean} recovered Whether the fact was used right afterwards, so that its loss does not explain the check.
 * @property {number | null} place Number, among the finished steps, of the step to open.
 */
/**
 * @typedef {object} SessionAutopsy
 * @property {string} notice
 * @property {Strip[]} strips
 * @property {{ number: number, place: number, says: string }[]} rounds
 * @property {FailedCheck[] | null} checks Failed checks; null if the checks are not known.
 */
/**
 * @typedef {object} Session
 * @property {string} name
 * @property {string} [id] Id of a session in a journal; missing if it has none.
 * @property {Fact[]} facts
 * @property {number[]} steps
 * @property {number[]} curve
 * @property {number} window_tokens
 * @property {number | null} threshold_tokens
 * @property {Attempt[]} attempts
 * @property {SessionAutopsy} autopsy
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
 * @property {OpenAutopsy | null} autopsy Autopsy of the compaction that is open.
 * @property {boolean} [working] Whether a fork or twins are being prepared.
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
  line = createTimeline(
    (index) => this.goTo(index + 1),
    (round, index) => this.openRound(round, index + 1),
  );
  checks = make("details", { class: "h-more h-checks", hidden: true });
  autopsy = make("section", { class: "u-autopsy", "aria-label": "autopsy of a compaction", hidden: true });
  working = make("p", { class: "h-faint", role: "status" });
  forked = make("div", { class: "h-forked" });
  movesFocus = false;
  wantedCheck = /** @type {string | null} */ (null);
  asked = /** @type {Asked | null} */ (null);
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
    this.model = model;
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
        button("compaction ▶", "next compaction", () => this.jump(1)),
      ),
      make("p", { class: "h-faint h-keys", text: KEYS_HELP }),
      make("table", { class: "h-facts" }, this.stepFacts),
      this.compactions,
      make("div", { class: "h-pair" }, this.list.element, this.texts),
      this.forked,
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
    if (shown !== undefined) this.goTo(shown);
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
      this.wantedCheck = name; // shown once the session has arrived
      return;
    }
    const { autopsy, steps } = this.known.session;
    const check = name ? autopsy.checks?.find((one) => one.name === name) : findFirstConsequence(autopsy.checks ?? []);
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
    if (this.wantedCheck !== null) {
      const name = this.wantedCheck;
      this.wantedCheck = null;
      this.openCheck(name);
    }
    const { refused } = changed; // null once the kernel accepts a request again
    if (refused) this.ask.acceptAnswer(refused.request);
    if (changed.step) {
      if (this.ask.acceptAnswer(whole.step.request)) this.place = whole.step.place;
      this.draw(whole);
    }
    if (changed.autopsy !== undefined) this.showAutopsy(changed.autopsy);
    if (changed.working !== undefined) this.working.textContent = changed.working ? "continuing from the compaction …" : "";
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
    const rest = rounds.length
      ? `, ${formatNumber(traced)} with a fact that a compaction lost and that was not used right then`
      : "";
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
        },
      });
      if (autopsy.twins) this.autopsy.append(this.makeTwins(autopsy.twins, autopsy));
      const title = /** @type {HTMLElement} */ (this.autopsy.querySelector("h4"));
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
    const act = (/** @type {string} */ arm) => this.model.send(arm ? { kind: "twin", round, arm } : { kind: "compare", round });
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
    const label = `tokens in view over ${formatCount(session.steps.length, "step")}, ${formatCount(marks.length, "compaction")}`;
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
    if (step.place === this.drawn) return; // sent again, e.g. to another page: what the reader has opened stays open
    this.drawn = step.place;
    this.compactions.replaceChildren(
      ...step.compactions.map((compaction) => makeCompaction(compaction, (round) => this.openRound(round, this.place))),
    );
    this.list.scrollTo(step.count - 1);
    this.list.select(step.answer);
  }
}

/**
 * Return the failed check whose lost fact was used wrong first; without one, the first check that a compaction explains.
 *
 * @param {FailedCheck[]} checks
 */
function findFirstConsequence(checks) {
  const explained = checks.filter(({ round, recovered }) => round && !recovered);
  const placed = explained.filter(({ place }) => place).sort((one, other) => (one.place ?? 0) - (other.place ?? 0));
  return placed[0] ?? explained[0];
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
  if (window_tokens > 0 && window_tokens < 2 * most) limits.push({ tokens: window_tokens, name: "window", kind: "window" });
  return limits;
}

/**
 * @param {Compaction} compaction
 * @param {(round: number) => void} open
 */
function makeCompaction({ round, title, reason, summary }, open) {
  const text = make("p", { class: "h-compacted", text: `${title}. ${reason}` });
  if (round) {
    const name = `autopsy of compaction ${round}`;
    text.append(
      " ",
      make("button", { type: "button", text: "what it lost", "aria-label": name, on: { click: () => open(round) } }),
    );
  }
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
  /** @param {{ model: Model, el: HTMLElement }} view */
  render({ model, el }) {
    const inspector = new Inspector(model, el);
    const removeFork = nest(model, "forked", inspector.forked);
    return () => {
      removeFork();
      inspector.close();
    };
  },
};
