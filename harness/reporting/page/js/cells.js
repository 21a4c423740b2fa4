// Cells with the values of arms, or their differences to a baseline. Python chooses the shade of each cell.

import { makeMark } from "#widgets/arm_marks.js";
import { make } from "#widgets/elements.js";
import "#widgets/heat_map.css";
import { formatValue, showInterval } from "./metric_values.js";
import { explain, makeHead, makeTable } from "./tables.js";

/** @import { ReportPage, Target } from "./report_page.js" */
/** @import { AxisTable, Effect, Estimate, Size } from "./values.d.ts" */
/** @typedef {{ target: Target, text: string, detail: string, n?: number, shade: Size }} Cell */
/** @typedef {{ name: string, mark: string, cells: (Cell | null)[] }} Row */
/** @typedef {{ title: string, corner: string, columns: string[], rows: Row[] }} Table */

/**
 * @param {ReportPage} page
 * @param {number[]} shown
 */
export function drawCells(page, shown) {
  const { part, metric, state } = page;
  const byAxes = part.tables.length > 0 && state.layout !== "tasks";
  const heading = `${metric.name} by ${byAxes ? "axes" : "arm and task"}`;
  const title = make("h2", { text: heading[0].toUpperCase() + heading.slice(1) });
  if (!byAxes && !part.task_cells) {
    const text = "Too many arms and tasks for cells; the table below lists the arms.";
    page.grid.replaceChildren(title, make("p", { class: "h-faint", text }));
    return;
  }
  const isPaired = page.baseline !== undefined && (byAxes || findTaskEffects(page) !== undefined);
  const tables = byAxes ? part.tables.map((table) => buildAxisTable(page, table, shown)) : [buildTaskTable(page, shown)];
  const boxes = tables.map((table) => makeHeatMap(page, table, table.title || heading, isPaired ? "g-d" : "g-s"));
  const key = isPaired ? describeDifferences(page, byAxes) : describeValues(page, byAxes);
  page.grid.replaceChildren(
    title,
    make("div", { class: "g-heats" }, ...boxes),
    explain("cells", key, "Click a cell to list its trials."),
  );
}

/**
 * @param {ReportPage} page
 * @param {boolean} byAxes
 */
function describeDifferences({ metric, baseline, part }, byAxes) {
  const kind = metric.ratio ? "ratio" : "difference";
  if (byAxes)
    return `Each cell: ${kind} to ${baseline}, its 95 % interval about ${part.about}, pairs. Orange: lower, blue: higher.`;
  const cell = `Each cell: ${kind} to ${baseline} on the task, its 95 % interval about this one task, pairs.`;
  return `${cell} Orange: lower, blue: higher. Row of the baseline: its values.`;
}

/**
 * @param {ReportPage} page
 * @param {boolean} byAxes
 */
function describeValues({ metric, part }, byAxes) {
  const { low, high } = part.shades[byAxes ? "arms" : "tasks"][metric.name];
  const about = byAxes ? part.about : "this one task";
  const ends = `Dark: ${formatValue(metric, low)}, yellow: ${formatValue(metric, high)}.`;
  return `Each cell: mean, 95 % interval about ${about}, trials. ${ends}`;
}

/**
 * @param {ReportPage} page
 * @param {Table} table
 * @param {string} label
 * @param {string} colours Beginning of the names of the shades, `g-s` or, with a neutral middle, `g-d`.
 */
function makeHeatMap(page, table, label, colours) {
  const rows = table.rows.map(({ name, mark, cells }) => {
    const drawn = cells.map((cell, place) => {
      if (cell === null) return make("td", { class: "g-cell g-empty", text: "–" });
      const key = `cell ${JSON.stringify([table.title, name, table.columns[place]])}`;
      const count = cell.n === undefined ? "" : `, n ${cell.n}`;
      const words = `${name}, ${table.columns[place]}: ${cell.text}${cell.detail && ` ${cell.detail}`}${count}`;
      const button = make(
        "button",
        { type: "button", "data-key": key, title: words, on: { click: () => page.choose(cell.target) } },
        make("b", { text: cell.text }),
        make("span", { text: cell.detail }),
        ...(cell.n === undefined ? [] : [make("span", { text: ` n ${cell.n}` })]),
      );
      return make("td", { class: `g-cell ${cell.shade === null ? "g-empty" : `${colours}${cell.shade}`}` }, button);
    });
    return make("tr", {}, make("th", { scope: "row", class: "g-name" }, ...(mark ? [makeMark(mark)] : []), name), ...drawn);
  });
  const head = makeHead([table.corner, ...table.columns]);
  return makeTable({ label, key: `cells ${table.title}`, head, rows, kind: "g-heat", caption: table.title });
}

/**
 * @param {ReportPage} page
 * @param {AxisTable} table
 * @param {number[]} shown
 * @returns {Table}
 */
function buildAxisTable(page, { title, down, across, columns, rows, cells }, shown) {
  /** @param {number} index */
  const build = (index) => {
    if (!shown.includes(index)) return null; // -1 where no arm stands
    return page.baseline === undefined ? buildArmCell(page, index) : buildEffectCell(page, index, page.baseline);
  };
  const corner = `${down} ↓  ${across} →`;
  return { title, corner, columns, rows: rows.map((name, row) => ({ name, mark: "", cells: cells[row].map(build) })) };
}

/**
 * @param {ReportPage} page
 * @param {number} index
 */
function buildArmCell({ part, state }, index) {
  const { shades } = part.shades.arms[state.metric];
  return buildCell(part.arms[index].cells[state.metric], { arm: index, task: null }, shades[index]);
}

/**
 * @param {ReportPage} page
 * @param {number} index
 * @param {string} baseline
 * @returns {Cell}
 */
function buildEffectCell(page, index, baseline) {
  const { part, state } = page;
  const target = { arm: index, task: null };
  const shade = part.shades.effects[baseline][state.metric][index] ?? null;
  if (index === state.baseline) return { target, text: "baseline", detail: "", shade };
  return buildCell(page.findEffect(index), target, shade);
}

/**
 * Return the paired effects on each task against the baseline, by arm; undefined if the page has none.
 *
 * @param {ReportPage} page
 */
function findTaskEffects({ part, baseline, state }) {
  return baseline === undefined ? undefined : part.task_effects[baseline]?.[state.metric];
}

/**
 * @param {ReportPage} page
 * @param {number[]} shown
 * @returns {Table}
 */
function buildTaskTable(page, shown) {
  const { part, state, baseline } = page;
  const [cells, effects] = [part.task_cells?.[state.metric] ?? [], findTaskEffects(page)];
  const differences = effects && baseline !== undefined ? part.shades.task_effects[baseline][state.metric] : undefined;
  /**
   * @param {number} index
   * @param {number} task
   */
  const build = (index, task) => {
    const [cell, target] = [cells[index][task], { arm: index, task: part.tasks[task] }];
    if (!cell) return null;
    if (!effects || !differences) return buildCell(cell, target, part.shades.tasks[state.metric].shades[index][task]);
    return buildCell(index === state.baseline ? cell : effects[index]?.[task], target, differences[index]?.[task] ?? null);
  };
  const rows = shown.map((index) => {
    const { name, mark } = part.arms[index];
    return { name, mark, cells: part.tasks.map((_, task) => build(index, task)) };
  });
  return { title: "", corner: "arm", columns: part.tasks, rows };
}

/**
 * @param {Estimate | Effect | null | undefined} estimate
 * @param {Target} target
 * @param {Size} shade
 * @returns {Cell}
 */
function buildCell(estimate, target, shade) {
  if (!estimate) return { target, text: "–", detail: "no pairs", shade: null };
  const [n, , , , text, interval] = estimate;
  return { target, text, detail: showInterval(interval), n, shade };
}
