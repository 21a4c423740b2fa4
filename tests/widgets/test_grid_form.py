"""The form: its controls describe what runs, wrong values are named at their control, and code and plan give the same grid."""

import threading
from dataclasses import replace

import pytest

import harness
from harness.errors import UsageError
from harness.experiment.experiment import Experiment
from harness.experiment.limits import RunLimits
from harness.policies import Codex, KeepLast
from harness.widgets.grid_form import GridForm
from harness.widgets.message_channel import SHARED_SENDER
from tests.experiment.run_grid import POLICY, SMALL
from tests.widgets.linked import Linked

HOSTILE = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>"


@pytest.fixture
def form(tmp_path):
    form = GridForm(
        SMALL.base, seeds=(0, 1), values={"threshold": [0.3, 0.5]}, name="small", output=tmp_path / "output", workers=1
    )
    yield form
    form.close()


def test_several_values_make_axes_and_a_single_value_belongs_to_the_base(form):
    experiment = form.experiment
    assert experiment.axes == {"policy.threshold": [0.3, 0.5], "seed": [0, 1]}
    assert experiment.base == replace(SMALL.base, policy=replace(POLICY, threshold=0.3))
    form.fields["keep_last"].value = "2, 4 6"
    form.fields["summarizer"].value = ("scripted/oracle", "scripted/empty")
    form.controls["control_arm"].value = True
    assert len(form.experiment.grid) == 2 * 3 * 2 * 2 + 2
    assert {cell.trial.policy_kind for cell in form.experiment.grid} == {"keep-last", "none"}


def test_code_and_plan_of_the_form_give_its_trials(form, tmp_path):
    form.fields["keep_last"].value = "2, 4"
    form.controls["control_arm"].value = True
    names: dict[str, object] = {}
    exec(form.code, names)
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "plan.toml").write_text(form.plan, encoding="utf-8")
    ids = [cell.trial_id for cell in form.experiment.grid]
    for other in (names["experiment"], Experiment.from_toml(tmp_path / "small")):
        assert isinstance(other, Experiment)
        assert [cell.trial_id for cell in other.grid] == ids


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("threshold", "1.5", "1.5"),
        ("threshold", "0.5, half", "must be a number (got 'half')"),
        ("threshold", "nan", "nan"),
        ("threshold", " ", "enter at least one value"),
        ("keep_last", "0", "0"),
        ("keep_last", "2.5", "must be a whole number (got '2.5')"),
        ("seed", "", "enter at least one value"),
        ("seed", "-1", "or a range such as 0-4 (got '-1')"),
        ("seed", "4-1", "the range '4-1' is empty"),
        ("seed", "0-99999999999", "at most 10,000 seeds"),
        ("task", (), "select at least one task"),
        ("summarizer", (), "select at least one summarizer"),
        ("name", " ", "must be the name of a folder"),
        ("name", "../up", "must be the name of a folder"),
        ("window_tokens", "many", "must be a whole number of tokens"),
        ("window_tokens", "300", "more than the window of 300"),
        ("model", HOSTILE, "unknown model"),
        ("model", "gpt-4o", "OPENAI_API_KEY"),
        *(
            ("max_trials", text, "must be a whole number above 0, or empty for no limit")
            for text in ("0", "2.5", "-1", "1e99", HOSTILE)
        ),
        *(
            (name, text, "a number above 0")
            for name in ("max_usd", "max_hours")
            for text in ("0", "-1", "nan", "inf", "1e999", "five")
        ),
    ],
)
def test_a_wrong_value_is_named_at_its_control_and_nothing_can_be_started(form, key, value, message, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    control = {**form.controls, **form.fields}[key]
    before = control.value
    control.value = value
    assert list(form.errors) == [key]
    assert message in form.errors[key]
    assert (form.experiment, form.code, form.plan) == (None, "", "")
    assert form.start_button.disabled
    assert form.pilot_button.disabled
    assert "<img" not in form._error_labels[key].value
    with pytest.raises(UsageError, match="the grid cannot start"):
        form.start()
    control.value = before
    assert form.errors == {}
    assert form._error_labels[key].value == ""
    assert not form.start_button.disabled


def test_another_policy_has_its_own_fields_and_the_first_one_keeps_its_values(form):
    form.controls["policy"].value = "codex"
    assert list(form.fields) == ["threshold", "keep_user_tokens", "retries", "summarizer"]
    form.controls["window_tokens"].value = "200000"
    assert form.experiment.base.policy == Codex()
    form.controls["policy"].value = "keep-last"
    assert form.experiment.base.policy == SMALL.base.policy


@pytest.mark.slow
def test_limits_are_part_of_code_and_command_and_stop_the_run(form, monkeypatch):
    assert form.limits == RunLimits()
    assert form.command == "harness run small"
    assert "limits" not in form.code
    for name, text in (("max_trials", "1,000"), ("max_usd", " $2.5 "), ("max_hours", "0.75")):
        form.controls[name].value = text
    assert form.limits == RunLimits(max_trials=1_000, max_usd=2.5, max_hours=0.75)
    assert form.command == "harness run small --max-trials 1000 --max-usd 2.5 --max-hours 0.75"
    names: dict[str, object] = {}
    exec(form.code, names)
    assert names["limits"] == form.limits
    assert (
        "each run stops: after 1,000 trials or at $2.50 (never reached: no model of this grid costs money) or after 45 min"
        in form.render_text()
    )
    form.controls["name"].value = "two words"
    assert form.command.startswith("harness run 'two words' ")
    form.controls["max_hours"].value = ""
    assert form.limits.max_hours is None
    form.controls["model"].value = "hosted_vllm/no-such-model"
    monkeypatch.setenv("HOSTED_VLLM_API_BASE", "http://127.0.0.1:9/v1")
    form.controls["seed"].value = "0"
    assert list(form.errors) == ["max_usd"]
    assert "price of 'hosted_vllm/no-such-model' is unknown" in form.errors["max_usd"]
    assert form.limits == RunLimits()
    again = GridForm(SMALL.base, limits=RunLimits(max_trials=2, max_hours=1.5))
    assert [again.controls[name].value for name in ("max_trials", "max_usd", "max_hours")] == ["2", "", "1.5"]


def test_values_of_the_explorer_are_starting_values():
    policy = KeepLast(threshold=0.65, keep_last=7, summarizer="scripted/oracle")
    form = GridForm(policy=policy, tasks=["flashcards", "rename-sweep"])
    assert form.fields["threshold"].value == "0.65"
    assert form.experiment is not None
    assert form.experiment.base.policy == policy
    assert form.experiment.count_tasks_and_seeds() == (2, 3)
    with pytest.raises(UsageError, match="no control for depth"):
        GridForm(values={"depth": [1]})


def test_the_form_shows_trials_cost_time_and_power_and_is_readable_without_a_kernel(form):
    text = form.render_text()
    assert "trials: 4 trials, 2 arms (2 × threshold, 2 × seed)" in text
    assert "cost: none, since all models are scripted" in text
    assert "time: unknown until a trial of the same task and models" in text
    assert "comparison of two arms: 1 task × 2 seeds, these tasks: too few" in text
    assert "experiment = harness.Experiment(" in text
    form.controls["name"].value = f"a {HOSTILE.replace('/', '')}"
    bundle, _ = form._repr_mimebundle_()
    assert "&lt;img" in bundle["text/html"]
    assert "<img" not in bundle["text/html"]


def test_its_experiment_can_be_observed(form):
    seen = []
    form.observe(lambda change: seen.append(change["new"]), "experiment")
    form.controls["seed"].value = "0-3"
    form.controls["seed"].value = "x"
    assert [one and len(one.grid) for one in seen] == [8, None]


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_pilot_then_the_grid_then_another_grid(form):
    grid = form.start(pilot=True)
    assert grid.wait(300) == "stopped", grid.failure
    assert len(grid.results.trials) == 1
    assert "time: expected" in form.render_text()
    form.controls["max_trials"].value = "2"
    assert form.start() is grid, "the grid goes on where it was stopped"
    assert grid.wait(300) == "stopped", grid.failure
    assert len(grid.results.trials) == 3
    form.controls["max_trials"].value = ""
    assert form.start() is grid
    assert grid.wait(300) == "done", grid.failure
    assert len(grid.results.trials) == 4
    form.controls["seed"].value = "0-2"
    other = form.start()
    assert other is form.grid
    assert other is not grid
    with pytest.raises(UsageError, match="still running"):
        form.start()
    assert other.wait(300) == "done", other.failure
    assert len(other.results.trials) == 6
    form.close()
    form.close()


@pytest.mark.browser
def test_the_page_shows_summary_code_and_wrong_fields_and_a_hostile_name_stays_text(page, form):
    linked = Linked(page, form._summary, SHARED_SENDER)
    facts = page.locator(".f-facts")
    assert "4 trials, 2 arms" in facts.inner_text()
    page.locator("summary").focus()
    page.keyboard.press("Enter")
    assert page.locator("pre").first.inner_text() == form.code.rstrip()
    form.controls["name"].value = HOSTILE.replace("/", "")
    linked.settle()
    assert HOSTILE.replace("/", "") in page.locator("pre").first.inner_text()
    form.fields["threshold"].value = "1.5"
    linked.settle()
    assert page.locator(".f-root").get_by_text("Correct threshold to start the grid.").is_visible()
    assert page.locator(".f-same").is_hidden()
    assert page.evaluate("typeof window.hacked") == "undefined"


def test_the_form_is_public_and_closes_twice():
    form = harness.GridForm()
    form.close()
    form.close()
    assert threading.active_count() < 50


CONTAINERS = """\
import ipywidgets

from harness import AgentWidget, CompactionExplorer, GridForm, GridWidget, SessionInspector, load_task
from tests.experiment.run_grid import SMALL

explorer, inspector = CompactionExplorer("sample"), SessionInspector("sample")
slider = ipywidgets.IntSlider(value=30, min=1, max=inspector.step_count, description="step")
ipywidgets.jslink((slider, "value"), (inspector, "step"))
pages = {
    "inspector": ipywidgets.VBox([slider, inspector]),
    "explorer": explorer,
    "agent": AgentWidget(load_task("flashcards")(0), window_tokens=32_768, journal="sessions/agent.sqlite"),
    "grid": GridWidget(SMALL, "in-a-tab"),
    "form": GridForm(SMALL.base),
    "again": inspector,
}
ipywidgets.Tab(list(pages.values()), titles=list(pages))
"""
MEASURED = """() => [...document.querySelectorAll('.jupyter-widget-tab .harness-surface')].filter(one => one.checkVisibility())
    .map(one => [one.getAttribute('aria-label'), one.clientWidth,
        Math.min(...[...one.querySelectorAll('svg:not(.h-arm-box)')].map(svg => svg.clientWidth), 999)])"""
LABELS = {
    "explorer": "Compaction explorer",
    "agent": "Agent session",
    "grid": "Grid of trials",
    "form": "Summary of the grid",
    "again": "Session inspector",
    "inspector": "Session inspector",
}


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.bubblewrap
def test_in_jupyterlab_all_widgets_can_be_placed_in_tabs_and_linked(open_notebook, page):
    notebook = open_notebook(CONTAINERS, "inspector.step = 12", "print('the slider is at', slider.value)")
    notebook.start_cell(0)
    notebook.finish_cell(0)
    for title, label in LABELS.items():
        page.locator(".jupyter-widget-tab .lm-TabBar-tab").filter(has_text=title).click()
        page.locator(f".jupyter-widget-tab section[aria-label='{label}']:visible").wait_for()
        page.wait_for_timeout(500)
        [(shown, width, drawing)] = page.evaluate(MEASURED)
        least = 300 if title == "form" else 500  # the summary stands beside the controls
        assert (shown, width > least, drawing > 300) == (label, True, True), title
    slider = page.locator(".jupyter-widget-tab .widget-readout").first
    slider.fill("7")
    slider.press("Enter")
    page.get_by_text("step 7 of").first.wait_for()
    slider.blur()  # else the field sends its text again when it loses the focus, after the cell has set another step
    notebook.start_cell(1)
    notebook.finish_cell(1)
    page.get_by_text("step 12 of").first.wait_for()
    notebook.start_cell(2)
    notebook.finish_cell(2)
    page.get_by_text("the slider is at 12").last.wait_for()


BOXES = """() => ['.harness-form-controls', '.harness-form-estimate'].map(name => {
    const { left, right, top } = document.querySelector(name).getBoundingClientRect();
    return { left, right, top };
})"""


@pytest.mark.slow
@pytest.mark.browser
def test_in_jupyterlab_use_in_a_grid_scrolls_to_a_form_whose_estimate_stands_beside_its_controls(open_notebook, page, tmp_path):
    notebook = open_notebook("import harness\nharness.CompactionExplorer('sample')")
    page.set_viewport_size({"width": 1400, "height": 800})
    page.evaluate("() => jupyterapp.commands.execute('application:toggle-left-area')")
    notebook.start_cell(0)
    notebook.finish_cell(0)
    page.get_by_role("button", name="use in a grid").click()
    page.locator(".harness-form .f-facts").wait_for()
    page.wait_for_function(
        "() => { const top = document.querySelector('.harness-form').getBoundingClientRect().top; return top >= 0 && top < 300; }"
    )
    page.screenshot(path=tmp_path / "form-1400.png")
    controls, estimate = page.evaluate(BOXES)
    assert controls["right"] <= estimate["left"]
    assert estimate["top"] - controls["top"] < 20
    page.set_viewport_size({"width": 600, "height": 800})
    page.screenshot(path=tmp_path / "form-600.png")
    controls, estimate = page.evaluate(BOXES)
    assert estimate["top"] > controls["top"] + 200
    assert estimate["right"] <= 600
