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
function makeFactRow(name, text) {
  return make("tr", {}, make("th", { scope: "row", text: name }), make("td", { text }));
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
function enable(button, yes) {
  button.setAttribute("aria-disabled", String(!yes));
}
function isEnabled(button) {
  return button.getAttribute("aria-disabled") !== "true";
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

// harness/reporting/page/js/blocks.js
async function inflate(stream) {
  return reveal(JSON.parse(await new Response(stream.pipeThrough(new DecompressionStream("deflate"))).text()));
}
async function readBlock(name) {
  const text = document.getElementById(name)?.textContent ?? "";
  const bytes = Uint8Array.from(atob(text.trim()), (sign) => sign.charCodeAt(0));
  return inflate(new Blob([bytes]).stream());
}
var isReference = (row) => row.length === 2;
async function readSession(block) {
  const session = await readBlock(`block-${block}`);
  const others = new Set(session.messages.filter(isReference).map(([other]) => other));
  const tables = /* @__PURE__ */ new Map();
  await Promise.all([...others].map(async (other) => tables.set(other, (await readBlock(`block-${other}`)).messages)));
  return { ...session, messages: session.messages.map((row) => isReference(row) ? tables.get(row[0])[row[1]] :
  row) };
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
function formatTokens(tokens = 0) {
  if (tokens < 1e4) return formatNumber(tokens);
  if (tokens < 999500) return `${(tokens / 1e3).toFixed(tokens < 99950 ? 1 : 0)}K`;
  return `${(tokens / 1e6).toFixed(tokens < 9995e4 ? 1 : 0)}M`;
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

// harness/reporting/page/js/metric_values.js
function formatValue(metric, value) {
  if (value === null) return "–";
  if (metric.kind === "rate") return formatPercent(value);
  if (metric.kind === "bounded") return value.toFixed(2);
  if (metric.unit === "USD") {
    if (value !== 0 && value < 0.01) return value.toPrecision(2);
    return value.toFixed(value === 0 || value >= 0.1 ? 2 : 3);
  }
  for (
    const [unit, size] of
    /** @type {const} */
    [
      ["M", 1e6],
      ["k", 1e3]
    ]
  ) {
    if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(3))}${unit}`;
  }
  return String(Number(value.toPrecision(3)));
}
function showInterval(interval) {
  return interval === "no interval" ? "" : interval;
}
function listTicks(low, high) {
  const rough = (high - low) / 4 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((factor) => factor >= rough) ?? 10 * power;
  const ticks = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high + 1e-9 * step; index += 1) ticks.push(index *
  step || 0);
  return ticks;
}

// harness/reporting/page/js/tables.js
function makeTable({ label, key, head, rows, kind = "p-table", caption = "" }) {
  return make(
    "div",
    { class: "p-scroll", tabindex: "0", role: "region", "aria-label": label, "data-key": key },
    make(
      "table",
      { class: kind },
      ...caption ? [make("caption", { text: caption })] : [],
      make("thead", {}, make("tr", {}, ...head)),
      make("tbody", {}, ...rows)
    )
  );
}
function makeHead(texts) {
  return texts.map((text) => make("th", { scope: "col", text }));
}
var opened = /* @__PURE__ */ new Set();
function explain(part, text, hint) {
  const box = make(
    "details",
    { class: "p-how", open: opened.has(part), on: { toggle: () => box.open ? opened.add(part) : opened.delete(
    part) } },
    make("summary", { text: `How to read the ${part}`, "data-key": `how ${part}` }),
    make("p", { text })
  );
  return make("div", { class: "h-faint p-key" }, make("span", { class: "p-hint", text: hint }), box);
}

// harness/reporting/page/js/arms_table.js
var HINT = "Select an arm, or a difference, to list its trials and the queries behind its numbers.";
var OTHER_METRICS = ["retention", "cost", "score", "success", "tokens", "steps"];
var HEADINGS = /* @__PURE__ */ new Map([
  ["cost", "cost, USD"],
  ["retention", "facts kept"]
]);
function drawProgress(page, shown) {
  const { part, values } = page;
  const rows = shown.map((index) => {
    const { mark, settings, finished, excluded } = part.arms[index];
    const name = make(
      "th",
      { scope: "row" },
      makeMark(mark),
      makeArmLink(page, index),
      make("span", { class: "p-settings", text: settings })
    );
    return makeRow(page, index, name, ...[finished, excluded].map((count) => make("td", { text: formatNumber(count) })));
  });
  const all = part.arms.reduce((sum, arm) => sum + arm.finished, 0);
  const text = `${formatNumber(all)} of ${formatCount(values.planned, "planned trial")} finished; no outcomes \
are shown.`;
  page.arms.replaceChildren(
    make("h2", { text: "Progress" }),
    make("p", { text }),
    makeTable({ label: "table of arms", key: "arms", head: makeHead(["arm", "finished", "excluded"]), rows }),
    make("p", { class: "h-faint p-key", text: HINT })
  );
}
function drawArms(page, shown) {
  const columns = listColumns(page);
  const order = sortArms(page, shown, columns);
  const head = columns.map(({ key, label }) => makeSortHeading(page, key, label));
  const rows = order.map(
    (index) => makeRow(
      page,
      index,
      ...columns.map(({ cell }, place) => make(place ? "td" : "th", place ? {} : { scope: "row" }, ...cell(index)))
    )
  );
  page.arms.replaceChildren(
    make("h2", { text: "Arms" }),
    makeTable({ label: "table of arms", key: "arms", head, rows }),
    explain("table", describeColumns(page, order), HINT)
  );
}
function makeRow(page, index, ...cells) {
  return make("tr", { class: index === page.state.chosen?.arm ? "p-current" : "" }, ...cells);
}
function makeArmLink(page, index) {
  const { name } = page.part.arms[index];
  const choose = () => page.choose({ arm: index, task: null });
  return make("button", { type: "button", class: "p-link", "data-key": `arm ${name}`, text: name, on: { click: choose } });
}
function describeColumns(page, order) {
  const { part, baseline } = page;
  if (baseline === void 0)
    return `Means, with 95 % intervals about ${part.about}. Choose a baseline to see paired differences.`;
  const estimands = new Set(order.map((index) => page.findEffect(index)?.[7]).filter(Boolean));
  const about = [...estimands].join(" and ") || "nothing";
  const differences = `Differences: each arm against ${baseline}, paired by task and seed, with 95 % intervals\
 about ${about}.`;
  return `${differences} ${part.about_verdicts}`;
}
function listColumns(page) {
  const { part, metric } = page;
  const numeric = (name) => ({
    key: name,
    label: HEADINGS.get(name) ?? name,
    value: (index) => part.arms[index].cells[name][1],
    cell: (index) => makeEstimate(part.arms[index].cells[name])
  });
  const columns = [
    { key: "name", label: "arm", value: (index) => part.arms[index].name.toLowerCase(), cell: (index) => makeName(
    page, index) },
    { key: "n", label: "trials", value: (index) => part.arms[index].n, cell: (index) => makeCount(page, index) },
    numeric(metric.name)
  ];
  if (page.baseline !== void 0) {
    columns.push({
      key: "effect",
      label: `${metric.ratio ? "ratio to" : "minus"} baseline`,
      value: (index) => page.findEffect(index)?.[1] ?? null,
      cell: (index) => makeEffect(page, index)
    });
    if (metric.name !== "cost") {
      columns.push({
        key: "cost ratio",
        label: "cost ratio",
        value: (index) => page.findEffect(index, "cost")?.[1] ?? null,
        cell: (index) => makeCostRatio(page, index)
      });
    }
  }
  return [...columns, ...OTHER_METRICS.filter((name) => name !== metric.name).map(numeric)];
}
function sortArms({ state }, shown, columns) {
  const column = columns.find(({ key }) => key === state.sort);
  if (!column) return shown;
  return shown.toSorted((a, b) => {
    const [one, other] = [column.value(a), column.value(b)];
    if (one === null || other === null) return Number(one === null) - Number(other === null);
    return (one < other ? -1 : one > other ? 1 : 0) * (state.descending ? -1 : 1);
  });
}
function makeSortHeading(page, key, label) {
  const { state } = page;
  const [direction, sign] = key !== state.sort ? ["none", ""] : state.descending ? ["descending", " ▼"] : ["\
ascending", " ▲"];
  const sort = () => {
    Object.assign(state, { sort: key, descending: key === state.sort ? !state.descending : false });
    keepFocus(page.arms, () => drawArms(page, page.listShownArms()));
  };
  const given = { type: "button", class: "p-sort", "data-key": `sort ${key}`, text: `${label}${sign}`, on: { click: sort } };
  return make("th", { scope: "col", "aria-sort": direction }, make("button", given));
}
function makeEstimate([, , , , text, interval]) {
  return [make("b", { text }), make("span", { class: "p-interval", text: showInterval(interval) })];
}
function makeName(page, index) {
  const { mark, badge, settings, standing } = page.part.arms[index];
  const badges = [];
  if (index === page.state.baseline) badges.push(make("span", { class: "p-badge", text: "baseline" }));
  if (badge) badges.push(make("span", { class: "p-badge p-good", text: badge }));
  const rest = make("span", { class: "p-settings", text: settings, title: standing });
  return [makeMark(mark), makeArmLink(page, index), ...badges, rest];
}
function makeCount(page, index) {
  const { n, excluded, overflow } = page.part.arms[index];
  const notes = [];
  if (excluded) notes.push(`${formatNumber(excluded)} excluded`);
  if (overflow) notes.push(`${formatNumber(overflow)} overflowed`);
  return [make("b", { text: formatNumber(n) }), ...notes.map((text) => make("span", { class: "p-interval", text }))];
}
function makeEffect(page, index) {
  const { part, state } = page;
  if (index === state.baseline) return [make("span", { class: "h-faint", text: "baseline" })];
  const effect = page.findEffect(index);
  if (!effect) {
    const { repeats } = part.arms[index];
    return [make("span", { class: "h-faint", text: repeats ? `only compared with ${repeats}` : "no shared tria\
ls" })];
  }
  const classes = { better: "p-better", worse: "p-worse", "not shown": "p-unclear" };
  const choose = () => page.choose({ arm: index, task: null, against: state.baseline });
  const key = `effect ${part.arms[index].name}`;
  const label = `${effect[4]}: trials and queries of ${part.arms[index].name} against ${page.baseline}`;
  const given = { type: "button", class: "p-number", "data-key": key, "aria-label": label, text: effect[4] };
  return [
    make("button", { ...given, on: { click: choose } }),
    make("span", { class: "p-interval", text: effect[5] }),
    make("span", { class: `p-verdict ${classes[effect[6]]}`, text: effect[8] ?? part.verdicts[effect[6]] }),
    drawForest(page, effect)
  ];
}
function makeCostRatio(page, index) {
  const effect = page.findEffect(index, "cost");
  if (!effect) return [make("span", { class: "h-faint", text: index === page.state.baseline ? "baseline" : "–" })];
  return [make("b", { text: effect[4] }), make("span", { class: "p-interval", text: effect[5] })];
}
function drawForest({ part, metric, baseline }, effect) {
  const all = baseline === void 0 ? [] : Object.values(part.effects[baseline][metric.name]);
  const measure = ([, value2, low2, high2]) => [value2, low2, high2].map((size) => size !== null && metric.ratio ?
  Math.log(size) : size);
  const sizes = all.flatMap(measure).filter((size) => size !== null && Number.isFinite(size));
  const most = Math.max(0, ...sizes.map((size) => Math.abs(size ?? 0))) || 1;
  const x = (size) => 60 + 56 * Math.max(-most, Math.min(most, size)) / most;
  const kind = `p-is-${effect[6].replace(" ", "-")}`;
  const svg = draw("svg", { viewBox: "0 0 120 14", class: `p-forest ${kind}`, "aria-hidden": "true" });
  svg.append(draw("line", { class: "p-zero", x1: 60, x2: 60, y1: 0, y2: 14 }));
  const [value, low, high] = measure(effect);
  if (low !== null && high !== null) svg.append(draw("line", { class: "p-range", x1: x(low), x2: x(high), y1: 7,
  y2: 7 }));
  if (value !== null) svg.append(draw("circle", { class: "p-middle", cx: x(value), cy: 7, r: 3.5 }));
  return svg;
}

// harness/reporting/page/js/cells.js
function drawCells(page, shown) {
  const { part, metric, state } = page;
  const byAxes = part.tables.length > 0 && state.layout !== "tasks";
  const heading = `${metric.name} by ${byAxes ? "axes" : "arm and task"}`;
  const title = make("h2", { text: heading[0].toUpperCase() + heading.slice(1) });
  if (!byAxes && !part.task_cells) {
    const text = "Too many arms and tasks for cells; the table below lists the arms.";
    page.grid.replaceChildren(title, make("p", { class: "h-faint", text }));
    return;
  }
  const isPaired = page.baseline !== void 0 && (byAxes || findTaskEffects(page) !== void 0);
  const tables = byAxes ? part.tables.map((table) => buildAxisTable(page, table, shown)) : [buildTaskTable(page,
  shown)];
  const boxes = tables.map((table) => makeHeatMap(page, table, table.title || heading, isPaired ? "g-d" : "g-s"));
  const key = isPaired ? describeDifferences(page, byAxes) : describeValues(page, byAxes);
  page.grid.replaceChildren(
    title,
    make("div", { class: "g-heats" }, ...boxes),
    explain("cells", key, "Click a cell to list its trials.")
  );
}
function describeDifferences({ metric, baseline, part }, byAxes) {
  const kind = metric.ratio ? "ratio" : "difference";
  if (byAxes)
    return `Each cell: ${kind} to ${baseline}, its 95 % interval about ${part.about}, pairs. Orange: lower, bl\
ue: higher.`;
  const cell = `Each cell: ${kind} to ${baseline} on the task, its 95 % interval about this one task, pairs.`;
  return `${cell} Orange: lower, blue: higher. Row of the baseline: its values.`;
}
function describeValues({ metric, part }, byAxes) {
  const { low, high } = part.shades[byAxes ? "arms" : "tasks"][metric.name];
  const about = byAxes ? part.about : "this one task";
  const ends = `Dark: ${formatValue(metric, low)}, yellow: ${formatValue(metric, high)}.`;
  return `Each cell: mean, 95 % interval about ${about}, trials. ${ends}`;
}
function makeHeatMap(page, table, label, colours) {
  const rows = table.rows.map(({ name, mark, cells }) => {
    const drawn = cells.map((cell, place) => {
      if (cell === null) return make("td", { class: "g-cell g-empty", text: "–" });
      const key = `cell ${JSON.stringify([table.title, name, table.columns[place]])}`;
      const count = cell.n === void 0 ? "" : `, n ${cell.n}`;
      const words = `${name}, ${table.columns[place]}: ${cell.text}${cell.detail && ` ${cell.detail}`}${count}`;
      const button = make(
        "button",
        { type: "button", "data-key": key, title: words, on: { click: () => page.choose(cell.target) } },
        make("b", { text: cell.text }),
        make("span", { text: cell.detail }),
        ...cell.n === void 0 ? [] : [make("span", { text: ` n ${cell.n}` })]
      );
      return make("td", { class: `g-cell ${cell.shade === null ? "g-empty" : `${colours}${cell.shade}`}` }, button);
    });
    return make("tr", {}, make("th", { scope: "row", class: "g-name" }, ...mark ? [makeMark(mark)] : [], name),
    ...drawn);
  });
  const head = makeHead([table.corner, ...table.columns]);
  return makeTable({ label, key: `cells ${table.title}`, head, rows, kind: "g-heat", caption: table.title });
}
function buildAxisTable(page, { title, down, across, columns, rows, cells }, shown) {
  const build = (index) => {
    if (!shown.includes(index)) return null;
    return page.baseline === void 0 ? buildArmCell(page, index) : buildEffectCell(page, index, page.baseline);
  };
  const corner = `${down} ↓  ${across} →`;
  return { title, corner, columns, rows: rows.map((name, row) => ({ name, mark: "", cells: cells[row].map(build) })) };
}
function buildArmCell({ part, state }, index) {
  const { shades } = part.shades.arms[state.metric];
  return buildCell(part.arms[index].cells[state.metric], { arm: index, task: null }, shades[index]);
}
function buildEffectCell(page, index, baseline) {
  const { part, state } = page;
  const target = { arm: index, task: null };
  const shade = part.shades.effects[baseline][state.metric][index] ?? null;
  if (index === state.baseline) return { target, text: "baseline", detail: "", shade };
  return buildCell(page.findEffect(index), target, shade);
}
function findTaskEffects({ part, baseline, state }) {
  return baseline === void 0 ? void 0 : part.task_effects[baseline]?.[state.metric];
}
function buildTaskTable(page, shown) {
  const { part, state, baseline } = page;
  const [cells, effects] = [part.task_cells?.[state.metric] ?? [], findTaskEffects(page)];
  const differences = effects && baseline !== void 0 ? part.shades.task_effects[baseline][state.metric] : void 0;
  const build = (index, task) => {
    const [cell, target] = [cells[index][task], { arm: index, task: part.tasks[task] }];
    if (!cell) return null;
    if (!effects || !differences) return buildCell(cell, target, part.shades.tasks[state.metric].shades[index][task]);
    return buildCell(index === state.baseline ? cell : effects[index]?.[task], target, differences[index]?.[task] ??
    null);
  };
  const rows = shown.map((index) => {
    const { name, mark } = part.arms[index];
    return { name, mark, cells: part.tasks.map((_, task) => build(index, task)) };
  });
  return { title: "", corner: "arm", columns: part.tasks, rows };
}
function buildCell(estimate, target, shade) {
  if (!estimate) return { target, text: "–", detail: "no pairs", shade: null };
  const [n, , , , text, interval] = estimate;
  return { target, text, detail: showInterval(interval), n, shade };
}

// harness/reporting/page/js/cost_chart.js
var MAX_CHART_LABELS = 14;
var [WIDTH, HEIGHT] = [640, 560];
var FRAME = { left: 70, right: WIDTH - 16, top: 14, bottom: HEIGHT - 44 };
function drawChart(page, shown) {
  const upright = page.state.metric === "cost" ? page.findMetric("score") : page.metric;
  const cost = page.findMetric("cost");
  const points = listPoints(page, shown, upright.name);
  const title = make("h2", { text: `Cost and ${upright.name} of each arm` });
  if (!points.length) {
    page.chart.replaceChildren(title, make("p", { class: "h-faint", text: "No arm has both a cost and a value." }));
    return;
  }
  const bounds = upright.kind === "amount" ? [0, Infinity] : [-0.02, 1.02];
  const across = createScale(
    points.flatMap(({ x }) => x),
    [0, Infinity],
    [FRAME.left, FRAME.right]
  );
  const upwards = createScale(
    points.flatMap(({ y }) => y),
    bounds,
    [FRAME.bottom, FRAME.top]
  );
  const [px, py] = [across.place, upwards.place];
  const front = page.part.fronts[upright.name].flatMap((index) => points.filter((point) => point.index === index));
  const corners = front.flatMap(({ x, y }, place) => [...place ? [[x[0], front[place - 1].y[0]]] : [], [x[0], y[0]]]);
  const line = corners.map(([x, y]) => `${px(x)},${py(y)}`).join(" ");
  const isNamed = (point) => front.includes(point) || point.arm.badge !== "" || isChosen(page, point) || isBaseline(
  page, point);
  const named = points.length <= MAX_CHART_LABELS ? points : points.filter(isNamed);
  const labels = named.map(({ index, arm, x, y }) => ({ index, text: arm.label, x: px(x[0]), y: py(y[0]) }));
  const label = `Chart: ${upright.label} over ${cost.label} of ${formatCount(points.length, "arm")}`;
  const svg = draw(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${label}; the table of arms has the same \
values.` },
    ...drawAxes(across, cost, upwards, upright),
    ...corners.length > 1 ? [draw("polyline", { class: "p-front", points: line })] : [],
    ...points.map((point) => drawPoint(page, point, upright, px, py)),
    ...placeLabels(
      page,
      labels,
      points.map(({ x, y }) => [px(x[0]), py(y[0])])
    )
  );
  addHover(svg);
  const key = [
    `Point: one arm, with 95 % intervals about ${page.part.about}.`,
    corners.length > 1 ? "Dashed: Pareto front: no other arm is better and no dearer, or cheaper and no worse." :
    "",
    page.state.baseline >= 0 ? "Ring: baseline." : "",
    "Colours and shapes are those of the figures.",
    named.length < points.length ? "Names: the front, the baseline and the chosen arm; the others are in the t\
able." : ""
  ];
  page.chart.replaceChildren(title, svg, explain("chart", key.filter(Boolean).join(" "), "Click a point to lis\
t its trials."));
}
function listPoints(page, shown, metric) {
  return shown.flatMap((index) => {
    const arm = page.part.arms[index];
    const [[, x, ...xEnds], [, y, ...yEnds]] = [arm.cells.cost, arm.cells[metric]];
    return x === null || y === null ? [] : [{ index, arm, x: [x, xEnds[0], xEnds[1]], y: [y, yEnds[0], yEnds[1]] }];
  });
}
function isBaseline(page, point) {
  return point.index === page.state.baseline;
}
function isChosen(page, point) {
  return point.index === page.state.chosen?.arm;
}
function createScale(values, bounds, places) {
  const known = values.filter((value) => value !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const margin = 0.07 * (high - low || Math.abs(high) || 1);
  const [first, last] = [Math.max(bounds[0], low - margin), Math.min(bounds[1], high + margin)];
  const place = (value) => places[0] + (value - first) / (last - first) * (places[1] - places[0]);
  return { ticks: listTicks(first, last), place };
}
function drawAxes(across, cost, upwards, upright) {
  const { left, right, top, bottom } = FRAME;
  const rows = nameTicks(upwards.ticks, upright).flatMap(([tick, text]) => {
    const y = upwards.place(tick);
    return [
      draw("line", { class: "p-rule", x1: left, x2: right, y1: y, y2: y }),
      draw("text", { class: "p-tick", x: left - 6, y: y + 4, "text-anchor": "end", text })
    ];
  });
  const columns = nameTicks(across.ticks, cost).flatMap(([tick, text]) => {
    const x = across.place(tick);
    return [
      draw("line", { class: "p-rule", x1: x, x2: x, y1: top, y2: bottom }),
      draw("text", { class: "p-tick", x, y: bottom + 16, "text-anchor": "middle", text })
    ];
  });
  const turned = `translate(14 ${(top + bottom) / 2}) rotate(-90)`;
  return [
    ...rows,
    ...columns,
    draw("text", { class: "p-axis", x: (left + right) / 2, y: HEIGHT - 6, "text-anchor": "middle", text: cost.
    label }),
    draw("text", { class: "p-axis", "text-anchor": "middle", transform: turned, text: upright.label })
  ];
}
function nameTicks(ticks, metric) {
  const named = ticks.map((tick) => (
    /** @type {const} */
    [tick, formatValue(metric, tick)]
  ));
  return named.filter(([, text], place) => !place || text !== named[place - 1][1]);
}
function drawPoint(page, point, upright, px, py) {
  const [[x, xLow, xHigh], [y, yLow, yHigh]] = [point.x, point.y];
  const at = { cx: px(x), cy: py(y) };
  const { name, mark, cells } = point.arm;
  const [value, cost] = [cells[upright.name], cells.cost].map(([, , , , text, interval]) => `${text} ${interval}`);
  const kinds = [classifyMark(mark), isBaseline(page, point) && "p-baseline", isChosen(page, point) && "p-chos\
en"];
  const words = `${name}: ${upright.name} ${value}, cost ${cost} USD per trial, n ${cells[upright.name][0]}`;
  const group = draw("g", { class: ["p-point", ...kinds].filter(Boolean).join(" "), "data-words": words });
  if (xLow !== null && xHigh !== null)
    group.append(draw("line", { class: "p-bar", x1: px(xLow), x2: px(xHigh), y1: at.cy, y2: at.cy }));
  if (yLow !== null && yHigh !== null)
    group.append(draw("line", { class: "p-bar", x1: at.cx, x2: at.cx, y1: py(yLow), y2: py(yHigh) }));
  if (isBaseline(page, point)) group.append(draw("circle", { class: "p-ring", ...at, r: 9 }));
  if (isChosen(page, point)) group.append(draw("circle", { class: "p-halo", ...at, r: 11.5 }));
  group.append(
    drawMark(mark, at.cx, at.cy, 5.5),
    draw("circle", { class: "p-hit", ...at, r: 13 }),
    draw("title", { text: words })
  );
  group.addEventListener("click", () => page.choose({ arm: point.index, task: null }));
  return group;
}
function addHover(svg) {
  const readout = draw("text", { class: "p-readout", x: FRAME.right, y: FRAME.top, "text-anchor": "end", text: "" });
  svg.append(readout);
  for (
    const group of
    /** @type {NodeListOf<SVGGElement>} */
    svg.querySelectorAll(".p-point")
  ) {
    group.addEventListener("pointerenter", () => {
      group.classList.add("p-hovered");
      readout.textContent = group.dataset.words ?? "";
    });
    group.addEventListener("pointerleave", () => {
      group.classList.remove("p-hovered");
      readout.textContent = "";
    });
  }
}
function placeLabels(page, labels, dots) {
  const taken = dots.map(([x, y]) => (
    /** @type {Box} */
    [x - 7, y - 7, x + 7, y + 7]
  ));
  return labels.map((label) => {
    const lines = label.text.split("\n");
    const best = choosePlace(label, lines, taken);
    taken.push(best.box);
    const text = draw("text", { class: "p-label", x: best.x, y: best.y, "text-anchor": best.anchor });
    text.append(...lines.map((line, place) => draw("tspan", { x: best.x, dy: place ? 13 : 0, text: line })));
    text.addEventListener("click", () => page.choose({ arm: label.index, task: null }));
    return text;
  });
}
function choosePlace({ x, y }, lines, taken) {
  const [width, below] = [6.3 * Math.max(...lines.map((line) => line.length)) + 4, 13 * (lines.length - 1)];
  const places = [-9, 14, -22, 27, -35, 40, 3].flatMap((shift) => [
    { x: x + 11, y: y + shift, anchor: "start", left: x + 11 },
    { x: x - 11, y: y + shift, anchor: "end", left: x - 11 - width },
    { x, y: y + shift, anchor: "middle", left: x - width / 2 }
  ]);
  const rated = places.map((place, index) => {
    const box = [place.left, place.y - 11, place.left + width, place.y + below + 4];
    const covered = taken.reduce((sum, other) => sum + measureOverlap(box, other), 0);
    return { ...place, box, score: 50 * measureOutside(box) + covered + index };
  });
  return rated.reduce((best, one) => one.score < best.score ? one : best);
}
function measureOverlap(a, b) {
  const width = Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0]));
  return width * Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1]));
}
function measureOutside([left, top, right, bottom]) {
  const beyond = [FRAME.left - left, right - FRAME.right, FRAME.top - top, bottom - FRAME.bottom];
  return beyond.reduce((sum, length) => sum + Math.max(0, length), 0);
}

// harness/reporting/page/js/story_chart.js
var [WIDTH2, PANEL, GAP] = [640, 190, 34];
var FRAME2 = { left: 46, right: WIDTH2 - 122, top: 46 };
var NOTE_CHARACTERS = 44;
function drawStory(page) {
  const { story } = page.part;
  page.story.hidden = !story || page.values.is_withheld;
  if (!story || page.values.is_withheld) return;
  const [lost, kept] = story.sides;
  const opens = story.sides.map(
    (side) => make("button", {
      type: "button",
      "data-key": `story ${side.arm}`,
      text: `Open the session of ${side.arm}`,
      on: { click: () => page.openTrial(side.trial, side.has_failed ? story.check : "") }
    })
  );
  page.story.replaceChildren(
    make("h2", { text: story.title }),
    make("p", { class: "p-key h-faint", text: `${story.task}, seed ${story.seed}. Check: ${story.check}.` }),
    drawPanels(story),
    make("p", { class: "p-story-words", text: `${describe(lost)} ${describe(kept)}` }),
    make("div", { class: "p-story-open p-hint" }, ...opens),
    make("p", { class: "p-key h-faint", text: `${story.example}. ▼: compaction. Height: tokens that the model \
sees.` })
  );
}
function describe({ arm, fate, round_step, use, use_step, has_failed }) {
  const end = has_failed ? "and the check fails" : "and the check passes";
  return `${arm}: at step ${round_step}, ${fate}; at step ${use_step} it ${use}, ${end}.`;
}
function drawPanels(story) {
  const last = Math.max(...story.sides.map(({ steps }) => steps[steps.length - 1][0]));
  const most = Math.max(...story.sides.flatMap(({ steps }) => steps.flatMap(([, tokens, before]) => [tokens, before ??
  0])));
  const height = 2 * (PANEL + GAP) + 12;
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH2} ${height}`, role: "img", "aria-label": `${story.title}; to\
ld below.` });
  for (const [place, side] of story.sides.entries()) svg.append(drawPanel(side, place * (PANEL + GAP), last, most));
  svg.append(
    draw("text", { class: "p-axis", x: (FRAME2.left + FRAME2.right) / 2, y: height - 2, "text-anchor": "middle",
    text: "step" })
  );
  return svg;
}
function drawPanel(side, top, last, most) {
  const bottom = top + PANEL;
  const x = (step) => FRAME2.left + (FRAME2.right - FRAME2.left) * step / last;
  const y = (tokens) => bottom - (bottom - top - FRAME2.top - 10) * tokens / most;
  const group = draw("g", { class: `p-story ${classifyMark(side.mark)} ${side.has_failed ? "p-story-bad" : "p-\
story-good"}` });
  for (const tick of listTicks(0, most)) {
    group.append(
      draw("line", { class: "p-rule", x1: FRAME2.left, x2: FRAME2.right, y1: y(tick), y2: y(tick) }),
      draw("text", { class: "p-tick", x: FRAME2.left - 5, y: y(tick) + 4, "text-anchor": "end", text: formatTokens(
      tick) })
    );
  }
  for (const tick of listTicks(0, last)) {
    group.append(
      draw("text", { class: "p-tick", x: x(tick), y: bottom + 15, "text-anchor": "middle", text: formatNumber(
      tick) })
    );
  }
  group.append(draw("text", { class: "p-story-arm", x: FRAME2.left, y: top + 14, text: side.arm }));
  const points = side.steps.flatMap(([step, tokens, before]) => [
    ...before === null ? [] : [`${x(step)},${y(before)}`],
    `${x(step)},${y(tokens)}`
  ]);
  group.append(draw("polyline", { class: "p-story-line", points: points.join(" ") }));
  for (const [step, , before] of side.steps) {
    if (before !== null && step !== side.round_step) group.append(drawDrop(x(step), y(before), 4, "p-story-dro\
p"));
  }
  const [loss, use] = [side.round_step, side.use_step].map((step) => findStep(side, step));
  const height = y(loss[2] ?? loss[1]);
  group.append(
    drawDrop(x(loss[0]), height, 8, "p-story-mark"),
    ...drawNote(`step ${side.round_step}: ${side.fate}`, x(loss[0]) + 10, height - 12, true),
    draw("line", { class: "p-story-lead", x1: x(use[0]), x2: x(use[0]), y1: y(use[1]), y2: bottom - 12 }),
    drawUse(x(use[0]), y(use[1]), side.has_failed),
    ...drawNote(`step ${side.use_step}: ${side.use}`, x(use[0]) + 5, bottom - 6, false)
  );
  const end = side.steps[side.steps.length - 1];
  const verdict = side.has_failed ? "✕ check failed" : "● check passed";
  group.append(draw("text", { class: "p-story-end", x: x(end[0]) + 5, y: y(end[1]) + 4, text: verdict }));
  addHover2(group, side, { x, top: top + 22, bottom });
  return group;
}
function findStep({ steps }, step) {
  return steps.find(([number]) => number === step) ?? steps[steps.length - 1];
}
function drawDrop(x, y, size, kind) {
  return draw("path", { class: kind, d: `M${x - size},${y - 1.5 * size}h${2 * size}l${-size},${1.5 * size}z` });
}
function drawUse(x, y, hasFailed) {
  if (!hasFailed) return draw("circle", { class: "p-story-mark", cx: x, cy: y, r: 6 });
  return draw("path", { class: "p-story-cross", d: `M${x - 6},${y - 6}l12,12m0,-12l-12,12` });
}
function drawNote(text, x, y, wraps) {
  const lines = wraps ? wrap(text) : [text];
  return lines.map(
    (line, place) => draw("text", { class: "p-story-note", x, y: y - 14 * (lines.length - 1 - place), text: line })
  );
}
function wrap(text) {
  const lines = [];
  for (const word of text.split(" ")) {
    const line = lines.length ? `${lines[lines.length - 1]} ${word}` : word;
    if (lines.length && line.length <= NOTE_CHARACTERS) lines[lines.length - 1] = line;
    else lines.push(word);
  }
  return lines;
}
function addHover2(group, side, { x, top, bottom }) {
  const line = draw("line", { class: "p-story-pointer", y1: top, y2: bottom, visibility: "hidden" });
  const words = draw("text", { class: "p-story-readout", x: FRAME2.right, y: top - 8, "text-anchor": "end", text: "" });
  const area = draw("rect", { class: "p-hit", x: FRAME2.left, y: top, width: FRAME2.right - FRAME2.left, height: bottom -
  top });
  group.append(line, words, area);
  area.addEventListener("pointermove", (event) => {
    const box = area.getBoundingClientRect();
    const share = (event.clientX - box.left) / (box.width || 1);
    const wanted = FRAME2.left + share * (FRAME2.right - FRAME2.left);
    const near = side.steps.reduce((best, one) => Math.abs(x(one[0]) - wanted) < Math.abs(x(best[0]) - wanted) ?
    one : best);
    const [step, tokens, before] = near;
    for (const name of ["x1", "x2"]) line.setAttribute(name, String(x(step)));
    line.setAttribute("visibility", "visible");
    const dropped = before === null ? "" : `, compacted from ${formatNumber(before)}`;
    words.textContent = `step ${step}: ${formatNumber(tokens)} tokens${dropped}`;
  });
  area.addEventListener("pointerleave", () => {
    line.setAttribute("visibility", "hidden");
    words.textContent = "";
  });
}

// harness/widgets/js/copy_button.js
var SHOWN_MS = 1500;
var END_CHARACTERS = 6;
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = make("textarea", { "aria-hidden": "true", tabindex: "-1" });
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
}
function makeCopyButton(text, label) {
  const button = make("button", { type: "button", class: "h-copy", text: "copy", "aria-label": `copy ${label}` });
  button.addEventListener("click", async () => {
    await copy(text);
    button.focus({ preventScroll: true });
    button.textContent = "copied";
    setTimeout(() => {
      button.textContent = "copy";
    }, SHOWN_MS);
  });
  return button;
}
function makeSessionId(id, noun = "session") {
  const isShort = id.length <= 2 * END_CHARACTERS;
  const short = isShort ? id : `…${id.slice(-END_CHARACTERS)}`;
  return make(
    "span",
    { class: "h-id", title: id },
    `${noun} ${short} `,
    ...isShort ? [] : [makeCopyButton(id, `the ${noun} id`)]
  );
}

// harness/widgets/js/autopsy.js
var HEADS = ["before", "what the policy did", "view after", "first consequence"];
var WORD_HEADS = [...HEADS.slice(0, 3), "later"];
var SURVIVAL_HEADS = ["kind", "in evicted messages", "if nothing is kept", "extractive stand-in", "in view aft\
er"];
var SURVIVAL_NOTE = "Words of the evicted messages in the view after the compaction, beside stand-ins for its \
summary: one that keeps nothing, and the beginnings of the evicted messages cut to the summary's length. A sum\
mary that keeps everything keeps them all.";
var ROWS_SHOWN = 12;
var KEPT_SHOWN = 3;
function showAutopsy(box, autopsy, asked, acts) {
  const { number, count, title, about, says, notice, checks } = autopsy;
  const { open, goTo } = acts;
  const button = (text, name, act) => make("button", { type: "button", text, "aria-label": name, "data-key": name,
  on: { click: act } });
  const bar = make("div", { class: "u-bar" }, make("h4", { class: "u-title", tabindex: "-1", text: title }));
  const buttons = make("span", { class: "u-buttons" });
  if (goTo) buttons.append(button("transcript here", "transcript at this compaction", () => goTo(autopsy.place)));
  if (open && number > 1) buttons.append(button("◀ previous", "autopsy of the previous compaction", () => open(
  number - 1)));
  if (open && number < count) buttons.append(button("next ▶", "autopsy of the next compaction", () => open(number +
  1)));
  if (acts.close) buttons.append(button("close", "close the autopsy", acts.close));
  bar.append(buttons);
  const lines = [make("p", { class: "h-faint u-about", text: about })];
  if (notice) lines.push(make("p", { class: "u-notice", role: "note", text: notice }));
  if (says) lines.push(make("p", { class: "u-says", text: says }));
  if (asked) lines.push(make("p", { class: "u-asked", text: asked.text }));
  const summary = autopsy.summary ? [
    make(
      "details",
      { class: "u-summary" },
      make("summary", { text: `the whole summary${autopsy.summarizer && `, by ${autopsy.summarizer}`}` }),
      make("pre", { tabindex: "0", text: autopsy.summary })
    )
  ] : [];
  const failed = checks.length ? [
    make(
      "details",
      { class: "u-checks" },
      make("summary", { text: `failed checks that need a fact lost here: ${formatNumber(checks.length)}` }),
      make("ul", {}, ...checks.map((text) => make("li", { text })))
    )
  ] : [];
  box.replaceChildren(
    bar,
    ...lines,
    ...makeTable2(autopsy, asked?.fact, acts),
    ...makeSurvival(autopsy.survival),
    ...failed,
    ...summary
  );
  box.hidden = false;
}
function makeTable2({ rows: ordered, subject }, fact, { goTo }) {
  if (!ordered.length) return [];
  const rows = [...ordered.filter((row) => row.name === fact), ...ordered.filter((row) => row.name !== fact)];
  const head = make(
    "tr",
    {},
    ...[subject, ...subject === "word" ? WORD_HEADS : HEADS].map((text) => make("th", { scope: "col", text }))
  );
  const lost = rows.filter((row) => !row.kept).length;
  const count = subject === "fact" ? Math.min(ROWS_SHOWN, lost + KEPT_SHOWN) : ROWS_SHOWN;
  const body = make("tbody", {}, ...rows.slice(0, count).map((row) => makeRow2(row, goTo)));
  const label = `${subject}s before and after the compaction`;
  const table = make("table", { class: "u-table" }, make("thead", {}, head), body);
  const scroll = make("div", { class: "u-scroll", tabindex: "0", role: "region", "aria-label": label }, table);
  const rest = rows.slice(count);
  if (!rest.length) return [scroll];
  const kept = rest.filter((row) => row.kept).length;
  const gone = subject === "word" ? "not in view" : "lost";
  const more = make("button", {
    type: "button",
    text: `show ${formatNumber(rest.length)} more: ${formatNumber(rest.length - kept)} ${gone}, ${formatNumber(
    kept)} in view`,
    on: {
      click: () => {
        body.append(...rest.map((row) => makeRow2(row, goTo)));
        more.remove();
        scroll.focus({ preventScroll: true });
      }
    }
  });
  return [scroll, more];
}
function makeSurvival(survival) {
  if (!survival.length) return [];
  const head = make("tr", {}, ...SURVIVAL_HEADS.map((text) => make("th", { scope: "col", text })));
  const rows = survival.map(
    ([kind, ...numbers]) => make("tr", {}, make("th", { scope: "row", text: kind }), ...numbers.map((one) => make(
    "td", { text: formatNumber(one) })))
  );
  const table = make("table", { class: "u-survival" }, make("thead", {}, head), make("tbody", {}, ...rows));
  const label = "survival of distinctive words by kind";
  const scroll = make("div", { class: "u-scroll", tabindex: "0", role: "region", "aria-label": label }, table);
  const note = make("p", { class: "h-faint u-about", text: SURVIVAL_NOTE });
  return [make("details", { class: "u-summary", open: "" }, make("summary", { text: label }), note, scroll)];
}
function makeRow2({ name, kind, outcome, kept, before, action, why, after, lines, place }, goTo) {
  const [first, ...rest] = lines;
  const said = ["wrong", "stale"].includes(outcome) && !kept ? make("b", { text: first }) : first;
  const link = (step) => make(
    "button",
    { type: "button", class: "u-link", "aria-label": `transcript: ${name} ${first}`, on: { click: () => goTo?.(
    step) } },
    said
  );
  const consequence = [
    goTo && place !== null ? link(place) : said,
    ...rest.map((text) => make("span", { class: "u-line", text }))
  ];
  const state = kept ? "✓ in view" : "— not in view";
  return make(
    "tr",
    { class: `u-row u-${outcome.replaceAll(" ", "-")} ${kept ? "u-kept" : "u-lost"}` },
    make("th", { scope: "row" }, name, make("small", { text: kind })),
    makeCell("before", ...makeQuote(before)),
    makeCell("what the policy did", make("span", { class: `u-chip u-is-${action}`, text: action }), why && ` ${why}`),
    makeCell("view after", make("span", { class: "u-state", text: state }), ...after ? makeQuote(after) : []),
    makeCell("first consequence", ...consequence)
  );
}
function makeCell(name, ...children) {
  return make("td", {}, make("span", { class: "u-column", "aria-hidden": "true", text: name }), make("div", {},
  ...children));
}
function makeQuote([label, before, value, after]) {
  const place = label ? [make("span", { class: "u-place h-faint", text: label })] : [];
  return [...place, make("q", {}, before, ...value ? [make("mark", { text: value })] : [], after)];
}

// harness/widgets/js/kernel.js
var SILENCE_MS = 1e4;
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

// harness/widgets/js/row_list.js
var ROW_PIXELS = 24;
var ROWS_BEYOND = 6;
var listCount = 0;
function createRowList(label, fill, choose, need) {
  listCount += 1;
  const name = `h-list-${listCount}-${Math.random().toString(36).slice(2)}`;
  const seen = make("div", { class: "h-seen" });
  const whole = make("div", { class: "h-rows-whole" }, seen);
  const element = make("div", { class: "h-rows", role: "listbox", tabindex: "0", "aria-label": label }, whole);
  const known = /* @__PURE__ */ new Map();
  let [count, chosen, frame] = [0, -1, 0];
  let [version, asked] = [
    /** @type {number | string | null} */
    null,
    ""
  ];
  const visible = () => {
    const first = Math.max(0, Math.floor(element.scrollTop / ROW_PIXELS) - ROWS_BEYOND);
    const end = Math.ceil((element.scrollTop + (element.clientHeight || 300)) / ROW_PIXELS) + ROWS_BEYOND;
    return [first, Math.max(first + 1, end)];
  };
  const makeRow5 = (index) => {
    const data = known.get(index);
    const row = data === void 0 ? { children: ["…"] } : fill(data);
    return make(
      "div",
      {
        class: `h-row ${row.class ?? ""}`,
        id: `${name}-${index}`,
        role: "option",
        "aria-selected": String(index === chosen),
        "aria-setsize": count,
        "aria-posinset": index + 1,
        on: { click: () => select(index, false) }
      },
      ...row.children
    );
  };
  const paint = () => {
    frame = 0;
    const [first, end] = visible();
    const last = Math.min(count, end);
    const indices = Array.from({ length: Math.max(0, last - first) }, (_, place) => first + place);
    seen.replaceChildren(...indices.map(makeRow5));
    seen.style.transform = `translateY(${first * ROW_PIXELS}px)`;
    if (chosen >= first && chosen < last) element.setAttribute("aria-activedescendant", `${name}-${chosen}`);
    else element.removeAttribute("aria-activedescendant");
    if (!indices.every((index) => known.has(index)) && asked !== `${version}:${first}`) {
      asked = `${version}:${first}`;
      need([first, last]);
    }
  };
  const schedulePaint = () => {
    if (!frame) frame = requestAnimationFrame(paint);
  };
  const scrollTo = (index) => {
    const [top, height] = [index * ROW_PIXELS, element.clientHeight || 300];
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + ROW_PIXELS > element.scrollTop + height) element.scrollTop = top + ROW_PIXELS - height;
  };
  const select = (index, scroll = true) => {
    if (index < 0 || index >= count) return;
    chosen = index;
    if (scroll) scrollTo(index);
    schedulePaint();
    choose(index);
  };
  element.addEventListener("scroll", schedulePaint);
  element.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(element.clientHeight / ROW_PIXELS) - 1);
    const steps = /* @__PURE__ */ new Map([
      ["ArrowDown", 1],
      ["ArrowUp", -1],
      ["PageDown", page],
      ["PageUp", -page],
      ["Home", -count],
      ["End", count]
    ]);
    const step = steps.get(event.key);
    if (step === void 0) return;
    event.preventDefault();
    event.stopPropagation();
    select(Math.min(count - 1, Math.max(0, chosen + step)));
  });
  const add = (block) => {
    for (const [place, row] of block.rows.entries()) known.set(block.first + place, row);
    schedulePaint();
  };
  const show = (block) => {
    [version, asked, count] = [block.version, "", block.count];
    known.clear();
    chosen = Math.min(chosen, count - 1);
    whole.style.height = `${count * ROW_PIXELS}px`;
    add(block);
  };
  const receive = (block) => {
    if (block.version !== version) return;
    asked = "";
    add(block);
  };
  return { element, show, receive, select, scrollTo, visible, chosen: () => chosen };
}

// harness/widgets/js/fact_strip.js
var SHOWN = 8;
var SIGNS = { right: "●", wrong: "✕", stale: "✕", needed: "●", "looked up": "○" };
var WORDS = {
  right: "used right",
  wrong: "used wrong",
  stale: "used an outdated value",
  needed: "needed",
  "looked up": "looked up"
};
function createFactStrip(choose, point) {
  const rows = make("div", { class: "s-rows" });
  const pointer = make("div", { class: "s-pointer", hidden: true });
  const [wrongWords, rightWords] = [make("span"), make("span")];
  const key = make(
    "p",
    { class: "h-faint s-key" },
    make("span", { class: "s-swatch s-seen" }),
    "in view ",
    make("span", { class: "s-swatch s-again" }),
    "in view again after a loss ",
    make("span", { class: "s-sign s-wrong", text: SIGNS.wrong }),
    wrongWords,
    make("span", { class: "s-sign s-right", text: SIGNS.right }),
    rightWords,
    make("span", { class: "s-sign s-looked", text: SIGNS["looked up"] }),
    " looked up again"
  );
  const more = make("button", {
    type: "button",
    class: "s-more",
    "data-key": "all facts",
    on: {
      click: () => {
        showsAll = !showsAll;
        draw2();
      }
    }
  });
  const element = make("div", { class: "s-strip", role: "group", "aria-label": "facts of the task" }, rows, pointer);
  const foot = make("div", { class: "s-foot" }, more, key);
  let showsAll = false;
  let known = (
    /** @type {{ strips: Strip[], steps: number[], rounds: number[], chosen: number }} */
    {
      strips: [],
      steps: [],
      rounds: [],
      chosen: -1
    }
  );
  const draw2 = () => {
    const { strips, steps, rounds, chosen } = known;
    element.hidden = foot.hidden = strips.length === 0;
    const shown = showsAll ? strips : strips.slice(0, SHOWN);
    rows.replaceChildren(...shown.map((strip) => makeRow3(strip, steps, rounds, chosen, choose, point)));
    const isReplay = strips.some(({ marks }) => marks.some(([, kind]) => kind === "needed"));
    wrongWords.textContent = isReplay ? "" : " used wrong or outdated ";
    rightWords.textContent = isReplay ? " used in the recorded session " : " used right ";
    key.classList.toggle("s-replay", isReplay);
    more.hidden = strips.length <= SHOWN;
    more.textContent = showsAll ? "show fewer facts" : `show all ${formatNumber(strips.length)} facts`;
  };
  return {
    element,
    foot,
    /**
     * Mark the step below the pointer; null marks none.
     *
     * @param {number | null} index
     */
    mark: (index) => {
      pointer.hidden = index === null;
      pointer.style.setProperty("--s-at", String(((index ?? 0) + 0.5) / Math.max(1, known.steps.length)));
    },
    /**
     * @param {Strip[]} strips
     * @param {number[]} steps Numbers of the steps.
     * @param {number[]} rounds Index of the step before which each applied compaction took place.
     * @param {number} chosen Index of the step of the compaction that is open; -1 if none is.
     */
    show: (strips, steps, rounds, chosen) => {
      known = { strips, steps, rounds, chosen };
      draw2();
    }
  };
}
function makeRow3(strip, steps, rounds, chosen, choose, point) {
  const count = Math.max(1, steps.length);
  const at = (index) => `${100 * index / count}%`;
  const bars = strip.spans.map(([start, end, visibility]) => {
    const bar = make("span", { class: visibility === "in view" ? "s-span s-seen" : "s-span s-again" });
    [bar.style.left, bar.style.width] = [at(start), at(end - start)];
    return bar;
  });
  const cuts = [...new Set(rounds)].map((index) => {
    const cut = make("span", { class: index === chosen ? "s-cut s-chosen" : "s-cut" });
    cut.style.left = at(index);
    return cut;
  });
  const marks = strip.marks.map(([index, kind, value]) => {
    const title = `${strip.name}: ${WORDS[kind]} at step ${formatNumber(steps[index])}, value ${value}`;
    const mark = make("span", { class: `s-mark s-${kind === "looked up" ? "looked" : kind}`, title, text: SIGNS[kind] });
    mark.style.left = at(index + 0.5);
    mark.addEventListener("click", (event) => {
      event.stopPropagation();
      choose(index);
    });
    return mark;
  });
  const label = describeRow(strip, steps);
  const track = make("div", { class: "s-track", role: "img", "aria-label": label }, ...bars, ...cuts, ...marks);
  const find2 = (event) => {
    const box = track.getBoundingClientRect();
    return Math.min(count - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * count)));
  };
  track.addEventListener("pointermove", (event) => {
    const index = find2(event);
    point(index, describePlace(strip, index));
  });
  track.addEventListener("pointerleave", () => point(null, ""));
  track.addEventListener("click", (event) => choose(find2(event)));
  return make(
    "div",
    { class: "s-row" },
    make("span", { class: "s-name", title: `${strip.name} (${strip.kind})`, text: strip.name, "aria-hidden": "\
true" }),
    track
  );
}
function describePlace({ name, spans, marks }, index) {
  const span = spans.find(([start, end]) => start <= index && index < end);
  const acts = marks.flatMap(([place, kind, value]) => place === index ? [`${WORDS[kind]}, value ${value}`] : []);
  return `${name}: ${[span ? span[2] : "not in view", ...acts].join("; ")}`;
}
function describeRow({ name, spans, marks }, steps) {
  const seen = spans.map(([start, end]) => `${formatNumber(steps[start])} to ${formatNumber(steps[end - 1])}`);
  const parts = [seen.length ? `in view at steps ${seen.join(", ")}` : "never in view"];
  for (
    const kind of
    /** @type {Mark[1][]} */
    ["wrong", "stale", "needed", "looked up", "right"]
  ) {
    const places = marks.flatMap(([index, one]) => one === kind ? [formatNumber(steps[index])] : []);
    if (places.length) parts.push(`${WORDS[kind]} at ${places.join(", ")}`);
  }
  return `${name}: ${parts.join("; ")}`;
}

// harness/widgets/js/timeline.js
var TIMELINE = { width: 1e3, height: 150, points: 1e3, ticks: 80, short: 12, line: 16 };
function listMarks(steps, attempts) {
  const place = new Map(steps.map((step, index) => [step, index]));
  return attempts.map(([step, before, after, status, reason, round]) => ({
    round,
    index: place.get(step) ?? steps.length - 1,
    kind: status === "applied" ? "applied" : "fruitless",
    text: `before step ${formatNumber(step)}: ${formatNumber(before)} → ${formatNumber(after)} tokens, ${status}\
: ${reason}`
  }));
}
function findNext(indices, here, way) {
  return way > 0 ? indices.find((index) => index > here) : indices.findLast((index) => index < here);
}
function buildPoints(values, steps, top) {
  const group = Math.max(1, Math.ceil(values.length / TIMELINE.points));
  const points = [];
  for (let start = 0; start < values.length; start += group) {
    let at = start;
    for (let index = start; index < Math.min(start + group, values.length); index += 1) {
      if (values[index] > values[at]) at = index;
    }
    const x = (at + 0.5) / steps * TIMELINE.width;
    points.push(`${x.toFixed(1)},${(TIMELINE.height * (1 - values[at] / top)).toFixed(1)}`);
  }
  return points.join(" ");
}
function groupRanges(indices) {
  const ranges = [];
  for (const index of indices) {
    const last = ranges.at(-1);
    if (last && last[1] === index) last[1] += 1;
    else ranges.push([index, index + 1]);
  }
  return ranges;
}
function groupLimits(limits, level) {
  const groups = [];
  for (const limit of limits.toSorted((a, b) => b.tokens - a.tokens)) {
    const last = groups.at(-1);
    if (last && level(limit) - level(last[0]) < TIMELINE.line) last.push(limit);
    else groups.push([limit]);
  }
  return groups;
}
function listPlaces(steps) {
  const size = Math.max(1, Math.ceil(steps / 6));
  return Array.from({ length: Math.ceil(steps / size) }, (_, place) => place * size);
}
function describeLines(whole, isCut, hasPinned, marks) {
  const parts = ["Solid line: tokens in view"];
  if (whole.length) {
    const end = `${formatNumber(whole.at(-1))} tokens at the end`;
    parts.push(`dotted: the whole conversation, ${end}${isCut ? ", above the chart" : ""}`);
  }
  if (hasPinned) parts.push("dashed: pinned settings");
  if (marks) parts.push(marks);
  return `${parts.join("; ")}.`;
}
function listLevels(most) {
  const rough = most / 3;
  const power = 10 ** Math.floor(Math.log10(Math.max(1, rough)));
  const size = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? power;
  return Array.from({ length: Math.floor(most / size) + 1 }, (_, place) => place * size);
}
function createTimeline(choose, openRound) {
  const { width, height } = TIMELINE;
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img" });
  const names = make("div", { class: "h-limits", "aria-hidden": "true" });
  const ticks = make("div", { class: "h-marks" });
  const levels = make("div", { class: "h-levels h-faint", "aria-hidden": "true" });
  const key = make("p", { class: "h-key h-faint" });
  const readout = make("p", { class: "h-readout h-faint" });
  const axis = make("div", { class: "h-axis h-faint", "aria-hidden": "true" });
  const pointer = make("div", { class: "h-pointer", hidden: true });
  const point = (index, text = "") => {
    pointer.hidden = index === null;
    strip.mark(index);
    readout.textContent = index === null ? "" : `${describe2(index)}${text && `; ${text}`}`;
    if (index !== null) pointer.style.left = `${100 * (index + 0.5) / steps}%`;
  };
  const strip = createFactStrip(choose, point);
  const element = make(
    "div",
    { class: "h-timeline" },
    make("div", { class: "h-chart" }, levels, make("div", { class: "h-plot" }, svg, names, ticks, pointer)),
    strip.element,
    axis,
    readout,
    strip.foot,
    key
  );
  let steps = 1;
  let describe2 = (_) => "";
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    point(Math.min(steps - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * steps))));
  });
  svg.addEventListener("pointerleave", () => point(null));
  svg.addEventListener("click", (event) => {
    const box = svg.getBoundingClientRect();
    const index = Math.floor((event.clientX - box.left) / box.width * steps);
    choose(Math.min(steps - 1, Math.max(0, index)));
  });
  const show = ({
    whole = [],
    pinned = [],
    curve,
    oversized = [],
    limits,
    marks,
    steps: numbers,
    strips = [],
    chosen = 0,
    at,
    label
  }) => {
    steps = Math.max(whole.length, curve.length, 1);
    const seen = [...curve, ...pinned, ...limits.map((limit) => limit.tokens)].reduce((most2, one) => Math.max(
    most2, one), 1);
    const most = 1.08 * Math.max(seen, Math.min(1.6 * seen, whole.at(-1) ?? 0));
    const end = whole.findIndex((tokens) => tokens > most);
    const uncut = end < 0 ? whole : whole.slice(0, end + 1);
    const isCrowded = marks.length > TIMELINE.ticks;
    const findMiddle = (index) => (index + 0.5) / steps;
    const level = (limit) => height * (1 - limit.tokens / most);
    const drawLine = (kind, values) => draw("polyline", { class: kind, points: buildPoints(values, steps, most) });
    const cursor = findMiddle(at) * width;
    svg.replaceChildren(
      ...marks.map((mark) => {
        const x = mark.index / steps * width;
        return draw("line", { class: `h-mark h-${mark.kind}`, x1: x, x2: x, y1: 0, y2: isCrowded ? TIMELINE.short :
        height });
      }),
      drawLine(
        "h-whole",
        uncut.map((tokens) => Math.min(tokens, most))
      ),
      drawLine("h-pinned", pinned),
      drawLine("h-curve", curve),
      ...limits.map((limit) => {
        const y = level(limit).toFixed(1);
        return draw("line", { class: `h-${limit.kind}`, x1: 0, x2: width, y1: y, y2: y });
      }),
      ...groupRanges(oversized).map(([first, last]) => {
        const wide = Math.max(last - first, steps / width);
        return draw("rect", { class: "h-oversized", x: first / steps * width, width: wide / steps * width, y: 0,
        height });
      }),
      draw("line", { class: "h-cursor", x1: cursor, x2: cursor, y1: 0, y2: height })
    );
    svg.setAttribute("aria-label", label);
    names.replaceChildren(
      ...groupLimits(limits, level).map((group) => {
        const name = ({ kind, name: name2, tokens }) => make("span", { class: `h-name-${kind}`, text: `${name2}\
 ${formatNumber(tokens)}` });
        const line = make("div", {}, ...group.map(name).reverse());
        line.style.top = `${100 * level(group[0]) / height}%`;
        return line;
      })
    );
    ticks.replaceChildren(
      ...(isCrowded ? [] : marks).map(({ index, kind, text, round }) => {
        const given = { type: "button", title: text, "aria-label": text, tabindex: "-1", text: "▼" };
        const act = () => openRound && round ? openRound(round, index) : choose(index);
        const isOpen = round > 0 && round === chosen ? " h-open" : "";
        const tick = make("button", { ...given, class: `h-tick h-${kind}${isOpen}`, on: { click: act } });
        tick.style.left = `${100 * index / steps}%`;
        return tick;
      })
    );
    levels.replaceChildren(
      ...listLevels(most / 1.04).map((tokens) => {
        const line = make("span", { text: tokens ? formatTokens(tokens) : "0 tokens" });
        line.style.top = `${100 * level({ tokens }) / height}%`;
        return line;
      })
    );
    axis.replaceChildren(
      ...listPlaces(steps).map((index) => {
        const tick = make("span", { text: `${index ? "" : "step "}${formatNumber(numbers[index] ?? index + 1)}` });
        tick.style.left = `${100 * findMiddle(index)}%`;
        return make("span", { class: "h-axis-place" }, tick);
      })
    );
    describe2 = (index) => {
      const here = marks.flatMap((mark) => mark.index === index ? [mark.text] : []);
      const size = index < curve.length ? `${formatCount(curve[index], "token")} in view` : "not computed yet";
      return [`step ${formatNumber(numbers[index] ?? index + 1)}: ${size}`, ...here].join("; ");
    };
    const rounds = marks.flatMap((mark) => mark.round ? [mark.index] : []);
    strip.show(strips, numbers, rounds, marks.find((mark) => chosen > 0 && mark.round === chosen)?.index ?? -1);
    element.classList.toggle("h-has-facts", strips.length > 0);
    const named = isCrowded ? "short lines at the top: compactions" : "▼ compactions";
    key.textContent = describeLines(whole, end >= 0, pinned.length > 0, marks.length ? named : "");
  };
  return { element, show };
}

// harness/widgets/js/twin_buttons.js
var chosenPolicy = "none";
function makeTwinButtons({ buttons, policies, why, about = "" }, act) {
  const select = make(
    "select",
    { "aria-label": "other policy", on: { change: () => chosenPolicy = select.value } },
    ...policies.map((name) => make("option", { value: name, text: name }))
  );
  select.value = policies.includes(chosenPolicy) ? chosenPolicy : policies[0] ?? "";
  const made = buttons.map((choice) => makeButton(choice, () => act(choice.arm)));
  const other = makeButton({ arm: "", text: "fork here with another policy:", why }, () => act(select.value));
  const reasons = /* @__PURE__ */ new Map();
  for (const { text, why: reason } of buttons) {
    if (reason) reasons.set(reason, [...reasons.get(reason) ?? [], text]);
  }
  const lines = [...reasons].map(
    ([reason, texts]) => make("p", { class: "h-faint", text: `${texts.join(", ")}: not possible, ${reason}` })
  );
  if (about) lines.unshift(make("p", { class: "h-faint", text: about }));
  const bar = make("div", { class: "t-bar" }, ...made, other, select);
  return make("div", { class: "t-twins", role: "group", "aria-label": "continue from this compaction" }, bar, ...lines);
}
function makeButton({ text, why }, act) {
  const button = make("button", {
    type: "button",
    text,
    title: why,
    on: {
      click: () => {
        if (isEnabled(button)) act();
      }
    }
  });
  enable(button, !why);
  return button;
}

// harness/widgets/js/view_requests.js
var PATIENCE_MS = 15e3;
function createRequester(model, rows = () => null) {
  const own = Math.random().toString(36).slice(2);
  let [count, timer] = [0, 0];
  let asked = (
    /** @type {string | null} */
    null
  );
  let wanted = (
    /** @type {object | null} */
    null
  );
  const sendNext = () => {
    if (asked !== null || wanted === null) return;
    count += 1;
    asked = `${own}:${count}`;
    model.send({ kind: "look", request: asked, look: wanted, rows: rows() });
    wanted = null;
    clearTimeout(timer);
    timer = setTimeout(() => {
      asked = null;
      sendNext();
    }, PATIENCE_MS);
  };
  return {
    /** @param {object} look */
    want: (look) => {
      wanted = look;
      sendNext();
    },
    /**
     * Return whether to show an answer: it answers the newest request of this page, or another page's while none is pending.
     *
     * @param {string | null} request
     */
    acceptAnswer: (request) => {
      if (request !== asked) return asked === null && wanted === null;
      asked = null;
      clearTimeout(timer);
      sendNext();
      return asked === null;
    },
    end: () => clearTimeout(timer)
  };
}

// harness/widgets/js/inspector.js
var KEYS_HELP = "keys: ← → previous and next step; page up, page down previous and next compaction; home, end \
first and last step; ↑ ↓ messages in the list";
var Inspector = class {
  place = 1;
  drawn = 0;
  name = make("span", { class: "h-faint" });
  facts = make("tbody");
  error = make("p", { class: "h-error", role: "alert" });
  line = createTimeline(
    (index) => this.goTo(index + 1),
    (round, index) => this.openRound(round, index + 1)
  );
  checks = make("details", { class: "h-more h-checks", hidden: true });
  autopsy = make("section", { class: "u-autopsy", "aria-label": "autopsy of a compaction", hidden: true });
  working = make("p", { class: "h-faint", role: "status" });
  forked = make("div", { class: "h-forked" });
  movesFocus = false;
  wantedCheck = (
    /** @type {string | null} */
    null
  );
  asked = (
    /** @type {Asked | null} */
    null
  );
  /** @type {HTMLInputElement} */
  step = make("input", {
    type: "range",
    min: 1,
    max: 1,
    step: 1,
    value: 1,
    "aria-label": "step",
    name: "step",
    on: { input: () => this.goTo(Number(this.step.value)) }
  });
  at = make("output", { class: "h-at", "aria-live": "polite" });
  stepFacts = make("tbody");
  compactions = make("div", { class: "h-compactions" });
  texts = make("div", { class: "h-texts", tabindex: "0", "aria-label": "text of the selected message", role: "\
region" });
  /**
   * @param {Channel} model
   * @param {HTMLElement} el
   */
  constructor(model, el) {
    this.model = model;
    this.known = /** @type {State} */
    {};
    this.ask = createRequester(model);
    this.list = createRowList(
      "messages of this step",
      makeRow4,
      (index) => model.send({ kind: "read", message: index }),
      (wanted) => model.send({ kind: "rows", rows: wanted })
    );
    this.root = createRoot(el, "Session inspector");
    this.root.classList.add("harness-looking");
    this.build();
    this.disconnect = connect(model, {
      state: (changed, whole) => this.receive(changed, whole),
      silent: () => {
        this.error.textContent = "The kernel does not answer. Run this cell to browse the session.";
      }
    });
  }
  close() {
    this.disconnect();
    this.ask.end();
  }
  build() {
    const button = (text, title, act) => make("button", { type: "button", text, title, "aria-label": title, on: {
    click: act } });
    this.root.append(
      make("header", { class: "h-head" }, make("strong", { text: "Session inspector" }), this.name),
      make(
        "details",
        { class: "h-more" },
        make("summary", { text: "about the session" }),
        make("table", { class: "h-facts" }, this.facts)
      ),
      this.error,
      this.checks,
      this.line.element,
      this.autopsy,
      this.working,
      make(
        "div",
        { class: "h-steps" },
        button("◀ step", "previous step", () => this.goTo(this.place - 1)),
        this.step,
        button("step ▶", "next step", () => this.goTo(this.place + 1)),
        this.at,
        button("◀ compaction", "previous compaction", () => this.jump(-1)),
        button("compaction ▶", "next compaction", () => this.jump(1))
      ),
      make("p", { class: "h-faint h-keys", text: KEYS_HELP }),
      make("table", { class: "h-facts" }, this.stepFacts),
      this.compactions,
      make("div", { class: "h-pair" }, this.list.element, this.texts),
      this.forked
    );
    this.root.tabIndex = 0;
    this.root.addEventListener("keydown", (event) => this.handleKey(event));
  }
  /** @param {KeyboardEvent} event */
  handleKey(event) {
    const target = (
      /** @type {HTMLElement} */
      event.target
    );
    if (target.matches("input, select, textarea") || event.altKey || event.ctrlKey || event.metaKey) return;
    const acts = /* @__PURE__ */ new Map([
      ["ArrowLeft", () => this.goTo(this.place - 1)],
      ["ArrowRight", () => this.goTo(this.place + 1)],
      ["PageUp", () => this.jump(-1)],
      ["PageDown", () => this.jump(1)],
      ["Home", () => this.goTo(1)],
      ["End", () => this.goTo(this.known.session.steps.length)]
    ]);
    const act = acts.get(event.key);
    if (!act) return;
    event.preventDefault();
    act();
  }
  /** @param {number} place */
  goTo(place) {
    this.place = Math.min(this.known.session.steps.length, Math.max(1, place));
    this.showPlace(this.place);
    this.ask.want({ step: this.place });
  }
  /**
   * Show the autopsy of an applied compaction, and the step before which it took place.
   *
   * @param {number} round
   * @param {number | null} place Number of another step to show; null shows that of the compaction.
   */
  openRound(round, place = null) {
    const shown = place ?? this.known.session.autopsy.rounds.find(({ number }) => number === round)?.place;
    this.movesFocus = true;
    this.asked = null;
    this.model.send({ kind: "autopsy", number: round });
    if (shown !== void 0) this.goTo(shown);
  }
  /**
   * Show the compaction that lost a fact which a failed check needs, and the step of the first consequence.
   *
   * If no compaction lost such a fact, show the list of failed checks and the last step.
   *
   * @param {string} name Name of the check; empty for the one with the earliest consequence.
   */
  openCheck(name) {
    if (!this.known.session) {
      this.wantedCheck = name;
      return;
    }
    const { autopsy, steps } = this.known.session;
    const check = name ? autopsy.checks?.find((one) => one.name === name) : findFirstConsequence(autopsy.checks ??
    []);
    if (check?.round) {
      this.openRound(check.round, check.place);
      this.asked = { text: `Failed check “${check.title}” needs ${check.says}.`, fact: check.fact };
      return;
    }
    this.goTo(check?.place ?? steps.length);
    this.checks.open = true;
    this.checks.querySelector("summary")?.focus({ preventScroll: true });
    this.checks.scrollIntoView({ block: "nearest" });
  }
  /** @param {number} place */
  showPlace(place) {
    const { steps } = this.known.session;
    this.step.value = String(place);
    this.at.textContent = `step ${formatNumber(steps[place - 1])} of ${formatNumber(steps.length)}`;
  }
  listMarks() {
    return listMarks(this.known.session.steps, this.known.session.attempts);
  }
  /** @param {number} way */
  jump(way) {
    const places = this.listMarks().map((mark) => mark.index + 1);
    const next = findNext(places, this.place, way);
    if (next !== void 0) this.goTo(next);
  }
  /**
   * @param {Partial<State>} changed
   * @param {State} whole
   */
  receive(changed, whole) {
    this.known = whole;
    if (!whole.session || !whole.step) return;
    if (changed.session) this.showSession(whole.session);
    if (this.wantedCheck !== null) {
      const name = this.wantedCheck;
      this.wantedCheck = null;
      this.openCheck(name);
    }
    const { refused } = changed;
    if (refused) this.ask.acceptAnswer(refused.request);
    if (changed.step) {
      if (this.ask.acceptAnswer(whole.step.request)) this.place = whole.step.place;
      this.draw(whole);
    }
    if (changed.autopsy !== void 0) this.showAutopsy(changed.autopsy);
    if (changed.working !== void 0) this.working.textContent = changed.working ? "continuing from the compacti\
on …" : "";
    if (refused !== void 0) this.error.textContent = refused?.text ?? "";
    if (changed.rows) this.list.receive(whole.rows);
    const { reading } = changed;
    if (reading && reading.message === this.list.chosen()) {
      this.texts.replaceChildren(make("h4", { text: reading.title }), make("pre", { text: reading.text }));
    }
  }
  /** @param {Session} session */
  showSession(session) {
    this.name.replaceChildren(" ", session.id ? makeSessionId(session.id) : session.name);
    this.step.max = String(session.steps.length);
    this.facts.replaceChildren(...session.facts.map(([name, text]) => makeFactRow(name, text)));
    this.showChecks(session.autopsy);
  }
  /** @param {SessionAutopsy} autopsy */
  showChecks({ checks, rounds }) {
    this.checks.hidden = !checks?.length;
    if (!checks?.length) return;
    const items = checks.map(({ name: id, title, detail, says, round, place }) => {
      const acts = [];
      if (round) {
        const open = () => this.openCheck(id);
        const name = `autopsy of compaction ${round}, on which ${title} rests`;
        acts.push(make("button", { type: "button", text: `compaction ${round}`, "aria-label": name, on: { click: open } }));
      }
      if (place) {
        const go = () => this.goTo(place);
        const name = `transcript at the step that decides ${title}`;
        acts.push(make("button", { type: "button", text: "transcript there", "aria-label": name, on: { click: go } }));
      }
      const facts = make("span", { class: "h-faint", text: `${detail}${detail && ". "}Facts: ${says}` });
      return make("li", {}, make("b", { text: title }), " ", ...acts, make("br"), facts);
    });
    const traced = checks.filter(({ round, recovered }) => round && !recovered).length;
    const rest = rounds.length ? `, ${formatNumber(traced)} with a fact that a compaction lost and that was no\
t used right then` : "";
    const text = `${formatCount(checks.length, "failed check")}${rest}`;
    this.checks.replaceChildren(make("summary", { text }), make("ul", { class: "h-check-list" }, ...items));
  }
  /** @param {OpenAutopsy | null} autopsy */
  showAutopsy(autopsy) {
    this.autopsy.hidden = autopsy === null;
    if (autopsy) {
      showAutopsy(this.autopsy, autopsy, this.asked ?? autopsy.asked ?? null, {
        open: (number) => this.openRound(number),
        close: () => this.closeAutopsy(),
        goTo: (place) => {
          this.goTo(place);
          this.list.element.scrollIntoView({ block: "nearest" });
        }
      });
      if (autopsy.twins) this.autopsy.append(this.makeTwins(autopsy.twins, autopsy));
      const title = (
        /** @type {HTMLElement} */
        this.autopsy.querySelector("h4")
      );
      if (this.movesFocus) title.focus({ preventScroll: true });
      if (this.movesFocus) this.line.element.scrollIntoView({ block: "start" });
    }
    this.movesFocus = false;
    if (this.known.step) this.drawLine(this.known);
  }
  /**
   * @param {Choices} choices
   * @param {OpenAutopsy} autopsy
   */
  makeTwins(choices, { number: round, compared }) {
    const act = (arm) => this.model.send(arm ? { kind: "twin", round, arm } : { kind: "compare", round });
    const buttons = makeTwinButtons(choices, act);
    if (compared) buttons.append(make("pre", { class: "t-results", tabindex: "0", text: compared }));
    return buttons;
  }
  closeAutopsy() {
    this.model.send({ kind: "autopsy", number: null });
    this.root.focus({ preventScroll: true });
  }
  /** @param {Pick<State, "session" | "step">} state */
  drawLine({ session, step }) {
    const marks = this.listMarks();
    const label = `tokens in view over ${formatCount(session.steps.length, "step")}, ${formatCount(marks.length,
    "compaction")}`;
    const { steps, curve } = session;
    const chosen = this.known.autopsy?.number ?? 0;
    const { strips } = session.autopsy;
    this.line.show({ curve, limits: listLimits(session), marks, steps, strips, chosen, at: step.place - 1, label });
  }
  /** @param {Pick<State, "session" | "step">} state */
  draw({ session, step }) {
    this.drawLine({ session, step });
    this.showPlace(step.place);
    this.stepFacts.replaceChildren(...step.facts.map(([name, text]) => makeFactRow(name, text)));
    this.list.show(step);
    if (step.place === this.drawn) return;
    this.drawn = step.place;
    this.compactions.replaceChildren(
      ...step.compactions.map((compaction) => makeCompaction(compaction, (round) => this.openRound(round, this.
      place)))
    );
    this.list.scrollTo(step.count - 1);
    this.list.select(step.answer);
  }
};
function findFirstConsequence(checks) {
  const explained = checks.filter(({ round, recovered }) => round && !recovered);
  const placed = explained.filter(({ place }) => place).sort((one, other) => (one.place ?? 0) - (other.place ??
  0));
  return placed[0] ?? explained[0];
}
function listLimits({ curve, threshold_tokens, window_tokens }) {
  const limits = [];
  if (threshold_tokens !== null) limits.push({ tokens: threshold_tokens, name: "threshold", kind: "threshold" });
  const most = curve.reduce((one, other) => Math.max(one, other), 0);
  if (window_tokens > 0 && window_tokens < 2 * most) limits.push({ tokens: window_tokens, name: "window", kind: "\
window" });
  return limits;
}
function makeCompaction({ round, title, reason, summary }, open) {
  const text = make("p", { class: "h-compacted", text: `${title}. ${reason}` });
  if (round) {
    const name = `autopsy of compaction ${round}`;
    text.append(
      " ",
      make("button", { type: "button", text: "what it lost", "aria-label": name, on: { click: () => open(round) } })
    );
  }
  if (!summary) return make("div", { class: "h-compaction" }, text);
  const details = make("details", {}, make("summary", { text: "summary" }), make("pre", { tabindex: "0", text: summary }));
  return make("div", { class: "h-compaction" }, text, details);
}
function makeRow4([kind, role, mark, text]) {
  return {
    class: `h-part-${kind}`,
    children: [
      make("span", { class: "h-kind", text: kind }),
      make("span", { class: "h-role", text: role }),
      make("span", { class: "h-new", text: mark }),
      make("span", { class: "h-label", text })
    ]
  };
}

// harness/reporting/page/js/stored_session.js
var [ROWS_BEFORE_ANSWER, ROWS_SENT] = [100, 200];
function classify(place, answer) {
  if (place < answer) return "sent";
  return place === answer ? "answer" : "result";
}
var StoredSession = class {
  /** @param {StoredBlock<Message>} block */
  constructor({ session, messages, steps, autopsies }) {
    this.autopsies = autopsies;
    this.session = session;
    this.messages = messages;
    this.steps = steps;
    this.listeners = /* @__PURE__ */ new Set();
    this.count = 0;
    this.number = 1;
  }
  get step() {
    return this.steps[this.number - 1];
  }
  /**
   * @param {string} event
   * @param {(message: object) => void} listener
   */
  on(event, listener) {
    if (event === "msg:custom") this.listeners.add(listener);
  }
  /**
   * @param {string} _event
   * @param {(message: object) => void} listener
   */
  off(_event, listener) {
    this.listeners.delete(listener);
  }
  /** @param {any} message */
  send(message) {
    if (message.kind === "sync") {
      this.deliver({ session: this.session, step: this.buildStep(null), autopsy: null, refused: null });
    } else if (message.kind === "autopsy") this.deliver({ autopsy: this.autopsies[message.number - 1] ?? null });
    else if (message.kind === "look") {
      this.number = Math.min(this.steps.length, Math.max(1, message.look.step));
      this.deliver({ step: this.buildStep(message.request) });
    } else if (message.kind === "rows") this.deliver({ rows: this.buildRows(message.rows[0], message.rows[1]) });
    else if (message.kind === "read") this.deliver({ reading: this.read(message.message) });
  }
  /** @param {object} state */
  deliver(state) {
    this.count += 1;
    const batch = { kind: "batch", number: this.count, whole: "session" in state, from: 1, oldest: 1, items: [],
    state };
    queueMicrotask(() => {
      for (const listener of this.listeners) listener(batch);
    });
  }
  /** Return the indices of the messages of the current step: those sent, the answer and the results. */
  listMessages() {
    const { sent, answer, results } = this.step;
    return [...sent.flatMap(([first, length]) => Array.from({ length }, (_, place) => first + place)), answer,
    ...results];
  }
  /** Return the place of the answer among the messages of the current step. */
  findAnswer() {
    return this.listMessages().length - 1 - this.step.results.length;
  }
  /**
   * @param {number} first
   * @param {number} end
   */
  buildRows(first, end) {
    const answer = this.findAnswer();
    const rows = this.listMessages().map((index, place) => {
      const [role, line] = this.messages[index];
      const kind = classify(place, answer);
      return [kind, role, kind === "sent" && place >= this.step.new ? "new" : "", line];
    });
    if (this.step.patch !== null) rows.push(["workspace", "", "", "changes of this step, line by line"]);
    return { version: this.number, count: rows.length, first, rows: rows.slice(first, end) };
  }
  /** @param {string | null} request */
  buildStep(request) {
    const answer = this.findAnswer();
    const { facts, compactions } = this.step;
    const first = Math.max(0, answer - ROWS_BEFORE_ANSWER);
    return { request, place: this.number, facts, answer, compactions, ...this.buildRows(first, first + ROWS_SENT) };
  }
  /** @param {number} place */
  read(place) {
    const indices = this.listMessages();
    if (place >= indices.length) return { message: place, title: "workspace, changes of this step", text: this.
    step.patch ?? "" };
    const [role, , text] = this.messages[indices[place]];
    return { message: place, title: `${classify(place, this.findAnswer())}, ${role}`, text };
  }
};

// harness/reporting/page/js/trials.js
var TRIALS_SHOWN = 60;
var CHECKS_SHOWN = 2;
function drawTrials(page, moves) {
  const { state, part, values } = page;
  if (!state.chosen) return;
  const { arm, task, against = -1 } = state.chosen;
  const { trials } = part;
  const places = [arm, ...against < 0 ? [] : [against]].flatMap((index) => listPlaces2(page, index, task));
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
      on: { click: () => openTrial(page, place, trials.failed?.[place]?.length ? "" : null) }
    });
    const numbers = metrics.map((metric) => formatValue(
      metric,
      /** @type {Size[]} */
      trials[metric.name][place]
    ));
    if (!values.is_withheld) numbers.push(formatNumber(trials.compactions[place]));
    return make(
      "tr",
      { class: trials.id[place] === state.trial ? "p-current" : "" },
      make("th", { scope: "row" }, ...against < 0 ? [] : [makeMark(part.arms[trials.arm[place]].mark)], link),
      make("td", { class: "p-text", text: trials.outcome[place] }),
      ...values.is_withheld ? [] : [makeFailedChecks(page, place)],
      ...numbers.map((text) => make("td", { text })),
      make("td", { class: "p-text", text: hasTranscript(page, place) ? "yes" : "no" })
    );
  });
  const columns = values.is_withheld ? ["state"] : ["outcome", "failed checks", ...metrics.map(({ name }) => name),
  "compactions"];
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
    on: { click: showAll }
  });
  page.trials.replaceChildren(
    heading,
    ...values.is_withheld ? [] : [makeQueries(page, arm, against), makeFailedFilter(page, failedPlaces.length,
    places.length)],
    makeTable({ label: "table of trials", key: "trials", head: makeHead(["trial", ...columns, "transcript"]), rows }),
    ...listed.length > state.limit ? [more] : []
  );
  page.trials.hidden = false;
  if (moves) {
    heading.focus({ preventScroll: true });
    page.trials.scrollIntoView({ block: "start", behavior: "auto" });
  }
}
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
      }
    }
  });
  box.checked = page.state.failedOnly;
  const text = `only trials with a failed check: ${formatNumber(failed)} of ${formatNumber(all)}`;
  return make("label", { class: "p-failed-only" }, box, " ", text);
}
function makeQueries({ part, values }, arm, against) {
  const { name, queries } = part.arms[arm];
  const known = against < 0 ? queries : part.pair_queries[part.arms[against].name]?.[arm] ?? [];
  const row = against < 0 ? name : `${name} against ${part.arms[against].name}`;
  const items = known.map(([number, sql]) => make("li", {}, make("b", { text: `${number}: ` }), make("code", {
  text: sql })));
  const text = `Run a query with harness.load(FOLDER).sql(…); harness report FOLDER --explain "${row}" runs \
all of them.`;
  return make(
    "details",
    { class: "p-how p-queries" },
    make("summary", { text: "Queries behind the numbers", "data-key": "queries" }),
    make("p", { class: "h-faint", text: known.length ? text : `${values.explain_command} "${row}" prints them.` }),
    make("ul", {}, ...items)
  );
}
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
  const more = rest > 0 ? [make("span", { class: "h-faint p-check", text: `and ${formatNumber(rest)} more` })] :
  [];
  return make("td", { class: "p-text" }, ...names, ...more);
}
function listPlaces2({ part: { trials } }, arm, task) {
  const places = [...trials.arm.keys()].filter(
    (place) => trials.arm[place] === arm && (task === null || trials.task[place] === task)
  );
  return places.sort((a, b) => {
    const [one, other] = [trials.task[a], trials.task[b]];
    return one < other ? -1 : one > other ? 1 : trials.seed[a] - trials.seed[b];
  });
}
function hasTranscript({ part: { trials }, values }, place) {
  return trials.block[place] >= 0 || values.served && trials.session[place] !== "";
}
var closeInspector = () => {
};
async function openTrial(page, place, check) {
  const { trials, arms } = page.part;
  const trial = trials.id[place];
  page.state.trial = trial;
  drawTrials(page, false);
  closeInspector();
  closeInspector = () => {
  };
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
    const session2 = await loadSession(page, place);
    if (page.state.trial !== trial) return;
    if (session2 === null) {
      const help = "This page does not contain the session. The first command serves a page with all sessions.\
 The second one reads this session; with --autopsy 1, it shows what the first compaction lost.";
      const commands = `${page.values.view_command}
${page.values.inspect_command} ${trial}`;
      box.replaceChildren(make("p", { text: help }), make("pre", { tabindex: "0", text: commands }));
      return;
    }
    box.replaceChildren();
    const inspector = new Inspector(new StoredSession(session2), box);
    closeInspector = () => inspector.close();
    if (check !== null) inspector.openCheck(check);
  } catch (error2) {
    const text = `The session cannot be read: ${/** @type {Error} */
    error2.message}`;
    box.replaceChildren(make("p", { class: "h-error", role: "alert", text }));
  }
}
async function loadSession({ part: { trials }, values }, place) {
  if (trials.block[place] >= 0) return readSession(trials.block[place]);
  if (!values.served || !trials.session[place]) return null;
  const answer = await fetch(`session/${encodeURIComponent(trials.session[place])}`);
  if (!answer.ok || !answer.body) throw new Error(await answer.text());
  return inflate(answer.body);
}

// harness/reporting/page/js/report_page.js
var ReportPage = class {
  state = {
    part: 0,
    metric: "",
    baseline: -1,
    filter: "",
    sort: "",
    descending: false,
    layout: "",
    chosen: (
      /** @type {Target | null} */
      null
    ),
    trial: "",
    limit: TRIALS_SHOWN,
    failedOnly: false
  };
  fields = make("div", { class: "p-fields" });
  about = make("p", { class: "p-about h-faint", "aria-live": "polite" });
  controls = make(
    "form",
    { class: "p-controls", "aria-label": "choices", on: { submit: (event) => event.preventDefault() } },
    this.fields,
    this.makeFilter(),
    this.about
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
    return (
      /** @type {Metric} */
      this.part.metrics.find((metric) => metric.name === name)
    );
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
        }
      }
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
      layout: ""
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
    const shows = this.values.is_withheld !== values.is_withheld;
    const { part, state } = this;
    const { baseline, chosen } = state;
    this.values = values;
    state.part = values.parts.findIndex((one) => one.level === part.level);
    if (shows || state.part < 0) {
      this.usePart(Math.max(0, state.part));
      return;
    }
    const find2 = (index) => this.part.arms.findIndex((arm) => arm.name === part.arms[index]?.name);
    const kept = find2(baseline);
    if (part.baselines.length) state.baseline = this.part.baselines.includes(kept) ? kept : -1;
    else state.baseline = this.part.baselines[0] ?? -1;
    const against = chosen?.against === void 0 ? void 0 : find2(chosen.against);
    state.chosen = chosen && find2(chosen.arm) >= 0 ? { ...chosen, arm: find2(chosen.arm), against } : null;
    this.drawControls();
    this.draw();
    drawStory(this);
    if (state.chosen) drawTrials(this, false);
    else this.trials.hidden = true;
  }
  /** @returns {Choice[]} */
  listChoices() {
    const { part, state, values } = this;
    const change = (changes) => {
      Object.assign(state, changes);
      this.draw();
    };
    const choices = [];
    if (values.parts.length > 1) {
      choices.push({
        name: "level",
        value: state.part,
        options: values.parts.map((one, index) => [index, one.level]),
        choose: (index) => keepFocus(this.controls, () => this.usePart(Number(index)))
      });
    }
    if (values.is_withheld) return choices;
    choices.push({
      name: "metric",
      value: state.metric,
      options: part.metrics.map(({ name }) => [name, name]),
      choose: (metric) => change({ metric })
    });
    choices.push({
      name: "baseline",
      value: state.baseline,
      options: [...part.baselines.map((index) => (
        /** @type {Option} */
        [index, part.arms[index].name]
      )), [-1, "none"]],
      choose: (index) => change({ baseline: Number(index) })
    });
    if (part.tables.length && part.task_cells) {
      choices.push({
        name: "cells",
        value: state.layout || "axes",
        options: Object.entries({ axes: "by axes", tasks: "by task" }),
        choose: (layout) => change({ layout })
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
      const field = (
        /** @type {HTMLSelectElement} */
        this.fields.querySelector(`select[name=${name}]`)
      );
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
    return this.baseline === void 0 ? void 0 : this.part.effects[this.baseline]?.[metric]?.[index];
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
      const other = arm === void 0 || arm === row ? void 0 : known.indexOf(row.slice(arm.length + " against ".
      length));
      if (arm === void 0 || other === -1) continue;
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
};
function makeField({ name, options, choose }) {
  const field = make(
    "select",
    { "aria-label": name, name, "data-key": `choice ${name}`, on: { change: () => choose(field.value) } },
    ...options.map(([value, text]) => make("option", { value, text }))
  );
  return make("label", { class: "p-field" }, make("span", { text: name }), field);
}

// harness/reporting/page/js/page.js
var POLL_MS = 2e3;
function find(name) {
  return (
    /** @type {HTMLElement} */
    document.getElementById(name)
  );
}
async function get(path) {
  const answer = await fetch(path);
  if (!answer.ok || !answer.body) throw new Error(await answer.text());
  return { json: () => answer.json(), body: answer.body };
}
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
      words.textContent = `The server does not answer: ${/** @type {Error} */
      error.message}`;
    }
    await new Promise((done) => setTimeout(done, POLL_MS));
  }
}
function drawReport({ standing, headlines, about_sessions, sections }) {
  [find("standing").textContent, find("sessions").textContent] = [standing, about_sessions];
  const lines = headlines.map(([lead, rest]) => make("li", {}, ...lead ? [make("b", { text: lead })] : [], rest));
  find("headlines").replaceChildren(...lines);
  const report = (
    /** @type {HTMLElement} */
    document.querySelector(".p-report")
  );
  const known = new Map(
    [...report.querySelectorAll("details")].map(({ firstElementChild, open }) => [firstElementChild?.textContent,
    open])
  );
  const drawn = sections.map((section) => makeSection(section, known.get(section.heading) ?? !section.is_detail));
  keepFocus(report, () => report.replaceChildren(
    /** @type {HTMLElement} */
    report.querySelector("h2"),
    ...drawn
  ));
}
function makeSection({ heading, columns, rows, notes, sources, bars }, open) {
  const body = rows.map(([first, ...rest], place) => {
    const given = { type: "button", class: "p-link p-source", "data-row": sources[place], "data-key": `row ${heading}\
 ${place}` };
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
    ...columns.length ? [table] : [],
    ...notes.map((text) => make("p", { text }))
  );
}
function drawBar(share) {
  return draw(
    "svg",
    { class: "p-share", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    draw("rect", { class: "p-share-all", width: 100, height: 10 }),
    draw("rect", { class: "p-share-part", width: (100 * share).toFixed(1), height: 10 })
  );
}
function listenToRows(page) {
  document.querySelector(".p-report")?.addEventListener("click", ({ target }) => {
    const row = target instanceof HTMLElement ? target.dataset.row : void 0;
    if (row !== void 0) page.openRow(row);
  });
}
function openWhilePrinting() {
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details")].filter(
      ({ open, className, parentElement }) => !open && (parentElement?.matches(".p-report") || className === "\
p-how")
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
  find("explorer").textContent = `The page cannot be shown: ${/** @type {Error} */
  error.message}`;
}
