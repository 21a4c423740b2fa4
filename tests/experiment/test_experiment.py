"""Tests of whole experiments: real grids in real sandboxes, interrupted, killed and continued, and plans that are refused."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pandas as pd
import psutil
import pytest

from harness.analysis.arms import add_total_cost, select_valid
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.errors import MissingKey, SandboxUnavailable, StoreError, UnknownName, UsageError, WindowTooSmall
from harness.experiment.contrasts import Contrast
from harness.experiment.experiment import Experiment
from harness.experiment.grid import Arm
from harness.experiment.output import open_output
from harness.experiment.plan import Settings
from harness.experiment.progress import NoDisplay
from harness.experiment.trial import Trial
from harness.inspection.loading import load
from harness.models.endpoint.server import make_model_finder, serve_endpoint
from harness.reporting.experiment_report import report
from harness.reporting.not_worse import DeclaredMargin, read_margin
from harness.sandboxes.backends import SandboxChoice
from harness.store.columns import VOLATILE_COLUMNS
from tests.experiment.run_grid import SMALL
from tests.experiment.tiny_task import tiny

CHECKOUT = Path(__file__).parents[2]
REAL = pytest.mark.bubblewrap


EXPLORING_PLAN = """
[experiment]
title = "Models of sub-agents"

[trial]
task = "{task}"
policy = "none"
window_tokens = 32_768
explore = true
sandbox = {{ backend = "bubblewrap" }}

[axes]
seed = [0, 1]
explore_model = ["same", "scripted:typical"]

[[arms]]
name = "alone"
trial = {{ explore = false }}
"""


def table(results):
    """Return the records of the trials without the values that differ between runs."""
    return results.trials.drop(columns=list(VOLATILE_COLUMNS["trials"])).sort_values("trial_id", ignore_index=True)


def begun(folder):
    """Start the small grid in a process of its own, and wait until one trial has finished."""
    run = subprocess.Popen(
        [sys.executable, "-m", "tests.experiment.run_grid", str(folder)],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert run.stderr is not None
    for line in run.stderr:
        if line.startswith("[1/"):
            return run
    raise AssertionError("the grid finished nothing")


def processes_of(group):
    """Return the ids of the living processes of a session."""
    pids = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, ProcessLookupError):  # the process has just ended
            if os.getsid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                pids.append(process.pid)
    return pids


def gone(group):
    deadline = time.monotonic() + 300
    while processes_of(group) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not processes_of(group)


@REAL
@pytest.mark.slow
class TestRuns:
    def test_a_grid_gives_a_row_for_each_trial_and_tables_beside_it(self, small_results):
        trials = small_results.trials
        assert len(trials) == len(SMALL.grid) == 9
        assert set(trials["trial_id"]) == {cell.trial.trial_id for cell in SMALL.grid}
        assert set(trials["status"]) == {"completed", "failed"}
        assert trials.set_index("arm").loc["control", "reason"].unique().tolist() == ["overflow"]
        oracle = trials[trials["arm"] == "summarizer=scripted/oracle"]
        assert oracle["success"].all()
        assert (oracle["compactions"] > 0).all()
        assert small_results.steps.groupby("trial_id").size().to_dict() == dict(
            zip(trials["trial_id"], trials["steps"], strict=True)
        )
        assert len(small_results.checks) == 2 * len(trials)
        assert sorted(path.name for path in (small_results.output / "results").iterdir()) == [
            *("checks", "compactions", "messages", "probes", "steps", "trials"),
        ]

    def test_the_model_of_sub_agents_is_an_axis_and_its_cost_has_a_column(self, tmp_path):
        """S3.20: from a plan file to the report."""
        plan = EXPLORING_PLAN.format(task=f"{CHECKOUT / 'tests' / 'experiment' / 'exploring_task.py'}:hidden")
        (tmp_path / "plan.toml").write_text(plan)
        experiment = Experiment.from_toml(tmp_path)
        results = experiment.run(workers=1, progress="off")
        trials = results.trials.set_index("arm")
        assert set(trials.index) == {"explore_model=same", "explore_model=scripted:typical", "alone"}
        assert set(results.axes["explore_model"].dropna()) == {"same", "scripted:typical"}
        assert trials["success"].all()
        exploring = trials[trials.index != "alone"]
        assert exploring["explorations"].tolist() == [1] * 4
        assert exploring["sub_agent_steps"].tolist() == [2] * 4
        assert (exploring["sub_agent_cost_usd"] > 0).all()
        assert (trials.loc["alone", ["explorations", "sub_agent_steps", "sub_agent_cost_usd"]] == 0).all().all()
        totals = add_total_cost(results.trials)
        assert (totals["total_cost_usd"] - totals["cost_usd"] - totals["sub_agent_cost_usd"]).abs().max() < 1e-12
        assert "sub-agents USD" in report(results).render_markdown()
        assert len(results.steps["session_id"].unique()) == 6 + 4, "the sub-agents' steps are logged, too"
        pd.testing.assert_frame_equal(experiment.run(workers=2, progress="off").trials, results.trials)

    def test_running_again_runs_nothing(self, small_results):
        before = small_results.trials
        again = SMALL.run(small_results.output, workers=2, progress="off")
        pd.testing.assert_frame_equal(before, again.trials)

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_stopped_run_keeps_what_is_finished_and_going_on_gives_the_table_of_an_uninterrupted_run(
        self, number, small_results, tmp_path
    ):
        run = begun(tmp_path)
        os.killpg(run.pid, number)
        _, errors = run.communicate(timeout=300)
        assert run.returncode not in {0, None}
        assert "KeyboardInterrupt" in errors
        assert "leaked" not in errors
        assert gone(run.pid)
        with open_output(tmp_path) as output:
            finished = output.journal.list_trials()
        assert 1 <= len(finished) < 9
        assert [record.error for record in finished if record.status == "crashed"] == []
        assert list((tmp_path / "journals").iterdir()) == []
        assert list((tmp_path / "results" / "trials").iterdir()) != []
        pd.testing.assert_frame_equal(table(SMALL.run(tmp_path, workers=1, progress="off")), table(small_results))

    def test_a_killed_run_leaves_no_processes_and_is_gone_on_with(self, small_results, tmp_path):
        run = begun(tmp_path)
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
        assert gone(run.pid)
        run.stdout.close()
        run.stderr.close()
        pd.testing.assert_frame_equal(table(SMALL.run(tmp_path, workers=1, progress="off")), table(small_results))

    def test_a_killed_worker_costs_one_trial_that_the_next_run_does(self, small_results, tmp_path):
        run = begun(tmp_path)
        next(one for one in psutil.Process(run.pid).children() if "spawn_main" in " ".join(one.cmdline())).kill()
        out, _ = run.communicate(timeout=300)
        assert out == "whole\n"
        with open_output(tmp_path) as output:
            records = output.journal.list_trials()
        assert len(records) == 9
        crashed = [record for record in records if record.status == "crashed"]
        assert all("the worker process died" in record.error for record in crashed)
        assert len(crashed) <= 1
        pd.testing.assert_frame_equal(table(SMALL.run(tmp_path, workers=1, progress="off")), table(small_results))

    def test_agents_that_sleep_fail_after_half_of_the_time_of_a_trial_and_count(self, tmp_path):
        """The commands of the whole session would take 16 s, less than the limit of the trial."""
        base = replace(SMALL.base, task=SMALL.base.task.replace(":tiny", ":sleepy"))
        settings = Settings(trial_timeout_seconds=24.0, action_cache="off")
        trials = Experiment(name="sleepy", base=base, settings=settings).run(tmp_path, workers=1, progress="off").trials
        assert trials[["status", "reason", "success"]].to_numpy().tolist() == [["failed", "timeout", False]]
        assert len(select_valid(trials)) == 1

    def test_threads_give_the_same_table_as_processes(self, small_results, tmp_path):
        threads = replace(SMALL, settings=replace(SMALL.settings, executor="threads"))
        pd.testing.assert_frame_equal(table(threads.run(tmp_path, workers=3, progress="off")), table(small_results))

    def test_a_stop_from_another_thread_returns_the_finished_trials(self, tmp_path):
        stop = threading.Event()
        stop.set()
        with open_output(tmp_path):
            pass
        assert len(SMALL.run(tmp_path, workers=1, progress="off", stop=stop).trials) == 0

    def test_trials_of_another_plan_in_the_same_folder_are_shared_and_take_its_names(self, small_results, tmp_path):
        one = replace(SMALL, axes={"seed": [0]}, arms=())
        one.run(tmp_path, workers=1, progress="off")
        other = replace(SMALL, axes={"seed": [0], "policy.keep_last": [2]}, arms=())
        trials = other.run(tmp_path, workers=1, progress="off").trials
        assert trials["arm"].tolist() == ["keep_last=2"]

    def test_a_worker_stays_under_300_megabytes(self, tmp_path):
        run = begun(tmp_path)
        peaks = []
        while run.poll() is None:
            for pid in processes_of(run.pid):
                try:
                    command = Path(f"/proc/{pid}/cmdline").read_bytes()
                    status = Path(f"/proc/{pid}/status").read_text()
                except OSError:
                    continue
                if b"spawn_main" in command:
                    peaks += [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")]
            time.sleep(0.1)
        run.communicate()
        assert peaks
        assert max(peaks) < 300_000


BASE = Trial(task="flashcards", policy=KeepLast(summarizer="scripted/oracle"), window_tokens=32_768)


@pytest.mark.parametrize(
    ("trial", "kind", "words"),
    [
        (replace(BASE, task="flashcard"), UnknownName, "unknown task 'flashcard'; did you mean 'flashcards'"),
        (replace(BASE, model="scripted/flashcards:atentive"), UnknownName, "did you mean 'attentive'"),
        (replace(BASE, model="gpt-4.1-mni"), UsageError, "gpt-4.1-mni"),
        (replace(BASE, model="gpt-4.1-mini"), MissingKey, "OPENAI_API_KEY"),
        (replace(BASE, policy=KeepLast(summarizer="scripted/orakel")), UnknownName, "did you mean 'scripted/oracle'"),
        (replace(BASE, policy=NoCompaction(), window_tokens=300), WindowTooSmall, "first request .* 300; raise window_tokens"),
        (replace(BASE, sandbox=SandboxChoice(backend="local")), UsageError, "isolates nothing; run with --unsafe-local"),
        (replace(BASE, sandbox=SandboxChoice(backend="docker", image="no/such:0")), SandboxUnavailable, "docker"),
        (replace(BASE, sandbox=SandboxChoice(image="no/such:0")), SandboxUnavailable, "'docker' .* the image 'no/such:0'"),
    ],
)
def test_an_experiment_that_cannot_run_is_refused_before_anything_is_written(tmp_path, monkeypatch, trial, kind, words):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(kind, match=words):
        Experiment(name="x", base=trial).run(tmp_path / "output", progress="off")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_the_first_run_with_declared_contrasts_begins_the_record_of_looks(tmp_path):
    contrast = Contrast(a="summarizer=scripted/oracle", b="summarizer=scripted/empty")
    declared = replace(SMALL, axes={**SMALL.axes, "seed": list(range(6))}, arms=(), contrasts=(contrast,))
    results = declared.run(tmp_path / "with", workers=1, progress="off")
    assert json.loads((tmp_path / "with" / "looks.json").read_text()) == {"from_start": True, "looks": []}
    assert any(section.heading.startswith("Declared contrasts: ") for section in report(results).sections)
    assert len(json.loads((tmp_path / "with" / "looks.json").read_text())["looks"]) == 1
    replace(SMALL, axes={"seed": [0]}).run(tmp_path / "without", workers=1, progress="off")
    assert not (tmp_path / "without" / "looks.json").exists()


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_the_first_run_stores_the_margin_and_the_report_prints_a_later_change_of_it(tmp_path):
    declared = replace(SMALL, axes={"seed": [0]}, arms=(), not_worse_margin=0.05)
    assert {cell.trial_id for cell in declared.grid} == {cell.trial_id for cell in replace(declared, not_worse_margin=None).grid}
    results = declared.run(tmp_path, workers=1, progress="off")
    assert json.loads(results.trials["provenance_json"].iloc[0])["not_worse_margin"] == 0.05
    assert read_margin(results) == DeclaredMargin(value=0.05)
    results = replace(declared, not_worse_margin=0.1).run(tmp_path, workers=1, progress="off")
    assert read_margin(results) == DeclaredMargin(value=0.05, changes=(0.1,))
    change = "The margin was changed after the first run, from 0.05 to 0.1; the first one counts."
    assert any(change in note for note in report(results).sections[0].notes)


@pytest.mark.parametrize("axes", [{}, {"task": ["flashcards", "flashcard"]}])
def test_a_misspelt_task_is_refused_by_the_constructor_of_the_experiment(axes):
    base = BASE if axes else replace(BASE, task="flashcard")
    with pytest.raises(UnknownName, match="unknown task 'flashcard'; did you mean 'flashcards'"):
        Experiment(name="x", base=base, axes=axes)


@pytest.mark.parametrize("name", ["", ".", "..", "../elsewhere", "/etc", "a\0b", "ü" * 101])
def test_a_name_that_no_folder_can_have_names_no_output(name):
    experiment = Experiment(name=name, base=SMALL.base)
    for act in (lambda: experiment.output, experiment.estimate, experiment.run):
        with pytest.raises(UsageError, match="name: must be the name of a folder"):
            act()


def test_a_name_of_any_letters_is_a_folder_and_a_folder_allows_any_name(tmp_path):
    assert Experiment(name="Größe 実験 🧪", base=SMALL.base).output == Path("experiments/Größe 実験 🧪/output")
    assert Experiment(name="a/b", base=SMALL.base, folder=tmp_path).output == tmp_path / "output"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"axes": None}, "axes: must be a table"),
        ({"folder": b"x"}, "folder: must be a path"),
        ({"name": 3}, "name: must be a string"),
        ({"base": {"task": "flashcards"}}, "base: must be a Trial"),
        ({"settings": {}}, "settings: must be a Settings"),
        ({"arms": None}, "arms: must be a list"),
        ({"contrasts": "a"}, "contrasts: must be a list"),
        ({"not_worse_margin": 1}, r"not_worse_margin: must be above 0 and below 1 \(got 1\)"),
        ({"not_worse_margin": "x"}, "not_worse_margin: must be above 0"),
    ],
)
def test_an_experiment_of_other_types_is_refused(changes, words):
    with pytest.raises(UsageError, match=words):
        Experiment(**{"name": "x", "base": SMALL.base, **changes})


@pytest.mark.parametrize("workers", [0, -1, 1.5, True])
def test_a_number_of_workers_that_cannot_be_is_refused_before_anything_is_written(tmp_path, workers):
    with pytest.raises(UsageError, match="workers: must be a whole number"):
        Experiment(name="x", base=BASE).run(tmp_path / "output", workers=workers, progress="off")
    assert list(tmp_path.iterdir()) == []


def test_an_output_folder_that_cannot_be_is_a_store_error(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StoreError, match=r"cannot write to .*choose another output folder"),
        open_output(tmp_path / "file" / "output"),
    ):
        pass


@pytest.mark.slow
@REAL
def test_another_machine_continues_with_the_trials_in_the_store(tmp_path):
    experiment = replace(SMALL, axes={"seed": [0]}, arms=(), settings=Settings(store=f"file://{tmp_path}/store"))
    results = experiment.run(tmp_path / "one", workers=1, progress="off")
    trials = table(results)
    assert table(load(f"file://{tmp_path}/store")).equals(trials)
    again = experiment.run(tmp_path / "other", workers=1, progress="off")
    assert again.trials.sort_values("trial_id", ignore_index=True).equals(
        results.trials.sort_values("trial_id", ignore_index=True)  # the times, too: nothing was run again
    )


@pytest.mark.slow
@REAL
def test_a_run_stays_in_its_folder_when_the_working_folder_changes(tmp_path, monkeypatch):
    class Wanderer(NoDisplay):
        def show(self, standing):
            monkeypatch.chdir(tmp_path / "elsewhere")

    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    results = replace(SMALL, axes={"seed": [0]}, arms=()).run("one", workers=1, progress=Wanderer())
    assert len(results.trials) == 1
    assert len(results.steps) > 1
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_two_runs_never_write_to_one_folder(tmp_path):
    with open_output(tmp_path), pytest.raises(UsageError, match="another run is using"), open_output(tmp_path):
        pass


def test_an_experiment_built_in_python_equals_the_one_read_from_a_plan(tmp_path):
    (tmp_path / "plan.toml").write_text(
        '[trial]\ntask = "flashcards"\nwindow_tokens = 32_768\npolicy = { kind = "keep-last", summarizer = "scripted/oracle" }\n'
        '[axes]\nseed = [0, 1]\npolicy.threshold = [0.5]\n[[arms]]\nname = "control"\ntrial = { policy = { kind = "none" } }\n'
    )
    built = Experiment(
        name=tmp_path.name,
        base=BASE,
        axes={"seed": [0, 1], "policy.threshold": [0.5]},
        arms=[Arm(name="control", trial={"policy": {"kind": "none"}})],
    )
    read = Experiment.from_toml(tmp_path)
    assert [cell.trial.trial_id for cell in read.grid] == [cell.trial.trial_id for cell in built.grid]
    assert [cell.arm for cell in read.grid] == [cell.arm for cell in built.grid]
    assert read.name == built.name
    assert read.output == tmp_path / "output"
    assert built.output == Path("experiments") / tmp_path.name / "output"


def test_another_backend_is_that_of_all_trials_also_where_an_arm_or_axis_names_one():
    local = Arm(name="local", trial={"policy": {"kind": "none"}, "sandbox.backend": "local"})
    planned = Experiment(name="x", base=BASE, axes={"sandbox.backend": ["auto", "bubblewrap"]}, arms=[local])
    assert {cell.trial.sandbox.backend for cell in planned.with_sandbox("docker").grid} == {"docker"}


LOCAL = "local/smollm2-135m"


@pytest.fixture(scope="module")
def summarized(tmp_path_factory):
    """Return a trial with one summary by a real model, and a twin that only differs in a limit that is never reached.

    Both trials end before a second compaction, because the summary names no finished work and the agent would start again.
    """
    policy = KeepLast(
        threshold=0.16,
        keep_last=2,
        measure="estimate",  # reports also count the tool definitions, a quarter of this small threshold
        summarizer=LOCAL,
        summary_max_tokens=30,
        system_reserve_tokens=50,
        output_reserve_tokens=50,
        safety_reserve_tokens=50,
    )
    task = SMALL.base.task.replace(":tiny", ":wordy")
    base = replace(SMALL.base, task=task, policy=policy, window_tokens=4_000, max_steps=5)
    experiment = Experiment(name="real", base=base, arms=(Arm(name="twin", trial={"command_timeout_seconds": 61.0}),))
    return experiment.run(tmp_path_factory.mktemp("real"), workers=2, progress="off")


@REAL
@pytest.mark.local_llm
class TestARealSummarizerOnThisMachine:
    def test_its_trials_are_level_l1_and_got_their_treatment(self, summarized):
        trials = summarized.trials
        assert list(trials["reason"]) == ["max_steps", "max_steps"]
        assert list(trials["level"]) == ["L1", "L1"]
        assert list(trials["treatment"]) == ["as planned", "as planned"]
        assert list(trials["compactions"]) == [1, 1]

    def test_a_summary_is_its_own_words_with_its_own_counts_and_time_at_no_price(self, summarized):
        for _, event in summarized.compactions.iterrows():
            assert (event["summarizer"], event["status"]) == (LOCAL, "applied")
            heading, _, text = event["summary"].partition("\n\n")
            assert heading == "## Session Summary (Compaction Round 1)"
            assert len(text.split()) > 10
            assert 300 < event["summarizer_prompt_tokens"] <= 1_500
            assert 10 < event["summarizer_output_tokens"] <= 30
            assert event["summarizer_cost_usd"] == 0.0
            assert event["summarizer_seconds"] > 0
            assert event["tokens_after"] < event["tokens_before"]
        assert list(summarized.trials["summarizer_cost_usd"]) == [0.0, 0.0]

    def test_the_same_view_gets_the_same_summary_and_the_agent_goes_on_with_it(self, summarized):
        first, twin = (part["summary"].tolist() for _, part in summarized.compactions.groupby("trial_id"))
        assert first == twin
        for _, steps in summarized.steps.groupby("trial_id"):
            last = steps.sort_values("step")["prompt_tokens"].tolist()
            assert any(after < before for before, after in pairwise(last))

    def test_the_record_says_which_weights_wrote_it_and_how(self, summarized):
        for provenance in map(json.loads, summarized.trials["provenance_json"]):
            [model] = provenance["local_models"]
            assert (model["name"], model["temperature"], len(model["sha256"])) == (LOCAL, 0.0, 64)
            assert "xllamacpp" in dict(provenance["packages"])


@REAL
@pytest.mark.slow
def test_a_recorded_experiment_is_run_again_without_its_models(tmp_path, monkeypatch):
    policy = KeepLast(threshold=0.5, keep_last=2, summarizer="hosted_vllm/scripted/oracle")
    base = replace(SMALL.base, model="hosted_vllm/scripted/tiny:attentive", policy=policy, window_tokens=16_000)
    experiment = Experiment(name="taped", base=base, axes={"replicate": [0, 1]}, settings=Settings(executor="threads"))
    tape = tmp_path / "tape.jsonl"
    with serve_endpoint(make_model_finder([tiny(0)], window_tokens=16_000)) as endpoint:
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", endpoint.address)
        recorded = experiment.with_cassette(tape, "record").run(tmp_path / "recorded", workers=2, progress="off")
        answers = len(endpoint.served)
    monkeypatch.delenv("HOSTED_VLLM_API_BASE")
    with pytest.raises(MissingKey):
        experiment.check()
    replayed = experiment.with_cassette(tape, "replay").run(tmp_path / "replayed", workers=2, progress="off")
    pd.testing.assert_frame_equal(table(replayed), table(recorded))
    assert list(replayed.trials["success"]) == [True, True]
    assert (replayed.trials["compactions"] > 0).all()
    cassettes = [json.loads(text)["cassette"] for text in replayed.trials["provenance_json"]]
    assert cassettes == [{"mode": "replay", "file": "tape.jsonl", "sha256": hashlib.sha256(tape.read_bytes()).hexdigest()}] * 2
    assert {json.loads(text)["cassette"]["mode"] for text in recorded.trials["provenance_json"]} == {"record"}
    assert answers == len(tape.read_bytes().splitlines()) - 1
