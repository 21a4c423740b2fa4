// Page side of GridForm: the summary below the controls, and keys and states of the controls, which belong to ipywidgets.

const FIELDS = "input, select, textarea, button, summary";

/** Keep keys in the controls of the form from the notebook, and mark controls with wrong values for screen readers. */
function prepareControls(form, wrong) {
  if (!form.dataset.tended) {
    form.dataset.tended = "yes";
    form.addEventListener("keydown", (event) => {
      if (!event.ctrlKey && !event.altKey && !event.metaKey) event.stopPropagation();
    });
  }
  for (const field of form.querySelectorAll(FIELDS)) field.setAttribute("data-lm-suppress-shortcuts", "true");
  for (const field of form.querySelectorAll("[class*=harness-control-] :is(input, select)")) {
    const own = field.closest("[class*=harness-control-]");
    field.setAttribute("aria-invalid", String(wrong.some((name) => own.classList.contains(`harness-control-${name}`))));
  }
}

function createView({ model, el }) {
  const root = createRoot(el, "Summary of the grid");
  root.classList.add("f-root");
  const facts = make("tbody");
  const refusal = make("p", { class: "h-error", role: "alert", hidden: true });
  const wrong = make("p", { class: "h-error", role: "status", hidden: true });
  const createListing = (label) => make("pre", { tabindex: "0", role: "region", "aria-label": label });
  const [code, plan, command] = ["Python code", "plan.toml", "command"].map(createListing);
  const same = make("details", { class: "f-same" }, make("summary", { text: "the same grid as Python code and as plan.toml" }),
    make("p", { text: "Python:" }), code, make("p", { text: "plan.toml, in a folder with the name of the grid:" }), plan,
    make("p", { text: "The command that runs it:" }), command);
  root.append(make("table", { class: "f-facts" }, facts), refusal, wrong, same);
  let whole = {};
  const look = () => {
    const form = el.closest(".harness-form");
    if (form) prepareControls(form, whole.wrong ?? []);
  };
  const placed = new ResizeObserver(look); // reports once the form is in the page, also in a tab that is opened later
  placed.observe(root);
  const end = connect(model, {
    state(changed, all) {
      whole = all;
      facts.replaceChildren(...(all.facts ?? []).map(([name, text]) =>
        make("tr", {}, make("th", { scope: "row", text: name }), make("td", { text }))));
      refusal.hidden = !all.refusal;
      refusal.textContent = all.refusal ?? "";
      wrong.hidden = !all.wrong?.length;
      wrong.textContent = all.wrong?.length ? `Correct ${all.wrong.map((name) => name.replaceAll("_", " ")).join(", ")} to start the grid.` : "";
      [code.textContent, plan.textContent] = [all.code ?? "", all.plan ?? ""];
      command.textContent = all.command ?? "";
      same.hidden = !all.code;
      look();
      requestAnimationFrame(look); // controls of another policy appear after this message
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
