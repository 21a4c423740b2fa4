// Messages between a page and the kernel.

import { reveal } from "./untrusted_text.js";

/**
 * @typedef {object} Channel Messages to and from the kernel; part of the model that anywidget passes to a view.
 * @property {(event: string, listener: (message: any) => void) => void} on
 * @property {(event: string, listener: (message: any) => void) => void} off
 * @property {(message: object) => void} send
 */
/**
 * @typedef {object} Listeners
 * @property {(items: any[]) => void} [items]
 * @property {(changed: any, whole: any) => void} [state]
 * @property {(count: number) => void} [skipped] Listener for items that the kernel no longer has.
 * @property {() => void} [silent] Listener for a kernel that does not answer.
 */

const SILENCE_MS = 10000;
const BEAT_MS = 5000;
const MISSED_MS = 16000;
const RESTART_MS = 3000;

/**
 * Send a message that no user asked for, and return whether it was sent. It fails if the kernel was restarted, about which the
 * page informs the user after a while.
 *
 * @param {Channel} model
 * @param {object} message
 */
function trySend(model, message) {
  try {
    model.send(message);
    return true;
  } catch (error) {
    console.debug(error);
    return false;
  }
}

/**
 * Listen to the kernel: every item once and in order, and the newest state, both at most once per frame.
 * Returns a function that stops listening.
 *
 * @param {Channel} model
 * @param {Listeners} listeners
 */
export function connect(model, listeners) {
  const whole = {};
  let have = 0;
  let answered = false;
  let last = /** @type {number | null} */ (null);
  let items = /** @type {any[]} */ ([]);
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
  /** @param {any} message */
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

/**
 * Ask the kernel for a sign of life again and again. Returns a function that ends this.
 *
 * @param {Channel} model
 * @param {object} beat Message that the kernel answers.
 * @param {object} watcher
 * @param {(isRestarted: boolean) => void} watcher.silent Called as long as the kernel does not answer.
 * @param {(message: any) => void} watcher.heard Called with every message of the kernel.
 * @param {() => boolean} [watcher.isOver] Whether no answer is expected any more.
 */
export function watchKernel(model, beat, { silent, heard, isOver = () => false }) {
  let heardAt = performance.now();
  let isCut = false;
  /** @param {any} message */
  const receive = (message) => {
    heardAt = performance.now();
    isCut = false;
    heard(message);
  };
  // Jupyter reports a restart of the kernel, but also that a connection is open again; in that case the message is sent
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
