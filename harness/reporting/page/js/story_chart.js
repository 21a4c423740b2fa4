// Chart of one loss and its consequence: the context of two sessions over their steps.

import { classifyMark } from "#widgets/arm_marks.js";
import { draw, make } from "#widgets/elements.js";
import { formatNumber, formatTokens } from "#widgets/numbers.js";
import { listTicks } from "./metric_values.js";

/** @import { ReportPage } from "./report_page.js" */
/** @import { Story, StorySide, StoryStep } from "./values.d.ts" */

const [WIDTH, PANEL, GAP] = [640, 190, 34];
const FRAME = { left: 46, right: WIDTH - 122, top: 46 };
const NOTE_CHARACTERS = 44;

/**
 * Draw the story of a part, or hide its box if there is none.
 *
 * @param {ReportPage} page
 */
export function drawStory(page) {
  const { story } = page.part;
  page.story.hidden = !story || page.values.is_withheld;
  if (!story || page.values.is_withheld) return;
  const [lost, kept] = story.sides;
  const opens = story.sides.map((side) =>
    make("button", {
      type: "button",
      "data-key": `story ${side.arm}`,
      text: `Open the session of ${side.arm}`,
      on: { click: () => page.openTrial(side.trial, side.has_failed ? story.check : "") },
    }),
  );
  page.story.replaceChildren(
    make("h2", { text: story.title }),
    make("p", { class: "p-key h-faint", text: `${story.task}, seed ${story.seed}. Check: ${story.check}.` }),
    drawPanels(story),
    make("p", { class: "p-story-words", text: `${describe(lost)} ${describe(kept)}` }),
    make("div", { class: "p-story-open p-hint" }, ...opens),
    make("p", { class: "p-key h-faint", text: `${story.example}. ▼: compaction. Height: tokens that the model sees.` }),
  );
}

/** @param {StorySide} side */
function describe({ arm, fate, round_step, use, use_step, has_failed }) {
  const end = has_failed ? "and the check fails" : "and the check passes";
  return `${arm}: at step ${round_step}, ${fate}; at step ${use_step} it ${use}, ${end}.`;
}

/** @param {Story} story */
function drawPanels(story) {
  const last = Math.max(...story.sides.map(({ steps }) => steps[steps.length - 1][0]));
  const most = Math.max(...story.sides.flatMap(({ steps }) => steps.flatMap(([, tokens, before]) => [tokens, before ?? 0])));
  const height = 2 * (PANEL + GAP) + 12;
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `${story.title}; told below.` });
  for (const [place, side] of story.sides.entries()) svg.append(drawPanel(side, place * (PANEL + GAP), last, most));
  svg.append(
    draw("text", { class: "p-axis", x: (FRAME.left + FRAME.right) / 2, y: height - 2, "text-anchor": "middle", text: "step" }),
  );
  return svg;
}

/**
 * @param {StorySide} side
 * @param {number} top
 * @param {number} last
 * @param {number} most
 */
function drawPanel(side, top, last, most) {
  const bottom = top + PANEL;
  /** @param {number} step */
  const x = (step) => FRAME.left + ((FRAME.right - FRAME.left) * step) / last;
  /** @param {number} tokens */
  const y = (tokens) => bottom - ((bottom - top - FRAME.top - 10) * tokens) / most;
  const group = draw("g", { class: `p-story ${classifyMark(side.mark)} ${side.has_failed ? "p-story-bad" : "p-story-good"}` });
  for (const tick of listTicks(0, most)) {
    group.append(
      draw("line", { class: "p-rule", x1: FRAME.left, x2: FRAME.right, y1: y(tick), y2: y(tick) }),
      draw("text", { class: "p-tick", x: FRAME.left - 5, y: y(tick) + 4, "text-anchor": "end", text: formatTokens(tick) }),
    );
  }
  for (const tick of listTicks(0, last)) {
    group.append(
      draw("text", { class: "p-tick", x: x(tick), y: bottom + 15, "text-anchor": "middle", text: formatNumber(tick) }),
    );
  }
  group.append(draw("text", { class: "p-story-arm", x: FRAME.left, y: top + 14, text: side.arm }));
  const points = side.steps.flatMap(([step, tokens, before]) => [
    ...(before === null ? [] : [`${x(step)},${y(before)}`]),
    `${x(step)},${y(tokens)}`,
  ]);
  group.append(draw("polyline", { class: "p-story-line", points: points.join(" ") }));
  for (const [step, , before] of side.steps) {
    if (before !== null && step !== side.round_step) group.append(drawDrop(x(step), y(before), 4, "p-story-drop"));
  }
  const [loss, use] = [side.round_step, side.use_step].map((step) => findStep(side, step));
  const height = y(loss[2] ?? loss[1]);
  group.append(
    drawDrop(x(loss[0]), height, 8, "p-story-mark"),
    ...drawNote(`step ${side.round_step}: ${side.fate}`, x(loss[0]) + 10, height - 12, true),
    draw("line", { class: "p-story-lead", x1: x(use[0]), x2: x(use[0]), y1: y(use[1]), y2: bottom - 12 }),
    drawUse(x(use[0]), y(use[1]), side.has_failed),
    ...drawNote(`step ${side.use_step}: ${side.use}`, x(use[0]) + 5, bottom - 6, false),
  );
  const end = side.steps[side.steps.length - 1];
  const verdict = side.has_failed ? "✕ check failed" : "● check passed";
  group.append(draw("text", { class: "p-story-end", x: x(end[0]) + 5, y: y(end[1]) + 4, text: verdict }));
  addHover(group, side, { x, top: top + 22, bottom });
  return group;
}

/**
 * Return a step of a session, or its last one.
 *
 * @param {StorySide} side
 * @param {number} step
 * @returns {StoryStep}
 */
function findStep({ steps }, step) {
  return steps.find(([number]) => number === step) ?? steps[steps.length - 1];
}

/**
 * @param {number} x
 * @param {number} y
 * @param {number} size
 * @param {string} kind
 */
function drawDrop(x, y, size, kind) {
  return draw("path", { class: kind, d: `M${x - size},${y - 1.5 * size}h${2 * size}l${-size},${1.5 * size}z` });
}

/**
 * @param {number} x
 * @param {number} y
 * @param {boolean} hasFailed
 */
function drawUse(x, y, hasFailed) {
  if (!hasFailed) return draw("circle", { class: "p-story-mark", cx: x, cy: y, r: 6 });
  return draw("path", { class: "p-story-cross", d: `M${x - 6},${y - 6}l12,12m0,-12l-12,12` });
}

/**
 * Draw a remark in lines, upwards from its last line or on one line.
 *
 * @param {string} text
 * @param {number} x
 * @param {number} y
 * @param {boolean} wraps
 */
function drawNote(text, x, y, wraps) {
  const lines = wraps ? wrap(text) : [text];
  return lines.map((line, place) =>
    draw("text", { class: "p-story-note", x, y: y - 14 * (lines.length - 1 - place), text: line }),
  );
}

/** @param {string} text */
function wrap(text) {
  /** @type {string[]} */
  const lines = [];
  for (const word of text.split(" ")) {
    const line = lines.length ? `${lines[lines.length - 1]} ${word}` : word;
    if (lines.length && line.length <= NOTE_CHARACTERS) lines[lines.length - 1] = line;
    else lines.push(word);
  }
  return lines;
}

/**
 * Show step and tokens below the pointer.
 *
 * @param {SVGGElement} group
 * @param {StorySide} side
 * @param {{ x: (step: number) => number, top: number, bottom: number }} scale
 */
function addHover(group, side, { x, top, bottom }) {
  const line = draw("line", { class: "p-story-pointer", y1: top, y2: bottom, visibility: "hidden" });
  const words = draw("text", { class: "p-story-readout", x: FRAME.right, y: top - 8, "text-anchor": "end", text: "" });
  const area = draw("rect", { class: "p-hit", x: FRAME.left, y: top, width: FRAME.right - FRAME.left, height: bottom - top });
  group.append(line, words, area);
  area.addEventListener("pointermove", (event) => {
    const box = area.getBoundingClientRect();
    const share = (event.clientX - box.left) / (box.width || 1);
    const wanted = FRAME.left + share * (FRAME.right - FRAME.left);
    const near = side.steps.reduce((best, one) => (Math.abs(x(one[0]) - wanted) < Math.abs(x(best[0]) - wanted) ? one : best));
    const [step, tokens, before] = near;
    for (const name of ["x1", "x2"]) line.setAttribute(name, String(x(step)));
    line.setAttribute("visibility", "visible");
    const dropped = before === null ? "" : `, compacted from ${formatNumber(before)}`;
    words.textContent = `step ${step}: ${formatNumber(tokens)} tokens${dropped}`;
  });
  area.addEventListener("pointerleave", () => {
    line.setAttribute("visibility", "hidden");
    words.textContent = "";
  });
}
