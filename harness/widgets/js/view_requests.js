// Requests for views: a page sends one request at a time and skips requests that are out of date.

/** @import { Channel } from "./kernel.js" */

const PATIENCE_MS = 15000;

/**
 * Send one request at a time; of the requests made meanwhile, only the last is sent.
 * `rows()` returns the range of rows that the kernel should send with its answer.
 *
 * @param {Channel} model
 * @param {() => number[] | null} rows
 */
export function createRequester(model, rows = () => null) {
  const own = Math.random().toString(36).slice(2);
  let [count, timer] = [0, 0];
  let asked = /** @type {string | null} */ (null);
  let wanted = /** @type {object | null} */ (null);
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
    end: () => clearTimeout(timer),
  };
}
