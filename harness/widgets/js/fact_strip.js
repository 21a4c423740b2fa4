// Strip of a session: for each fact of the task, the steps at which the model could see it, used it, or looked it up again.

import { make } from "./elements.js";
import "./fact_strip.css";
import { formatNumber } from "./numbers.js";

/** @typedef {[start: number, end: number, visibility: "in view" | "in view again"]} Span */
/** @typedef {[index: number, kind: "right" | "wrong" | "stale" | "needed" | "looked up", value: string]} Mark */
/** @typedef {{ name: string, kind: string, spans: Span[], marks: Mark[] }} Strip */

const SHOWN = 8;
/** @type {Record<Mark[1], string>} */
const SIGNS = { right: "●", wrong: "✕", stale: "✕", needed: "●", "looked up": "○" };
/** @type {Record<Mark[1], string>} */
const WORDS = {
  right: "used right",
  wrong: "used wrong",
  stale: "used an outdated value",
  needed: "needed",
  "looked up": "looked up",
};

/**
 * Create the strip, with rows on the axis of the token curve.
 *
 * @param {(index: number) => void} choose Called with the index of a step that the reader clicks.
 * @param {(index: number | null, text: string) => void} point Called with the step below the pointer and the state of the fact
 *   there; with null when the pointer leaves the row.
 */
export function createFactStrip(choose, point) {
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
    " looked up again",
  );
  /** @type {HTMLButtonElement} */
  const more = make("button", {
    type: "button",
    class: "s-more",
    "data-key": "all facts",
    on: {
      click: () => {
        showsAll = !showsAll;
        draw();
      },
    },
  });
  const element = make("div", { class: "s-strip", role: "group", "aria-label": "facts of the task" }, rows, pointer);
  const foot = make("div", { class: "s-foot" }, more, key);
  let showsAll = false;
  let known = /** @type {{ strips: Strip[], steps: number[], rounds: number[], chosen: number }} */ ({
    strips: [],
    steps: [],
    rounds: [],
    chosen: -1,
  });
  const draw = () => {
    const { strips, steps, rounds, chosen } = known;
    element.hidden = foot.hidden = strips.length === 0;
    const shown = showsAll ? strips : strips.slice(0, SHOWN);
    rows.replaceChildren(...shown.map((strip) => makeRow(strip, steps, rounds, chosen, choose, point)));
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
      draw();
    },
  };
}

/**
 * @param {Strip} strip
 * @param {number[]} steps
 * @param {number[]} rounds
 * @param {number} chosen
 * @param {(index: number) => void} choose
 * @param {(index: number | null, text: string) => void} point
 */
function makeRow(strip, steps, rounds, chosen, choose, point) {
  const count = Math.max(1, steps.length);
  /** @param {number} index */
  const at = (index) => `${(100 * index) / count}%`;
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
      event.stopPropagation(); // a mark is wider than its step
      choose(index);
    });
    return mark;
  });
  const label = describeRow(strip, steps);
  const track = make("div", { class: "s-track", role: "img", "aria-label": label }, ...bars, ...cuts, ...marks);
  /** @param {MouseEvent} event */
  const find = (event) => {
    const box = track.getBoundingClientRect();
    return Math.min(count - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * count)));
  };
  track.addEventListener("pointermove", (event) => {
    const index = find(event);
    point(index, describePlace(strip, index));
  });
  track.addEventListener("pointerleave", () => point(null, ""));
  track.addEventListener("click", (event) => choose(find(event)));
  return make(
    "div",
    { class: "s-row" },
    make("span", { class: "s-name", title: `${strip.name} (${strip.kind})`, text: strip.name, "aria-hidden": "true" }),
    track,
  );
}

/**
 * Describe a fact at one step: whether the model could see it, and what it did with it.
 *
 * @param {Strip} strip
 * @param {number} index
 */
function describePlace({ name, spans, marks }, index) {
  const span = spans.find(([start, end]) => start <= index && index < end);
  const acts = marks.flatMap(([place, kind, value]) => (place === index ? [`${WORDS[kind]}, value ${value}`] : []));
  return `${name}: ${[span ? span[2] : "not in view", ...acts].join("; ")}`;
}

/**
 * Describe a row in words, for readers who cannot see it.
 *
 * @param {Strip} strip
 * @param {number[]} steps
 */
function describeRow({ name, spans, marks }, steps) {
  const seen = spans.map(([start, end]) => `${formatNumber(steps[start])} to ${formatNumber(steps[end - 1])}`);
  const parts = [seen.length ? `in view at steps ${seen.join(", ")}` : "never in view"];
  for (const kind of /** @type {Mark[1][]} */ (["wrong", "stale", "needed", "looked up", "right"])) {
    const places = marks.flatMap(([index, one]) => (one === kind ? [formatNumber(steps[index])] : []));
    if (places.length) parts.push(`${WORDS[kind]} at ${places.join(", ")}`);
  }
  return `${name}: ${parts.join("; ")}`;
}
