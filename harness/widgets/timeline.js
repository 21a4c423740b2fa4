// Chart of tokens over the steps of a session: whole conversation, view, threshold, and a mark for each compaction.

const TIMELINE = { width: 1000, height: 150, points: 1000, ticks: 80, short: 12, line: 16 };

/** Return the points of a line through one value per step; for a long session each point is the largest value of several steps. */
function buildPoints(values, steps, top) {
  const group = Math.max(1, Math.ceil(values.length / TIMELINE.points));
  const made = [];
  for (let start = 0; start < values.length; start += group) {
    let at = start;
    for (let index = start; index < Math.min(start + group, values.length); index += 1) if (values[index] > values[at]) at = index;
    const x = ((at + 0.5) / steps) * TIMELINE.width;
    made.push(`${x.toFixed(1)},${(TIMELINE.height * (1 - values[at] / top)).toFixed(1)}`);
  }
  return made.join(" ");
}

/** Return ascending indices as ranges `[first, end]` of consecutive ones. */
function groupRanges(indices) {
  const found = [];
  for (const index of indices) {
    const last = found[found.length - 1];
    if (last && last[1] === index) last[1] += 1;
    else found.push([index, index + 1]);
  }
  return found;
}

/** Return the limits in descending order, in groups whose names would overlap on lines of their own. `level` gives the place of a limit. */
function groupLimits(limits, level) {
  const groups = [];
  for (const limit of [...limits].sort((a, b) => b.tokens - a.tokens)) {
    const last = groups[groups.length - 1];
    if (last && level(limit) - level(last[0]) < TIMELINE.line) last.push(limit);
    else groups.push([limit]);
  }
  return groups;
}

/** Return a sentence that explains the lines of a timeline. */
function describeLines({ whole, pinned, marks, isCut, isCrowded }) {
  const parts = ["Solid line: tokens in view"];
  if (whole.length) parts.push(`dotted: the whole conversation, ${formatNumber(whole[whole.length - 1])} tokens at the end${isCut ? ", above the chart" : ""}`);
  if (pinned.length) parts.push("dashed: pinned settings");
  if (marks.length) parts.push(isCrowded ? "short lines at the top: compactions" : "▼ compactions");
  return `${parts.join("; ")}.`;
}

/**
 * Create a timeline. A click calls `choose(index)`. `show` takes `whole`, `pinned` and `curve` (tokens by step; the first two may be
 * empty), `oversized` (indices of steps whose request exceeds the window), `limits` (`[{tokens, name, kind}]`), `marks` (`[{index, text, kind}]`), `at` (index of the current step) and `label`.
 */
function createTimeline(choose) {
  const svg = draw("svg", { viewBox: `0 0 ${TIMELINE.width} ${TIMELINE.height}`, preserveAspectRatio: "none", role: "img" });
  const names = make("div", { class: "h-limits", "aria-hidden": "true" });
  const ticks = make("div", { class: "h-marks" });
  const top = make("span", { class: "h-top h-faint" });
  const key = make("p", { class: "h-key h-faint" });
  const element = make("div", { class: "h-timeline" }, make("div", { class: "h-plot" }, svg, names, ticks, top), key);
  let steps = 1;
  svg.addEventListener("click", (event) => {
    const box = svg.getBoundingClientRect();
    const index = Math.floor(((event.clientX - box.left) / box.width) * steps);
    choose(Math.min(steps - 1, Math.max(0, index)));
  });
  const show = ({ whole, pinned = [], curve, oversized = [], limits, marks, at, label }) => {
    steps = Math.max(whole.length, curve.length, 1);
    const seen = [...curve, ...pinned, ...limits.map((limit) => limit.tokens)].reduce((most, one) => Math.max(most, one), 1);
    const most = 1.08 * Math.max(seen, Math.min(1.6 * seen, whole.length ? whole[whole.length - 1] : 0));
    const end = whole.findIndex((tokens) => tokens > most);
    const drawn = (end < 0 ? whole : whole.slice(0, end + 1)).map((tokens) => Math.min(tokens, most)); // ends where it leaves the chart
    const isCrowded = marks.length > TIMELINE.ticks; // longer lines would hide the curve
    const cursor = ((at + 0.5) / steps) * TIMELINE.width;
    const level = (limit) => TIMELINE.height * (1 - limit.tokens / most);
    svg.replaceChildren(
      ...marks.map((mark) => {
        const x = ((mark.index + 0.5) / steps) * TIMELINE.width;
        return draw("line", { class: `h-mark h-${mark.kind}`, x1: x, x2: x, y1: 0, y2: isCrowded ? TIMELINE.short : TIMELINE.height });
      }),
      draw("polyline", { class: "h-whole", points: buildPoints(drawn, steps, most) }),
      draw("polyline", { class: "h-pinned", points: buildPoints(pinned, steps, most) }),
      draw("polyline", { class: "h-curve", points: buildPoints(curve, steps, most) }),
      ...limits.map((limit) => draw("line", { class: `h-${limit.kind}`, x1: 0, x2: TIMELINE.width, y1: level(limit).toFixed(1), y2: level(limit).toFixed(1) })),
      ...groupRanges(oversized).map(([first, end]) => {
        const [x, width] = [first, Math.max(end - first, steps / TIMELINE.width)].map((place) => (place / steps) * TIMELINE.width);
        return draw("rect", { class: "h-oversized", x, width, y: 0, height: TIMELINE.height });
      }),
      draw("line", { class: "h-cursor", x1: cursor, x2: cursor, y1: 0, y2: TIMELINE.height }),
    );
    svg.setAttribute("aria-label", label);
    names.replaceChildren(
      ...groupLimits(limits, level).map((group) => {
        const name = (limit) => make("span", { class: `h-name-${limit.kind}`, text: `${limit.name} ${formatNumber(limit.tokens)}` });
        const line = make("div", {}, ...group.map(name).reverse());
        line.style.top = `${(100 * level(group[0])) / TIMELINE.height}%`;
        return line;
      }),
    );
    ticks.replaceChildren(
      ...(isCrowded ? [] : marks).map((mark) => {
        const tick = make("button", {
          type: "button", class: `h-tick h-${mark.kind}`, title: mark.text, "aria-label": mark.text, tabindex: "-1", text: "▼",
          on: { click: () => choose(mark.index) },
        });
        tick.style.left = `${(100 * (mark.index + 0.5)) / steps}%`;
        return tick;
      }),
    );
    top.textContent = formatCount(Math.round(most / 1.08), "token");
    key.textContent = describeLines({ whole, pinned, marks, isCut: end >= 0, isCrowded });
  };
  return { element, show };
}
