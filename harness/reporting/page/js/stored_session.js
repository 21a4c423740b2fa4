// Session that the page stores, in the place of the kernel of a notebook.

/** @import { Message, StoredBlock } from "./values.d.ts" */

const [ROWS_BEFORE_ANSWER, ROWS_SENT] = [100, 200];

/**
 * Return the kind of a message of a step, given its place and that of the answer.
 *
 * @param {number} place
 * @param {number} answer
 */
function classify(place, answer) {
  if (place < answer) return "sent";
  return place === answer ? "answer" : "result";
}

/** Session of the page, which answers the requests of the inspector as a notebook's kernel would. */
export class StoredSession {
  /** @param {StoredBlock<Message>} block */
  constructor({ session, messages, steps, autopsies }) {
    this.autopsies = autopsies;
    this.session = session;
    this.messages = messages;
    this.steps = steps;
    /** @type {Set<(message: object) => void>} */
    this.listeners = new Set();
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
    const batch = { kind: "batch", number: this.count, whole: "session" in state, from: 1, oldest: 1, items: [], state };
    queueMicrotask(() => {
      for (const listener of this.listeners) listener(batch);
    });
  }

  /** Return the indices of the messages of the current step: those sent, the answer and the results. */
  listMessages() {
    const { sent, answer, results } = this.step;
    return [...sent.flatMap(([first, length]) => Array.from({ length }, (_, place) => first + place)), answer, ...results];
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
    if (place >= indices.length) return { message: place, title: "workspace, changes of this step", text: this.step.patch ?? "" };
    const [role, , text] = this.messages[indices[place]];
    return { message: place, title: `${classify(place, this.findAnswer())}, ${role}`, text };
  }
}
