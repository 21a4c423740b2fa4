// Page side of GridWidget: heat map of success, progress, and trials without success.

import { makeMark } from "./arm_marks.js";
import { buildHidingStyle, createRoot, enable, isEnabled, keepFocus, make } from "./elements.js";
import "./grid.css";
import { fillCell, layTables } from "./grid_cells.js";
import { connect, watchKernel } from "./kernel.js";
import { nest } from "./nested_view.js";
import { formatCount, formatDuration, formatNumber } from "./numbers.js";

/** @import { Arm, Plan } from "./grid_cells.js" */
/** @import { Model } from "./nested_view.js" */
/** @typedef {"new" | "running" | "stopping" | "stopped" | "done" | "failed"} RunState */
/**
 * @typedef {object} Metric
 * @property {string} name
 * @property {boolean} is_share
 * @property {string} label
 * @property {string} about
 * @property {string} note Why no cell has a value; empty if one has.
 */
/** @typedef {{ hides: boolean, text: string, look: string | null }} Standing Whether and why outcomes are hidden. */
/** @typedef {[trial: string, problem: string, outcome: string, failed: [name: string, title: string][]]} TrialRow */
/** @typedef {{ name: string, trials: TrialRow[], finished: number, planned: number }} Chosen */
/** @typedef {{ kind: "failure", trial: string, over: boolean, status: string, text: string, error: string }} Failure */
/**
 * @typedef {object} State
 * @property {Plan} plan
 * @property {string[]} warnings
 * @property {Metric} metric
 * @property {Standing} standing
 * @property {(number | null)[]} shades Shade of the cell of each arm, from 0 to 7; null without a value.
 * @property {Chosen | null} chosen
 * @property {RunState} state
 * @property {string} level
 * @property {number} finished
 * @property {number | null} succeeded Null while outcomes are hidden.
 * @property {number | null} left_seconds
 * @property {string} limit
 * @property {string[]} running
 * @property {string} failure
 * @property {string} error
 * @property {string} saved
 */

/** @type {Record<RunState, string>} */
const STATES = {
  new: "not started",
  running: "running",
  stopping: "stopping",
  stopped: "stopped",
  done: "done",
  failed: "failed",
};
const SHADES = 8; // CSS classes g-s0 to g-s7
const MOST_FAILURES = 300;
const CHECKS_SHOWN = 2;

/** View of a grid, drawn from the states and items sent by the kernel. */
class Grid {
  /** @type {HTMLButtonElement} */
  start = make("button", {
    type: "button",
    class: "h-primary",
    text: "Start",
    on: { click: () => this.request(this.start, "start") },
  });
  /** @type {HTMLButtonElement} */
  stop = make("button", { type: "button", text: "Stop", on: { click: () => this.request(this.stop, "stop") } });
  state = make("span", { class: "g-state", role: "status" });
  name = make("b", { class: "g-title" });
  level = make("span", { class: "g-level h-faint" });
  bar = make("progress", { max: 1, value: 0, "aria-label": "Trials finished" });
  words = make("span", { class: "g-words" });
  alarm = make("div", { class: "g-alarm", role: "alert", hidden: true });
  cautions = make("ul", { class: "g-cautions", "aria-label": "Warnings", hidden: true });
  running = make("div", { class: "g-running h-faint" });
  heat = make("div", { class: "g-heats" });
  /** @type {HTMLSelectElement} */
  metrics = make("select", {
    "aria-label": "metric",
    on: { change: () => this.model.send({ kind: "metric", name: this.metrics.value }) },
  });
  lowest = make("span");
  highest = make("span");
  meaning = make("span");
  legend = make(
    "div",
    { class: "g-legend h-faint" },
    make("label", { class: "g-metric" }, "metric ", this.metrics),
    make("span", { class: "g-scale" }, this.lowest, ...makeShades(), this.highest),
    this.meaning,
  );
  standing = make("p", { class: "g-standing", role: "status" });
  look = make("button", {
    type: "button",
    class: "g-look",
    hidden: true,
    on: { click: () => this.model.send({ kind: "look" }) },
  });
  chosen = make("section", { class: "g-chosen", "aria-label": "Trials of the selected cell", hidden: true });
  transcript = make("div", { class: "g-transcript" });
  saved = make("style"); // hides the static form below a live view
  list = make("ul", { class: "g-failures", tabindex: "0", "aria-label": "Trials without success" });
  count = make("summary", { text: "No trial without success" });

  /**
   * @param {Model} model
   * @param {HTMLElement} el
   */
  constructor(model, el) {
    this.model = model;
    this.known = /** @type {Partial<State>} */ ({});
    /** @type {Map<number, Arm>} */
    this.arms = new Map();
    /** @type {Map<string, Failure>} */
    this.failures = new Map();
    /** @type {ReturnType<typeof layTables>} */
    this.cells = new Map();
    const root = createRoot(el, "Grid of trials");
    root.classList.add("g-root");
    root.append(
      make(
        "header",
        { class: "g-head" },
        this.state,
        this.name,
        this.level,
        make("span", { class: "g-buttons" }, this.start, this.stop),
      ),
      make("div", { class: "g-progress" }, this.bar, this.words),
      this.alarm,
      this.cautions,
      this.running,
      this.standing,
      this.look,
      this.heat,
      this.legend,
      this.chosen,
      this.transcript,
      make("details", {}, this.count, this.list),
      this.saved,
    );
    this.removeInspector = nest(model, "inspector", this.transcript);
    this.unwatch = watchKernel(
      model,
      { kind: "beat" },
      {
        silent: () => this.showSilence(),
        heard: () => this.endSilence(),
      },
    );
    this.disconnect = connect(model, {
      state: (changed, whole) => this.receive(changed, whole),
      items: (items) => this.receiveItems(items),
      silent: () => this.showSilence(),
    });
  }

  close() {
    this.disconnect();
    this.unwatch();
    this.removeInspector();
  }

  /**
   * @param {HTMLElement} button
   * @param {string} kind
   */
  request(button, kind) {
    if (isEnabled(button)) this.model.send({ kind });
  }

  /** @param {(Arm | Failure)[]} items */
  receiveItems(items) {
    for (const item of items) {
      if (item.kind === "arm") this.arms.set(item.arm, item);
      else if (item.over) this.failures.delete(item.trial);
      else this.failures.set(item.trial, item);
    }
    for (const item of items) if (item.kind === "arm") this.fill(item.arm);
    this.showFailures();
    this.showState();
  }

  /**
   * @param {Partial<State>} changed
   * @param {Partial<State>} whole
   */
  receive(changed, whole) {
    this.known = whole;
    if (changed.saved) this.saved.textContent = buildHidingStyle(changed.saved);
    if (changed.plan) this.showPlan(changed.plan);
    if (changed.warnings) this.showWarnings(changed.warnings);
    if (whole.metric && (changed.metric || changed.plan)) this.showMetric(whole.metric);
    if (changed.standing) this.showStanding(changed.standing);
    if (changed.plan || changed.metric || changed.standing || changed.shades) this.fillAll();
    if (changed.chosen) this.showChosen(changed.chosen);
    this.showState();
  }

  /** @param {number} arm */
  fill(arm) {
    const { plan, metric, standing, shades } = this.known;
    const cell = this.cells.get(arm);
    if (!cell || !plan) return;
    const [name, mark, planned] = [plan.arms[arm], plan.marks[arm], plan.planned[arm]];
    const setting = {
      name,
      mark,
      planned,
      shade: shades?.[arm] ?? null,
      metric: metric?.name ?? "",
      hides: Boolean(standing?.hides),
    };
    fillCell(cell, this.arms.get(arm), setting, () => this.model.send({ kind: "trials", arm }));
  }

  fillAll() {
    for (const arm of this.cells.keys()) this.fill(arm);
  }

  /** @param {Plan} plan */
  showPlan(plan) {
    this.name.textContent = plan.name;
    this.cells = layTables(this.heat, plan);
    this.metrics.replaceChildren(
      ...plan.metrics.map(([name, label]) => make("option", { value: name, text: name, title: label })),
    );
  }

  /** @param {string[]} warnings */
  showWarnings(warnings) {
    this.cautions.hidden = !warnings.length;
    this.cautions.replaceChildren(...warnings.map((text) => make("li", { text: `Warning: ${text}` })));
  }

  /** @param {Metric} metric */
  showMetric({ name, label, is_share, about, note }) {
    this.metrics.value = name;
    const isSuccess = name === "success";
    const ends = isSuccess ? ["0 %", "100 % succeeded"] : is_share ? ["0", `1 ${name}`] : [`more ${name}`, `less ${name}`];
    [this.lowest.textContent, this.highest.textContent] = ends;
    const value = isSuccess
      ? "succeeded / valid trials, mean over tasks, 95 % interval"
      : `${label}, mean over tasks; n valid trials, 95 % interval`;
    this.meaning.textContent = note || `Each cell: ${value}. ${about} Dashed: trials still to run.`;
  }

  /** @param {Standing} standing */
  showStanding({ hides, text, look }) {
    this.standing.textContent = text;
    this.look.hidden = !look;
    this.look.textContent = look ?? "";
    this.legend.hidden = hides;
    this.showFailures();
  }

  /** @param {Chosen} chosen */
  showChosen({ name, trials, finished, planned }) {
    const { plan } = this.known;
    const rows = trials.map(([trial, problem, outcome, failed]) => {
      const open = () => this.model.send({ kind: "open", trial });
      const title = `open the transcript of trial ${trial}`;
      const given = { type: "button", class: "g-trial", text: problem, title, "data-key": trial };
      const button = make("button", { ...given, on: { click: open } });
      const checks = failed.slice(0, CHECKS_SHOWN).map(([name, text]) => {
        const act = () => this.model.send({ kind: "open", trial, check: name });
        const about = { title: "open the compaction that lost a fact which this check needs", "data-key": `${trial} ${name}` };
        return make("button", { type: "button", class: "g-check", text, ...about, on: { click: act } });
      });
      const rest = failed.length - checks.length;
      const more = rest > 0 ? [make("span", { class: "h-faint", text: `and ${formatNumber(rest)} more` })] : [];
      return make(
        "tr",
        {},
        make("td", {}, button),
        make("td", { text: outcome }),
        ...(failed.length ? [make("td", {}, ...checks, ...more)] : []),
      );
    });
    const more = finished > trials.length ? `, the first ${formatNumber(trials.length)} of them below` : "";
    const words = finished ? "A click on a trial opens its transcript." : "No trial has finished yet.";
    const text = `${formatNumber(finished)} of ${formatCount(planned, "trial")} finished${more}. ${words}`;
    const mark = plan ? [makeMark(plan.marks[plan.arms.indexOf(name)])] : [];
    this.chosen.hidden = false;
    keepFocus(this.chosen, () =>
      this.chosen.replaceChildren(
        make("h4", {}, ...mark, name),
        make("p", { class: "h-faint", text }),
        make("table", { class: "g-trials" }, make("tbody", {}, ...rows)),
      ),
    );
  }

  showFailures() {
    const failures = [...this.failures.values()];
    const [some, none] = this.known.standing?.hides
      ? ["crashed", "No crashed trial"]
      : ["without success", "No trial without success"];
    this.count.textContent = failures.length ? `${formatCount(failures.length, "trial")} ${some}` : none;
    this.list.replaceChildren(
      ...failures.slice(-MOST_FAILURES).map(({ status, text, error }) => {
        const details = error ? [make("pre", { class: "h-error", text: error })] : [];
        return make("li", { class: `g-${status}` }, text, ...details);
      }),
    );
  }

  showState() {
    const { state = "new", finished = 0, plan, level, failure, error, running } = this.known;
    this.state.textContent = STATES[state] ?? state;
    this.state.className = `g-state g-is-${state}`;
    const goesOn = state === "stopping" || state === "stopped" || (finished && state !== "done");
    this.start.textContent = goesOn ? "Resume" : "Start";
    enable(this.start, !["running", "stopping", "done"].includes(state));
    enable(this.stop, state === "running");
    this.level.textContent = level ? `level ${level}` : "";
    [this.bar.max, this.bar.value] = [Math.max(1, plan?.trials ?? 0), finished];
    this.words.textContent = describeProgress(this.known);
    this.alarm.hidden = !(failure || error);
    this.alarm.textContent = failure || error || "";
    this.running.textContent = running?.length ? `running: ${running.join("; ")}` : "";
  }

  showSilence() {
    this.alarm.dataset.silent = "yes";
    this.alarm.hidden = false;
    [this.state.textContent, this.state.className] = ["no answer", "g-state g-is-failed"];
    const advice = `run the cell again and press ${this.start.textContent}.`;
    const rest =
      this.known.state === "done"
        ? "The run is complete and all results are stored."
        : `If it was restarted, the run has stopped and finished trials are stored: ${advice}`;
    this.alarm.textContent = `The kernel does not answer. ${rest}`;
  }

  endSilence() {
    if (!this.alarm.dataset.silent) return;
    delete this.alarm.dataset.silent;
    this.showState();
  }
}

/** Create the key of the colours, from the lowest shade to the highest. */
function makeShades() {
  return Array.from({ length: SHADES }, (_, shade) => make("i", { class: `g-s${shade}` }));
}

/** @param {Partial<State>} state */
function describeProgress({ state, finished = 0, plan, succeeded, left_seconds, limit }) {
  const parts = [`${formatNumber(finished)} of ${formatCount(plan?.trials ?? 0, "trial")} finished`];
  if (typeof succeeded === "number") parts.push(`${formatNumber(succeeded)} succeeded`);
  if (left_seconds) parts.push(`about ${formatDuration(left_seconds)} left`);
  return parts.join(", ") + (limit && state === "stopped" ? `; stopped by its limit: ${limit}` : "");
}

export default {
  /** @param {{ model: Model, el: HTMLElement }} view */
  render({ model, el }) {
    const grid = new Grid(model, el);
    return () => grid.close();
  },
};
