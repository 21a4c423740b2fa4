// Trials of an arm, and the transcript of a trial.

import { makeMark } from "#widgets/arm_marks.js";
import { makeSessionId } from "#widgets/copy_button.js";
import { keepFocus, make } from "#widgets/elements.js";
import { Inspector } from "#widgets/inspector.js";
import { formatNumber } from "#widgets/numbers.js";
import { inflate, readSession } from "./blocks.js";
import { formatValue } from "./metric_values.js";
import { StoredSession } from "./stored_session.js";
import { makeHead, makeTable } from "./tables.js";

/** @import { ReportPage } from "./report_page.js" */
/** @import { Message, Size, StoredBlock } from "./values.d.ts" */

export const TRIALS_SHOWN = 60;
const CHECKS_SHOWN = 2;

/**
 * List the trials of the chosen arm.
 *
 * @param {ReportPage} page
 * @param {boolean} moves Whether the list gets the focus and is scrolled into sight.
 */
export function drawTrials(page, moves) {
  const { state, part, values } = page;
  if (!state.chosen) return;
  const { arm, task, against = -1 } = state.chosen;
  const { trials } = part;
  const places = [arm, ...(against < 0 ? [] : [against])].flatMap((index) => listPlaces(page, index, task));
  const names = against < 0 ? part.arms[arm].name : `${part.arms[arm].name} against ${part.arms[against].name}`;
  const metrics = part.metrics.filter(({ name }) => name !== "success");
  const failedPlaces = places.filter((place) => trials.failed?.[place]?.length);
  const listed = state.failedOnly && !values.is_withheld ? failedPlaces : places;
  const rows = listed.slice(0, state.limit).map((place) => {
    const replicate = trials.replicate[place] ? `, replicate ${trials.replicate[place]}` : "";
    const link = make("button", {
      type: "button",
      class: "p-link",
      "data-key": `trial ${trials.id[place]}`,
      text: `${trials.task[place]}, seed ${trials.seed[place]}${replicate}`,
      on: { click: () => openTrial(page, place, trials.failed?.[place]?.length ? "" : null) },
    });
    const numbers = metrics.map((metric) => formatValue(metric, /** @type {Size[]} */ (trials[metric.name])[place]));
    if (!values.is_withheld) numbers.push(formatNumber(trials.compactions[place]));
    return make(
      "tr",
      { class: trials.id[place] === state.trial ? "p-current" : "" },
      make("th", { scope: "row" }, ...(against < 0 ? [] : [makeMark(part.arms[trials.arm[place]].mark)]), link),
      make("td", { class: "p-text", text: trials.outcome[place] }),
      ...(values.is_withheld ? [] : [makeFailedChecks(page, place)]),
      ...numbers.map((text) => make("td", { text })),
      make("td", { class: "p-text", text: hasTranscript(page, place) ? "yes" : "no" }),
    );
  });
  const columns = values.is_withheld
    ? ["state"]
    : ["outcome", "failed checks", ...metrics.map(({ name }) => name), "compactions"];
  const title = `Trials of ${names}${task === null ? "" : ` on ${task}`}`;
  const heading = make("h2", { tabindex: "-1", "data-key": "heading", text: title });
  const showAll = () => {
    state.limit = Infinity;
    drawTrials(page, false);
  };
  const more = make("button", {
    type: "button",
    "data-key": "all",
    text: `show all ${formatNumber(listed.length)}`,
    on: { click: showAll },
  });
  page.trials.replaceChildren(
    heading,
    ...(values.is_withheld ? [] : [makeQueries(page, arm, against), makeFailedFilter(page, failedPlaces.length, places.length)]),
    makeTable({ label: "table of trials", key: "trials", head: makeHead(["trial", ...columns, "transcript"]), rows }),
    ...(listed.length > state.limit ? [more] : []),
  );
  page.trials.hidden = false;
  if (moves) {
    heading.focus({ preventScroll: true });
    page.trials.scrollIntoView({ block: "start", behavior: "auto" });
  }
}

/**
 * Create the box that leaves out trials without a failed check.
 *
 * @param {ReportPage} page
 * @param {number} failed Number of trials with a failed check.
 * @param {number} all Number of all trials in the list.
 */
function makeFailedFilter(page, failed, all) {
  const box = make("input", {
    type: "checkbox",
    name: "failed only",
    "data-key": "failed only",
    disabled: !failed,
    on: {
      change: () => {
        page.state.failedOnly = box.checked;
        keepFocus(page.trials, () => drawTrials(page, false));
      },
    },
  });
  box.checked = page.state.failedOnly;
  const text = `only trials with a failed check: ${formatNumber(failed)} of ${formatNumber(all)}`;
  return make("label", { class: "p-failed-only" }, box, " ", text);
}

/**
 * List the queries behind the numbers of an arm or, with a baseline, of its comparison with the baseline.
 *
 * @param {ReportPage} page
 * @param {number} arm
 * @param {number} against Index of the baseline; -1 for none.
 */
function makeQueries({ part, values }, arm, against) {
  const { name, queries } = part.arms[arm];
  const known = against < 0 ? queries : (part.pair_queries[part.arms[against].name]?.[arm] ?? []);
  const row = against < 0 ? name : `${name} against ${part.arms[against].name}`;
  const items = known.map(([number, sql]) => make("li", {}, make("b", { text: `${number}: ` }), make("code", { text: sql })));
  const text = `Run a query with harness.load(FOLDER).sql(…); harness report FOLDER --explain "${row}" runs all of them.`;
  return make(
    "details",
    { class: "p-how p-queries" },
    make("summary", { text: "Queries behind the numbers", "data-key": "queries" }),
    make("p", { class: "h-faint", text: known.length ? text : `${values.explain_command} "${row}" prints them.` }),
    make("ul", {}, ...items),
  );
}

/**
 * Name the failed checks of a trial; each opens the transcript at the compaction that lost a fact which the check needs.
 *
 * @param {ReportPage} page
 * @param {number} place
 */
function makeFailedChecks(page, place) {
  const { trials, checks = [] } = page.part;
  const failed = trials.failed?.[place] ?? [];
  const canOpen = hasTranscript(page, place);
  const names = failed.slice(0, CHECKS_SHOWN).map((index) => {
    const [name, title] = checks[index];
    if (!canOpen) return make("span", { class: "p-check", text: title });
    const given = { type: "button", class: "p-link p-check", "data-key": `check ${trials.id[place]} ${name}`, text: title };
    return make("button", { ...given, on: { click: () => openTrial(page, place, name) } });
  });
  const rest = failed.length - names.length;
  const more = rest > 0 ? [make("span", { class: "h-faint p-check", text: `and ${formatNumber(rest)} more` })] : [];
  return make("td", { class: "p-text" }, ...names, ...more);
}

/**
 * Return the places of the trials of an arm in the columns, by task and seed.
 *
 * @param {ReportPage} page
 * @param {number} arm
 * @param {string | null} task
 */
function listPlaces({ part: { trials } }, arm, task) {
  const places = [...trials.arm.keys()].filter(
    (place) => trials.arm[place] === arm && (task === null || trials.task[place] === task),
  );
  return places.sort((a, b) => {
    const [one, other] = [trials.task[a], trials.task[b]];
    return one < other ? -1 : one > other ? 1 : trials.seed[a] - trials.seed[b];
  });
}

/**
 * @param {ReportPage} page
 * @param {number} place
 */
function hasTranscript({ part: { trials }, values }, place) {
  return trials.block[place] >= 0 || (values.served && trials.session[place] !== "");
}

/** End of the view of the open transcript. */
let closeInspector = () => {};

/**
 * Open the transcript of a trial.
 *
 * @param {ReportPage} page
 * @param {number} place
 * @param {string | null} check Name of a failed check whose compaction is shown; empty for the failed check with the earliest
 *   consequence, null for the first step.
 */
export async function openTrial(page, place, check) {
  const { trials, arms } = page.part;
  const trial = trials.id[place];
  page.state.trial = trial;
  drawTrials(page, false);
  closeInspector();
  closeInspector = () => {};
  const title = `Transcript of ${arms[trials.arm[place]].name}, ${trials.task[place]}, seed ${trials.seed[place]}`;
  const heading = make("h2", { tabindex: "-1", text: title });
  const box = make("div", {}, make("p", { class: "h-faint", text: "reading the session…" }));
  const session = trials.session[place];
  const ids = [makeSessionId(trial, "trial"), ", ", session ? makeSessionId(session) : "no session"];
  const facts = [make("p", { class: "h-faint" }, ...ids)];
  const error = trials.error[place];
  const problem = error ? [make("pre", { class: "p-error", tabindex: "0", text: error })] : [];
  page.transcript.replaceChildren(heading, ...facts, ...problem, box);
  page.transcript.hidden = false;
  heading.focus({ preventScroll: true });
  page.transcript.scrollIntoView({ block: "start" });
  try {
    const session = await loadSession(page, place);
    if (page.state.trial !== trial) return; // another trial was opened meanwhile
    if (session === null) {
      const help =
        "This page does not contain the session. The first command serves a page with all sessions. The second one reads this " +
        "session; with --autopsy 1, it shows what the first compaction lost.";
      const commands = `${page.values.view_command}\n${page.values.inspect_command} ${trial}`;
      box.replaceChildren(make("p", { text: help }), make("pre", { tabindex: "0", text: commands }));
      return;
    }
    box.replaceChildren();
    const inspector = new Inspector(new StoredSession(session), box);
    closeInspector = () => inspector.close();
    if (check !== null) inspector.openCheck(check);
  } catch (error) {
    const text = `The session cannot be read: ${/** @type {Error} */ (error).message}`;
    box.replaceChildren(make("p", { class: "h-error", role: "alert", text }));
  }
}

/**
 * Return the session of a trial, from the page or from its server; null if neither has it.
 *
 * @param {ReportPage} page
 * @param {number} place
 * @returns {Promise<StoredBlock<Message> | null>}
 */
async function loadSession({ part: { trials }, values }, place) {
  if (trials.block[place] >= 0) return readSession(trials.block[place]);
  if (!values.served || !trials.session[place]) return null;
  const answer = await fetch(`session/${encodeURIComponent(trials.session[place])}`);
  if (!answer.ok || !answer.body) throw new Error(await answer.text());
  return inflate(answer.body);
}
