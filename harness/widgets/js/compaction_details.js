// Details of a compaction: its summary, what happened to each message, and lost facts.

import { showAutopsy } from "./autopsy.js";
import { make } from "./elements.js";
import { formatCount, formatNumber } from "./numbers.js";
import { createTimeline, listMarks } from "./timeline.js";
import { makeTwinButtons } from "./twin_buttons.js";

/** @import { Autopsy } from "./autopsy.js" */
/** @import { Strip } from "./fact_strip.js" */
/** @import { Attempt } from "./timeline.js" */
/** @import { Choices } from "./twin_buttons.js" */
/** @typedef {{ steps: number[], curve: number[], attempts: Attempt[], strips: Strip[] }} FactCurve */

/** @typedef {"summary" | "dropped" | "summarized" | "masked" | "kept"} Disposition */
/** @typedef {{ disposition: Disposition, role: string, text: string, before: number, after: number }} Message */
/** @typedef {{ name: string, kind: string, again_calls: number | null }} Fact */
/**
 * @typedef {object} Details
 * @property {number} seq
 * @property {string} status
 * @property {number} round
 * @property {number} step
 * @property {number} before
 * @property {number} after
 * @property {number} messages_before
 * @property {number} messages_after
 * @property {number} messages_removed
 * @property {string} reason
 * @property {string} failure
 * @property {{ lost: Fact[], kept: Fact[] } | null} facts
 * @property {string} summary
 * @property {string} summarizer
 * @property {Message[]} messages
 * @property {Partial<Record<Disposition, number>>} counts
 * @property {number} left_out
 * @property {{ session: FactCurve, compaction: Autopsy } | null} autopsy What happened to each fact; null without facts.
 * @property {Choices | null} twins Buttons that continue from here; null if the compaction was not applied.
 */

/** @type {[disposition: Disposition, name: string][]} */
const DISPOSITIONS = [
  ["summary", "inserted"],
  ["dropped", "dropped"],
  ["summarized", "summarized"],
  ["masked", "masked"],
  ["kept", "kept"],
];

/**
 * Show the details of a compaction.
 *
 * @param {HTMLElement} box
 * @param {Details} content
 * @param {() => void} close
 * @param {(round: number) => void} open Shows the details of another applied compaction, by its number.
 * @param {(arm: string) => void} twin Continues from here with another effect of the compaction.
 */
export function showDetails(box, content, close, open, twin) {
  const { status, round, step } = content;
  const title = status === "applied" ? `Compaction ${round} before step ${step}` : `Compaction before step ${step}: ${status}`;
  const closeButton = make("button", { type: "button", text: "Close", on: { click: close } });
  /** @type {HTMLElement[]} */
  const lines = [
    make("div", { class: "a-bar" }, make("h4", { text: title }), closeButton),
    make("p", { text: describeSizes(content) }),
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

/**
 * @param {{ session: FactCurve, compaction: Autopsy }} autopsy
 * @param {(round: number) => void} open
 */
function makeAutopsy({ session, compaction }, open) {
  const { steps, curve, attempts, strips } = session;
  const line = createTimeline(() => {}, open);
  const marks = listMarks(steps, attempts);
  const at = Math.max(0, compaction.place - 1);
  const label = `tokens in view over ${formatCount(steps.length, "step")}`;
  if (steps.length) line.show({ curve, limits: [], marks, steps, strips, chosen: compaction.number, at, label });
  const section = make("section", { class: "u-autopsy", "aria-label": "autopsy of this compaction" });
  showAutopsy(section, { ...compaction, summary: "" }, null, { open });
  return [make("div", { class: "harness-looking" }, ...(steps.length ? [line.element] : [])), section];
}

/** @param {Details} details */
function describeSizes({ before, after, messages_before, messages_after, messages_removed, reason }) {
  const messages = `${messages_before} → ${formatCount(messages_after, "message")}, ${formatNumber(messages_removed)} removed`;
  return `${formatNumber(before)} → ${formatNumber(after)} tokens, ${messages}. ${reason}`;
}

/**
 * @param {Fact[]} lost
 * @param {Fact[]} kept
 */
function makeFactLines(lost, kept) {
  const words = `Facts of the task in view before: ${lost.length + kept.length}; lost: ${lost.length}`;
  /** @type {HTMLElement[]} */
  const lines = [make("p", { class: lost.length ? "a-lost" : "a-none-lost", text: words })];
  const items = lost.map(({ name, kind, again_calls }) => {
    const again =
      again_calls === null ? "cannot be fetched again" : `can be fetched again with ${formatCount(again_calls, "call")}`;
    return make("li", { text: `${name} (${kind}): ${again}` });
  });
  if (items.length) lines.push(make("ul", { class: "a-facts" }, ...items));
  const names = kept.map((fact) => fact.name).join(", ");
  if (names) lines.push(make("p", { class: "h-faint", text: `still in view: ${names}` }));
  return lines;
}

/**
 * @param {Disposition} disposition
 * @param {string} name
 * @param {string} count
 * @param {Message[]} messages
 */
function makeDisposition(disposition, name, count, messages) {
  const before = messages.reduce((sum, message) => sum + message.before, 0);
  const after = messages.reduce((sum, message) => sum + message.after, 0);
  const tokens = disposition === "kept" ? formatNumber(after) : `${formatNumber(before)} → ${formatNumber(after)}`;
  const hasOneSize = disposition === "kept" || disposition === "summary";
  const rows = messages.map((message) => {
    const size = hasOneSize ? formatNumber(message.after) : `${formatNumber(message.before)} → ${formatNumber(message.after)}`;
    return make(
      "tr",
      {},
      make("td", { class: "h-faint", text: message.role }),
      make("td", { class: "a-what", text: message.text }),
      make("td", { class: "a-number", text: size }),
    );
  });
  const title = make("span", { class: `a-disposition a-${disposition}`, text: name });
  return make(
    "details",
    {},
    make("summary", {}, title, ` ${count}, ${tokens} tokens`),
    make("table", {}, make("tbody", {}, ...rows)),
  );
}
