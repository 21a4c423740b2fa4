// Built by `make js` from the modules named below, in which changes belong.

// harness/widgets/js/elements.js
var FOCUSED = /* @__PURE__ */ new Set(["button", "input", "select", "summary", "textarea"]);
function make(tag, given = {}, ...children) {
  const element = document.createElement(tag);
  if (FOCUSED.has(tag) || "tabindex" in given) element.setAttribute("data-lm-suppress-shortcuts", "true");
  const { text, on = {}, ...attributes } = given;
  if (text !== void 0) element.textContent = String(text ?? "");
  for (const [event, listener] of Object.entries(on)) element.addEventListener(
    event,
    /** @type {EventListener} */
    listener
  );
  for (const [name, value] of Object.entries(attributes)) {
    if (/^on|^srcdoc$|^style$/i.test(name)) throw new Error(`no attribute ${name}: give a listener or a class`);
    if (typeof value === "boolean") element.toggleAttribute(name, value);
    else if (value !== void 0 && value !== null) element.setAttribute(name, String(value));
  }
  element.append(...children);
  return element;
}
function draw(tag, given = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(given)) {
    if (name === "text") element.textContent = String(value);
    else if (/^on|href$|^style$/i.test(name)) throw new Error(`no attribute ${name} in a drawing`);
    else element.setAttribute(name, String(value));
  }
  element.append(...children);
  return element;
}
function keepFocus(box, act) {
  const focused = (
    /** @type {HTMLElement | null} */
    document.activeElement
  );
  const held = box.contains(focused) ? (
    /** @type {HTMLElement | null} */
    focused?.closest("[data-key]")?.dataset.key
  ) : void 0;
  act();
  if (held === void 0) return;
  const keyed = (
    /** @type {NodeListOf<HTMLElement>} */
    box.querySelectorAll("[data-key]")
  );
  const fresh = [...keyed].find((element) => element.dataset.key === held);
  if (fresh !== document.activeElement) fresh?.focus({ preventScroll: true });
}
function createRoot(el, label) {
  const root = make("section", { class: "harness-surface", "aria-label": label, "data-lm-suppress-shortcuts": "\
true" });
  keepPlainKeys(root);
  el.append(root);
  return root;
}
function keepPlainKeys(element) {
  element.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.altKey && !event.metaKey) event.stopPropagation();
  });
}
function buildHidingStyle(mark) {
  return mark && /^[0-9a-f]+$/.test(mark) ? `.harness-saved-${mark} { display: none; }` : "";
}
function enable(button, yes) {
  button.setAttribute("aria-disabled", String(!yes));
}
function isEnabled(button) {
  return button.getAttribute("aria-disabled") !== "true";
}

// harness/widgets/js/arm_marks.js
var SHAPES = {
  circle: "M-1,0A1,1 0 1,1 1,0A1,1 0 1,1 -1,0Z",
  square: "M-0.9,-0.9H0.9V0.9H-0.9Z",
  triangle: "M0,-1.05L1.05,0.85H-1.05Z",
  diamond: "M0,-1.25L1.25,0L0,1.25L-1.25,0Z",
  wedge: "M0,1.05L1.05,-0.85H-1.05Z",
  plus: "M-0.4,-1.1H0.4V-0.4H1.1V0.4H0.4V1.1H-0.4V0.4H-1.1V-0.4H-0.4Z",
  cross: "M-1.1,-0.6L-0.6,-1.1L0,-0.5L0.6,-1.1L1.1,-0.6L0.5,0L1.1,0.6L0.6,1.1L0,0.5L-0.6,1.1L-1.1,0.6L-0.5,0Z",
  star: "M0,-1.4L0.33,-0.45L1.33,-0.43L0.53,0.17L0.82,1.13L0,0.56L-0.82,1.13L-0.53,0.17L-1.33,-0.43L-0.33,-0.4\
5Z"
};
function classifyMark(mark) {
  return `h-arm-${mark.split(" ")[0]}`;
}
function drawMark(mark, x, y, radius) {
  const [, shape, half] = mark.split(" ");
  const group = draw("g", { class: `h-arm-mark ${classifyMark(mark)}`, transform: `translate(${x} ${y}) scale(${radius}\
)` });
  group.append(draw("path", { class: half ? "h-arm-outline" : "h-arm-fill", d: SHAPES[shape] }));
  if (half) group.append(draw("path", { class: `h-arm-fill h-arm-${half}`, d: SHAPES[shape] }));
  return group;
}
function makeMark(mark) {
  const svg = draw("svg", { class: "h-arm-box", viewBox: "-9 -9 18 18", "aria-hidden": "true" });
  svg.append(drawMark(mark, 0, 0, 6));
  return svg;
}

// harness/widgets/js/numbers.js
var grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
function formatNumber(value) {
  return typeof value === "number" && Number.isFinite(value) ? grouped.format(value) : "–";
}
function formatCount(count, noun) {
  return `${formatNumber(count)} ${noun}${count === 1 ? "" : "s"}`;
}
function formatPercent(share, { signed = false } = {}) {
  const percent = Math.round(100 * share) || 0;
  return `${signed && percent >= 0 ? "+" : ""}${percent} %`;
}
function formatDuration(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

// harness/widgets/js/grid_cells.js
function fillCell(cell, arm, { name, mark, planned, shade, metric, hides }, choose) {
  const finished = arm?.finished ?? 0;
  const partial = finished < planned ? " g-partial" : "";
  cell.className = `g-cell ${shade === null ? "g-empty" : `g-s${shade}`}${partial}`;
  const [value, detail] = !arm || !finished || hides ? [`${finished} of ${planned}`, "finished"] : describeValue(
  arm, metric);
  if (hides) cell.title = `${name}: ${value} finished`;
  else cell.title = `${name}: ${describeOutcomes(arm, metric)}${partial && `, ${planned - finished} of ${planned}\
 still to run`}`;
  const focused = cell.contains(document.activeElement);
  const button = make(
    "button",
    { type: "button", "aria-label": `${cell.title}. Show its trials.`, on: { click: choose } },
    make("b", {}, makeMark(mark), value),
    make("span", { text: detail })
  );
  cell.replaceChildren(button);
  if (focused) button.focus();
}
function describeValue({ finished, n = finished, succeeded = 0, share, low = 0, high = 1, text = "", interval = "" }, metric) {
  if (share === void 0) return ["0 valid", `of ${finished} finished`];
  if (metric !== "success") return [text, `n=${n}, ${interval}`];
  return [`${succeeded}/${n}`, `${formatPercent(share)} [${Math.round(100 * low)}, ${Math.round(100 * high)}]`];
}
function describeOutcomes(arm, metric) {
  if (!arm?.finished) return "no trial finished";
  const { finished, n = finished, succeeded = 0, score, text = "" } = arm;
  const parts = [`${succeeded} of ${n} succeeded`];
  if (n < finished) parts.push(`${finished - n} excluded because of infrastructure failures`);
  if (score !== void 0) parts.push(`mean score ${score.toFixed(2)}`);
  if (metric !== "success" && metric !== "score") parts.push(`${metric} ${text}`);
  return parts.join(", ");
}
function layTables(box, plan) {
  const cells = /* @__PURE__ */ new Map();
  const makeCell = (arm) => {
    if (arm === void 0) return make("td");
    const cell = make("td", { class: "g-cell g-empty" });
    cells.set(arm, cell);
    return cell;
  };
  box.replaceChildren(...plan.tables.map((table) => makeTable(table, makeCell)));
  if (plan.beside.length) {
    const rows = plan.beside.map(
      (arm) => make("tr", {}, make("th", { scope: "row", class: "g-name", text: plan.arms[arm] }), makeCell(arm))
    );
    const caption = make("caption", { text: plan.tables.length ? "arms outside the grid" : "" });
    box.append(make("table", { class: "g-heat" }, caption, make("tbody", {}, ...rows)));
  }
  return cells;
}
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
    make("tbody", {}, ...body)
  );
}

// harness/widgets/js/untrusted_text.js
var SHAPELESS = /[\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu;
function reveal(value) {
  if (typeof value === "string") return value.replace(SHAPELESS, (sign) => "	\n\r".includes(sign) ? sign : formatCode(
  sign));
  if (Array.isArray(value)) return value.map(reveal);
  if (value === null || typeof value !== "object" || ArrayBuffer.isView(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, reveal(item)]));
}
function formatCode(sign) {
  return `\\u${(sign.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`;
}

// harness/widgets/js/kernel.js
var SILENCE_MS = 1e4;
var BEAT_MS = 5e3;
var MISSED_MS = 16e3;
var RESTART_MS = 3e3;
function trySend(model, message) {
  try {
    model.send(message);
    return true;
  } catch (error) {
    console.debug(error);
    return false;
  }
}
function connect(model, listeners) {
  const whole = {};
  let have = 0;
  let answered = false;
  let last = (
    /** @type {number | null} */
    null
  );
  let items = (
    /** @type {any[]} */
    []
  );
  let [changed, skipped, frame] = [{}, 0, 0];
  const ask = () => trySend(model, { kind: "sync", have });
  const deliver = () => {
    frame = 0;
    const [newItems, newState, lost] = [items, changed, skipped];
    [items, changed, skipped] = [[], {}, 0];
    if (lost) listeners.skipped?.(lost);
    if (newItems.length) listeners.items?.(newItems);
    if (Object.keys(newState).length) listeners.state?.(newState, Object.assign(whole, newState));
  };
  const receive = (message) => {
    if (message?.kind !== "batch") return;
    const lost = last === null ? !message.whole : message.number !== last + 1;
    [last, answered] = [message.number, true];
    if (message.items.length && message.from > have + 1 && message.from === message.oldest) {
      skipped += message.from - have - 1;
      have = message.from - 1;
    }
    const gap = message.items.length > 0 && message.from > have + 1;
    if (!gap) {
      const fresh = message.items.slice(have + 1 - message.from);
      have += fresh.length;
      for (const item of fresh) items.push(reveal(item));
    }
    if (gap || lost) ask();
    Object.assign(changed, reveal(message.state));
    frame ||= requestAnimationFrame(deliver);
  };
  model.on("msg:custom", receive);
  const silence = setTimeout(() => answered || listeners.silent?.(), SILENCE_MS);
  ask();
  return () => {
    model.off("msg:custom", receive);
    clearTimeout(silence);
    cancelAnimationFrame(frame);
  };
}
function watchKernel(model, beat, { silent, heard, isOver = () => false }) {
  let heardAt = performance.now();
  let isCut = false;
  const receive = (message) => {
    heardAt = performance.now();
    isCut = false;
    heard(message);
  };
  let restart = 0;
  const suspectRestart = () => {
    isCut = !trySend(model, beat);
    clearTimeout(restart);
    restart = setTimeout(() => {
      if (isCut && !isOver()) silent(true);
    }, RESTART_MS);
  };
  model.on("msg:custom", receive);
  model.on("comm_live_update", suspectRestart);
  const timer = setInterval(() => {
    if (document.hidden || isOver()) heardAt = performance.now();
    else if (performance.now() - heardAt > MISSED_MS) silent(isCut);
    trySend(model, beat);
  }, BEAT_MS);
  return () => {
    clearInterval(timer);
    clearTimeout(restart);
    model.off("msg:custom", receive);
    model.off("comm_live_update", suspectRestart);
  };
}

// harness/widgets/js/nested_view.js
var ARRIVAL_MS = 2e3;
function scrollTo(element) {
  const observer = new ResizeObserver(() => {
    const isHigh = element.offsetHeight > window.innerHeight / 2;
    element.scrollIntoView({ block: isHigh ? "start" : "nearest" });
  });
  observer.observe(element);
  setTimeout(() => observer.disconnect(), ARRIVAL_MS);
}
function nest(model, name, box) {
  let shown = (
    /** @type {any} */
    null
  );
  const notify = (view, type) => view.luminoWidget?.processMessage({ type, isConflatable: false, conflate: () => false });
  const remove = () => {
    if (!shown) return;
    for (const type of ["before-detach", "after-detach"]) notify(shown, type);
    shown.remove();
    shown = null;
  };
  const show = async (isNew) => {
    const reference = model.get(name);
    const manager = model.widget_manager;
    remove();
    if (!reference || !manager) return;
    const view = await manager.create_view(await manager.get_model(reference.replace("IPY_MODEL_", "")));
    if (model.get(name) !== reference) {
      view.remove();
      return;
    }
    shown = view;
    box.replaceChildren(view.el);
    notify(view, "after-attach");
    if (isNew) scrollTo(view.el);
  };
  const showNew = () => show(true);
  model.on(`change:${name}`, showNew);
  show(false);
  return () => {
    model.off(`change:${name}`, showNew);
    remove();
  };
}

// harness/widgets/js/grid.js
var STATES = {
  new: "not started",
  running: "running",
  stopping: "stopping",
  stopped: "stopped",
  done: "done",
  failed: "failed"
};
var SHADES = 8;
var MOST_FAILURES = 300;
var CHECKS_SHOWN = 2;
var Grid = class {
  /** @type {HTMLButtonElement} */
  start = make("button", {
    type: "button",
    class: "h-primary",
    text: "Start",
    on: { click: () => this.request(this.start, "start") }
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
    on: { change: () => this.model.send({ kind: "metric", name: this.metrics.value }) }
  });
  lowest = make("span");
  highest = make("span");
  meaning = make("span");
  legend = make(
    "div",
    { class: "g-legend h-faint" },
    make("label", { class: "g-metric" }, "metric ", this.metrics),
    make("span", { class: "g-scale" }, this.lowest, ...makeShades(), this.highest),
    this.meaning
  );
  standing = make("p", { class: "g-standing", role: "status" });
  look = make("button", {
    type: "button",
    class: "g-look",
    hidden: true,
    on: { click: () => this.model.send({ kind: "look" }) }
  });
  chosen = make("section", { class: "g-chosen", "aria-label": "Trials of the selected cell", hidden: true });
  transcript = make("div", { class: "g-transcript" });
  saved = make("style");
  // hides the static form below a live view
  list = make("ul", { class: "g-failures", tabindex: "0", "aria-label": "Trials without success" });
  count = make("summary", { text: "No trial without success" });
  /**
   * @param {Model} model
   * @param {HTMLElement} el
   */
  constructor(model, el) {
    this.model = model;
    this.known = /** @type {Partial<State>} */
    {};
    this.arms = /* @__PURE__ */ new Map();
    this.failures = /* @__PURE__ */ new Map();
    this.cells = /* @__PURE__ */ new Map();
    const root = createRoot(el, "Grid of trials");
    root.classList.add("g-root");
    root.append(
      make(
        "header",
        { class: "g-head" },
        this.state,
        this.name,
        this.level,
        make("span", { class: "g-buttons" }, this.start, this.stop)
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
      this.saved
    );
    this.removeInspector = nest(model, "inspector", this.transcript);
    this.unwatch = watchKernel(
      model,
      { kind: "beat" },
      {
        silent: () => this.showSilence(),
        heard: () => this.endSilence()
      }
    );
    this.disconnect = connect(model, {
      state: (changed, whole) => this.receive(changed, whole),
      items: (items) => this.receiveItems(items),
      silent: () => this.showSilence()
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
      hides: Boolean(standing?.hides)
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
      ...plan.metrics.map(([name, label]) => make("option", { value: name, text: name, title: label }))
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
    const ends = isSuccess ? ["0 %", "100 % succeeded"] : is_share ? ["0", `1 ${name}`] : [`more ${name}`, `le\
ss ${name}`];
    [this.lowest.textContent, this.highest.textContent] = ends;
    const value = isSuccess ? "succeeded / valid trials, mean over tasks, 95 % interval" : `${label}, mean ove\
r tasks; n valid trials, 95 % interval`;
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
      const checks = failed.slice(0, CHECKS_SHOWN).map(([name2, text2]) => {
        const act = () => this.model.send({ kind: "open", trial, check: name2 });
        const about = { title: "open the compaction that lost a fact which this check needs", "data-key": `${trial}\
 ${name2}` };
        return make("button", { type: "button", class: "g-check", text: text2, ...about, on: { click: act } });
      });
      const rest = failed.length - checks.length;
      const more2 = rest > 0 ? [make("span", { class: "h-faint", text: `and ${formatNumber(rest)} more` })] : [];
      return make(
        "tr",
        {},
        make("td", {}, button),
        make("td", { text: outcome }),
        ...failed.length ? [make("td", {}, ...checks, ...more2)] : []
      );
    });
    const more = finished > trials.length ? `, the first ${formatNumber(trials.length)} of them below` : "";
    const words = finished ? "A click on a trial opens its transcript." : "No trial has finished yet.";
    const text = `${formatNumber(finished)} of ${formatCount(planned, "trial")} finished${more}. ${words}`;
    const mark = plan ? [makeMark(plan.marks[plan.arms.indexOf(name)])] : [];
    this.chosen.hidden = false;
    keepFocus(
      this.chosen,
      () => this.chosen.replaceChildren(
        make("h4", {}, ...mark, name),
        make("p", { class: "h-faint", text }),
        make("table", { class: "g-trials" }, make("tbody", {}, ...rows))
      )
    );
  }
  showFailures() {
    const failures = [...this.failures.values()];
    const [some, none] = this.known.standing?.hides ? ["crashed", "No crashed trial"] : ["without success", "N\
o trial without success"];
    this.count.textContent = failures.length ? `${formatCount(failures.length, "trial")} ${some}` : none;
    this.list.replaceChildren(
      ...failures.slice(-MOST_FAILURES).map(({ status, text, error }) => {
        const details = error ? [make("pre", { class: "h-error", text: error })] : [];
        return make("li", { class: `g-${status}` }, text, ...details);
      })
    );
  }
  showState() {
    const { state = "new", finished = 0, plan, level, failure, error, running } = this.known;
    this.state.textContent = STATES[state] ?? state;
    this.state.className = `g-state g-is-${state}`;
    const goesOn = state === "stopping" || state === "stopped" || finished && state !== "done";
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
    const rest = this.known.state === "done" ? "The run is complete and all results are stored." : `If it was \
restarted, the run has stopped and finished trials are stored: ${advice}`;
    this.alarm.textContent = `The kernel does not answer. ${rest}`;
  }
  endSilence() {
    if (!this.alarm.dataset.silent) return;
    delete this.alarm.dataset.silent;
    this.showState();
  }
};
function makeShades() {
  return Array.from({ length: SHADES }, (_, shade) => make("i", { class: `g-s${shade}` }));
}
function describeProgress({ state, finished = 0, plan, succeeded, left_seconds, limit }) {
  const parts = [`${formatNumber(finished)} of ${formatCount(plan?.trials ?? 0, "trial")} finished`];
  if (typeof succeeded === "number") parts.push(`${formatNumber(succeeded)} succeeded`);
  if (left_seconds) parts.push(`about ${formatDuration(left_seconds)} left`);
  return parts.join(", ") + (limit && state === "stopped" ? `; stopped by its limit: ${limit}` : "");
}
var grid_default = {
  /** @param {{ model: Model, el: HTMLElement }} view */
  render({ model, el }) {
    const grid = new Grid(model, el);
    return () => grid.close();
  }
};
export {
  grid_default as default
};
