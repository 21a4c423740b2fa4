// The part of the page with choices: chart, cells, tables and transcripts, drawn from the values that Python computed.

import { keepFocus, make } from "#widgets/elements.js";
import { formatCount, formatNumber } from "#widgets/numbers.js";
import { drawArms, drawProgress } from "./arms_table.js";
import { drawCells } from "./cells.js";
import { drawChart } from "./cost_chart.js";
import { drawStory } from "./story_chart.js";
import { drawTrials, openTrial, TRIALS_SHOWN } from "./trials.js";

/** @import { Metric, Values } from "./values.d.ts" */
/** @typedef {{ arm: number, task: string | null, against?: number }} Target Arm, arm on one task, or two arms; lists trials. */
/** @typedef {[value: string | number, text: string]} Option */
/** @typedef {{ name: string, value: string | number, options: Option[], choose: (value: string) => void }} Choice */

export class ReportPage {
  state = {
    part: 0,
    metric: "",
    baseline: -1,
    filter: "",
    sort: "",
    descending: false,
    layout: "",
    chosen: /** @type {Target | null} */ (null),
    trial: "",
    limit: TRIALS_SHOWN,
    failedOnly: false,
  };

  fields = make("div", { class: "p-fields" });
  about = make("p", { class: "p-about h-faint", "aria-live": "polite" });
  controls = make(
    "form",
    { class: "p-controls", "aria-label": "choices", on: { submit: (event) => event.preventDefault() } },
    this.fields,
    this.makeFilter(),
    this.about,
  );
  story = make("section", { class: "p-card p-story-card", "aria-label": "one loss and its consequence", hidden: true });
  chart = make("section", { class: "p-card p-chart", "aria-label": "cost and result of each arm" });
  grid = make("section", { class: "p-card p-grid g-root", "aria-label": "cells" });
  arms = make("section", { class: "p-card p-arms", "aria-label": "arms" });
  trials = make("section", { class: "p-card p-trials", "aria-label": "trials", hidden: true });
  transcript = make("section", { class: "p-card p-transcript", "aria-label": "transcript", hidden: true });
  drawnOptions = "";

  /**
   * @param {HTMLElement} root
   * @param {Values} values
   */
  constructor(root, values) {
    this.root = root;
    this.values = values;
    root.replaceChildren(this.controls, this.story, this.chart, this.arms, this.grid, this.trials, this.transcript);
    this.usePart(0);
  }

  get part() {
    return this.values.parts[this.state.part];
  }

  get metric() {
    return this.findMetric(this.state.metric);
  }

  /**
   * Name of the arm with which the others are compared; undefined without one.
   *
   * @returns {string | undefined}
   */
  get baseline() {
    return this.part.arms[this.state.baseline]?.name;
  }

  /** @param {string} name */
  findMetric(name) {
    return /** @type {Metric} */ (this.part.metrics.find((metric) => metric.name === name));
  }

  makeFilter() {
    const filter = make("input", {
      type: "search",
      name: "filter",
      placeholder: "name or setting",
      "aria-label": "filter arms",
      autocomplete: "off",
      on: {
        input: () => {
          this.state.filter = filter.value;
          this.draw();
        },
      },
    });
    return make("label", { class: "p-field" }, make("span", { text: "filter arms" }), filter);
  }

  /** @param {number} index */
  usePart(index) {
    this.state.part = index;
    Object.assign(this.state, {
      metric: this.part.metric ?? "",
      baseline: this.part.baselines[0] ?? -1,
      chosen: null,
      trial: "",
      layout: "",
    });
    this.drawControls();
    this.draw();
    drawStory(this);
    this.trials.hidden = this.transcript.hidden = true;
  }

  /**
   * Show newer values; the focus and choices are kept where they still exist.
   *
   * @param {Values} values
   */
  update(values) {
    keepFocus(this.root, () => this.replaceValues(values));
  }

  /** @param {Values} values */
  replaceValues(values) {
    const shows = this.values.is_withheld !== values.is_withheld; // outcomes may be shown now
    const { part, state } = this;
    const { baseline, chosen } = state;
    this.values = values;
    state.part = values.parts.findIndex((one) => one.level === part.level);
    if (shows || state.part < 0) {
      this.usePart(Math.max(0, state.part));
      return;
    }
    /**
     * Return the index of an arm among the new ones.
     *
     * @param {number} index
     */
    const find = (index) => this.part.arms.findIndex((arm) => arm.name === part.arms[index]?.name);
    const kept = find(baseline);
    if (part.baselines.length) state.baseline = this.part.baselines.includes(kept) ? kept : -1;
    else state.baseline = this.part.baselines[0] ?? -1;
    const against = chosen?.against === undefined ? undefined : find(chosen.against);
    state.chosen = chosen && find(chosen.arm) >= 0 ? { ...chosen, arm: find(chosen.arm), against } : null;
    this.drawControls();
    this.draw();
    drawStory(this);
    if (state.chosen) drawTrials(this, false);
    else this.trials.hidden = true;
  }

  /** @returns {Choice[]} */
  listChoices() {
    const { part, state, values } = this;
    /** @param {Partial<ReportPage["state"]>} changes */
    const change = (changes) => {
      Object.assign(state, changes);
      this.draw();
    };
    /** @type {Choice[]} */
    const choices = [];
    if (values.parts.length > 1) {
      choices.push({
        name: "level",
        value: state.part,
        options: values.parts.map((one, index) => [index, one.level]),
        choose: (index) => keepFocus(this.controls, () => this.usePart(Number(index))),
      });
    }
    if (values.is_withheld) return choices;
    choices.push({
      name: "metric",
      value: state.metric,
      options: part.metrics.map(({ name }) => [name, name]),
      choose: (metric) => change({ metric }),
    });
    choices.push({
      name: "baseline",
      value: state.baseline,
      options: [...part.baselines.map((index) => /** @type {Option} */ ([index, part.arms[index].name])), [-1, "none"]],
      choose: (index) => change({ baseline: Number(index) }),
    });
    if (part.tables.length && part.task_cells) {
      choices.push({
        name: "cells",
        value: state.layout || "axes",
        options: Object.entries({ axes: "by axes", tasks: "by task" }),
        choose: (layout) => change({ layout }),
      });
    }
    return choices;
  }

  /** Show the choices; their elements are replaced only if the options have changed, which closes an open list of options. */
  drawControls() {
    const choices = this.listChoices();
    const options = JSON.stringify(choices.map((choice) => [choice.name, choice.options]));
    if (options !== this.drawnOptions) {
      this.drawnOptions = options;
      this.fields.replaceChildren(...choices.map(makeField));
    }
    for (const { name, value } of choices) {
      const field = /** @type {HTMLSelectElement} */ (this.fields.querySelector(`select[name=${name}]`));
      field.value = String(value);
    }
  }

  /** Return the indices of the arms that the filter lets pass; every word must occur in the name or the settings. */
  listShownArms() {
    const words = this.state.filter.toLowerCase().split(/\s+/).filter(Boolean);
    return this.part.arms.flatMap((arm, index) => {
      const text = `${arm.name} ${arm.settings}`.toLowerCase();
      return words.every((word) => text.includes(word)) ? [index] : [];
    });
  }

  /**
   * Return the difference of an arm to the baseline; undefined if they are not compared.
   *
   * @param {number} index
   */
  findEffect(index, metric = this.state.metric) {
    return this.baseline === undefined ? undefined : this.part.effects[this.baseline]?.[metric]?.[index];
  }

  draw() {
    const shown = this.listShownArms();
    const { is_withheld } = this.values;
    this.chart.hidden = this.grid.hidden = is_withheld;
    const count = `${formatCount(shown.length, "arm")} of ${formatNumber(this.part.arms.length)} shown.`;
    this.about.textContent = `${this.metric?.about ?? ""} ${count}`;
    if (is_withheld) {
      drawProgress(this, shown);
      return;
    }
    drawChart(this, shown);
    drawCells(this, shown);
    drawArms(this, shown);
  }

  /**
   * List the trials of an arm, or of an arm on one task.
   *
   * @param {Target} target
   */
  choose(target) {
    Object.assign(this.state, { chosen: target, limit: TRIALS_SHOWN });
    this.draw();
    drawTrials(this, true);
  }

  /**
   * List the trials and queries behind a row of the report.
   *
   * @param {string} row Name of an arm, or of two arms as `A against B`.
   */
  openRow(row) {
    const names = this.values.parts.map(({ arms }) => arms.map(({ name }) => name));
    for (const index of [this.state.part, ...names.keys()]) {
      const known = names[index];
      const arm = known.includes(row) ? row : known.find((name) => row.startsWith(`${name} against `));
      const other = arm === undefined || arm === row ? undefined : known.indexOf(row.slice(arm.length + " against ".length));
      if (arm === undefined || other === -1) continue;
      if (index !== this.state.part) this.usePart(index);
      this.choose({ arm: known.indexOf(arm), task: null, against: other });
      return;
    }
  }

  /**
   * Open the session of a trial, at the compaction that lost a fact which a check needs.
   *
   * @param {string} trial
   * @param {string} title Title of the check; empty for none.
   */
  openTrial(trial, title) {
    const place = this.part.trials.id.indexOf(trial);
    const check = (this.part.checks ?? []).find(([, one]) => one === title);
    this.choose({ arm: this.part.trials.arm[place], task: null });
    openTrial(this, place, check?.[0] ?? null);
  }
}

/** @param {Choice} choice */
function makeField({ name, options, choose }) {
  /** @type {HTMLSelectElement} */
  const field = make(
    "select",
    { "aria-label": name, name, "data-key": `choice ${name}`, on: { change: () => choose(field.value) } },
    ...options.map(([value, text]) => make("option", { value, text })),
  );
  return make("label", { class: "p-field" }, make("span", { text: name }), field);
}
