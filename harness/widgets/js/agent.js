// Page side of AgentWidget: transcript, context gauge, token curve with compactions, and buttons.
// All content comes from the kernel. A page remembers only typed text, unfolded rows and the scroll position.

import { buildLayout } from "./agent_layout.js";
import { showBranchStep, showCurve, showFigures, showFiles, showGauge, showRounds } from "./agent_panels.js";
import { showDetails } from "./compaction_details.js";
import { makeCopyButton, makeSessionId } from "./copy_button.js";
import { buildHidingStyle, createRoot, enable, isEnabled, make } from "./elements.js";
import { connect, watchKernel } from "./kernel.js";
import { nest } from "./nested_view.js";
import { createControl } from "./setting_control.js";
import { Transcript } from "./transcript.js";
import { reveal } from "./untrusted_text.js";

/** @import { Figures, Files, Gauge, Round } from "./agent_panels.js" */
/** @import { Details } from "./compaction_details.js" */
/** @import { Model } from "./nested_view.js" */
/** @import { Control } from "./setting_control.js" */
/** @import { Growth, Row } from "./transcript.js" */
/** @typedef {"new" | "starting" | "working" | "compacting" | "asking" | "idle" | "failed" | "closed"} Phase */
/**
 * @typedef {object} Session
 * @property {string} [model]
 * @property {string} [policy]
 * @property {string} [sandbox]
 * @property {string} [id]
 * @property {string} [kept]
 * @property {string} [note]
 * @property {boolean} [simulated]
 * @property {Control[]} [fields] Controls of the policy's most important fields.
 * @property {boolean} [begun] Whether anything is logged.
 * @property {string} [reopen] Line of Python that reopens the session.
 */
/**
 * @typedef {object} State
 * @property {Phase} phase
 * @property {boolean} interrupted
 * @property {Session} session
 * @property {string} waiting
 * @property {number} silent_seconds Time without an answer of the model; 0 if it is short.
 * @property {string} failure
 * @property {string} provider_text Text of the provider about the failure.
 * @property {string} stop_reason Reason why the last turn ended.
 * @property {string} error
 * @property {string[]} alerts
 * @property {number} count Number of rows of the transcript.
 * @property {string} saved
 * @property {string[]} queued
 * @property {string} question
 * @property {Gauge} gauge
 * @property {number} last_step
 * @property {number} step
 * @property {Figures} figures
 * @property {[step: number, tokens: number][]} curve
 * @property {Round[]} rounds
 */

/** @type {Record<Phase, string>} */
const WORDS = {
  new: "not started",
  starting: "starting",
  working: "working",
  compacting: "compacting",
  asking: "asking you",
  idle: "waiting for you",
  failed: "failed",
  closed: "closed",
};
/**
 * When the next message of the queue arrives, in states other than a running turn.
 *
 * @type {Partial<Record<Phase, string>>}
 */
const ARRIVALS = {
  new: "arrives when the session has started",
  starting: "arrives when the session has started",
  idle: "arrives when you press Resume or send another message",
  failed: "waits until the session is reopened",
  closed: "waits until the session is reopened",
};
const ANSWERS = new Set(["body", "rows", "round", "files", "sent"]);
const QUEUED_CHARACTERS = 300;

/** What a page remembers. Every widget has its own module, so this survives when a view is created again. */
const memory = {
  draft: "",
  sent: 0,
  /** @type {Map<string, string>} */
  sending: new Map(),
  /** @type {Set<number>} */
  open: new Set(),
  round: /** @type {number | null} */ (null),
};

/** @param {number} seconds */
function formatSeconds(seconds) {
  return seconds < 120 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/**
 * Return words, and lines of Python with a button that copies them.
 *
 * @param {string} words
 * @param {string} lines
 */
function makeReopening(words, lines) {
  const code = make("pre", { tabindex: "0", role: "region", "aria-label": "lines that reopen the session", text: lines });
  const bar = make("div", { class: "a-reopening" }, code, makeCopyButton(lines, "the lines that reopen the session"));
  return make("div", {}, make("div", { text: words }), bar);
}

/** View of a session in a page, drawn from the states and items sent by the kernel. */
class Agent {
  id = Math.random().toString(36).slice(2);
  fields = /** @type {Record<string, unknown>} */ ({});

  /**
   * @param {Model} model
   * @param {HTMLElement} el
   */
  constructor(model, el) {
    this.model = model;
    this.known = /** @type {Partial<State>} */ ({});
    const root = createRoot(el, "Agent session");
    root.classList.add("a-root");
    this.parts = buildLayout(root);
    this.place = this.parts.roundsCard; // where the details of a compaction are shown: in the element that was clicked
    this.transcript = new Transcript(
      this.parts,
      (message) => this.ask(message),
      memory.open,
      (seq, clicked) => this.openRound(seq, clicked),
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
        isOver: () => this.known.phase === "closed",
      },
    );
    this.disconnect = connect(model, {
      items: (items) => this.receiveItems(items),
      state: (changed, whole) => this.receive(changed, whole),
      skipped: () => this.transcript.restart(),
      silent: () => this.showSilence(),
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
      ...controls.map((control) =>
        createControl(control, control.value, (value) => {
          this.fields[control.name] = value;
        }),
      ),
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
    /** @type {[button: HTMLElement, message: () => object][]} */
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
      [parts.tryFork, () => ({ kind: "policy", fields: this.fields, fork: true, step: this.known.last_step ?? 0 })],
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
    if (changed.count !== undefined) transcript.count = Math.max(transcript.count, changed.count);
    this.showPhase();
    if (changed.session) this.showFields(whole.session?.fields ?? []);
    if (changed.saved !== undefined) parts.saved.textContent = buildHidingStyle(changed.saved);
    if (changed.queued || changed.phase) this.showQueue(whole.queued ?? [], whole.phase ?? "new");
    if (changed.question !== undefined) this.showQuestion(changed.question);
    if (changed.gauge) showGauge(parts, changed.gauge);
    if (changed.last_step !== undefined) showBranchStep(parts, changed.last_step);
    if (changed.figures || changed.session || changed.step !== undefined) {
      showFigures(parts, whole.figures, Boolean(whole.session?.simulated), whole.step);
    }
    if (changed.curve || changed.rounds) {
      const open = (/** @type {number} */ seq) => this.openRound(seq, parts.roundsCard);
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
        showFiles(this.parts.files, /** @type {Files} */ (content));
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
      (arm) => this.ask({ kind: "twin", round: details.round, arm }),
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
    if (text === undefined || isTaken) return;
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
    return [WORDS[phase] ?? phase, `a-phase a-is-${phase}`];
  }

  /** @param {boolean} isOver Whether the session has ended. */
  showFailure(isOver) {
    const { failure = "", provider_text = "", error = "" } = this.known;
    const { parts } = this;
    const again = isOver && failure ? this.formatReopening() : "";
    const key = JSON.stringify([failure, provider_text, error, again, this.canRetry()]);
    if (parts.failure.dataset.shown === key) return; // an unfolded text stays so
    parts.failure.dataset.shown = key;
    parts.failure.hidden = !(failure || error);
    const lines = /** @type {HTMLElement[]} */ ([make("div", { text: failure || error })]);
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
    const words = isRestarted
      ? "The kernel was restarted, and the session in it has ended."
      : "The kernel does not answer. If it is busy, the display continues by itself.";
    const logged = isRestarted ? "The" : "If it was restarted, the";
    const lines = again
      ? makeReopening(`${words} ${logged} logged session is not lost: run these lines to continue.`, again)
      : make("div", { text: `${words} ${isRestarted ? "Run" : "If it was restarted, run"} the cell again.` });
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
        const when = index ? "arrives in the turn after that" : (ARRIVALS[phase] ?? "arrives when this turn ends");
        return make("li", {}, make("span", { class: "h-faint", text: `${when}: ` }), text.slice(0, QUEUED_CHARACTERS));
      }),
    );
  }

  /** Show messages sent from this page until the kernel confirms them. */
  showSending() {
    this.parts.sending.replaceChildren(
      ...[...memory.sending.values()].map((text) => make("li", {}, make("span", { class: "h-faint", text: "sending: " }), text)),
    );
  }

  /** @param {string} question */
  showQuestion(question) {
    const box = this.parts.question;
    if (!question && box.contains(document.activeElement)) this.parts.scroll.focus();
    box.hidden = !question;
    box.replaceChildren();
    if (!question) return;
    /**
     * @param {string} answer
     * @param {string} text
     */
    const button = (answer, text) =>
      make("button", { type: "button", text, on: { click: () => this.ask({ kind: "answer", answer }) } });
    box.append(
      make("span", { text: question }),
      button("continue", "Continue"),
      button("stop", "Stop"),
      button("always", "Always allow"),
    );
  }
}

export default {
  /** @param {{ model: Model, el: HTMLElement }} view */
  render({ model, el }) {
    const agent = new Agent(model, el);
    return () => agent.close();
  },
};
