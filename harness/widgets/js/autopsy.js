// Autopsy of one compaction: where each fact stood, what the policy did, whether it is in view, and the first consequence.

import "./autopsy.css";
import { make } from "./elements.js";
import { formatNumber } from "./numbers.js";

/** @typedef {[label: string, before: string, value: string, after: string]} Quote */
/** @typedef {[kind: string, evicted: number, nothing: number, extractive: number, after: number]} Survival */
/**
 * @typedef {object} Row Fact, or distinctive word or message where the facts are not known.
 * @property {string} name
 * @property {string} kind
 * @property {string} outcome
 * @property {boolean} kept
 * @property {Quote} before
 * @property {string} action
 * @property {string} why
 * @property {Quote | null} after
 * @property {string[]} lines First consequence, in lines.
 * @property {number | null} place Number, among the finished steps, of the step of the first consequence.
 */
/**
 * @typedef {object} Autopsy
 * @property {number} number
 * @property {number} count Number of applied compactions of the session.
 * @property {number} place Number, among the finished steps, of the step before which it took place.
 * @property {string} title
 * @property {string} about
 * @property {string} says
 * @property {string} notice
 * @property {string} subject
 * @property {Row[]} rows
 * @property {Survival[]} survival Number of words by kind in views behind the compaction and its stand-ins.
 * @property {string[]} checks
 * @property {string} summary
 * @property {string} summarizer
 * @property {Asked} [asked] Failed check for which the kernel opened it.
 */
/** @typedef {{ text: string, fact: string }} Asked Failed check in words, and the lost fact that it needs. */
/**
 * @typedef {object} Acts
 * @property {(number: number) => void} [open] Opens the autopsy of another compaction.
 * @property {() => void} [close] Closes this one.
 * @property {(place: number) => void} [goTo] Opens the transcript at a step.
 */

const HEADS = ["before", "what the policy did", "view after", "first consequence"];
const WORD_HEADS = [...HEADS.slice(0, 3), "later"];
const SURVIVAL_HEADS = ["kind", "in evicted messages", "if nothing is kept", "extractive stand-in", "in view after"];
const SURVIVAL_NOTE =
  "Words of the evicted messages in the view after the compaction, beside stand-ins for its summary: one that keeps nothing, " +
  "and the beginnings of the evicted messages cut to the summary's length. A summary that keeps everything keeps them all.";
const ROWS_SHOWN = 12;
const KEPT_SHOWN = 3; // facts still in view matter less

/**
 * Show the autopsy of a compaction in a box.
 *
 * @param {HTMLElement} box
 * @param {Autopsy} autopsy
 * @param {Asked | null} asked Failed check from which the reader came; null if from elsewhere.
 * @param {Acts} acts Buttons are left out for acts that are missing.
 */
export function showAutopsy(box, autopsy, asked, acts) {
  const { number, count, title, about, says, notice, checks } = autopsy;
  const { open, goTo } = acts;
  /**
   * @param {string} text
   * @param {string} name
   * @param {() => void} act
   */
  const button = (text, name, act) =>
    make("button", { type: "button", text, "aria-label": name, "data-key": name, on: { click: act } });
  const bar = make("div", { class: "u-bar" }, make("h4", { class: "u-title", tabindex: "-1", text: title }));
  const buttons = make("span", { class: "u-buttons" });
  if (goTo) buttons.append(button("transcript here", "transcript at this compaction", () => goTo(autopsy.place)));
  if (open && number > 1) buttons.append(button("◀ previous", "autopsy of the previous compaction", () => open(number - 1)));
  if (open && number < count) buttons.append(button("next ▶", "autopsy of the next compaction", () => open(number + 1)));
  if (acts.close) buttons.append(button("close", "close the autopsy", acts.close));
  bar.append(buttons);
  const lines = [make("p", { class: "h-faint u-about", text: about })];
  if (notice) lines.push(make("p", { class: "u-notice", role: "note", text: notice }));
  if (says) lines.push(make("p", { class: "u-says", text: says }));
  if (asked) lines.push(make("p", { class: "u-asked", text: asked.text }));
  const summary = autopsy.summary
    ? [
        make(
          "details",
          { class: "u-summary" },
          make("summary", { text: `the whole summary${autopsy.summarizer && `, by ${autopsy.summarizer}`}` }),
          make("pre", { tabindex: "0", text: autopsy.summary }),
        ),
      ]
    : [];
  const failed = checks.length
    ? [
        make(
          "details",
          { class: "u-checks" },
          make("summary", { text: `failed checks that need a fact lost here: ${formatNumber(checks.length)}` }),
          make("ul", {}, ...checks.map((text) => make("li", { text }))),
        ),
      ]
    : [];
  box.replaceChildren(
    bar,
    ...lines,
    ...makeTable(autopsy, asked?.fact, acts),
    ...makeSurvival(autopsy.survival),
    ...failed,
    ...summary,
  );
  box.hidden = false;
}

/**
 * @param {Autopsy} autopsy
 * @param {string | undefined} fact Name of the fact to show first.
 * @param {Acts} acts
 */
function makeTable({ rows: ordered, subject }, fact, { goTo }) {
  if (!ordered.length) return [];
  const rows = [...ordered.filter((row) => row.name === fact), ...ordered.filter((row) => row.name !== fact)];
  const head = make(
    "tr",
    {},
    ...[subject, ...(subject === "word" ? WORD_HEADS : HEADS)].map((text) => make("th", { scope: "col", text })),
  );
  const lost = rows.filter((row) => !row.kept).length;
  const count = subject === "fact" ? Math.min(ROWS_SHOWN, lost + KEPT_SHOWN) : ROWS_SHOWN;
  const body = make("tbody", {}, ...rows.slice(0, count).map((row) => makeRow(row, goTo)));
  const label = `${subject}s before and after the compaction`;
  const table = make("table", { class: "u-table" }, make("thead", {}, head), body);
  const scroll = make("div", { class: "u-scroll", tabindex: "0", role: "region", "aria-label": label }, table);
  const rest = rows.slice(count);
  if (!rest.length) return [scroll];
  const kept = rest.filter((row) => row.kept).length;
  const gone = subject === "word" ? "not in view" : "lost"; // an agent may do without a word
  /** @type {HTMLButtonElement} */
  const more = make("button", {
    type: "button",
    text: `show ${formatNumber(rest.length)} more: ${formatNumber(rest.length - kept)} ${gone}, ${formatNumber(kept)} in view`,
    on: {
      click: () => {
        body.append(...rest.map((row) => makeRow(row, goTo)));
        more.remove();
        scroll.focus({ preventScroll: true });
      },
    },
  });
  return [scroll, more];
}

/** @param {Survival[]} survival */
function makeSurvival(survival) {
  if (!survival.length) return [];
  const head = make("tr", {}, ...SURVIVAL_HEADS.map((text) => make("th", { scope: "col", text })));
  const rows = survival.map(([kind, ...numbers]) =>
    make("tr", {}, make("th", { scope: "row", text: kind }), ...numbers.map((one) => make("td", { text: formatNumber(one) }))),
  );
  const table = make("table", { class: "u-survival" }, make("thead", {}, head), make("tbody", {}, ...rows));
  const label = "survival of distinctive words by kind";
  const scroll = make("div", { class: "u-scroll", tabindex: "0", role: "region", "aria-label": label }, table);
  const note = make("p", { class: "h-faint u-about", text: SURVIVAL_NOTE });
  return [make("details", { class: "u-summary", open: "" }, make("summary", { text: label }), note, scroll)];
}

/**
 * @param {Row} row
 * @param {((place: number) => void) | undefined} goTo
 */
function makeRow({ name, kind, outcome, kept, before, action, why, after, lines, place }, goTo) {
  const [first, ...rest] = lines;
  const said = ["wrong", "stale"].includes(outcome) && !kept ? make("b", { text: first }) : first;
  const link = (/** @type {number} */ step) =>
    make(
      "button",
      { type: "button", class: "u-link", "aria-label": `transcript: ${name} ${first}`, on: { click: () => goTo?.(step) } },
      said,
    );
  const consequence = [
    goTo && place !== null ? link(place) : said,
    ...rest.map((text) => make("span", { class: "u-line", text })),
  ];
  const state = kept ? "✓ in view" : "— not in view";
  return make(
    "tr",
    { class: `u-row u-${outcome.replaceAll(" ", "-")} ${kept ? "u-kept" : "u-lost"}` },
    make("th", { scope: "row" }, name, make("small", { text: kind })),
    makeCell("before", ...makeQuote(before)),
    makeCell("what the policy did", make("span", { class: `u-chip u-is-${action}`, text: action }), why && ` ${why}`),
    makeCell("view after", make("span", { class: "u-state", text: state }), ...(after ? makeQuote(after) : [])),
    makeCell("first consequence", ...consequence),
  );
}

/**
 * Create a cell, which names its column where the table is too narrow for columns.
 *
 * @param {string} name
 * @param {...(Node | string)} children
 */
function makeCell(name, ...children) {
  return make("td", {}, make("span", { class: "u-column", "aria-hidden": "true", text: name }), make("div", {}, ...children));
}

/** @param {Quote} quote */
function makeQuote([label, before, value, after]) {
  const place = label ? [make("span", { class: "u-place h-faint", text: label })] : [];
  return [...place, make("q", {}, before, ...(value ? [make("mark", { text: value })] : []), after)];
}
