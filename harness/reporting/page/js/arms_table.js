// Tables of arms: estimates with intervals and paired differences, or progress without outcomes.

import { makeMark } from "#widgets/arm_marks.js";
import { draw, keepFocus, make } from "#widgets/elements.js";
import { formatCount, formatNumber } from "#widgets/numbers.js";
import { showInterval } from "./metric_values.js";
import { explain, makeHead, makeTable } from "./tables.js";

/** @import { ReportPage } from "./report_page.js" */
/** @import { Effect, Estimate, Size } from "./values.d.ts" */
/**
 * @typedef {object} Column
 * @property {string} key
 * @property {string} label
 * @property {(index: number) => string | Size} value Value of an arm by which the rows are sorted.
 * @property {(index: number) => Node[]} cell
 */

const HINT = "Select an arm, or a difference, to list its trials and the queries behind its numbers.";
const OTHER_METRICS = ["retention", "cost", "score", "success", "tokens", "steps"];
const HEADINGS = new Map([
  ["cost", "cost, USD"],
  ["retention", "facts kept"],
]);

/**
 * Show how many trials of each arm have finished, without outcomes.
 *
 * @param {ReportPage} page
 * @param {number[]} shown
 */
export function drawProgress(page, shown) {
  const { part, values } = page;
  const rows = shown.map((index) => {
    const { mark, settings, finished, excluded } = part.arms[index];
    const name = make(
      "th",
      { scope: "row" },
      makeMark(mark),
      makeArmLink(page, index),
      make("span", { class: "p-settings", text: settings }),
    );
    return makeRow(page, index, name, ...[finished, excluded].map((count) => make("td", { text: formatNumber(count) })));
  });
  const all = part.arms.reduce((sum, arm) => sum + arm.finished, 0);
  const text = `${formatNumber(all)} of ${formatCount(values.planned, "planned trial")} finished; no outcomes are shown.`;
  page.arms.replaceChildren(
    make("h2", { text: "Progress" }),
    make("p", { text }),
    makeTable({ label: "table of arms", key: "arms", head: makeHead(["arm", "finished", "excluded"]), rows }),
    make("p", { class: "h-faint p-key", text: HINT }),
  );
}

/**
 * @param {ReportPage} page
 * @param {number[]} shown
 */
export function drawArms(page, shown) {
  const columns = listColumns(page);
  const order = sortArms(page, shown, columns);
  const head = columns.map(({ key, label }) => makeSortHeading(page, key, label));
  const rows = order.map((index) =>
    makeRow(
      page,
      index,
      ...columns.map(({ cell }, place) => make(place ? "td" : "th", place ? {} : { scope: "row" }, ...cell(index))),
    ),
  );
  page.arms.replaceChildren(
    make("h2", { text: "Arms" }),
    makeTable({ label: "table of arms", key: "arms", head, rows }),
    explain("table", describeColumns(page, order), HINT),
  );
}

/**
 * @param {ReportPage} page
 * @param {number} index
 * @param {Node[]} cells
 */
function makeRow(page, index, ...cells) {
  return make("tr", { class: index === page.state.chosen?.arm ? "p-current" : "" }, ...cells);
}

/**
 * @param {ReportPage} page
 * @param {number} index
 */
function makeArmLink(page, index) {
  const { name } = page.part.arms[index];
  const choose = () => page.choose({ arm: index, task: null });
  return make("button", { type: "button", class: "p-link", "data-key": `arm ${name}`, text: name, on: { click: choose } });
}

/**
 * @param {ReportPage} page
 * @param {number[]} order
 */
function describeColumns(page, order) {
  const { part, baseline } = page;
  if (baseline === undefined)
    return `Means, with 95 % intervals about ${part.about}. Choose a baseline to see paired differences.`;
  const estimands = new Set(order.map((index) => page.findEffect(index)?.[7]).filter(Boolean));
  const about = [...estimands].join(" and ") || "nothing";
  const differences = `Differences: each arm against ${baseline}, paired by task and seed, with 95 % intervals about ${about}.`;
  return `${differences} ${part.about_verdicts}`;
}

/**
 * @param {ReportPage} page
 * @returns {Column[]}
 */
function listColumns(page) {
  const { part, metric } = page;
  /** @type {(name: string) => Column} */
  const numeric = (name) => ({
    key: name,
    label: HEADINGS.get(name) ?? name,
    value: (index) => part.arms[index].cells[name][1],
    cell: (index) => makeEstimate(part.arms[index].cells[name]),
  });
  /** @type {Column[]} */
  const columns = [
    { key: "name", label: "arm", value: (index) => part.arms[index].name.toLowerCase(), cell: (index) => makeName(page, index) },
    { key: "n", label: "trials", value: (index) => part.arms[index].n, cell: (index) => makeCount(page, index) },
    numeric(metric.name),
  ];
  if (page.baseline !== undefined) {
    columns.push({
      key: "effect",
      label: `${metric.ratio ? "ratio to" : "minus"} baseline`,
      value: (index) => page.findEffect(index)?.[1] ?? null,
      cell: (index) => makeEffect(page, index),
    });
    if (metric.name !== "cost") {
      columns.push({
        key: "cost ratio",
        label: "cost ratio",
        value: (index) => page.findEffect(index, "cost")?.[1] ?? null,
        cell: (index) => makeCostRatio(page, index),
      });
    }
  }
  return [...columns, ...OTHER_METRICS.filter((name) => name !== metric.name).map(numeric)];
}

/**
 * Return the arms in the order of the chosen column; arms without a value come last.
 *
 * @param {ReportPage} page
 * @param {number[]} shown
 * @param {Column[]} columns
 */
function sortArms({ state }, shown, columns) {
  const column = columns.find(({ key }) => key === state.sort);
  if (!column) return shown;
  return shown.toSorted((a, b) => {
    const [one, other] = [column.value(a), column.value(b)];
    if (one === null || other === null) return Number(one === null) - Number(other === null);
    return (one < other ? -1 : one > other ? 1 : 0) * (state.descending ? -1 : 1);
  });
}

/**
 * @param {ReportPage} page
 * @param {string} key
 * @param {string} label
 */
function makeSortHeading(page, key, label) {
  const { state } = page;
  const [direction, sign] = key !== state.sort ? ["none", ""] : state.descending ? ["descending", " ▼"] : ["ascending", " ▲"];
  const sort = () => {
    Object.assign(state, { sort: key, descending: key === state.sort ? !state.descending : false });
    keepFocus(page.arms, () => drawArms(page, page.listShownArms()));
  };
  const given = { type: "button", class: "p-sort", "data-key": `sort ${key}`, text: `${label}${sign}`, on: { click: sort } };
  return make("th", { scope: "col", "aria-sort": direction }, make("button", given));
}

/** @param {Estimate | Effect} estimate */
function makeEstimate([, , , , text, interval]) {
  return [make("b", { text }), make("span", { class: "p-interval", text: showInterval(interval) })];
}

/**
 * @param {ReportPage} page
 * @param {number} index
 */
function makeName(page, index) {
  const { mark, badge, settings, standing } = page.part.arms[index];
  const badges = [];
  if (index === page.state.baseline) badges.push(make("span", { class: "p-badge", text: "baseline" }));
  if (badge) badges.push(make("span", { class: "p-badge p-good", text: badge }));
  const rest = make("span", { class: "p-settings", text: settings, title: standing });
  return [makeMark(mark), makeArmLink(page, index), ...badges, rest];
}

/**
 * @param {ReportPage} page
 * @param {number} index
 */
function makeCount(page, index) {
  const { n, excluded, overflow } = page.part.arms[index];
  const notes = [];
  if (excluded) notes.push(`${formatNumber(excluded)} excluded`);
  if (overflow) notes.push(`${formatNumber(overflow)} overflowed`);
  return [make("b", { text: formatNumber(n) }), ...notes.map((text) => make("span", { class: "p-interval", text }))];
}

/**
 * @param {ReportPage} page
 * @param {number} index
 */
function makeEffect(page, index) {
  const { part, state } = page;
  if (index === state.baseline) return [make("span", { class: "h-faint", text: "baseline" })];
  const effect = page.findEffect(index);
  if (!effect) {
    const { repeats } = part.arms[index];
    return [make("span", { class: "h-faint", text: repeats ? `only compared with ${repeats}` : "no shared trials" })];
  }
  const classes = { better: "p-better", worse: "p-worse", "not shown": "p-unclear" };
  const choose = () => page.choose({ arm: index, task: null, against: state.baseline });
  const key = `effect ${part.arms[index].name}`;
  const label = `${effect[4]}: trials and queries of ${part.arms[index].name} against ${page.baseline}`;
  const given = { type: "button", class: "p-number", "data-key": key, "aria-label": label, text: effect[4] };
  return [
    make("button", { ...given, on: { click: choose } }),
    make("span", { class: "p-interval", text: effect[5] }),
    make("span", { class: `p-verdict ${classes[effect[6]]}`, text: effect[8] ?? part.verdicts[effect[6]] }),
    drawForest(page, effect),
  ];
}

/**
 * @param {ReportPage} page
 * @param {number} index
 */
function makeCostRatio(page, index) {
  const effect = page.findEffect(index, "cost");
  if (!effect) return [make("span", { class: "h-faint", text: index === page.state.baseline ? "baseline" : "–" })];
  return [make("b", { text: effect[4] }), make("span", { class: "p-interval", text: effect[5] })];
}

/**
 * Draw an effect with its interval on the scale that all arms share.
 *
 * @param {ReportPage} page
 * @param {Effect} effect
 */
function drawForest({ part, metric, baseline }, effect) {
  const all = baseline === undefined ? [] : Object.values(part.effects[baseline][metric.name]);
  /** @param {Effect} effect */
  const measure = ([, value, low, high]) =>
    [value, low, high].map((size) => (size !== null && metric.ratio ? Math.log(size) : size));
  const sizes = all.flatMap(measure).filter((size) => size !== null && Number.isFinite(size));
  const most = Math.max(0, ...sizes.map((size) => Math.abs(size ?? 0))) || 1;
  /** @param {number} size */
  const x = (size) => 60 + (56 * Math.max(-most, Math.min(most, size))) / most;
  const kind = `p-is-${effect[6].replace(" ", "-")}`;
  const svg = draw("svg", { viewBox: "0 0 120 14", class: `p-forest ${kind}`, "aria-hidden": "true" });
  svg.append(draw("line", { class: "p-zero", x1: 60, x2: 60, y1: 0, y2: 14 }));
  const [value, low, high] = measure(effect);
  if (low !== null && high !== null) svg.append(draw("line", { class: "p-range", x1: x(low), x2: x(high), y1: 7, y2: 7 }));
  if (value !== null) svg.append(draw("circle", { class: "p-middle", cx: x(value), cy: 7, r: 3.5 }));
  return svg;
}
