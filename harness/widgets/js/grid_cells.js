// Cells of the heat map of a grid, one for each arm. Python chooses the shade of each cell.

import { makeMark } from "./arm_marks.js";
import { make } from "./elements.js";
import "./heat_map.css";
import { formatPercent } from "./numbers.js";

/**
 * @typedef {object} Plan
 * @property {string} name
 * @property {number} trials
 * @property {string[]} arms
 * @property {string[]} marks
 * @property {number[]} planned Number of planned trials by arm.
 * @property {Table[]} tables
 * @property {number[]} beside Arms outside the tables.
 * @property {[name: string, label: string][]} metrics
 */
/** @typedef {[row: number, column: number, arm: number]} Place */
/**
 * @typedef {object} Table
 * @property {string} title
 * @property {string} across
 * @property {string} down
 * @property {string[]} columns
 * @property {string[]} rows
 * @property {Place[]} places
 */
/**
 * @typedef {object} Arm Progress and results of an arm. Results are missing without a valid trial, and while outcomes are hidden.
 * @property {"arm"} kind
 * @property {number} arm
 * @property {number} finished
 * @property {number} [n]
 * @property {number} [succeeded]
 * @property {number} [share]
 * @property {number} [low]
 * @property {number} [high]
 * @property {number} [score]
 * @property {string} [text]
 * @property {string} [interval]
 */
/** @typedef {{ name: string, mark: string, planned: number, shade: number | null, metric: string, hides: boolean }} Setting */

/**
 * Fill the cell of an arm: its value, trials and interval, and trials still to run.
 *
 * @param {HTMLElement} cell
 * @param {Arm | undefined} arm
 * @param {Setting} setting
 * @param {() => void} choose Called when the reader clicks the cell.
 */
export function fillCell(cell, arm, { name, mark, planned, shade, metric, hides }, choose) {
  const finished = arm?.finished ?? 0;
  const partial = finished < planned ? " g-partial" : "";
  cell.className = `g-cell ${shade === null ? "g-empty" : `g-s${shade}`}${partial}`;
  const [value, detail] = !arm || !finished || hides ? [`${finished} of ${planned}`, "finished"] : describeValue(arm, metric);
  if (hides) cell.title = `${name}: ${value} finished`;
  else cell.title = `${name}: ${describeOutcomes(arm, metric)}${partial && `, ${planned - finished} of ${planned} still to run`}`;
  const focused = cell.contains(document.activeElement);
  const button = make(
    "button",
    { type: "button", "aria-label": `${cell.title}. Show its trials.`, on: { click: choose } },
    make("b", {}, makeMark(mark), value),
    make("span", { text: detail }),
  );
  cell.replaceChildren(button);
  if (focused) button.focus();
}

/**
 * Return the two lines of the cell of an arm with finished trials.
 *
 * @param {Arm} arm
 * @param {string} metric
 */
function describeValue({ finished, n = finished, succeeded = 0, share, low = 0, high = 1, text = "", interval = "" }, metric) {
  if (share === undefined) return ["0 valid", `of ${finished} finished`]; // infrastructure failures ended all of them
  if (metric !== "success") return [text, `n=${n}, ${interval}`];
  return [`${succeeded}/${n}`, `${formatPercent(share)} [${Math.round(100 * low)}, ${Math.round(100 * high)}]`];
}

/**
 * @param {Arm | undefined} arm
 * @param {string} metric
 */
function describeOutcomes(arm, metric) {
  if (!arm?.finished) return "no trial finished";
  const { finished, n = finished, succeeded = 0, score, text = "" } = arm;
  const parts = [`${succeeded} of ${n} succeeded`];
  if (n < finished) parts.push(`${finished - n} excluded because of infrastructure failures`);
  if (score !== undefined) parts.push(`mean score ${score.toFixed(2)}`);
  if (metric !== "success" && metric !== "score") parts.push(`${metric} ${text}`);
  return parts.join(", ");
}

/**
 * Create the tables of a plan and return the cell of each arm by number.
 *
 * @param {HTMLElement} box
 * @param {Plan} plan
 * @returns {Map<number, HTMLTableCellElement>}
 */
export function layTables(box, plan) {
  const cells = new Map();
  /** @param {number | undefined} arm */
  const makeCell = (arm) => {
    if (arm === undefined) return make("td");
    const cell = make("td", { class: "g-cell g-empty" });
    cells.set(arm, cell);
    return cell;
  };
  box.replaceChildren(...plan.tables.map((table) => makeTable(table, makeCell)));
  if (plan.beside.length) {
    const rows = plan.beside.map((arm) =>
      make("tr", {}, make("th", { scope: "row", class: "g-name", text: plan.arms[arm] }), makeCell(arm)),
    );
    const caption = make("caption", { text: plan.tables.length ? "arms outside the grid" : "" });
    box.append(make("table", { class: "g-heat" }, caption, make("tbody", {}, ...rows)));
  }
  return cells;
}

/**
 * @param {Table} table
 * @param {(arm: number | undefined) => HTMLElement} makeCell
 */
function makeTable({ title, across, down, columns, rows, places }, makeCell) {
  const arms = new Map(places.map(([row, column, arm]) => [`${row}/${column}`, arm]));
  const corner = make("td", { class: "h-faint", text: down && `${down} ↓` });
  const head = make("tr", {}, corner, ...columns.map((text) => make("th", { scope: "col", text })));
  const body = rows.map((text, row) => {
    const name = down ? make("th", { scope: "row", text }) : make("td");
    return make("tr", {}, name, ...columns.map((_, column) => makeCell(arms.get(`${row}/${column}`))));
  });
  const caption = [title, across && `${across} →`].filter(Boolean).join("; ");
  return make(
    "table",
    { class: "g-heat" },
    make("caption", { text: caption }),
    make("thead", {}, head),
    make("tbody", {}, ...body),
  );
}
