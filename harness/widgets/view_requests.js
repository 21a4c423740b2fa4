// Requests for views: a page sends one request at a time and skips requests that are out of date.

const PATIENCE_MS = 15000;

/**
 * Send one request at a time; of the requests made meanwhile, only the last is sent.
 * `rows()` returns the range of rows that the kernel should send with its answer.
 */
function createRequester(model, rows = () => null) {
  const own = Math.random().toString(36).slice(2);
  let [count, asked, wanted, timer] = [0, null, null, 0];
  const sendNext = () => {
    if (asked !== null || wanted === null) return;
    asked = `${own}:${(count += 1)}`;
    model.send({ kind: "look", request: asked, look: wanted, rows: rows() });
    wanted = null;
    clearTimeout(timer);
    timer = setTimeout(() => { asked = null; sendNext(); }, PATIENCE_MS);
  };
  return {
    want: (look) => { wanted = look; sendNext(); },
    /** Return whether to show an answer: it answers the newest request of this page, or another page's while none is pending. */
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
