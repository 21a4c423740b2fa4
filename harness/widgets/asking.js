// How a page asks its kernel for pictures: one at a time, and never for one that nobody wants any more.

const PATIENCE_MS = 15000;

/** Asks for one look at a time; of those that come meanwhile only the last is asked for. */
function asker(model) {
  const own = Math.random().toString(36).slice(2);
  let [count, asked, wanted, timer] = [0, null, null, 0];
  const pump = () => {
    if (asked !== null || wanted === null) return;
    asked = `${own}:${(count += 1)}`;
    model.send({ kind: "look", request: asked, look: wanted });
    wanted = null;
    clearTimeout(timer);
    timer = setTimeout(() => { asked = null; pump(); }, PATIENCE_MS);
  };
  return {
    want: (look) => { wanted = look; pump(); },
    /** Whether an answer is to the newest question of this page, or to somebody else's. */
    answered: (request) => {
      if (request !== asked) return asked === null && wanted === null;
      asked = null;
      clearTimeout(timer);
      pump();
      return asked === null;
    },
    end: () => clearTimeout(timer),
  };
}
