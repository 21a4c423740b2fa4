// Chart of tokens over the steps of a session: whole conversation, view, threshold, and a mark for each compaction.

import { draw, make } from "./elements.js";
import { createFactStrip } from "./fact_strip.js";
import { formatCount, formatNumber, formatTokens } from "./numbers.js";
import "./timeline.css";

/** @typedef {{ tokens: number, name: string, kind: "threshold" | "window" }} Limit */
/** @import { Strip } from "./fact_strip.js" */
/** @typedef {{ index: number, kind: "applied" | "fruitless", text: string, round: number }} Mark */
/** @typedef {[step: number, before: number, after: number, status: string, reason: string, round: number]} Attempt */
/**
 * @typedef {object} Lines
 * @property {number[]} [whole] Tokens of the whole conversation by step.
 * @property {number[]} [pinned] Tokens in view by step with other settings.
 * @property {number[]} curve Tokens in view by step.
 * @property {number[]} [oversized] Indices of the steps whose request exceeds the window.
 * @property {Limit[]} limits
 * @property {Mark[]} marks
 * @property {number[]} steps Numbers of the steps.
 * @property {Strip[]} [strips] Facts of the task below the curve.
 * @property {number} [chosen] Number of the compaction that is open; 0 if none is.
 * @property {number} at Index of the current step.
 * @property {string} label
 */

const TIMELINE = { width: 1000, height: 150, points: 1000, ticks: 80, short: 12, line: 16 };

/**
 * Return the marks of the attempted compactions of a session; those after its last step stand at that step. The last value of an
 * attempt is the number of the compaction, 0 if it was not applied.
 *
 * @param {number[]} steps Numbers of the steps.
 * @param {Attempt[]} attempts
 * @returns {Mark[]}
 */
export function listMarks(steps, attempts) {
  const place = new Map(steps.map((step, index) => [step, index]));
  return attempts.map(([step, before, after, status, reason, round]) => ({
    round,
    index: place.get(step) ?? steps.length - 1,
    kind: status === "applied" ? "applied" : "fruitless",
    text: `before step ${formatNumber(step)}: ${formatNumber(before)} → ${formatNumber(after)} tokens, ${status}: ${reason}`,
  }));
}

/**
 * Return the first index after, or the last one before, a place; undefined if there is none.
 *
 * @param {number[]} indices
 * @param {number} here
 * @param {number} way 1 for the next index, -1 for the previous one.
 */
export function findNext(indices, here, way) {
  return way > 0 ? indices.find((index) => index > here) : indices.findLast((index) => index < here);
}

/**
 * Return the points of a line through one value per step; for a long session each point is the largest value of several steps.
 *
 * @param {number[]} values
 * @param {number} steps
 * @param {number} top
 */
function buildPoints(values, steps, top) {
  const group = Math.max(1, Math.ceil(values.length / TIMELINE.points));
  const points = [];
  for (let start = 0; start < values.length; start += group) {
    let at = start;
    for (let index = start; index < Math.min(start + group, values.length); index += 1) {
      if (values[index] > values[at]) at = index;
    }
    const x = ((at + 0.5) / steps) * TIMELINE.width;
    points.push(`${x.toFixed(1)},${(TIMELINE.height * (1 - values[at] / top)).toFixed(1)}`);
  }
  return points.join(" ");
}

/**
 * Return ascending indices as ranges `[first, end]` of consecutive ones.
 *
 * @param {number[]} indices
 */
function groupRanges(indices) {
  /** @type {[number, number][]} */
  const ranges = [];
  for (const index of indices) {
    const last = ranges.at(-1);
    if (last && last[1] === index) last[1] += 1;
    else ranges.push([index, index + 1]);
  }
  return ranges;
}

/**
 * Return the limits in descending order, in groups whose names would overlap on lines of their own.
 *
 * @param {Limit[]} limits
 * @param {(limit: Limit) => number} level Place of a limit.
 */
function groupLimits(limits, level) {
  /** @type {Limit[][]} */
  const groups = [];
  for (const limit of limits.toSorted((a, b) => b.tokens - a.tokens)) {
    const last = groups.at(-1);
    if (last && level(limit) - level(last[0]) < TIMELINE.line) last.push(limit);
    else groups.push([limit]);
  }
  return groups;
}

/**
 * Return the indices of about six steps whose numbers stand below the chart.
 *
 * @param {number} steps
 */
function listPlaces(steps) {
  const size = Math.max(1, Math.ceil(steps / 6));
  return Array.from({ length: Math.ceil(steps / size) }, (_, place) => place * size);
}

/**
 * Return a sentence that explains the lines of a timeline.
 *
 * @param {number[]} whole
 * @param {boolean} isCut
 * @param {boolean} hasPinned
 * @param {string} marks
 */
function describeLines(whole, isCut, hasPinned, marks) {
  const parts = ["Solid line: tokens in view"];
  if (whole.length) {
    const end = `${formatNumber(whole.at(-1))} tokens at the end`;
    parts.push(`dotted: the whole conversation, ${end}${isCut ? ", above the chart" : ""}`);
  }
  if (hasPinned) parts.push("dashed: pinned settings");
  if (marks) parts.push(marks);
  return `${parts.join("; ")}.`;
}

/**
 * Return round numbers from 0 to a largest value, at most four.
 *
 * @param {number} most
 */
function listLevels(most) {
  const rough = most / 3;
  const power = 10 ** Math.floor(Math.log10(Math.max(1, rough)));
  const size = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? power;
  return Array.from({ length: Math.floor(most / size) + 1 }, (_, place) => place * size);
}

/**
 * Create a timeline.
 *
 * @param {(index: number) => void} choose Called with the index of a step that the reader clicks.
 * @param {(round: number, index: number) => void} [openRound] Called with an applied compaction that is clicked.
 */
export function createTimeline(choose, openRound) {
  const { width, height } = TIMELINE;
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img" });
  const names = make("div", { class: "h-limits", "aria-hidden": "true" });
  const ticks = make("div", { class: "h-marks" });
  const levels = make("div", { class: "h-levels h-faint", "aria-hidden": "true" });
  const key = make("p", { class: "h-key h-faint" });
  const readout = make("p", { class: "h-readout h-faint" });
  const axis = make("div", { class: "h-axis h-faint", "aria-hidden": "true" });
  const pointer = make("div", { class: "h-pointer", hidden: true });
  /**
   * Mark the step below the pointer in the chart and in all rows of facts, and say what is there; null marks none.
   *
   * @param {number | null} index
   * @param {string} [text]
   */
  const point = (index, text = "") => {
    pointer.hidden = index === null;
    strip.mark(index);
    readout.textContent = index === null ? "" : `${describe(index)}${text && `; ${text}`}`;
    if (index !== null) pointer.style.left = `${(100 * (index + 0.5)) / steps}%`;
  };
  const strip = createFactStrip(choose, point);
  const element = make(
    "div",
    { class: "h-timeline" },
    make("div", { class: "h-chart" }, levels, make("div", { class: "h-plot" }, svg, names, ticks, pointer)),
    strip.element,
    axis,
    readout,
    strip.foot,
    key,
  );
  let steps = 1;
  let describe = (/** @type {number} */ _) => "";
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    point(Math.min(steps - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * steps))));
  });
  svg.addEventListener("pointerleave", () => point(null));
  svg.addEventListener("click", (event) => {
    const box = svg.getBoundingClientRect();
    const index = Math.floor(((event.clientX - box.left) / box.width) * steps);
    choose(Math.min(steps - 1, Math.max(0, index)));
  });
  /** @param {Lines} lines */
  const show = ({
    whole = [],
    pinned = [],
    curve,
    oversized = [],
    limits,
    marks,
    steps: numbers,
    strips = [],
    chosen = 0,
    at,
    label,
  }) => {
    steps = Math.max(whole.length, curve.length, 1);
    const seen = [...curve, ...pinned, ...limits.map((limit) => limit.tokens)].reduce((most, one) => Math.max(most, one), 1);
    const most = 1.08 * Math.max(seen, Math.min(1.6 * seen, whole.at(-1) ?? 0));
    const end = whole.findIndex((tokens) => tokens > most);
    const uncut = end < 0 ? whole : whole.slice(0, end + 1); // ends where it leaves the chart
    const isCrowded = marks.length > TIMELINE.ticks; // longer lines would hide the curve
    /** @param {number} index */
    const findMiddle = (index) => (index + 0.5) / steps;
    /** @param {{ tokens: number }} limit */
    const level = (limit) => height * (1 - limit.tokens / most);
    /**
     * @param {string} kind
     * @param {number[]} values
     */
    const drawLine = (kind, values) => draw("polyline", { class: kind, points: buildPoints(values, steps, most) });
    const cursor = findMiddle(at) * width;
    svg.replaceChildren(
      ...marks.map((mark) => {
        const x = (mark.index / steps) * width; // between two steps
        return draw("line", { class: `h-mark h-${mark.kind}`, x1: x, x2: x, y1: 0, y2: isCrowded ? TIMELINE.short : height });
      }),
      drawLine(
        "h-whole",
        uncut.map((tokens) => Math.min(tokens, most)),
      ),
      drawLine("h-pinned", pinned),
      drawLine("h-curve", curve),
      ...limits.map((limit) => {
        const y = level(limit).toFixed(1);
        return draw("line", { class: `h-${limit.kind}`, x1: 0, x2: width, y1: y, y2: y });
      }),
      ...groupRanges(oversized).map(([first, last]) => {
        const wide = Math.max(last - first, steps / width); // at least as wide as a pixel
        return draw("rect", { class: "h-oversized", x: (first / steps) * width, width: (wide / steps) * width, y: 0, height });
      }),
      draw("line", { class: "h-cursor", x1: cursor, x2: cursor, y1: 0, y2: height }),
    );
    svg.setAttribute("aria-label", label);
    names.replaceChildren(
      ...groupLimits(limits, level).map((group) => {
        /** @param {Limit} limit */
        const name = ({ kind, name, tokens }) =>
          make("span", { class: `h-name-${kind}`, text: `${name} ${formatNumber(tokens)}` });
        const line = make("div", {}, ...group.map(name).reverse());
        line.style.top = `${(100 * level(group[0])) / height}%`;
        return line;
      }),
    );
    ticks.replaceChildren(
      ...(isCrowded ? [] : marks).map(({ index, kind, text, round }) => {
        const given = { type: "button", title: text, "aria-label": text, tabindex: "-1", text: "▼" };
        const act = () => (openRound && round ? openRound(round, index) : choose(index));
        const isOpen = round > 0 && round === chosen ? " h-open" : "";
        const tick = make("button", { ...given, class: `h-tick h-${kind}${isOpen}`, on: { click: act } });
        tick.style.left = `${(100 * index) / steps}%`;
        return tick;
      }),
    );
    levels.replaceChildren(
      ...listLevels(most / 1.04).map((tokens) => {
        const line = make("span", { text: tokens ? formatTokens(tokens) : "0 tokens" });
        line.style.top = `${(100 * level({ tokens })) / height}%`;
        return line;
      }),
    );
    axis.replaceChildren(
      ...listPlaces(steps).map((index) => {
        const tick = make("span", { text: `${index ? "" : "step "}${formatNumber(numbers[index] ?? index + 1)}` });
        tick.style.left = `${100 * findMiddle(index)}%`;
        return make("span", { class: "h-axis-place" }, tick);
      }),
    );
    describe = (index) => {
      const here = marks.flatMap((mark) => (mark.index === index ? [mark.text] : []));
      const size = index < curve.length ? `${formatCount(curve[index], "token")} in view` : "not computed yet";
      return [`step ${formatNumber(numbers[index] ?? index + 1)}: ${size}`, ...here].join("; ");
    };
    const rounds = marks.flatMap((mark) => (mark.round ? [mark.index] : []));
    strip.show(strips, numbers, rounds, marks.find((mark) => chosen > 0 && mark.round === chosen)?.index ?? -1);
    element.classList.toggle("h-has-facts", strips.length > 0);
    const named = isCrowded ? "short lines at the top: compactions" : "▼ compactions";
    key.textContent = describeLines(whole, end >= 0, pinned.length > 0, marks.length ? named : "");
  };
  return { element, show };
}
