// Page side of GridWidget: heat map of success, progress, and trials without success.

const STATES = { new: "not started", running: "running", stopping: "stopping", stopped: "stopped", done: "done", failed: "failed" };
const SHADES = 8; // CSS classes g-s0 to g-s7
const MOST_FAILURES = 300;
const HEARTBEAT_MS = 5000;
const LOST_MS = 16000;

const formatPercent = (value) => `${Math.round(100 * value)} %`;

/** Return a duration in words, e.g. `3 min`. */
function formatDuration(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

/** Return the goodness of an arm, 0 to 1, by which its cell is coloured; null if it has no value. */
function rateArm(arm, metric, arms) {
  if (!metric || metric.name === "success") return arm?.share ?? null;
  if (typeof arm?.value !== "number") return null;
  if (metric.is_share) return arm.value;
  const values = [...arms.values()].map((arm) => arm.value).filter((value) => typeof value === "number");
  const [least, most] = [Math.min(...values), Math.max(...values)];
  // Differences within the widest interval are not shown as a strong contrast.
  const span = Math.max(most - least, ...[...arms.values()].map((arm) => arm.width ?? 0));
  const share = span > 0 ? 0.5 + (arm.value - (least + most) / 2) / span : 1;
  return metric.is_higher_better || span === 0 ? share : 1 - share;
}

/** Fill the cell of an arm whose outcomes are hidden: only the number of finished trials. A click calls `choose`. */
function fillCount(cell, arm, name, mark, planned, choose) {
  const text = `${arm?.finished ?? 0} of ${planned}`;
  cell.className = `g-cell g-empty${(arm?.finished ?? 0) < planned ? " g-partial" : ""}`;
  cell.title = `${name}: ${text} finished`;
  fillButton(cell, choose, make("b", {}, makeMark(mark), text), make("span", { text: "finished" }));
}

function fillButton(cell, choose, ...parts) {
  const focused = cell.contains(document.activeElement);
  cell.replaceChildren(make("button", { type: "button", "aria-label": `${cell.title}. Show its trials.`, on: { click: choose } }, ...parts));
  if (focused) cell.firstChild.focus();
}

/** Fill the cell of an arm: its value, trials and interval, and trials still to run. A click calls `choose`. */
function fillCell(cell, arm, name, mark, planned, choose, good, metric) {
  const { finished = 0, n = finished, succeeded = 0, share = null, low = 0, high = 1, score = null, text = "", interval = "" } = arm ?? {};
  const shade = good === null ? "g-empty" : `g-s${Math.min(SHADES - 1, Math.max(0, Math.floor(good * SHADES)))}`;
  cell.className = `g-cell ${shade}${finished < planned ? " g-partial" : ""}`;
  const other = metric && metric.name !== "success";
  const isExcluded = finished > 0 && share === null; // all finished trials ended by infrastructure failures
  const count = make("b", {}, makeMark(mark), !finished ? `0 of ${planned}` : isExcluded ? "0 valid" : other ? text : `${succeeded}/${n}`);
  const rates = other ? `n=${n}, ${interval}` : `${formatPercent(share)} [${Math.round(100 * low)}, ${Math.round(100 * high)}]`;
  const small = !finished ? "finished" : isExcluded ? `of ${finished} finished` : rates;
  const rest = finished < planned ? `, ${planned - finished} of ${planned} still to run` : "";
  const mean = `${score === null ? "" : `, mean score ${score.toFixed(2)}`}${finished && other && metric.name !== "score" ? `, ${metric.name} ${text}` : ""}`;
  cell.title = `${name}: ${finished ? `${succeeded} of ${n} succeeded${n < finished ? `, ${finished - n} excluded because of infrastructure failures` : ""}` : "no trial finished"}${mean}${rest}`;
  fillButton(cell, choose, count, make("span", { text: small }));
}

/** Create the tables of a plan and return the cell of each arm by number. */
function layTables(box, plan) {
  const cells = new Map();
  const cell = (arm) => {
    const made = make("td", { class: "g-cell g-empty" });
    cells.set(arm, made);
    return made;
  };
  box.replaceChildren();
  for (const table of plan.tables) {
    const at = new Map(table.places.map(([row, column, arm]) => [`${row}/${column}`, arm]));
    const head = make("tr", {}, make("td", { class: "h-faint", text: table.down ? `${table.down} ↓` : "" }),
      ...table.columns.map((name) => make("th", { scope: "col", text: name })));
    const rows = table.rows.map((name, row) => make("tr", {}, table.down ? make("th", { scope: "row", text: name }) : make("td"),
      ...table.columns.map((_, column) => (at.has(`${row}/${column}`) ? cell(at.get(`${row}/${column}`)) : make("td")))));
    const words = [table.title, table.across && `${table.across} →`].filter(Boolean).join("; ");
    box.append(make("table", { class: "g-heat" }, make("caption", { text: words }), make("thead", {}, head), make("tbody", {}, ...rows)));
  }
  if (plan.beside.length) {
    const rows = plan.beside.map((arm) => make("tr", {}, make("th", { scope: "row", class: "g-name", text: plan.arms[arm] }), cell(arm)));
    box.append(make("table", { class: "g-heat" }, make("caption", { text: plan.tables.length ? "arms outside the grid" : "" }), make("tbody", {}, ...rows)));
  }
  return cells;
}

function createView({ model, el }) {
  const root = createRoot(el, "Grid of trials");
  root.classList.add("g-root");
  const start = make("button", { type: "button", text: "Start" });
  const stop = make("button", { type: "button", text: "Stop" });
  const state = make("span", { class: "g-state", role: "status" });
  const name = make("b", { class: "g-title" });
  const level = make("span", { class: "g-level h-faint" });
  const bar = make("progress", { max: 1, value: 0, "aria-label": "Trials finished" });
  const words = make("span", { class: "g-words" });
  const alarm = make("div", { class: "g-alarm", role: "alert", hidden: true });
  const cautions = make("ul", { class: "g-cautions", "aria-label": "Warnings", hidden: true });
  const running = make("div", { class: "g-running h-faint" });
  const heat = make("div", { class: "g-heats" });
  const shades = Array.from({ length: SHADES }, (_, shade) => make("i", { class: `g-s${shade}` }));
  const metrics = make("select", { "aria-label": "metric", on: { change: () => model.send({ kind: "metric", name: metrics.value }) } });
  const [lowest, highest, meaning] = [make("span"), make("span"), make("span")];
  const legend = make("div", { class: "g-legend h-faint" }, make("label", { class: "g-metric" }, "metric ", metrics),
    make("span", { class: "g-scale" }, lowest, ...shades, highest), meaning);
  const standing = make("p", { class: "g-standing", role: "status" });
  const look = make("button", { type: "button", class: "g-look", hidden: true, on: { click: () => model.send({ kind: "look" }) } });
  const chosen = make("section", { class: "g-chosen", "aria-label": "Trials of the selected cell", hidden: true });
  const transcript = make("div", { class: "g-transcript" });
  const saved = make("style"); // hides the static form below a live view
  const list = make("ul", { class: "g-failures", tabindex: "0", "aria-label": "Trials without success" });
  const count = make("summary", { text: "No trial without success" });
  root.append(make("header", { class: "g-head" }, state, name, level, make("span", { class: "g-buttons" }, start, stop)),
    make("div", { class: "g-progress" }, bar, words), alarm, cautions, running, standing, look, heat, legend, chosen, transcript,
    make("details", {}, count, list), saved);

  const [arms, failures] = [new Map(), new Map()];
  let [cells, plan, whole, heardAt] = [new Map(), { arms: [], marks: [], trials: 0 }, {}, performance.now()];
  // A disabled button keeps the focus: otherwise keys would go to the notebook and could cut the cell.
  for (const [button, kind] of [[start, "start"], [stop, "stop"]]) {
    button.addEventListener("click", () => button.getAttribute("aria-disabled") !== "true" && model.send({ kind }));
  }

  const fill = (at) => {
    if (!cells.has(at)) return;
    const facts = [cells.get(at), arms.get(at), plan.arms[at], plan.marks[at], plan.planned[at], () => model.send({ kind: "trials", arm: at })];
    if (whole.standing?.hides) fillCount(...facts);
    else fillCell(...facts, rateArm(arms.get(at), whole.metric, arms), whole.metric);
  };
  const fillAll = () => plan.arms.forEach((_, at) => fill(at));
  const showMetric = (metric) => {
    metrics.value = metric.name;
    const success = metric.name === "success";
    const ends = success ? ["0 %", "100 % succeeded"] : metric.is_share ? ["0", `1 ${metric.name}`] : [`more ${metric.name}`, `less ${metric.name}`];
    [lowest.textContent, highest.textContent] = ends;
    meaning.textContent = success ? `Each cell: succeeded / valid trials, mean over tasks, 95 % interval. ${metric.about} Dashed: trials still to run.`
      : `Each cell: ${metric.label}, mean over tasks; n valid trials, 95 % interval. ${metric.about} Dashed: trials still to run.`;
    if (metric.note) meaning.textContent = metric.note;
    fillAll();
  };
  const showStanding = ({ hides, text, look: words }) => {
    standing.textContent = text;
    look.hidden = !words;
    look.textContent = words ?? "";
    legend.hidden = hides;
    fillAll();
    showFailures();
  };
  const showChosen = ({ name: arm, trials, finished, planned }) => {
    const rows = trials.map(([trial, problem, outcome]) => make("tr", {},
      make("td", {}, make("button", { type: "button", text: problem, title: `open the transcript of trial ${trial}`, "data-key": trial,
        on: { click: () => model.send({ kind: "open", trial }) } })),
      make("td", { text: outcome })));
    const more = finished > trials.length ? `, the first ${formatNumber(trials.length)} of them below` : "";
    const words = finished ? "A click on a trial opens its transcript." : "No trial has finished yet.";
    chosen.hidden = false;
    keepFocus(chosen, () => chosen.replaceChildren(make("h4", {}, makeMark(plan.marks[plan.arms.indexOf(arm)]), arm),
      make("p", { class: "h-faint", text: `${formatNumber(finished)} of ${formatCount(planned, "trial")} finished${more}. ${words}` }),
      make("table", { class: "g-trials" }, make("tbody", {}, ...rows))));
  };
  const nested = nest(model, "inspector", transcript);

  const showFailures = () => {
    const hides = whole.standing?.hides;
    const all = [...failures.values()].filter((failure) => !hides || failure.status === "crashed");
    const [some, none] = hides ? ["crashed", "No crashed trial"] : ["without success", "No trial without success"];
    count.textContent = all.length ? `${formatCount(all.length, "trial")} ${some}` : none;
    list.replaceChildren(...all.slice(-MOST_FAILURES).map((failure) => make("li", { class: `g-${failure.status}` }, failure.text,
      ...(failure.error ? [make("pre", { class: "h-error", text: failure.error })] : []))));
  };
  const showState = () => {
    const { state: now = "new", finished = 0, failure = "", error = "" } = whole;
    state.textContent = STATES[now] ?? now;
    state.className = `g-state g-is-${now}`;
    const goesOn = now === "stopping" || now === "stopped" || (finished && now !== "done");
    start.textContent = goesOn ? "Resume" : "Start";
    start.setAttribute("aria-disabled", String(["running", "stopping", "done"].includes(now)));
    stop.setAttribute("aria-disabled", String(now !== "running"));
    level.textContent = whole.level ? `level ${whole.level}` : "";
    [bar.max, bar.value] = [Math.max(1, plan.trials), finished];
    const succeeded = [...arms.values()].reduce((sum, arm) => sum + (arm.succeeded ?? 0), 0);
    words.textContent = `${formatNumber(finished)} of ${formatCount(plan.trials, "trial")} finished`
      + (whole.standing?.hides ? "" : `, ${formatNumber(succeeded)} succeeded`)
      + (whole.left_seconds ? `, about ${formatDuration(whole.left_seconds)} left` : "")
      + (whole.limit && now === "stopped" ? `; stopped by its limit: ${whole.limit}` : "");
    alarm.hidden = !(failure || error);
    alarm.textContent = failure || error;
    running.textContent = whole.running?.length ? `running: ${whole.running.join("; ")}` : "";
  };
  const receive = () => {
    heardAt = performance.now();
    if (alarm.dataset.silent) {
      delete alarm.dataset.silent;
      showState();
    }
  };
  const showSilence = () => {
    alarm.dataset.silent = "yes";
    alarm.hidden = false;
    [state.textContent, state.className] = ["no answer", "g-state g-is-failed"];
    const rest = whole.state === "done" ? "The run is complete and all results are stored."
      : `If it was restarted, the run has stopped and finished trials are stored: run the cell again and press ${start.textContent}.`;
    alarm.textContent = `The kernel does not answer. ${rest}`;
  };
  model.on("msg:custom", receive);
  const end = connect(model, {
    state(changed, all) {
      whole = all;
      if (/^[0-9a-f]+$/.test(changed.saved ?? "")) saved.textContent = `.harness-saved-${changed.saved} { display: none; }`;
      if (changed.plan) {
        plan = changed.plan;
        name.textContent = plan.name;
        cells = layTables(heat, plan);
        metrics.replaceChildren(...plan.metrics.map(([one, label]) => make("option", { value: one, text: one, title: label })));
        fillAll();
      }
      if (changed.warnings) {
        cautions.hidden = !changed.warnings.length;
        cautions.replaceChildren(...changed.warnings.map((text) => make("li", { text: `Warning: ${text}` })));
      }
      if (changed.metric || (changed.plan && all.metric)) showMetric(all.metric);
      if (changed.standing) showStanding(all.standing);
      if (changed.chosen) showChosen(all.chosen);
      showState();
    },
    items(items) {
      const compares = whole.metric && !whole.metric.is_share; // colours of amounts depend on all arms
      for (const item of items) {
        if (item.kind === "arm") {
          arms.set(item.arm, item);
          fill(item.arm);
        } else if (item.over) failures.delete(item.trial);
        else failures.set(item.trial, item);
      }
      if (compares) fillAll();
      showFailures();
      showState();
    },
    silent: showSilence,
  });
  const beat = setInterval(() => {
    if (document.hidden) heardAt = performance.now();
    else if (performance.now() - heardAt > LOST_MS) showSilence();
    trySend(model, { kind: "beat" });
  }, HEARTBEAT_MS);
  return () => {
    end();
    clearInterval(beat);
    model.off("msg:custom", receive);
    nested();
  };
}

export default { render: createView };
