// Chart of cost and result of each arm.

import { classifyMark, drawMark } from "#widgets/arm_marks.js";
import { draw, make } from "#widgets/elements.js";
import { formatCount } from "#widgets/numbers.js";
import { formatValue, listTicks } from "./metric_values.js";
import { explain } from "./tables.js";

/** @import { ReportPage } from "./report_page.js" */
/** @import { Arm, Metric, Size } from "./values.d.ts" */
/** @typedef {[value: number, low: Size, high: Size]} Range */
/** @typedef {{ index: number, arm: Arm, x: Range, y: Range }} Point */
/** @typedef {{ index: number, text: string, x: number, y: number }} Label */
/** @typedef {[left: number, top: number, right: number, bottom: number]} Box */

const MAX_CHART_LABELS = 14;
const [WIDTH, HEIGHT] = [640, 560];
const FRAME = { left: 70, right: WIDTH - 16, top: 14, bottom: HEIGHT - 44 };

/**
 * @param {ReportPage} page
 * @param {number[]} shown
 */
export function drawChart(page, shown) {
  const upright = page.state.metric === "cost" ? page.findMetric("score") : page.metric;
  const cost = page.findMetric("cost");
  const points = listPoints(page, shown, upright.name);
  const title = make("h2", { text: `Cost and ${upright.name} of each arm` });
  if (!points.length) {
    page.chart.replaceChildren(title, make("p", { class: "h-faint", text: "No arm has both a cost and a value." }));
    return;
  }
  /** @type {[number, number]} */
  const bounds = upright.kind === "amount" ? [0, Infinity] : [-0.02, 1.02];
  const across = createScale(
    points.flatMap(({ x }) => x),
    [0, Infinity],
    [FRAME.left, FRAME.right],
  );
  const upwards = createScale(
    points.flatMap(({ y }) => y),
    bounds,
    [FRAME.bottom, FRAME.top],
  );
  const [px, py] = [across.place, upwards.place];
  const front = page.part.fronts[upright.name].flatMap((index) => points.filter((point) => point.index === index));
  const corners = front.flatMap(({ x, y }, place) => [...(place ? [[x[0], front[place - 1].y[0]]] : []), [x[0], y[0]]]);
  const line = corners.map(([x, y]) => `${px(x)},${py(y)}`).join(" ");
  const isNamed = (/** @type {Point} */ point) =>
    front.includes(point) || point.arm.badge !== "" || isChosen(page, point) || isBaseline(page, point);
  const named = points.length <= MAX_CHART_LABELS ? points : points.filter(isNamed);
  const labels = named.map(({ index, arm, x, y }) => ({ index, text: arm.label, x: px(x[0]), y: py(y[0]) }));
  const label = `Chart: ${upright.label} over ${cost.label} of ${formatCount(points.length, "arm")}`;
  const svg = draw(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${label}; the table of arms has the same values.` },
    ...drawAxes(across, cost, upwards, upright),
    ...(corners.length > 1 ? [draw("polyline", { class: "p-front", points: line })] : []),
    ...points.map((point) => drawPoint(page, point, upright, px, py)),
    ...placeLabels(
      page,
      labels,
      points.map(({ x, y }) => [px(x[0]), py(y[0])]),
    ),
  );
  addHover(svg);
  const key = [
    `Point: one arm, with 95 % intervals about ${page.part.about}.`,
    corners.length > 1 ? "Dashed: Pareto front: no other arm is better and no dearer, or cheaper and no worse." : "",
    page.state.baseline >= 0 ? "Ring: baseline." : "",
    "Colours and shapes are those of the figures.",
    named.length < points.length ? "Names: the front, the baseline and the chosen arm; the others are in the table." : "",
  ];
  page.chart.replaceChildren(title, svg, explain("chart", key.filter(Boolean).join(" "), "Click a point to list its trials."));
}

/**
 * Return the arms that have both a cost and a value.
 *
 * @param {ReportPage} page
 * @param {number[]} shown
 * @param {string} metric
 * @returns {Point[]}
 */
function listPoints(page, shown, metric) {
  return shown.flatMap((index) => {
    const arm = page.part.arms[index];
    const [[, x, ...xEnds], [, y, ...yEnds]] = [arm.cells.cost, arm.cells[metric]];
    return x === null || y === null ? [] : [{ index, arm, x: [x, xEnds[0], xEnds[1]], y: [y, yEnds[0], yEnds[1]] }];
  });
}

/**
 * @param {ReportPage} page
 * @param {Point} point
 */
function isBaseline(page, point) {
  return point.index === page.state.baseline;
}

/**
 * @param {ReportPage} page
 * @param {Point} point
 */
function isChosen(page, point) {
  return point.index === page.state.chosen?.arm;
}

/**
 * Return the scale of an axis that shows all values, with a margin.
 *
 * @param {Size[]} values
 * @param {[number, number]} bounds Ends beyond which the axis does not reach.
 * @param {[number, number]} places Places of the two ends of the axis in the drawing.
 */
function createScale(values, bounds, places) {
  const known = values.filter((value) => value !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const margin = 0.07 * (high - low || Math.abs(high) || 1);
  const [first, last] = [Math.max(bounds[0], low - margin), Math.min(bounds[1], high + margin)];
  /** @param {number} value */
  const place = (value) => places[0] + ((value - first) / (last - first)) * (places[1] - places[0]);
  return { ticks: listTicks(first, last), place };
}

/**
 * @param {ReturnType<typeof createScale>} across
 * @param {Metric} cost
 * @param {ReturnType<typeof createScale>} upwards
 * @param {Metric} upright
 */
function drawAxes(across, cost, upwards, upright) {
  const { left, right, top, bottom } = FRAME;
  const rows = nameTicks(upwards.ticks, upright).flatMap(([tick, text]) => {
    const y = upwards.place(tick);
    return [
      draw("line", { class: "p-rule", x1: left, x2: right, y1: y, y2: y }),
      draw("text", { class: "p-tick", x: left - 6, y: y + 4, "text-anchor": "end", text }),
    ];
  });
  const columns = nameTicks(across.ticks, cost).flatMap(([tick, text]) => {
    const x = across.place(tick);
    return [
      draw("line", { class: "p-rule", x1: x, x2: x, y1: top, y2: bottom }),
      draw("text", { class: "p-tick", x, y: bottom + 16, "text-anchor": "middle", text }),
    ];
  });
  const turned = `translate(14 ${(top + bottom) / 2}) rotate(-90)`;
  return [
    ...rows,
    ...columns,
    draw("text", { class: "p-axis", x: (left + right) / 2, y: HEIGHT - 6, "text-anchor": "middle", text: cost.label }),
    draw("text", { class: "p-axis", "text-anchor": "middle", transform: turned, text: upright.label }),
  ];
}

/**
 * Return ticks with their texts, without neighbours of the same text.
 *
 * @param {number[]} ticks
 * @param {Metric} metric
 */
function nameTicks(ticks, metric) {
  const named = ticks.map((tick) => /** @type {const} */ ([tick, formatValue(metric, tick)]));
  return named.filter(([, text], place) => !place || text !== named[place - 1][1]);
}

/**
 * @param {ReportPage} page
 * @param {Point} point
 * @param {Metric} upright
 * @param {(value: number) => number} px
 * @param {(value: number) => number} py
 */
function drawPoint(page, point, upright, px, py) {
  const [[x, xLow, xHigh], [y, yLow, yHigh]] = [point.x, point.y];
  const at = { cx: px(x), cy: py(y) };
  const { name, mark, cells } = point.arm;
  const [value, cost] = [cells[upright.name], cells.cost].map(([, , , , text, interval]) => `${text} ${interval}`);
  const kinds = [classifyMark(mark), isBaseline(page, point) && "p-baseline", isChosen(page, point) && "p-chosen"];
  const words = `${name}: ${upright.name} ${value}, cost ${cost} USD per trial, n ${cells[upright.name][0]}`;
  const group = draw("g", { class: ["p-point", ...kinds].filter(Boolean).join(" "), "data-words": words });
  if (xLow !== null && xHigh !== null)
    group.append(draw("line", { class: "p-bar", x1: px(xLow), x2: px(xHigh), y1: at.cy, y2: at.cy }));
  if (yLow !== null && yHigh !== null)
    group.append(draw("line", { class: "p-bar", x1: at.cx, x2: at.cx, y1: py(yLow), y2: py(yHigh) }));
  if (isBaseline(page, point)) group.append(draw("circle", { class: "p-ring", ...at, r: 9 }));
  if (isChosen(page, point)) group.append(draw("circle", { class: "p-halo", ...at, r: 11.5 }));
  group.append(
    drawMark(mark, at.cx, at.cy, 5.5),
    draw("circle", { class: "p-hit", ...at, r: 13 }),
    draw("title", { text: words }),
  );
  group.addEventListener("click", () => page.choose({ arm: point.index, task: null }));
  return group;
}

/**
 * Show the values of the point below the pointer in a line above the points.
 *
 * @param {SVGSVGElement} svg
 */
function addHover(svg) {
  const readout = draw("text", { class: "p-readout", x: FRAME.right, y: FRAME.top, "text-anchor": "end", text: "" });
  svg.append(readout);
  for (const group of /** @type {NodeListOf<SVGGElement>} */ (svg.querySelectorAll(".p-point"))) {
    group.addEventListener("pointerenter", () => {
      group.classList.add("p-hovered");
      readout.textContent = group.dataset.words ?? "";
    });
    group.addEventListener("pointerleave", () => {
      group.classList.remove("p-hovered");
      readout.textContent = "";
    });
  }
}

/**
 * Place names beside their points so that names cover neither each other nor a point.
 *
 * @param {ReportPage} page
 * @param {Label[]} labels
 * @param {number[][]} dots
 */
function placeLabels(page, labels, dots) {
  const taken = dots.map(([x, y]) => /** @type {Box} */ ([x - 7, y - 7, x + 7, y + 7]));
  return labels.map((label) => {
    const lines = label.text.split("\n");
    const best = choosePlace(label, lines, taken);
    taken.push(best.box);
    const text = draw("text", { class: "p-label", x: best.x, y: best.y, "text-anchor": best.anchor });
    text.append(...lines.map((line, place) => draw("tspan", { x: best.x, dy: place ? 13 : 0, text: line })));
    text.addEventListener("click", () => page.choose({ arm: label.index, task: null }));
    return text;
  });
}

/**
 * Return the place beside a point at which its name covers least; of equal places, the first.
 *
 * @param {Label} label
 * @param {string[]} lines
 * @param {Box[]} taken
 */
function choosePlace({ x, y }, lines, taken) {
  const [width, below] = [6.3 * Math.max(...lines.map((line) => line.length)) + 4, 13 * (lines.length - 1)];
  const places = [-9, 14, -22, 27, -35, 40, 3].flatMap((shift) => [
    { x: x + 11, y: y + shift, anchor: "start", left: x + 11 },
    { x: x - 11, y: y + shift, anchor: "end", left: x - 11 - width },
    { x, y: y + shift, anchor: "middle", left: x - width / 2 },
  ]);
  const rated = places.map((place, index) => {
    /** @type {Box} */
    const box = [place.left, place.y - 11, place.left + width, place.y + below + 4];
    const covered = taken.reduce((sum, other) => sum + measureOverlap(box, other), 0);
    return { ...place, box, score: 50 * measureOutside(box) + covered + index };
  });
  return rated.reduce((best, one) => (one.score < best.score ? one : best));
}

/**
 * @param {Box} a
 * @param {Box} b
 */
function measureOverlap(a, b) {
  const width = Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0]));
  return width * Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1]));
}

/** @param {Box} box */
function measureOutside([left, top, right, bottom]) {
  const beyond = [FRAME.left - left, right - FRAME.right, FRAME.top - top, bottom - FRAME.bottom];
  return beyond.reduce((sum, length) => sum + Math.max(0, length), 0);
}
