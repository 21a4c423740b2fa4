// Panels beside the transcript of a session: context gauge, token curve, compactions, totals, and changed files.

import { draw, keepFocus, make, makeFactRow } from "./elements.js";
import { formatCost, formatCount, formatNumber, formatTokens, groupDigits } from "./numbers.js";

/** @import { Parts } from "./agent_layout.js" */
/**
 * @typedef {object} Gauge
 * @property {number} [tokens] Estimated tokens in view.
 * @property {number} [window]
 * @property {number} [reserved]
 * @property {number | null} [threshold]
 * @property {boolean} [is_over] Whether the threshold is reached.
 * @property {number} [reported] Tokens of the last call, as counted by the provider.
 * @property {number} [messages]
 * @property {string} [rule]
 */
/**
 * @typedef {object} Round Attempted compaction.
 * @property {number} seq
 * @property {number} round
 * @property {number} step
 * @property {string} status
 * @property {number} before
 * @property {number} after
 * @property {number | null} lost Number of lost facts.
 */
/**
 * @typedef {object} Figures
 * @property {number} steps
 * @property {number} compactions
 * @property {number} prompt_tokens
 * @property {number} output_tokens
 * @property {number} total_tokens
 * @property {number} sub_agent_tokens
 * @property {number} summary_prompt_tokens
 * @property {number} summary_output_tokens
 * @property {number | null} summary_cost_usd
 * @property {number | null} cost_usd
 * @property {[name: string, text: string][]} metrics
 */
/**
 * @typedef {object} Files
 * @property {string} [error]
 * @property {{ kind: string, path: string, added: number, removed: number }[]} files
 * @property {number} count
 * @property {number} changed_back
 * @property {boolean} whole
 * @property {string} patch
 */

const MOST_BUTTONS = 60;

/**
 * Draw the context gauge: tokens in use, reserved tokens at the end, and the threshold of the policy.
 *
 * @param {Parts} parts
 * @param {Gauge} gauge
 */
export function showGauge(parts, gauge) {
  const { tokens = 0, window: size = 0, reserved = 0, threshold = null, is_over = false, reported = 0 } = gauge;
  /** @param {number} value */
  const at = (value) => (size ? Math.min(100, (100 * value) / size) : 0);
  const bar = draw(
    "svg",
    { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    draw("rect", { x: 0, y: 0, width: at(tokens), height: 10, class: is_over ? "a-used a-over" : "a-used" }),
    draw("rect", { x: 100 - at(reserved), y: 0, width: at(reserved), height: 10, class: "a-reserved" }),
  );
  if (threshold !== null) {
    bar.append(draw("rect", { x: Math.min(99.4, at(threshold)), y: 0, width: 0.6, height: 10, class: "a-threshold" }));
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

/** @param {Gauge} gauge */
function describeGauge({ tokens = 0, window: size, threshold = null, is_over, messages = 0 }) {
  const limit = `threshold${is_over ? " of" : ""} ${formatNumber(threshold)}`;
  const due = threshold === null ? "no threshold" : is_over ? `over the ${limit}` : limit;
  const most = size ? formatNumber(size) : "an unknown number of";
  return `about ${formatNumber(tokens)} of ${most} tokens in ${formatCount(messages, "message")}; ${due}`;
}

/**
 * Draw tokens in view over steps, with a mark for each applied compaction.
 *
 * @param {Parts} parts
 * @param {[step: number, tokens: number][]} points
 * @param {Round[]} rounds
 * @param {Gauge} gauge
 * @param {(seq: number) => void} openRound Called with the event of a compaction whose mark is clicked.
 */
export function showCurve(parts, points, rounds, { threshold = null }, openRound) {
  const [width, height, floor] = [300, 84, 74];
  const applied = rounds.filter((round) => round.status === "applied");
  const steps = Math.max(10, ...points.map(([step]) => step), ...applied.map(({ step }) => step));
  const largest = Math.max(0, ...points.map(([, tokens]) => tokens), ...applied.map(({ before }) => before));
  const most = Math.max(1, threshold ?? 0, largest) * 1.08;
  /** @param {number} step */
  const x = (step) => (step / steps) * (width - 8) + 4;
  /** @param {number} tokens */
  const y = (tokens) => floor - (tokens / most) * (floor - 6);
  const falls = applied.flatMap(({ step, before, after }) => [
    [step - 0.6, before],
    [step - 0.5, after],
  ]);
  const line = [...points, ...falls].sort((a, b) => a[0] - b[0]);
  const axis = { x1: 4, x2: width - 4 };
  const svg = draw(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
    draw("line", { ...axis, y1: floor, y2: floor, class: "a-axis" }),
    draw("polyline", {
      points: line.map(([step, tokens]) => `${x(step).toFixed(1)},${y(tokens).toFixed(1)}`).join(" "),
      class: "a-line",
    }),
    draw("text", { x: width - 4, y: height - 1, "text-anchor": "end", text: `step ${formatNumber(steps)}` }),
    draw("text", { x: 4, y: height - 1, text: `tokens in view over the steps, at most ${formatNumber(largest)}` }),
  );
  if (threshold !== null) svg.append(draw("line", { ...axis, y1: y(threshold), y2: y(threshold), class: "a-limit" }));
  for (const { seq, step } of applied) {
    const mark = draw("path", { d: `M${x(step - 0.5) - 4} 1h8l-4 6z`, class: "a-mark" });
    mark.addEventListener("click", () => openRound(seq)); // by keyboard, the buttons below do the same
    svg.append(mark);
  }
  parts.curve.replaceChildren(svg);
}

/** Return the row of a table of totals without any. */
export function makeNothing() {
  return make("tr", {}, make("td", { class: "h-faint", text: "none yet" }));
}

/**
 * @param {Parts} parts
 * @param {Figures | undefined} figures
 * @param {boolean} isSimulated
 * @param {number | undefined} step Number of the running step; 0 if no step is running.
 */
export function showFigures(parts, figures, isSimulated, step) {
  if (!figures && !step) {
    parts.totals.replaceChildren(makeNothing());
    return;
  }
  const running = step ? `, working on step ${formatNumber(step)}` : "";
  const facts = [["steps", `${formatNumber(figures?.steps ?? 0)}${running}`]];
  if (figures) facts.push(...listFigures(figures, isSimulated));
  parts.totals.replaceChildren(...facts.map(([name, text]) => makeFactRow(name, text)));
}

/**
 * @param {Figures} figures
 * @param {boolean} isSimulated
 */
function listFigures(figures, isSimulated) {
  const simulated = isSimulated && typeof figures.cost_usd === "number" ? " (simulated)" : "";
  const facts = [
    ["compactions", formatNumber(figures.compactions)],
    ["tokens in", formatTokens(figures.prompt_tokens)],
    ["tokens out", formatTokens(figures.output_tokens)],
    ["tokens in all", `${formatTokens(figures.total_tokens)}, summaries included`],
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

/**
 * @param {HTMLElement} box
 * @param {Files} content
 */
export function showFiles(box, { error, files, count, changed_back, whole, patch }) {
  if (error) {
    box.replaceChildren(make("p", { class: "h-error", text: error }));
    return;
  }
  /** @param {string} text */
  const note = (text) => make("p", { class: "h-faint", text });
  const back = changed_back ? [note(`${formatCount(changed_back, "more file")} changed and changed back`)] : [];
  if (!files.length) {
    box.replaceChildren(note(`No files have changed ${whole ? "since the start" : "in this turn"}.`), ...back);
    return;
  }
  const rows = files.map(({ kind, path, added, removed }) =>
    make(
      "tr",
      {},
      make("td", { class: `a-${kind}`, text: kind }),
      make("td", { class: "a-what", text: path }),
      make("td", { class: "a-number", text: `+${added} −${removed}` }),
    ),
  );
  const more = count > files.length ? [note(`and ${formatNumber(count - files.length)} more`)] : [];
  const lines = make("details", {}, make("summary", { text: "Changes line by line" }), make("pre", { text: patch }));
  box.replaceChildren(make("table", {}, make("tbody", {}, ...rows)), ...more, ...back, lines);
}

/**
 * Offer the newest step for a fork or a rollback, unless the user has chosen another one.
 *
 * @param {Parts} parts
 * @param {number} step
 */
export function showBranchStep({ branchStep }, step) {
  const { newest } = branchStep.dataset;
  if (branchStep.value === newest || !newest) branchStep.value = String(step);
  branchStep.dataset.newest = branchStep.max = String(step);
}

/**
 * @param {Parts} parts
 * @param {Round[]} rounds
 * @param {(seq: number, card: HTMLElement) => void} openRound
 */
export function showRounds({ rounds: box, roundsCard }, rounds, openRound) {
  const buttons = rounds.slice(-MOST_BUTTONS).map(({ seq, round, step, status, before, after, lost }) => {
    const text = status !== "applied" ? `${status} at step ${step}` : lost ? `${round} · ${lost} lost` : String(round);
    const title = `before step ${step}: ${formatNumber(before)} → ${formatNumber(after)} tokens`;
    return make("button", {
      type: "button",
      text,
      title,
      "data-key": `round ${seq}`,
      "aria-label": `Compaction ${text}, ${title}`,
      on: { click: () => openRound(seq, roundsCard) },
    });
  });
  const earlier = rounds.length - MOST_BUTTONS;
  /** @type {string[]} */
  const words = [];
  if (!rounds.length) words.push("none yet");
  if (earlier > 0) words.push(`${formatNumber(earlier)} earlier compactions can be opened from the transcript `);
  const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 24;
  keepFocus(box, () => box.replaceChildren(...words.map((text) => make("span", { class: "h-faint", text })), ...buttons));
  if (isAtEnd) box.scrollTop = box.scrollHeight;
}
