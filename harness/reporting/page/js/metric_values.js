// Values of a metric as texts, and round numbers for an axis.

import { formatPercent } from "#widgets/numbers.js";

/** @import { Metric, Size } from "./values.d.ts" */

/**
 * Format a value of one trial or of an axis; texts of estimates come with the values.
 *
 * @param {Metric} metric
 * @param {Size} value
 */
export function formatValue(metric, value) {
  if (value === null) return "–";
  if (metric.kind === "rate") return formatPercent(value);
  if (metric.kind === "bounded") return value.toFixed(2);
  if (metric.unit === "USD") {
    if (value !== 0 && value < 0.01) return value.toPrecision(2);
    return value.toFixed(value === 0 || value >= 0.1 ? 2 : 3);
  }
  for (const [unit, size] of /** @type {const} */ ([
    ["M", 1e6],
    ["k", 1e3],
  ])) {
    if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(3))}${unit}`;
  }
  return String(Number(value.toPrecision(3)));
}

/**
 * Return the text of an interval, empty if there is none.
 *
 * @param {string} interval
 */
export function showInterval(interval) {
  return interval === "no interval" ? "" : interval;
}

/**
 * Return about five round numbers between two values.
 *
 * @param {number} low
 * @param {number} high
 */
export function listTicks(low, high) {
  const rough = (high - low) / 4 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((factor) => factor >= rough) ?? 10 * power;
  const ticks = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high + 1e-9 * step; index += 1) ticks.push(index * step || 0);
  return ticks;
}
