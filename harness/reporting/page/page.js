// Report page: chart, heat map, table of arms, trials and transcripts. All statistics are computed in Python; this script shows them.
// Texts come from models, tools and plans: `make` and `draw` set them as texts, never as HTML.

const DIVERGING = ["g-d0", "g-d1", "g-d2", "g-d3", "g-d4", "g-d5", "g-d6"];
const TRIALS_SHOWN = 60;
const MAX_CHART_LABELS = 14;

const inflate = async (stream) => reveal(JSON.parse(await new Response(stream.pipeThrough(new DecompressionStream("deflate"))).text()));

/** Return the content of an embedded block, which is compressed JSON in base64. */
async function readBlock(name) {
  const bytes = Uint8Array.from(atob(document.getElementById(name).textContent.trim()), (sign) => sign.charCodeAt(0));
  return inflate(new Blob([bytes]).stream());
}

/** Return an embedded session. Messages that are stored in the blocks of other sessions are read from there. */
async function readSession(block) {
  const session = await readBlock(`block-${block}`);
  const isReference = (row) => row.length === 2;
  const others = new Set(session.messages.filter(isReference).map(([other]) => other));
  const read = async (other) => [other, (await readBlock(`block-${other}`)).messages];
  const tables = new Map(await Promise.all([...others].map(read)));
  session.messages = session.messages.map((row) => (isReference(row) ? tables.get(row[0])[row[1]] : row));
  return session;
}

/** Format a value of one trial or of an axis; texts of estimates come with the values. */
function formatValue(metric, value) {
  if (value === null || value === undefined) return "–";
  if (metric.kind === "rate") return `${Math.round(100 * value)} %`;
  if (metric.kind === "bounded") return value.toFixed(2);
  if (metric.unit === "USD") return value >= 0.01 || value === 0 ? value.toFixed(value >= 0.1 || value === 0 ? 2 : 3) : value.toPrecision(2);
  for (const [unit, size] of [["M", 1e6], ["k", 1e3]]) if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(3))}${unit}`;
  return String(Number(value.toPrecision(3)));
}

/** Return about five round numbers between two values. */
function listTicks(low, high) {
  const rough = (high - low) / 4 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((factor) => factor >= rough);
  const ticks = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high + 1e-9 * step; index += 1) ticks.push(index * step);
  return ticks;
}

/** Session of the page, which answers the requests of the inspector as a notebook's kernel would. */
class StoredSession {
  constructor({ session, messages, steps }) {
    [this.session, this.messages, this.steps, this.listeners, this.count, this.step] = [session, messages, steps, new Set(), 0, 1];
  }

  on(event, listener) {
    if (event === "msg:custom") this.listeners.add(listener);
  }

  off(_event, listener) {
    this.listeners.delete(listener);
  }

  send(message) {
    if (message.kind === "sync") this.deliver({ session: this.session, step: this.buildStep(null), refused: null });
    else if (message.kind === "look") {
      this.step = Math.min(this.steps.length, Math.max(1, message.look.step));
      this.deliver({ step: this.buildStep(message.request) });
    } else if (message.kind === "rows") this.deliver({ rows: this.buildRows(...message.rows) });
    else if (message.kind === "read") this.deliver({ reading: this.read(message.message) });
  }

  deliver(state) {
    const batch = { kind: "batch", number: (this.count += 1), whole: "session" in state, from: 1, oldest: 1, items: [], state };
    queueMicrotask(() => this.listeners.forEach((listener) => listener(batch)));
  }

  /** Return the indices of the messages of the current step: those sent, the answer and the results. */
  listMessages() {
    const { sent, answer, results } = this.steps[this.step - 1];
    return [...sent.flatMap(([first, length]) => Array.from({ length }, (_, place) => first + place)), answer, ...results];
  }

  buildRows(first, end) {
    const indices = this.listMessages();
    const { results, patch } = this.steps[this.step - 1];
    const answer = indices.length - 1 - results.length;
    const rows = indices.map((index, place) => {
      const kind = place < answer ? "sent" : place === answer ? "answer" : "result";
      const isNew = place >= this.steps[this.step - 1].new && place < answer;
      return [kind, this.messages[index][0], isNew ? "new" : "", this.messages[index][1]];
    });
    if (patch !== null) rows.push(["workspace", "", "", "changes of this step, line by line"]);
    return { version: this.step, count: rows.length, first, rows: rows.slice(first, end) };
  }

  buildStep(request) {
    const { facts, compactions, results } = this.steps[this.step - 1];
    const answer = this.listMessages().length - 1 - results.length;
    const first = Math.max(0, answer - 100);
    return { request, place: this.step, facts, answer, compactions, ...this.buildRows(first, first + 200) };
  }

  read(place) {
    const indices = this.listMessages();
    const { results, patch } = this.steps[this.step - 1];
    if (place >= indices.length) return { message: place, title: "workspace, changes of this step", text: patch ?? "" };
    const answer = indices.length - 1 - results.length;
    const [role, , text] = this.messages[indices[place]];
    const kind = place < answer ? "sent" : place === answer ? "answer" : "result";
    return { message: place, title: `${kind}, ${role}`, text };
  }
}

class ReportPage {
  constructor(values) {
    this.values = values;
    this.state = { part: 0, metric: "", baseline: -1, filter: "", sort: "", descending: false, layout: "", chosen: null, trial: "", limit: TRIALS_SHOWN };
    this.root = document.getElementById("explorer");
    this.inspector = null;
    this.build();
    this.usePart(0);
  }

  get part() {
    return this.values.parts[this.state.part];
  }

  get metric() {
    return this.part.metrics.find((metric) => metric.name === this.state.metric);
  }

  findMetric(name) {
    return this.part.metrics.find((metric) => metric.name === name);
  }

  build() {
    const filter = make("input", {
      type: "search", name: "filter", placeholder: "name or setting", "aria-label": "filter arms", autocomplete: "off",
      on: {
        input: () => {
          this.state.filter = filter.value;
          this.draw();
        },
      },
    });
    this.fields = make("div", { class: "p-fields" });
    this.about = make("p", { class: "p-about h-faint", "aria-live": "polite" });
    this.controls = make("form", { class: "p-controls", "aria-label": "choices", on: { submit: (event) => event.preventDefault() } },
      this.fields, make("label", { class: "p-field" }, make("span", { text: "filter arms" }), filter), this.about);
    this.chart = make("section", { class: "p-card p-chart", "aria-label": "cost and result of each arm" });
    this.grid = make("section", { class: "p-card p-grid g-root", "aria-label": "cells" });
    this.arms = make("section", { class: "p-card p-arms", "aria-label": "arms" });
    this.trials = make("section", { class: "p-card p-trials", "aria-label": "trials", hidden: true });
    this.transcript = make("section", { class: "p-card p-transcript", "aria-label": "transcript", hidden: true });
    this.root.replaceChildren(this.controls, this.chart, this.arms, this.grid, this.trials, this.transcript);
  }

  usePart(index) {
    Object.assign(this.state, { part: index, metric: this.part.metric ?? "", baseline: this.part.baselines[0] ?? -1, chosen: null, trial: "", layout: "" });
    this.drawControls();
    this.draw();
    this.trials.hidden = this.transcript.hidden = true;
  }

  /** Show newer values; the focus and choices are kept where they still exist. */
  update(values) {
    keepFocus(this.root, () => this.replaceValues(values));
  }

  replaceValues(values) {
    const shows = this.values.is_withheld !== values.is_withheld; // outcomes may be shown now
    const { part: { level, baselines, arms }, state: { baseline, chosen } } = this;
    this.values = values;
    document.getElementById("standing").textContent = values.standing;
    this.state.part = values.parts.findIndex((part) => part.level === level);
    if (shows || this.state.part < 0) {
      this.usePart(Math.max(0, this.state.part));
      return;
    }
    const find = (index) => this.part.arms.findIndex((arm) => arm.name === arms[index]?.name); // new arms change the indices
    const kept = find(baseline);
    if (baselines.length) this.state.baseline = this.part.baselines.includes(kept) ? kept : -1;
    else this.state.baseline = this.part.baselines[0] ?? -1;
    this.state.chosen = chosen && find(chosen.arm) >= 0 ? { ...chosen, arm: find(chosen.arm) } : null;
    this.drawControls();
    this.draw();
    if (this.state.chosen) this.listTrials(false);
    else this.trials.hidden = true;
  }

  /** Show the choices; their elements are replaced only if the options have changed, which closes an open list of options. */
  drawControls() {
    const change = (changes) => {
      Object.assign(this.state, changes);
      this.draw();
    };
    const arm = (index) => this.part.arms[index].name;
    const choices = this.values.is_withheld ? [] : [
      ["metric", this.state.metric, this.part.metrics.map((metric) => [metric.name, metric.name]), (metric) => change({ metric })],
      ["baseline", this.state.baseline, [...this.part.baselines.map((choice) => [choice, arm(choice)]), [-1, "none"]], (choice) => change({ baseline: Number(choice) })],
    ];
    if (this.values.parts.length > 1) {
      const levels = this.values.parts.map((part, index) => [index, part.level]);
      choices.unshift(["level", this.state.part, levels, (choice) => keepFocus(this.controls, () => this.usePart(Number(choice)))]);
    }
    if (this.part.tables?.length && this.part.task_cells) {
      choices.push(["cells", this.state.layout || "axes", [["axes", "by axes"], ["tasks", "by task"]], (layout) => change({ layout })]);
    }
    const options = JSON.stringify(choices.map(([name, , offered]) => [name, offered]));
    if (options !== this.drawnOptions) {
      this.drawnOptions = options;
      this.fields.replaceChildren(...choices.map(([name, , offered, act]) => {
        const field = make("select", { "aria-label": name, name, "data-key": `choice ${name}`, on: { change: () => act(field.value) } });
        field.append(...offered.map(([value, text]) => make("option", { value, text })));
        return make("label", { class: "p-field" }, make("span", { text: name }), field);
      }));
    }
    for (const [name, value] of choices) this.fields.querySelector(`select[name=${name}]`).value = String(value);
  }

  /** Return the indices of the arms that the filter lets pass; every word must occur in the name or the settings. */
  listShownArms() {
    const words = this.state.filter.toLowerCase().split(/\s+/).filter(Boolean);
    return this.part.arms.flatMap((arm, index) => (words.every((word) => `${arm.name} ${arm.settings}`.toLowerCase().includes(word)) ? [index] : []));
  }

  findEffect(index, metric = this.state.metric) {
    const baseline = this.part.arms[this.state.baseline]?.name;
    return baseline === undefined ? undefined : this.part.effects[baseline]?.[metric]?.[index];
  }

  draw() {
    const shown = this.listShownArms();
    this.chart.hidden = this.grid.hidden = this.values.is_withheld;
    this.about.textContent = `${this.metric?.about ?? ""} ${formatCount(shown.length, "arm")} of ${formatNumber(this.part.arms.length)} shown.`;
    if (this.values.is_withheld) {
      this.drawProgress(shown);
      return;
    }
    this.drawChart(shown);
    this.drawGrid(shown);
    this.drawArms(shown);
  }

  /** Show how many trials of each arm have finished, without outcomes. */
  drawProgress(shown) {
    const body = shown.map((index) => {
      const arm = this.part.arms[index];
      const name = make("button", { type: "button", class: "p-link", "data-key": `arm ${arm.name}`, text: arm.name, on: { click: () => this.choose({ arm: index, task: null }) } });
      return make("tr", { class: index === this.state.chosen?.arm ? "p-current" : "" },
        make("th", { scope: "row" }, makeMark(arm.mark), name, make("span", { class: "p-settings", text: arm.settings })),
        make("td", { text: formatNumber(arm.finished) }), make("td", { text: formatNumber(arm.excluded) }));
    });
    const head = ["arm", "finished", "excluded"].map((text) => make("th", { scope: "col", text }));
    const all = this.part.arms.reduce((sum, arm) => sum + arm.finished, 0);
    this.arms.replaceChildren(
      make("h2", { text: "Progress" }),
      make("p", { text: `${formatNumber(all)} of ${formatCount(this.values.planned, "planned trial")} finished; no outcomes are shown.` }),
      make("div", { class: "p-scroll", tabindex: "0", role: "region", "aria-label": "table of arms", "data-key": "arms" },
        make("table", { class: "p-table" }, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body))),
      make("p", { class: "h-faint p-key", text: "Select an arm to list its trials." }),
    );
  }

  /** Return the explanation below a part of the page; the hint on what to click is not printed. */
  explain(text, hint) {
    return make("p", { class: "h-faint p-key" }, `${text} `, make("span", { class: "p-hint", text: hint }));
  }

  // --- chart ----------------------------------------------------------------------------------------------------------

  drawChart(shown) {
    const upright = this.state.metric === "cost" ? this.findMetric("score") : this.metric;
    const cost = this.findMetric("cost");
    const points = shown.flatMap((index) => {
      const [x, y] = [this.part.arms[index].cells.cost, this.part.arms[index].cells[upright.name]];
      return x[1] === null || y[1] === null ? [] : [{ index, name: this.part.arms[index].name, x: x.slice(1, 4), y: y.slice(1, 4) }];
    });
    const title = make("h2", { text: `Cost and ${upright.name} of each arm` });
    if (!points.length) {
      this.chart.replaceChildren(title, make("p", { class: "h-faint", text: "No arm has both a cost and a value." }));
      return;
    }
    const [width, height, left, right, top, bottom] = [640, 560, 70, 16, 14, 44];
    const span = (values, floor, ceiling) => {
      const known = values.filter((value) => value !== null);
      const [low, high] = [Math.min(...known), Math.max(...known)];
      const margin = 0.07 * (high - low || Math.abs(high) || 1);
      return [Math.max(floor, low - margin), Math.min(ceiling, high + margin)];
    };
    const bounds = upright.kind === "amount" ? [0, Infinity] : [-0.02, 1.02];
    const [xLow, xHigh] = span(points.flatMap((point) => point.x), 0, Infinity);
    const [yLow, yHigh] = span(points.flatMap((point) => point.y), ...bounds);
    const px = (value) => left + ((value - xLow) / (xHigh - xLow)) * (width - left - right);
    const py = (value) => top + (1 - (value - yLow) / (yHigh - yLow)) * (height - top - bottom);
    const parts = [];
    const listLabelled = (low, high, metric) => listTicks(low, high).filter((tick, place, all) => !place || formatValue(metric, tick) !== formatValue(metric, all[place - 1]));
    for (const tick of listLabelled(yLow, yHigh, upright)) {
      parts.push(draw("line", { class: "p-rule", x1: left, x2: width - right, y1: py(tick), y2: py(tick) }));
      parts.push(draw("text", { class: "p-tick", x: left - 6, y: py(tick) + 4, "text-anchor": "end", text: formatValue(upright, tick) }));
    }
    for (const tick of listLabelled(xLow, xHigh, cost)) {
      parts.push(draw("line", { class: "p-rule", x1: px(tick), x2: px(tick), y1: top, y2: height - bottom }));
      parts.push(draw("text", { class: "p-tick", x: px(tick), y: height - bottom + 16, "text-anchor": "middle", text: formatValue(cost, tick) }));
    }
    parts.push(draw("text", { class: "p-axis", x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle", text: cost.label }));
    const name = draw("text", { class: "p-axis", "text-anchor": "middle", text: upright.label });
    name.setAttribute("transform", `translate(14 ${(top + height - bottom) / 2}) rotate(-90)`);
    parts.push(name);
    const front = this.part.fronts[upright.name].filter((index) => shown.includes(index)).map((index) => points.find((point) => point.index === index));
    const corners = front.filter(Boolean).flatMap((one, place, all) => [...(place ? [[one.x[0], all[place - 1].y[0]]] : []), [one.x[0], one.y[0]]]);
    if (corners.length > 1) parts.push(draw("polyline", { class: "p-front", points: corners.map(([x, y]) => `${px(x)},${py(y)}`).join(" ") }));
    const dots = points.map((point) => {
      const [x, y] = [px(point.x[0]), py(point.y[0])];
      const group = draw("g", { class: `p-point ${classifyMark(this.part.arms[point.index].mark)}${point.index === this.state.baseline ? " p-baseline" : ""}${point.index === this.state.chosen?.arm ? " p-chosen" : ""}` });
      if (point.x[1] !== null) group.append(draw("line", { class: "p-bar", x1: px(point.x[1]), x2: px(point.x[2]), y1: y, y2: y }));
      if (point.y[1] !== null) group.append(draw("line", { class: "p-bar", x1: x, x2: x, y1: py(point.y[1]), y2: py(point.y[2]) }));
      if (point.index === this.state.baseline) group.append(draw("circle", { class: "p-ring", cx: x, cy: y, r: 9 }));
      if (point.index === this.state.chosen?.arm) group.append(draw("circle", { class: "p-halo", cx: x, cy: y, r: 11.5 }));
      group.append(drawMark(this.part.arms[point.index].mark, x, y, 5.5), draw("circle", { class: "p-hit", cx: x, cy: y, r: 13 }));
      const cells = this.part.arms[point.index].cells;
      group.append(draw("title", { text: `${point.name}: ${upright.name} ${cells[upright.name][4]} ${cells[upright.name][5]}, cost ${cells.cost[4]} ${cells.cost[5]} USD per trial, n ${cells[upright.name][0]}` }));
      group.addEventListener("click", () => this.choose({ arm: point.index, task: null }));
      return group;
    });
    const labelled = points.length <= MAX_CHART_LABELS ? points : points.filter((point) => front.includes(point) || this.part.arms[point.index].badge || [this.state.baseline, this.state.chosen?.arm].includes(point.index));
    const labels = this.placeLabels(labelled.map((point) => ({ index: point.index, text: this.part.arms[point.index].label, x: px(point.x[0]), y: py(point.y[0]) })), points.map((point) => [px(point.x[0]), py(point.y[0])]), { left, right: width - right, top, bottom: height - bottom });
    parts.push(...dots, ...labels);
    const label = `Chart: ${upright.label} over ${cost.label} of ${formatCount(points.length, "arm")}; the table of arms has the same values.`;
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    svg.append(...parts);
    const key = [
      `Point: one arm, with 95 % intervals about ${this.part.about}.`,
      corners.length > 1 ? "Dashed: Pareto front: no other arm is better and no dearer, or cheaper and no worse." : "",
      this.state.baseline >= 0 ? "Ring: baseline." : "",
      "Colours and shapes are those of the figures.",
      labelled.length < points.length ? "Names: the front, the baseline and the chosen arm; the others are in the table." : "",
    ];
    this.chart.replaceChildren(title, svg, this.explain(key.filter(Boolean).join(" "), "Click a point to list its trials."));
  }

  /** Place names beside their points so that names cover neither each other nor a point. */
  placeLabels(labels, dots, frame) {
    const taken = dots.map(([x, y]) => [x - 7, y - 7, x + 7, y + 7]);
    const overlap = (a, b) => Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0])) * Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1]));
    return labels.map(({ text, x, y, index }) => {
      const lines = text.split("\n");
      const [width, below] = [6.3 * Math.max(...lines.map((line) => line.length)) + 4, 13 * (lines.length - 1)];
      const choices = [];
      for (const shift of [-9, 14, -22, 27, -35, 40, 3]) {
        choices.push([x + 11, y + shift, "start"], [x - 11, y + shift, "end"], [x, y + shift, "middle"]);
      }
      let best = null;
      for (const [place, [tx, ty, anchor]] of choices.entries()) {
        const from = anchor === "start" ? tx : anchor === "end" ? tx - width : tx - width / 2;
        const box = [from, ty - 11, from + width, ty + below + 4];
        const outside = Math.max(0, frame.left - box[0]) + Math.max(0, box[2] - frame.right) + Math.max(0, frame.top - box[1]) + Math.max(0, box[3] - frame.bottom);
        const score = 50 * outside + taken.reduce((sum, one) => sum + overlap(box, one), 0) + place;
        if (best === null || score < best.score) best = { score, box, tx, ty, anchor };
      }
      taken.push(best.box);
      const label = draw("text", { class: "p-label", x: best.tx, y: best.ty, "text-anchor": best.anchor });
      label.append(...lines.map((line, place) => draw("tspan", { x: best.tx, dy: place ? 13 : 0, text: line })));
      label.addEventListener("click", () => this.choose({ arm: index, task: null }));
      return label;
    });
  }

  // --- cells ----------------------------------------------------------------------------------------------------------

  drawGrid(shown) {
    const byAxes = this.part.tables.length > 0 && this.state.layout !== "tasks";
    const title = make("h2", { text: byAxes ? `${this.metric.name} by axes` : `${this.metric.name} by arm and task` });
    title.firstChild.data = title.textContent[0].toUpperCase() + title.textContent.slice(1);
    if (!byAxes && !this.part.task_cells) {
      this.grid.replaceChildren(title, make("p", { class: "h-faint", text: "Too many arms and tasks for cells; the table below lists the arms." }));
      return;
    }
    const tables = byAxes ? this.buildAxisTables(shown) : [this.buildTaskTable(shown)];
    const cellsWithValues = tables.flatMap((table) => table.rows.flatMap((row) => row.cells)).filter((cell) => cell && cell.colour !== null);
    const paired = this.state.baseline >= 0 && (byAxes || this.collectTaskEffects() !== undefined);
    const [low, high] = this.spanColours(cellsWithValues, paired);
    const colour = (value) => {
      if (value === null) return "g-empty";
      if (paired) return DIVERGING[Math.min(6, Math.max(0, Math.round(3 + (3 * value) / (high || 1))))];
      return `g-s${Math.min(7, Math.max(0, Math.floor(high > low ? (8 * (value - low)) / (high - low) : 4)))}`;
    };
    const drawCell = (cell, key) => {
      if (cell === null) return make("td", { class: "g-cell g-empty", text: "–" });
      const button = make("button", { type: "button", "data-key": key, on: { click: () => this.choose(cell.target) } }, make("b", { text: cell.text }), make("span", { text: cell.detail }), ...(cell.n === undefined ? [] : [make("span", { text: ` n ${cell.n}` })]));
      return make("td", { class: `g-cell ${colour(cell.colour)}` }, button);
    };
    const boxes = tables.map((table) => {
      const caption = table.title ? [make("caption", { text: table.title })] : [];
      const head = make("tr", {}, make("th", { scope: "col", text: table.corner }), ...table.columns.map((text) => make("th", { scope: "col", text })));
      const body = table.rows.map((row) => make("tr", {}, make("th", { scope: "row", class: "g-name" }, ...(row.mark ? [makeMark(row.mark)] : []), row.name), ...row.cells.map((cell, place) => drawCell(cell, `cell ${JSON.stringify([table.title, row.name, table.columns[place]])}`))));
      return make("div", { class: "p-scroll", tabindex: "0", role: "region", "aria-label": table.title || title.textContent, "data-key": `cells ${table.title}` },
        make("table", { class: "g-heat" }, ...caption, make("thead", {}, head), make("tbody", {}, ...body)));
    });
    const about = byAxes ? this.part.about : "this one task";
    const key = paired
      ? `Each cell: ${this.metric.ratio ? "ratio" : "difference"} to ${this.part.arms[this.state.baseline].name}${byAxes ? "" : " on the task"}, its 95 % interval about ${about}, pairs. Orange: lower, blue: higher.${byAxes ? "" : " Row of the baseline: its values."}`
      : `Each cell: mean, 95 % interval about ${about}, trials. Dark: ${formatValue(this.metric, cellsWithValues.length ? low : null)}, yellow: ${formatValue(this.metric, cellsWithValues.length ? high : null)}.`;
    this.grid.replaceChildren(title, make("div", { class: "g-heats" }, ...boxes), this.explain(key, "Click a cell to list its trials."));
  }

  /**
   * Return the values at the ends of the colours: those of the cells, but as far apart as the ends of the widest interval.
   * With a baseline (`paired`), no difference lies in the middle.
   */
  spanColours(cells, paired) {
    if (!cells.length) return [0, 1];
    const values = cells.map((cell) => cell.colour);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const widest = Math.max(...cells.map((cell) => cell.width));
    if (paired) {
      const most = Math.max(Math.abs(low), Math.abs(high), widest / 2);
      return [-most, most];
    }
    const span = Math.max(high - low, widest);
    const ceiling = this.metric.kind === "amount" ? Infinity : Math.max(1, high);
    const first = Math.max(Math.min((low + high - span) / 2, ceiling - span), Math.min(0, low));
    return [first, first + span];
  }

  buildAxisTables(shown) {
    return this.part.tables.map((table) => ({
      title: table.title, corner: `${table.down} ↓  ${table.across} →`, columns: table.columns,
      rows: table.rows.map((name, row) => ({
        name,
        cells: table.cells[row].map((index) => {
          if (index < 0 || !shown.includes(index)) return null;
          const target = { arm: index, task: null };
          const effect = this.findEffect(index);
          if (this.state.baseline < 0) return this.buildCell(this.part.arms[index].cells[this.state.metric], target);
          if (index === this.state.baseline) return { target, text: "baseline", detail: "", colour: 0, width: 0 };
          if (!effect) return { target, text: "–", detail: "no pairs", colour: null, width: 0 };
          const size = effect[1] === null ? null : this.metric.ratio ? Math.log(effect[1]) : effect[1];
          return { target, text: effect[4], detail: effect[5] === "no interval" ? "" : effect[5], n: effect[0], colour: size, width: this.measureWidth(effect, this.metric.ratio) };
        }),
      })),
    }));
  }

  /** Return the paired effects on each task against the baseline, by arm, or undefined if the page has none. */
  collectTaskEffects() {
    return this.part.task_effects[this.part.arms[this.state.baseline]?.name]?.[this.state.metric];
  }

  buildTaskTable(shown) {
    const cells = this.part.task_cells[this.state.metric];
    const effects = this.collectTaskEffects();
    const difference = (index, task) => {
      const target = { arm: index, task: this.part.tasks[task] };
      if (index === this.state.baseline) return { ...this.buildCell(cells[index][task], target), colour: 0, width: 0 };
      const effect = effects[index]?.[task];
      if (!effect) return { target, text: "–", detail: "no pairs", colour: null, width: 0 };
      const drawn = this.buildCell(effect, target);
      return { ...drawn, colour: this.metric.ratio && drawn.colour !== null ? Math.log(drawn.colour) : drawn.colour, width: this.measureWidth(effect, this.metric.ratio) };
    };
    return {
      title: "", corner: "arm", columns: this.part.tasks,
      rows: shown.map((index) => ({
        name: this.part.arms[index].name, mark: this.part.arms[index].mark,
        cells: cells[index].map((cell, task) => cell && (effects ? difference(index, task) : this.buildCell(cell, { arm: index, task: this.part.tasks[task] }))),
      })),
    };
  }

  buildCell([n, value, low, high, text, interval], target) {
    return { target, text, detail: interval === "no interval" ? "" : interval, n, colour: value, width: this.measureWidth([n, value, low, high], false) };
  }

  /** Return the width of an interval on the scale of colours; 0 without an interval. */
  measureWidth([, , low, high], isRatio) {
    if (low === null || high === null || (isRatio && low <= 0)) return 0;
    return isRatio ? Math.log(high / low) : high - low;
  }

  // --- table of arms --------------------------------------------------------------------------------------------------

  buildColumns() {
    const headings = { cost: "cost, USD", retention: "facts kept" };
    const numeric = (name) => ({ key: name, label: headings[name] ?? name, value: (index) => this.part.arms[index].cells[name][1], cell: (index) => this.buildEstimateCell(this.part.arms[index].cells[name]) });
    const { metric } = this;
    const columns = [
      { key: "name", label: "arm", value: (index) => this.part.arms[index].name.toLowerCase(), cell: (index) => this.buildNameCell(index) },
      { key: "n", label: "trials", value: (index) => this.part.arms[index].n, cell: (index) => this.buildCountCell(index) },
      numeric(metric.name),
    ];
    if (this.state.baseline >= 0) {
      columns.push({ key: "effect", label: `${metric.ratio ? "ratio to" : "minus"} baseline`, value: (index) => this.findEffect(index)?.[1] ?? null, cell: (index) => this.buildEffectCell(index) });
      if (metric.name !== "cost") columns.push({ key: "cost ratio", label: "cost ratio", value: (index) => this.findEffect(index, "cost")?.[1] ?? null, cell: (index) => this.buildRatioCell(index) });
    }
    const others = ["retention", "cost", "score", "success", "tokens", "steps"].filter((name) => name !== metric.name);
    return [...columns, ...others.map(numeric)];
  }

  buildEstimateCell([, , , , text, interval]) {
    return [make("b", { text }), make("span", { class: "p-interval", text: interval === "no interval" ? "" : interval })];
  }

  buildNameCell(index) {
    const arm = this.part.arms[index];
    const badges = [];
    if (index === this.state.baseline) badges.push(make("span", { class: "p-badge", text: "baseline" }));
    if (arm.badge) badges.push(make("span", { class: "p-badge p-good", text: arm.badge }));
    return [
      makeMark(arm.mark), make("button", { type: "button", class: "p-link", "data-key": `arm ${arm.name}`, text: arm.name, on: { click: () => this.choose({ arm: index, task: null }) } }), ...badges,
      make("span", { class: "p-settings", text: arm.settings, title: arm.standing }),
    ];
  }

  buildCountCell(index) {
    const arm = this.part.arms[index];
    const notes = [arm.excluded ? `${formatNumber(arm.excluded)} excluded` : "", arm.overflow ? `${formatNumber(arm.overflow)} overflowed` : ""].filter(Boolean);
    return [make("b", { text: formatNumber(arm.n) }), ...notes.map((text) => make("span", { class: "p-interval", text }))];
  }

  buildEffectCell(index) {
    if (index === this.state.baseline) return [make("span", { class: "h-faint", text: "baseline" })];
    const effect = this.findEffect(index);
    if (!effect) return [make("span", { class: "h-faint", text: this.part.arms[index].repeats ? `only compared with ${this.part.arms[index].repeats}` : "no shared trials" })];
    const verdicts = { better: "better (exploratory)", worse: "worse (exploratory)", "not shown": "no difference shown" };
    const classes = { better: "p-better", worse: "p-worse", "not shown": "p-unclear" };
    return [
      make("b", { text: effect[4] }), make("span", { class: "p-interval", text: effect[5] }),
      make("span", { class: `p-verdict ${classes[effect[6]]}`, text: effect[8] ?? verdicts[effect[6]] }), this.drawForest(effect),
    ];
  }

  buildRatioCell(index) {
    const effect = this.findEffect(index, "cost");
    if (!effect) return [make("span", { class: "h-faint", text: index === this.state.baseline ? "baseline" : "–" })];
    return [make("b", { text: effect[4] }), make("span", { class: "p-interval", text: effect[5] })];
  }

  /** Draw an effect with its interval on the scale that all arms share. */
  drawForest(effect) {
    const size = (value) => (value === null ? null : this.metric.ratio ? Math.log(value) : value);
    const all = Object.values(this.part.effects[this.part.arms[this.state.baseline].name][this.state.metric]);
    const most = all.flatMap((effect) => effect.slice(1, 4)).map(size).filter((value) => value !== null && Number.isFinite(value)).reduce((one, other) => Math.max(one, Math.abs(other)), 0) || 1;
    const x = (value) => 60 + (56 * Math.max(-most, Math.min(most, value))) / most;
    const svg = draw("svg", { viewBox: "0 0 120 14", class: `p-forest p-is-${effect[6].replace(" ", "-")}`, "aria-hidden": "true" });
    svg.append(draw("line", { class: "p-zero", x1: 60, x2: 60, y1: 0, y2: 14 }));
    const [value, low, high] = effect.slice(1, 4).map(size);
    if (low !== null && high !== null) svg.append(draw("line", { class: "p-range", x1: x(low), x2: x(high), y1: 7, y2: 7 }));
    if (value !== null) svg.append(draw("circle", { class: "p-middle", cx: x(value), cy: 7, r: 3.5 }));
    return svg;
  }

  drawArms(shown) {
    const columns = this.buildColumns();
    const { sort, descending } = this.state;
    const column = columns.find((column) => column.key === sort);
    const order = [...shown];
    if (column) {
      order.sort((a, b) => {
        const [one, other] = [column.value(a), column.value(b)];
        if (one === null || other === null) return (one === null) - (other === null);
        return (one < other ? -1 : one > other ? 1 : 0) * (descending ? -1 : 1);
      });
    }
    const head = columns.map(({ key, label }) => {
      const direction = key === sort ? (descending ? "descending" : "ascending") : "none";
      const sign = { ascending: " ▲", descending: " ▼", none: "" }[direction];
      return make("th", { scope: "col", "aria-sort": direction }, make("button", {
        type: "button", class: "p-sort", "data-key": `sort ${key}`, text: `${label}${sign}`, on: {
          click: () => {
            Object.assign(this.state, { sort: key, descending: key === sort ? !descending : false });
            keepFocus(this.arms, () => this.drawArms(this.listShownArms()));
          },
        },
      }));
    });
    const body = order.map((index) => make("tr", { class: index === this.state.chosen?.arm ? "p-current" : "" },
      ...columns.map((column, place) => make(place ? "td" : "th", place ? {} : { scope: "row" }, ...column.cell(index)))));
    const estimands = new Set(order.map((index) => this.findEffect(index)?.[7]).filter(Boolean));
    const baseline = this.part.arms[this.state.baseline]?.name;
    const note = baseline === undefined
      ? `Means, with 95 % intervals about ${this.part.about}. Choose a baseline to see paired differences.`
      : `Differences: each arm against ${baseline}, paired by task and seed, with 95 % intervals about ${[...estimands].join(" and ") || "nothing"}. Declared: compared as the plan declared, with p corrected for all declared comparisons. Exploratory: interval and test exclude no difference at 5 %, with p adjusted for all arms of the table (Benjamini and Hochberg).`;
    this.arms.replaceChildren(
      make("h2", { text: "Arms" }),
      make("div", { class: "p-scroll", tabindex: "0", role: "region", "aria-label": "table of arms", "data-key": "arms" },
        make("table", { class: "p-table" }, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body))),
      this.explain(note, "Select an arm to list its trials."),
    );
  }

  // --- trials and transcript ------------------------------------------------------------------------------------------

  choose(target) {
    Object.assign(this.state, { chosen: target, limit: TRIALS_SHOWN });
    this.draw();
    this.listTrials(true);
  }

  listTrials(move) {
    const { chosen: { arm, task }, limit } = this.state;
    const { trials, arms, metrics } = this.part;
    const places = trials.arm.flatMap((one, place) => (one === arm && (task === null || trials.task[place] === task) ? [place] : []));
    places.sort((a, b) => (trials.task[a] < trials.task[b] ? -1 : trials.task[a] > trials.task[b] ? 1 : trials.seed[a] - trials.seed[b]));
    const outcome = (place) => {
      if (this.values.is_withheld) return trials.valid[place] ? "finished" : `excluded, ${trials.status[place]}: ${trials.reason[place]}`;
      const text = trials.success[place] ? "success" : trials.valid[place] ? "not all checks passed" : "excluded";
      return trials.status[place] === "completed" ? text : `${text}, ${trials.status[place]}: ${trials.reason[place]}`;
    };
    const shownMetrics = metrics.filter((metric) => metric.name !== "success");
    const heading = make("h2", { tabindex: "-1", "data-key": "heading", text: `Trials of ${arms[arm].name}${task === null ? "" : ` on ${task}`}` });
    const rows = places.slice(0, limit).map((place) => make("tr", { class: trials.id[place] === this.state.trial ? "p-current" : "" },
      make("th", { scope: "row" }, make("button", {
        type: "button", class: "p-link", "data-key": `trial ${trials.id[place]}`, on: { click: () => this.openTrial(place) },
        text: `${trials.task[place]}, seed ${trials.seed[place]}${trials.replicate[place] ? `, replicate ${trials.replicate[place]}` : ""}`,
      })),
      make("td", { class: "p-text", text: outcome(place) }),
      ...shownMetrics.map((metric) => make("td", { text: formatValue(metric, trials[metric.name][place]) })),
      ...(this.values.is_withheld ? [] : [make("td", { text: trials.compactions[place] === null ? "–" : formatNumber(trials.compactions[place]) })]),
      make("td", { class: "p-text", text: this.hasTranscript(place) ? "yes" : "no" })));
    const counts = this.values.is_withheld ? ["state"] : ["outcome", ...shownMetrics.map((metric) => metric.name), "compactions"];
    const head = ["trial", ...counts, "transcript"].map((text) => make("th", { scope: "col", text }));
    const showAll = () => {
      this.state.limit = Infinity;
      this.listTrials(false);
    };
    const more = places.length > limit
      ? [make("button", { type: "button", "data-key": "all", text: `show all ${formatNumber(places.length)}`, on: { click: showAll } })] : [];
    this.trials.replaceChildren(
      heading,
      make("div", { class: "p-scroll", tabindex: "0", role: "region", "aria-label": "table of trials", "data-key": "trials" },
        make("table", { class: "p-table" }, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows))), ...more,
    );
    this.trials.hidden = false;
    if (move) {
      heading.focus({ preventScroll: true });
      this.trials.scrollIntoView({ block: "start", behavior: "auto" });
    }
  }

  hasTranscript(place) {
    return this.part.trials.block[place] >= 0 || (this.values.served && this.part.trials.session[place] !== "");
  }

  async openTrial(place) {
    const { trials, arms } = this.part;
    const trial = trials.id[place];
    this.state.trial = trial;
    this.listTrials(false);
    this.inspector?.();
    this.inspector = null;
    const heading = make("h2", { tabindex: "-1", text: `Transcript of ${arms[trials.arm[place]].name}, ${trials.task[place]}, seed ${trials.seed[place]}` });
    const box = make("div", {}, make("p", { class: "h-faint", text: "reading the session…" }));
    const facts = [make("p", { class: "h-faint", text: `trial ${trial}, session ${trials.session[place] || "none"}` })];
    if (trials.error[place]) facts.push(make("pre", { class: "p-error", tabindex: "0", text: trials.error[place] }));
    this.transcript.replaceChildren(heading, ...facts, box);
    this.transcript.hidden = false;
    heading.focus({ preventScroll: true });
    this.transcript.scrollIntoView({ block: "start" });
    try {
      const session = await this.loadSession(place);
      if (this.state.trial !== trial) return; // another trial was opened meanwhile
      if (session === null) {
        box.replaceChildren(make("p", { text: `This page does not contain the session. Read it with: ${this.values.inspect_command} ${trial}` }));
        return;
      }
      box.replaceChildren();
      const inspector = new Inspector(new StoredSession(session), box);
      this.inspector = () => {
        inspector.stop();
        inspector.ask.end();
      };
    } catch (error) {
      box.replaceChildren(make("p", { class: "h-error", role: "alert", text: `The session cannot be read: ${error.message}` }));
    }
  }

  async loadSession(place) {
    const { trials } = this.part;
    if (trials.block[place] >= 0) return readSession(trials.block[place]);
    if (!this.values.served || !trials.session[place]) return null;
    const answer = await fetch(`session/${encodeURIComponent(trials.session[place])}`);
    if (!answer.ok) throw new Error(await answer.text());
    return inflate(answer.body);
  }
}

/** Follow a running experiment: ask for its progress, and for new values when a trial has finished. */
async function follow(page, digest) {
  const box = document.getElementById("progress");
  const bar = make("progress", { max: 1, value: 0, "aria-label": "finished trials" });
  const words = make("span", { "aria-live": "off" });
  box.replaceChildren(bar, words);
  for (;;) {
    try {
      const answer = await fetch("progress");
      if (!answer.ok) throw new Error(await answer.text());
      const state = await answer.json();
      box.hidden = false;
      [bar.max, bar.value, words.textContent] = [Math.max(1, state.planned), state.finished, state.text];
      if (state.digest !== digest) {
        const values = await fetch("values");
        if (!values.ok) throw new Error(await values.text());
        page.update(await inflate(values.body));
        digest = state.digest;
        drawHeadlines(page.values.headlines);
        drawReport(page.values);
      }
    } catch (error) {
      box.hidden = false;
      words.textContent = `The server does not answer: ${error.message}`;
    }
    await new Promise((done) => setTimeout(done, 2000));
  }
}

/** Replace the first lines, each with its beginning in bold. */
function drawHeadlines(headlines) {
  document.getElementById("headlines").replaceChildren(...headlines.map(([lead, rest]) => make("li", {}, ...(lead ? [make("b", { text: lead })] : []), rest)));
}

/** Replace the sections of the report; those that the reader opened or closed stay so. */
function drawReport({ about_sessions, sections }) {
  document.getElementById("sessions").textContent = about_sessions;
  const report = document.querySelector(".p-report");
  const known = new Map([...report.querySelectorAll("details")].map((element) => [element.querySelector("summary").textContent, element.open]));
  const build = ({ heading, columns, rows, notes, is_detail }) => {
    const head = make("tr", {}, ...columns.map((text) => make("th", { scope: "col", text })));
    const body = rows.map(([first, ...rest]) => make("tr", {}, make("th", { scope: "row", text: first }), ...rest.map((text) => make("td", { text }))));
    const table = make("div", { class: "p-scroll", tabindex: "0", role: "region", "aria-label": heading, "data-key": `table ${heading}` },
      make("table", { class: "p-table" }, make("thead", {}, head), make("tbody", {}, ...body)));
    return make("details", { open: known.get(heading) ?? !is_detail }, make("summary", { text: heading, "data-key": `section ${heading}` }),
      ...(columns.length ? [table] : []), ...notes.map((text) => make("p", { text })));
  };
  keepFocus(report, () => report.replaceChildren(report.querySelector("h2"), ...sections.map(build)));
}

/** Open all sections of the report while the page is printed. */
function openWhilePrinting() {
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll(".p-report > details:not([open])")];
    for (const section of closed) section.open = true;
  });
  addEventListener("afterprint", () => {
    for (const section of closed) section.open = false;
    closed = [];
  });
}

try {
  const values = await readBlock("values");
  const page = new ReportPage(values);
  openWhilePrinting();
  document.documentElement.dataset.ready = "true";
  if (values.served) {
    drawReport(values);
    follow(page, values.digest);
  }
} catch (error) {
  document.getElementById("explorer").textContent = `The page cannot be shown: ${error.message}`;
}
