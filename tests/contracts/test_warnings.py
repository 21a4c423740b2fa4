"""A policy that does not fit its window is warned of wherever a run can be started, and in every report on its results.

`opencode` reserves 32,000 tokens for the answer, so that it is due at 768 tokens in a window of 32,768.
"""

import json
import re
import warnings
from contextlib import closing
from dataclasses import replace
from html import unescape

import pytest

import harness
from harness.cli.run import describe_plan
from harness.conversation.advisories import Advisory, format_advisories
from harness.conversation.events import Entry, Notice, SessionStarted, TransientEvent
from harness.errors import PolicyWarning
from harness.experiment.experiment import Experiment
from harness.experiment.trial import Trial
from harness.inspection.recorded_session import RecordedSession
from harness.inspection.session_steps import SessionSteps
from harness.policies import policy_from_plain
from harness.reporting.page.document import collect_page, render_page, write_page
from harness.sandboxes.backends import SandboxChoice
from harness.session.live_session import LiveSession
from harness.session.spec import SessionSpec
from harness.store.journal import Journal
from harness.widgets.agent import AgentWidget
from harness.widgets.explorer import CompactionExplorer
from harness.widgets.grid import GridWidget
from harness.widgets.grid_form import GridForm
from harness.widgets.inspector import SessionInspector
from tests.cli.command import TINY, within
from tests.experiment.tiny_task import tiny

OPENCODE = policy_from_plain({"kind": "opencode@v1", "summarizer": "scripted/extractive"})
TRIAL = Trial(task=TINY, policy=OPENCODE, window_tokens=32_768, max_steps=4, sandbox=SandboxChoice(backend="local"))
EXPERIMENT = Experiment(name="tight", base=TRIAL)
WARNING = "policy 'opencode@v1' is due at 768 tokens (32,768 − 32,000 for the answer = 768 tokens; window from configuration)"
REMEDY = "raise window_tokens, lower max_output_tokens, or set nominal_window_tokens to the window"
PLAN = f"""
[trial]
task = "{TINY}"
window_tokens = 32768
max_steps = 4
sandbox = {{ backend = "local" }}
policy = {{ kind = "opencode@v1", summarizer = "scripted/extractive" }}
"""


def is_warned(text: str) -> bool:
    """Return whether a text, in which lines may be broken, has the warning with its remedy."""
    line = " ".join(re.sub(r"<[^>]*>", " ", unescape(text)).split())
    return WARNING in line and REMEDY in line


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    with pytest.warns(PolicyWarning):
        return EXPERIMENT.run(tmp_path_factory.mktemp("tight"), workers=1, progress="off", unsafe_local=True)


@pytest.mark.slow
def test_the_library_warns_at_the_line_that_starts_the_run_and_can_be_silenced(tmp_path):
    with pytest.warns(PolicyWarning, match=re.escape(WARNING)) as caught:
        EXPERIMENT.run(tmp_path, workers=1, progress="off", unsafe_local=True)
    assert [warning.filename for warning in caught] == [__file__]
    assert is_warned(str(caught[0].message))
    with warnings.catch_warnings(record=True) as silent:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", category=harness.PolicyWarning)
        EXPERIMENT.run(tmp_path, workers=1, progress="off", unsafe_local=True)
    assert not silent


@pytest.mark.slow
def test_the_record_of_a_trial_and_the_log_of_its_session_keep_the_warning(results):
    (text,) = results.trials["advisories_json"]
    assert is_warned(*format_advisories(Advisory(**plain) for plain in json.loads(text)))
    (trial_id,) = results.trials["trial_id"]
    with Journal.open(results.output / "journal.sqlite", read_only=True) as journal:
        started = next(iter(journal.read_entries(trial_id))).event
    assert isinstance(started, SessionStarted)
    assert is_warned(*map(str, started.advisories))


@pytest.mark.slow
def test_every_report_repeats_the_warning(results, tmp_path):
    report = harness.report(results)
    assert is_warned(report.render_text())
    assert is_warned(report.render_text(full=True))
    assert is_warned(report.render_markdown().replace("\\", ""))
    assert is_warned(report._repr_html_())
    assert is_warned(write_page(results, tmp_path / "report.html").read_text("utf-8"))
    assert is_warned(render_page(collect_page(results, max_sessions=0, takes_interim_analyses=False), served=True)), (
        "harness view"
    )
    assert is_warned(within("report", results.output).stdout)


@pytest.mark.slow
def test_a_report_without_outcomes_repeats_the_warning(tmp_path):
    declared = Experiment(
        name="declared",
        base=TRIAL,
        axes={"seed": [*range(8)]},
        arms=(harness.Arm(name="control", trial={"policy": "none"}),),
        contrasts=(harness.Contrast(a="opencode@v1", b="control", metric="score"),),
    )
    done = declared.run(tmp_path, workers=1, progress="off", unsafe_local=True, limits=harness.RunLimits(max_trials=2))
    document = harness.report(done)
    assert "have finished" in document.render_text()
    assert is_warned(document.render_text())


@pytest.mark.slow
def test_the_command_line_warns_once(tmp_path):
    (tmp_path / "tight").mkdir()
    (tmp_path / "tight" / "plan.toml").write_text(PLAN)
    planned = within("run", tmp_path / "tight", "--dry-run", "--unsafe-local")
    assert is_warned(planned.stdout)
    done = within("run", tmp_path / "tight", "--unsafe-local", "--workers", "1", "--progress", "off")
    assert done.exit_code == 0, done.stderr
    before_report = done.stdout.partition("Report on tight")[0]
    assert (before_report + done.stderr).count(WARNING) == 1


def test_the_form_and_the_grid_widget_show_the_warning_before_a_run(tmp_path):
    form = GridForm(TRIAL, output=tmp_path)
    assert any(label == "warning" and is_warned(text) for label, text in form._describe(EXPERIMENT, harness.RunLimits()))
    with warnings.catch_warnings():
        warnings.simplefilter("error", category=PolicyWarning)
        widget = GridWidget(EXPERIMENT, tmp_path, workers=1)
        assert is_warned(*widget.warnings)
        assert is_warned(widget.render_html())
        widget.close()


def test_a_grid_that_cannot_run_opens_without_warnings_and_says_why_when_it_is_started(tmp_path):
    widget = GridWidget(Experiment(name="refused", base=replace(TRIAL, window_tokens=16_000)), tmp_path, workers=1)
    assert widget.warnings == ()
    widget.start()
    assert widget.wait(60) == "failed"
    assert "reserves of 32,000 tokens leave nothing" in widget.failure
    widget.close()


def make_spec(**changes) -> SessionSpec:
    task = tiny(0)
    plain = {"request": task.prompt, "task": task, "policy": OPENCODE, "window_tokens": 32_768, "max_steps": 3}
    return SessionSpec(**{**plain, "sandbox": SandboxChoice(backend="local"), "unsafe_local": True, **changes})


@pytest.mark.slow
def test_a_live_session_its_widget_its_command_and_its_inspection_show_the_warning(tmp_path):
    heard: list[Entry | TransientEvent] = []
    journal = tmp_path / "session.sqlite"
    with closing(LiveSession(make_spec(journal=journal), session_id="s", on_event=heard.append)) as live:
        live.start()
        live.wait(60)
    assert [is_warned(event.text) for event in heard if isinstance(event, Notice)] == [True]
    session = RecordedSession(name="s", entries=tuple(item for item in heard if isinstance(item, Entry)))
    assert [is_warned(text) for name, text in SessionSteps(session).describe_session() if name == "warning"] == [True]
    assert is_warned(SessionInspector(journal, session_id="s").render_html())
    assert is_warned(within("inspect", "s", "--in", journal).stdout)
    widget = AgentWidget.from_session(make_spec())
    widget.session.start()
    widget.session.wait(60)
    widget.close()  # waits until everything queued is shown
    assert is_warned(widget.render_html())
    arguments = ("--policy", "opencode@v1", "--set", "summarizer=scripted/extractive", "--window", "32768", "--max-steps", "2")
    done = within("agent", "--task", TINY, *arguments, "--backend", "local", "--unsafe-local", "--no-journal", given="")
    assert is_warned(done.stderr)


def test_the_explorer_warns_of_a_policy_that_does_not_fit_the_chosen_window():
    explorer = CompactionExplorer("sample", policy=OPENCODE, window_tokens=32_768)
    explorer.change_settings(nominal_window_tokens=None)
    assert is_warned(explorer.render_html())
    explorer.change_settings(nominal_window_tokens=200_000)
    assert not is_warned(explorer.render_html())
    explorer.close()


def test_the_first_grid_of_the_documentation_and_default_policies_in_their_windows_are_not_warned_of():
    first = Trial(
        task="flashcards", policy=harness.KeepLast(summarizer="scripted/extractive"), window_tokens=32_768, max_steps=300
    )
    assert Experiment(name="two-thresholds", base=first, axes={"policy.threshold": [0.5, 0.8]}).collect_warnings() == ()
    scaled = replace(TRIAL, nominal_window_tokens=200_000)
    assert "warning" not in describe_plan(Experiment(name="scaled", base=scaled))
