// Page side of GridForm: the summary below the controls, and keys and states of the controls, which belong to ipywidgets.

import { createRoot, keepPlainKeys, make, makeFactRow } from "./elements.js";
import "./grid_form.css";
import { connect } from "./kernel.js";

/** @import { Channel } from "./kernel.js" */
/**
 * @typedef {object} State
 * @property {[name: string, text: string][]} [facts]
 * @property {string} [refusal]
 * @property {string[]} [wrong] Names of the controls with wrong values.
 * @property {string} [code]
 * @property {string} [plan]
 * @property {string} [command]
 */

const FIELDS = "input, select, textarea, button, summary";

/**
 * Keep keys in the controls of the form from the notebook, and mark controls with wrong values for screen readers.
 *
 * @param {HTMLElement} form
 * @param {string[]} wrong
 */
function prepareControls(form, wrong) {
  if (!form.dataset.tended) {
    form.dataset.tended = "yes";
    keepPlainKeys(form);
  }
  for (const field of form.querySelectorAll(FIELDS)) field.setAttribute("data-lm-suppress-shortcuts", "true");
  for (const field of form.querySelectorAll("[class*=harness-control-] :is(input, select)")) {
    const own = field.closest("[class*=harness-control-]");
    const isWrong = wrong.some((name) => own?.classList.contains(`harness-control-${name}`));
    field.setAttribute("aria-invalid", String(isWrong));
  }
}

/** @param {string} label */
function makeListing(label) {
  return make("pre", { tabindex: "0", role: "region", "aria-label": label });
}

/** @param {{ model: Channel, el: HTMLElement }} view */
function createView({ model, el }) {
  const root = createRoot(el, "Summary of the grid");
  root.classList.add("f-root");
  const facts = make("tbody");
  const refusal = make("p", { class: "h-error", role: "alert", hidden: true });
  const wrong = make("p", { class: "h-error", role: "status", hidden: true });
  const [code, plan, command] = ["Python code", "plan.toml", "command"].map(makeListing);
  const same = make(
    "details",
    { class: "f-same" },
    make("summary", { text: "the same grid as Python code and as plan.toml" }),
    make("p", { text: "Python:" }),
    code,
    make("p", { text: "plan.toml, in a folder with the name of the grid:" }),
    plan,
    make("p", { text: "The command that runs it:" }),
    command,
  );
  root.append(make("table", { class: "f-facts" }, facts), refusal, wrong, same);
  let known = /** @type {State} */ ({});
  const prepare = () => {
    const form = /** @type {HTMLElement | null} */ (el.closest(".harness-form"));
    if (form) prepareControls(form, known.wrong ?? []);
  };
  const placed = new ResizeObserver(prepare); // reports once the form is in the page, also in a tab that is opened later
  placed.observe(root);
  const end = connect(model, {
    state(_changed, /** @type {State} */ whole) {
      known = whole;
      facts.replaceChildren(...(known.facts ?? []).map(([name, text]) => makeFactRow(name, text)));
      refusal.hidden = !known.refusal;
      refusal.textContent = known.refusal ?? "";
      const names = (known.wrong ?? []).map((name) => name.replaceAll("_", " "));
      wrong.hidden = !names.length;
      wrong.textContent = names.length ? `Correct ${names.join(", ")} to start the grid.` : "";
      [code.textContent, plan.textContent] = [known.code ?? "", known.plan ?? ""];
      command.textContent = known.command ?? "";
      same.hidden = !known.code;
      prepare();
      requestAnimationFrame(prepare); // controls of another policy appear after this message
    },
    silent() {
      refusal.hidden = false;
      refusal.textContent = "The kernel does not answer. Run this cell to use the form.";
    },
  });
  return () => {
    end();
    placed.disconnect();
  };
}

export default { render: createView };
