// Elements of a session widget, by name.

import "./agent.css";
import { makeNothing } from "./agent_panels.js";
import { make } from "./elements.js";

/** @typedef {ReturnType<typeof createParts>} Parts */

/**
 * Create the elements of a page and return them by name.
 *
 * @param {HTMLElement} root
 * @returns {Parts}
 */
export function buildLayout(root) {
  const parts = createParts();
  root.append(
    make(
      "header",
      { class: "a-head" },
      parts.phase,
      parts.about,
      parts.sessionId,
      make("span", { class: "a-buttons" }, parts.start, parts.stop, parts.resume, parts.compact, parts.end),
    ),
    parts.silence,
    parts.failure,
    parts.alerts,
    parts.question,
    make("section", { class: "a-top", "aria-label": "Context" }, parts.gauge, parts.gaugeWords),
    make("div", { class: "a-columns" }, makeMain(parts), makeSide(parts)),
    parts.saved,
    parts.forked,
    parts.details,
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
      tabindex: "0",
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
      placeholder: "Message to the agent. Enter sends, Shift+Enter starts a new line.",
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
      "aria-valuenow": "0",
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
    tryFork: makeButton("Try in a fork", "Continue with these values in another session, below, from the end of the newest step"),
    branchStep: make("input", { type: "number", min: "0", value: "0", name: "step" }),
    fork: makeButton("Fork", "Open another session, below, that continues from the end of this step"),
    rollback: makeButton("Roll back", "Restore the conversation and the files as they were at the end of this step"),
    diff: makeButton("Changed in this turn", "Files that the newest turn changed"),
    all: makeButton("Since the start", "Files that the session changed"),
    files: make("div", {
      class: "a-files",
      "aria-live": "polite",
      role: "group",
      "aria-label": "Changed files",
      tabindex: "0",
    }),
    saved: make("style"),
    forked: make("div", { class: "a-forked" }),
    details: make("section", { class: "a-details", "aria-label": "Compaction", tabindex: "-1", hidden: true }),
  };
}

/**
 * @param {string} text
 * @param {string} title
 * @param {string} [kind] Class of the button.
 */
function makeButton(text, title, kind) {
  return make("button", { type: "button", text, title, class: kind });
}

/**
 * @param {string} title
 * @param {Node[]} children
 */
function makeCard(title, ...children) {
  return make("section", { class: "a-card", "aria-label": title }, make("h4", { text: title }), ...children);
}

/** @param {Parts} parts */
function makeMain(parts) {
  const hint = make("p", { class: "a-hint h-faint", text: "No message yet. The button Start begins the session." });
  parts.scroll.append(parts.earlier, parts.rows, hint);
  parts.form.append(parts.draft, parts.send);
  const { scroll, newest, waiting, queue, sending, form, note } = parts;
  return make("div", { class: "a-main" }, scroll, newest, waiting, queue, sending, form, note);
}

/** @param {Parts} parts */
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
    makeCard("Workspace", make("div", { class: "a-bar" }, parts.diff, parts.all), parts.files),
  );
}
