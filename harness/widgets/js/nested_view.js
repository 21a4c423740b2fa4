// Widgets inside widgets.

/** @import { Channel } from "./kernel.js" */
/** @typedef {Channel & { get: (name: string) => any, widget_manager?: any }} Model Model that anywidget passes to a view. */

const ARRIVAL_MS = 2000;

/**
 * Scroll to a view that the user has opened, and again while its content arrives.
 *
 * @param {HTMLElement} element
 */
function scrollTo(element) {
  const observer = new ResizeObserver(() => {
    const isHigh = element.offsetHeight > window.innerHeight / 2;
    element.scrollIntoView({ block: isHigh ? "start" : "nearest" });
  });
  observer.observe(element);
  setTimeout(() => observer.disconnect(), ARRIVAL_MS);
}

/**
 * Show the widget that is the value of the model's trait `name` in a box, and another one whenever the trait changes.
 * Returns a function that removes the view.
 *
 * @param {Model} model
 * @param {string} name
 * @param {HTMLElement} box
 */
export function nest(model, name, box) {
  let shown = /** @type {any} */ (null);
  /**
   * Send a view what its Lumino parent would: only then it gets its classes and its layout.
   *
   * @param {any} view
   * @param {string} type
   */
  const notify = (view, type) => view.luminoWidget?.processMessage({ type, isConflatable: false, conflate: () => false });
  const remove = () => {
    if (!shown) return;
    for (const type of ["before-detach", "after-detach"]) notify(shown, type);
    shown.remove();
    shown = null;
  };
  /** @param {boolean} isNew */
  const show = async (isNew) => {
    const reference = model.get(name);
    const manager = model.widget_manager;
    remove();
    if (!reference || !manager) return;
    const view = await manager.create_view(await manager.get_model(reference.replace("IPY_MODEL_", "")));
    if (model.get(name) !== reference) {
      view.remove();
      return;
    }
    shown = view;
    box.replaceChildren(view.el);
    notify(view, "after-attach");
    if (isNew) scrollTo(view.el);
  };
  const showNew = () => show(true);
  model.on(`change:${name}`, showNew);
  show(false);
  return () => {
    model.off(`change:${name}`, showNew);
    remove();
  };
}
