// Page of a replay. Python has computed and drawn everything; the script moves lines and cells to the chosen number of tokens.

import { formatPercent } from "#widgets/numbers.js";
import { readBlock } from "./blocks.js";
import "#widgets/surface.css";
import "./page.css";
import "./bill.css";

/**
 * @typedef {object} BillValues
 * @property {number[]} stops Tokens read again at each stop of the slider.
 * @property {(number | null)[][][]} changes Change of the cost by rule, setting and stop, as a share.
 * @property {[x: number, setting: number][][]} places Points of each line: their place, and the setting that they show.
 * @property {{ top: number, bottom: number, lowest: number, highest: number }} frame
 */

/**
 * Show the cost of all settings at a stop of the slider.
 *
 * @param {BillValues} values
 * @param {number} stop
 */
function show({ stops, changes, places, frame }, stop) {
  const place = (/** @type {number | null} */ change) => {
    const bounded = Math.min(Math.max(change ?? 0, frame.lowest), frame.highest);
    return frame.bottom - ((bounded - frame.lowest) / (frame.highest - frame.lowest)) * (frame.bottom - frame.top);
  };
  const output = document.getElementById("again-value");
  if (output) output.textContent = stops[stop].toLocaleString("en");
  for (const line of document.querySelectorAll("polyline[data-line]")) {
    const rule = Number(line.getAttribute("data-rule"));
    const points = places[Number(line.getAttribute("data-line"))];
    const shown = points.map(([x, setting]) => `${x},${place(changes[rule][setting][stop]).toFixed(1)}`);
    line.setAttribute("points", shown.join(" "));
  }
  for (const cell of document.querySelectorAll("td[data-setting]")) {
    const change = changes[Number(cell.getAttribute("data-rule"))][Number(cell.getAttribute("data-setting"))][stop];
    cell.textContent = change === null ? "" : formatPercent(change, { signed: true });
  }
}

/** @type {BillValues} */
const values = await readBlock("values");
const slider = document.getElementById("again");
if (slider instanceof HTMLInputElement) slider.addEventListener("input", () => show(values, Number(slider.value)));
document.documentElement.dataset.ready = "true";
