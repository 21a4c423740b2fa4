// Report page. All statistics and verdicts are computed in Python; the scripts show them.
// Texts come from models, tools and plans: `make` and `draw` set them as texts, never as HTML.

import { draw, keepFocus, make } from "#widgets/elements.js";
import { inflate, readBlock } from "./blocks.js";
import "./page.css";
import { ReportPage } from "./report_page.js";
import { makeHead, makeTable } from "./tables.js";

/** @import { Section, Values } from "./values.d.ts" */

const POLL_MS = 2000;

/**
 * Return an element of the document that Python wrote.
 *
 * @param {string} name
 */
function find(name) {
  return /** @type {HTMLElement} */ (document.getElementById(name));
}

/**
 * Fetch from the server of the page.
 *
 * @param {string} path
 */
async function get(path) {
  const answer = await fetch(path);
  if (!answer.ok || !answer.body) throw new Error(await answer.text());
  return { json: () => answer.json(), body: answer.body };
}

/**
 * Follow a running experiment: ask for its progress, and for new values when a trial has finished.
 *
 * @param {ReportPage} page
 */
async function follow(page) {
  const box = find("progress");
  const bar = make("progress", { max: 1, value: 0, "aria-label": "finished trials" });
  const words = make("span", { "aria-live": "off" });
  box.replaceChildren(bar, words);
  for (let { digest } = page.values; ; ) {
    try {
      const state = await (await get("progress")).json();
      box.hidden = false;
      [bar.max, bar.value, words.textContent] = [Math.max(1, state.planned), state.finished, state.text];
      if (state.digest !== digest) {
        page.update(await inflate((await get("values")).body));
        digest = state.digest;
        drawReport(page.values);
      }
    } catch (error) {
      box.hidden = false;
      words.textContent = `The server does not answer: ${/** @type {Error} */ (error).message}`;
    }
    await new Promise((done) => setTimeout(done, POLL_MS));
  }
}

/**
 * Replace what Python wrote: the first lines, each with its beginning in bold, and the sections of the report. Sections that
 * the reader opened or closed stay so.
 *
 * @param {Values} values
 */
function drawReport({ standing, headlines, about_sessions, sections }) {
  [find("standing").textContent, find("sessions").textContent] = [standing, about_sessions];
  const lines = headlines.map(([lead, rest]) => make("li", {}, ...(lead ? [make("b", { text: lead })] : []), rest));
  find("headlines").replaceChildren(...lines);
  const report = /** @type {HTMLElement} */ (document.querySelector(".p-report"));
  const known = new Map(
    [...report.querySelectorAll("details")].map(({ firstElementChild, open }) => [firstElementChild?.textContent, open]),
  );
  const drawn = sections.map((section) => makeSection(section, known.get(section.heading) ?? !section.is_detail));
  keepFocus(report, () => report.replaceChildren(/** @type {HTMLElement} */ (report.querySelector("h2")), ...drawn));
}

/**
 * @param {Section} section
 * @param {boolean} open
 */
function makeSection({ heading, columns, rows, notes, sources, bars }, open) {
  const body = rows.map(([first, ...rest], place) => {
    const given = { type: "button", class: "p-link p-source", "data-row": sources[place], "data-key": `row ${heading} ${place}` };
    const name = sources.length ? [make("button", { ...given, text: first })] : [first];
    const bar = bars.length ? [make("td", {}, drawBar(bars[place]))] : [];
    return make("tr", {}, make("th", { scope: "row" }, ...name), ...bar, ...rest.map((text) => make("td", { text })));
  });
  const names = bars.length ? [columns[0], "share", ...columns.slice(1)] : columns;
  const table = makeTable({ label: heading, key: `table ${heading}`, head: makeHead(names), rows: body });
  return make(
    "details",
    { open },
    make("summary", { text: heading, "data-key": `section ${heading}` }),
    ...(columns.length ? [table] : []),
    ...notes.map((text) => make("p", { text })),
  );
}

/**
 * Draw a bar from 0 to 100 %; the number stands in the next cell.
 *
 * @param {number} share
 */
function drawBar(share) {
  return draw(
    "svg",
    { class: "p-share", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    draw("rect", { class: "p-share-all", width: 100, height: 10 }),
    draw("rect", { class: "p-share-part", width: (100 * share).toFixed(1), height: 10 }),
  );
}

/**
 * Let the name of a row of the report list the trials and queries behind the row.
 *
 * @param {ReportPage} page
 */
function listenToRows(page) {
  document.querySelector(".p-report")?.addEventListener("click", ({ target }) => {
    const row = target instanceof HTMLElement ? target.dataset.row : undefined;
    if (row !== undefined) page.openRow(row);
  });
}

/** Open all sections of the report while the page is printed. */
function openWhilePrinting() {
  /** @type {HTMLDetailsElement[]} */
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details")].filter(
      ({ open, className, parentElement }) => !open && (parentElement?.matches(".p-report") || className === "p-how"),
    );
    for (const section of closed) section.open = true;
  });
  addEventListener("afterprint", () => {
    for (const section of closed) section.open = false;
    closed = [];
  });
}

try {
  const page = new ReportPage(find("explorer"), await readBlock("values"));
  openWhilePrinting();
  listenToRows(page);
  document.documentElement.dataset.ready = "true";
  if (page.values.served) {
    drawReport(page.values);
    follow(page);
  }
} catch (error) {
  find("explorer").textContent = `The page cannot be shown: ${/** @type {Error} */ (error).message}`;
}
