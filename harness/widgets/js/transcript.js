// Transcript of a session, with rows that unfold.

import { keepFocus, make } from "./elements.js";
import { formatCount, formatNumber } from "./numbers.js";

/** @import { Parts } from "./agent_layout.js" */
/** @import { Round } from "./agent_panels.js" */
/**
 * @typedef {object} TextRow
 * @property {number} n Number of the row.
 * @property {"user" | "assistant" | "system" | "thought" | "note" | "notice" | "ended"} kind
 * @property {string} text
 * @property {boolean} [more] Whether the text is only the beginning of a longer one.
 * @property {boolean} [undone] Whether the session was rolled back to before this row.
 * @property {boolean} [live] Whether the model is still writing the text.
 */
/**
 * @typedef {{ n: number, kind: "tool", title: string, status: string, failed?: boolean, size: number, undone?: boolean }} ToolRow
 */
/** @typedef {{ n: number, kind: "compaction", reason: string, undone?: boolean } & Round} CompactionRow */
/** @typedef {TextRow | ToolRow | CompactionRow} Row */
/** @typedef {{ kind: "grown", n: number, at: number, text: string }} Growth Text to append to a row, which stands at `at`. */

const MOST_ROWS = 2000;
const TITLE_CHARACTERS = 100;
const SPEAKERS = {
  user: "you",
  assistant: "agent",
  system: "system",
  thought: "thinking",
  note: "note",
  notice: "note",
  ended: "end",
};

/**
 * Return the title of a folded thought: its beginning, or its newest text while it is streamed.
 *
 * @param {TextRow} row
 */
function formatThought({ live, text }) {
  return live ? `thinking… · ${text.slice(-TITLE_CHARACTERS)}` : `thinking · ${text.slice(0, TITLE_CHARACTERS)}`;
}

/** Transcript: rows by number, at most MOST_ROWS of them in the page. */
export class Transcript {
  lowest = 0;
  count = 0;
  detached = false; // the newest rows were dropped to make room for earlier ones
  sticks = true;

  /**
   * @param {Parts} parts
   * @param {(message: object) => void} ask Sends a message to the kernel.
   * @param {Set<number>} open Numbers of the unfolded rows; they stay unfolded in later views.
   * @param {(seq: number, clicked: HTMLElement) => void} openRound Shows the details of a compaction below an element.
   */
  constructor(parts, ask, open, openRound) {
    this.parts = parts;
    this.ask = ask;
    this.open = open;
    this.openRound = openRound;
    /** @type {Map<number, Row>} */
    this.rows = new Map();
    /** @type {Map<number, HTMLElement>} */
    this.elements = new Map();
    const box = parts.scroll;
    box.addEventListener("scroll", () => {
      this.sticks = box.scrollHeight - box.scrollTop - box.clientHeight < 24;
    });
    parts.earlier.addEventListener("click", () => ask({ kind: "rows", before: this.lowest }));
    parts.newest.addEventListener("click", () => this.restart());
  }

  discardRows() {
    this.rows.clear();
    this.elements.clear();
    this.parts.rows.replaceChildren();
    [this.detached, this.sticks, this.lowest] = [false, true, this.count];
  }

  /** Discard all rows and request the newest. */
  restart() {
    this.discardRows();
    this.ask({ kind: "rows", before: null });
    this.updateControls();
  }

  /** @param {Row} row */
  put(row) {
    this.count = Math.max(this.count, row.n + 1);
    if (this.rows.size === 0) this.lowest = row.n;
    if (row.n < this.lowest || (this.detached && !this.rows.has(row.n))) return;
    const fresh = this.makeRow(row);
    const old = this.elements.get(row.n);
    this.rows.set(row.n, row);
    this.elements.set(row.n, fresh);
    if (old) keepFocus(this.parts.rows, () => old.replaceWith(fresh));
    else this.parts.rows.append(fresh);
    for (; this.rows.size > MOST_ROWS; this.lowest += 1) this.drop(this.lowest);
  }

  /** @param {Growth} growth */
  grow({ n, at, text }) {
    const [row, element] = [this.rows.get(n), this.elements.get(n)];
    if (!row || !("text" in row) || !element || at > row.text.length) return; // the whole row follows at the end of its step
    row.text += text.slice(row.text.length - at);
    const title = row.kind === "thought" && element.querySelector(".a-title");
    if (title) title.textContent = formatThought(row);
    const shown = element.querySelector("pre"); // missing in a folded row
    if (shown) shown.textContent = row.text;
  }

  /**
   * Replace all rows by the newest.
   *
   * @param {Row[]} rows
   */
  replace(rows) {
    this.discardRows();
    for (const row of rows) this.put(row);
    this.updateControls();
  }

  /**
   * Insert rows before the first row.
   *
   * @param {Row[]} rows
   */
  prepend(rows) {
    const earlier = rows.filter((row) => row.n < this.lowest || this.rows.size === 0);
    if (!earlier.length) return;
    const [box, height] = [this.parts.scroll, this.parts.scroll.scrollHeight];
    const elements = earlier.map((row) => this.makeRow(row));
    for (const [place, row] of earlier.entries()) {
      this.rows.set(row.n, row);
      this.elements.set(row.n, elements[place]);
    }
    this.parts.rows.prepend(...elements);
    this.lowest = earlier[0].n;
    for (let highest = Math.max(...this.rows.keys()); this.rows.size > MOST_ROWS; highest -= 1) {
      this.drop(highest);
      this.detached = true;
    }
    if (!this.sticks) box.scrollTop += box.scrollHeight - height;
    this.updateControls();
  }

  /** @param {number} n */
  drop(n) {
    this.elements.get(n)?.remove();
    this.elements.delete(n);
    this.rows.delete(n);
  }

  /** Update the controls around the rows, at most once per frame. */
  updateControls() {
    this.parts.earlier.hidden = this.lowest === 0;
    this.parts.earlier.textContent = `Show earlier (${formatNumber(this.lowest)} rows)`;
    this.parts.newest.hidden = !this.detached;
    if (this.sticks && !this.detached) this.parts.scroll.scrollTop = this.parts.scroll.scrollHeight;
  }

  /** @param {Row} row */
  makeRow(row) {
    const element = this.makeRowElement(row);
    if (row.undone) {
      element.classList.add("a-undone");
      element.title = "rolled back";
      element.prepend(make("span", { class: "a-undone-word", text: "rolled back" }));
    }
    return element;
  }

  /**
   * @param {Row} row
   * @returns {HTMLElement}
   */
  makeRowElement(row) {
    if (row.kind === "tool") {
      const title = `${row.status === "running" ? "…" : row.status} · ${row.title}`;
      return this.makeFoldedRow(row, title, row.size ? `${formatNumber(row.size)} characters` : "");
    }
    if (row.kind === "compaction") return this.makeCompactionRow(row);
    if (row.kind === "thought") return this.makeFoldedRow(row, formatThought(row));
    if (row.kind === "system") return this.makeFoldedRow(row, `system prompt · ${row.text.slice(0, TITLE_CHARACTERS)}`);
    const box = make(
      "div",
      { class: `a-row a-${row.kind}`, "data-n": row.n },
      make("span", { class: "a-who h-faint", text: SPEAKERS[row.kind] ?? row.kind }),
      make("pre", { class: "a-text", text: row.text }),
    );
    if (row.more)
      box.append(
        this.makeFoldedRow(row, row.kind === "ended" || row.kind === "note" ? "what the provider said" : "show the whole text"),
      );
    return box;
  }

  /**
   * @param {TextRow | ToolRow} row
   * @param {string} title
   */
  makeFoldedRow(row, title, aside = "") {
    const body = make("div", { class: "a-body" });
    const isWrong = row.kind === "tool" && row.failed;
    const line = make(
      "summary",
      { "data-key": `row ${row.n}` },
      make("span", { class: isWrong ? "a-title a-wrong" : "a-title", text: title }),
      make("span", { class: "h-faint a-aside", text: aside }),
    );
    const open = this.open.has(row.n);
    const box = make("details", { class: `a-row a-${row.kind}`, "data-n": row.n, open }, line, body);
    box.addEventListener("toggle", () => {
      this.open[box.open ? "add" : "delete"](row.n);
      if (!box.open) body.replaceChildren();
      else if (row.kind === "tool" || row.more) this.ask({ kind: "body", row: row.n });
      else body.replaceChildren(make("pre", { class: "a-text", tabindex: "0", text: row.text }));
    });
    return box;
  }

  /**
   * Fill an unfolded row with its content.
   *
   * @param {{ n: number, parts: [name: string, text: string][] }} content
   */
  fill({ n, parts }) {
    const element = this.elements.get(n);
    const body = element?.querySelector(element.matches("details") ? ".a-body" : "details .a-body");
    body?.replaceChildren(
      ...parts.flatMap(([name, text]) => [
        ...(name ? [make("div", { class: "a-name h-faint", text: name })] : []),
        make("pre", { class: "a-text", tabindex: "0", text }),
      ]),
    );
  }

  /** @param {CompactionRow} row */
  makeCompactionRow({ n, seq, status, round, before, after, lost, reason }) {
    const facts = typeof lost === "number" ? `, ${formatCount(lost, "fact")} lost` : "";
    const sizes = `${formatNumber(before)} → ${formatNumber(after)} tokens`;
    const text = status === "applied" ? `Compaction ${round}: ${sizes}${facts}` : `Compaction ${status}: ${reason}`;
    const box = make("div", { class: "a-row a-compaction", "data-n": n });
    const open = () => this.openRound(seq, box);
    box.append(make("button", { type: "button", text, title: reason, "data-key": `row ${n}`, on: { click: open } }));
    return box;
  }
}
