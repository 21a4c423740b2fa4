// Numbers as texts.

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/**
 * Format a number with thousands separators, independent of the locale; a dash if it is not known.
 *
 * @param {unknown} value
 */
export function formatNumber(value) {
  return typeof value === "number" && Number.isFinite(value) ? grouped.format(value) : "–";
}

/**
 * Return a count with its noun: 1 trial, 2 trials.
 *
 * @param {number} count
 * @param {string} noun
 */
export function formatCount(count, noun) {
  return `${formatNumber(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/**
 * Format a share, where 1 is the whole, in percent, with a plus sign if it is signed. Zero has no minus.
 *
 * @param {number} share
 * @param {{ signed?: boolean }} [options]
 */
export function formatPercent(share, { signed = false } = {}) {
  const percent = Math.round(100 * share) || 0;
  return `${signed && percent >= 0 ? "+" : ""}${percent} %`;
}

/**
 * Format a number of tokens, from 10,000 on in thousands, and from a million on in millions.
 *
 * @param {number | undefined} tokens
 */
export function formatTokens(tokens = 0) {
  if (tokens < 10000) return formatNumber(tokens);
  if (tokens < 999500) return `${(tokens / 1000).toFixed(tokens < 99950 ? 1 : 0)}K`;
  return `${(tokens / 1000000).toFixed(tokens < 99950000 ? 1 : 0)}M`;
}

/**
 * Format a cost in USD.
 *
 * @param {number | null | undefined} usd
 */
export function formatCost(usd) {
  return typeof usd === "number" ? `$${usd.toFixed(usd < 1 ? 4 : 2)}` : "unknown price";
}

/**
 * Return a duration in words, e.g. `3 min`.
 *
 * @param {number} seconds
 */
export function formatDuration(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

/**
 * Return a sentence from Python with thousands separators in its numbers.
 *
 * @param {string} text
 */
export function groupDigits(text) {
  return text.replace(/(?<![\d.,:/-])\d{4,}(?![\d.:/-])/g, (digits) => formatNumber(Number(digits)));
}
