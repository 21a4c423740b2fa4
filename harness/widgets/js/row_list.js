// List of any length, of which only the visible rows are in the page; one row is selected with the mouse or the keyboard.

import { make } from "./elements.js";
import "./row_list.css";

/**
 * @template Row
 * @typedef {object} Block Part of the rows of a list, from the row `first` on.
 * @property {number | string} version Rows of different versions do not belong to the same list.
 * @property {number} count Number of all rows of the list.
 * @property {number} first
 * @property {Row[]} rows
 */

const ROW_PIXELS = 24;
const ROWS_BEYOND = 6;
let listCount = 0;

/**
 * Create a list whose rows come from the kernel when they become visible.
 *
 * The method `show` starts a new list with a block of rows, `receive` adds the rows of a block that has the same version,
 * `select(index, scroll)` selects a row and, if `scroll`, brings it into sight, as `scrollTo(index)` does, and `visible()`
 * returns the range of visible rows.
 *
 * @template Row
 * @param {string} label
 * @param {(row: Row) => { class?: string, children: (Node | string)[] }} fill Returns the class and the children of a row.
 * @param {(index: number) => void} choose Called when a row is selected.
 * @param {(wanted: [first: number, end: number]) => void} need Called for visible rows that are missing.
 */
export function createRowList(label, fill, choose, need) {
  listCount += 1;
  const name = `h-list-${listCount}-${Math.random().toString(36).slice(2)}`;
  const seen = make("div", { class: "h-seen" });
  const whole = make("div", { class: "h-rows-whole" }, seen);
  const element = make("div", { class: "h-rows", role: "listbox", tabindex: "0", "aria-label": label }, whole);
  /** @type {Map<number, Row>} */
  const known = new Map();
  let [count, chosen, frame] = [0, -1, 0];
  let [version, asked] = [/** @type {number | string | null} */ (null), ""];

  const visible = () => {
    const first = Math.max(0, Math.floor(element.scrollTop / ROW_PIXELS) - ROWS_BEYOND);
    const end = Math.ceil((element.scrollTop + (element.clientHeight || 300)) / ROW_PIXELS) + ROWS_BEYOND;
    return [first, Math.max(first + 1, end)];
  };
  /** @param {number} index */
  const makeRow = (index) => {
    const data = known.get(index);
    const row = data === undefined ? { children: ["…"] } : fill(data);
    return make(
      "div",
      {
        class: `h-row ${row.class ?? ""}`,
        id: `${name}-${index}`,
        role: "option",
        "aria-selected": String(index === chosen),
        "aria-setsize": count,
        "aria-posinset": index + 1,
        on: { click: () => select(index, false) },
      },
      ...row.children,
    );
  };
  const paint = () => {
    frame = 0;
    const [first, end] = visible();
    const last = Math.min(count, end);
    const indices = Array.from({ length: Math.max(0, last - first) }, (_, place) => first + place);
    seen.replaceChildren(...indices.map(makeRow));
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
  /** @param {number} index */
  const scrollTo = (index) => {
    const [top, height] = [index * ROW_PIXELS, element.clientHeight || 300];
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + ROW_PIXELS > element.scrollTop + height) element.scrollTop = top + ROW_PIXELS - height;
  };
  /** @param {number} index */
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
    const steps = new Map([
      ["ArrowDown", 1],
      ["ArrowUp", -1],
      ["PageDown", page],
      ["PageUp", -page],
      ["Home", -count],
      ["End", count],
    ]);
    const step = steps.get(event.key);
    if (step === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    select(Math.min(count - 1, Math.max(0, chosen + step)));
  });
  /** @param {Block<Row>} block */
  const add = (block) => {
    for (const [place, row] of block.rows.entries()) known.set(block.first + place, row);
    schedulePaint();
  };
  /** @param {Block<Row>} block */
  const show = (block) => {
    [version, asked, count] = [block.version, "", block.count];
    known.clear();
    chosen = Math.min(chosen, count - 1);
    whole.style.height = `${count * ROW_PIXELS}px`;
    add(block);
  };
  /** @param {Block<Row>} block */
  const receive = (block) => {
    if (block.version !== version) return;
    asked = "";
    add(block);
  };
  return { element, show, receive, select, scrollTo, visible, chosen: () => chosen };
}
