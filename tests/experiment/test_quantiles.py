"""Tests of thresholds that are quantiles of an uncompacted run: pooled requests, resolved trials, and refused quantiles."""

import bisect
import shutil
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cli.run import describe_plan
from harness.compaction.presets.langchain import COUNTER
from harness.compaction.presets.none import NoCompaction
from harness.conversation.events import Entry, MessageAdded
from harness.conversation.tokens import QuarterOfCharacters
from harness.conversation.view import fold_all
from harness.errors import UsageError
from harness.experiment.experiment import Experiment
from harness.experiment.grid import Arm, Grid
from harness.experiment.plan import Settings
from harness.experiment.quantiles import RequestPool, UncompactedRun, measure_contexts
from harness.experiment.trial import Trial, to_plain
from harness.sandboxes.backends import SandboxChoice
from harness.store.journal import Journal
from harness.testing.strategies import conversations
from tests.experiment.run_grid import POLICY, TINY

WORDY = TINY.replace(":tiny", ":wordy")
PLAIN = Trial(task=TINY, policy=NoCompaction(), window_tokens=100_000, max_steps=60, sandbox=SandboxChoice(backend="bubblewrap"))
BASE = Trial(task=TINY, policy=POLICY, window_tokens=20_000, max_steps=60, sandbox=SandboxChoice(backend="bubblewrap"))
QUARTER = QuarterOfCharacters()
PATH = "policy.trigger_tokens"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run two tasks with two seeds each without compaction, and one compacted arm that must not be pooled."""
    arms = [
        Arm(name="compacted", trial={"policy": {"kind": "keep-last", "summarizer": "scripted/empty"}, "window_tokens": 14_000})
    ]
    folder = tmp_path_factory.mktemp("plain")
    experiment = Experiment(name="plain", base=PLAIN, axes={"task": [TINY, WORDY], "seed": [0, 1]}, arms=arms, folder=folder)
    return experiment.run(workers=1, progress="off")


@pytest.fixture(scope="module")
def folder(run):
    return run.output.parent


def of(run, task, seed=None):
    """Return the uncompacted steps of a task from the results."""
    steps = run.steps.merge(run.trials[["trial_id", "task", "seed", "policy"]], on="trial_id").query("policy == 'none'")
    return steps[(steps["task"] == task) & ((steps["seed"] == seed) | (seed is None))]


def grid(folder, axes, *arms, base=BASE):
    return Grid(base, axes, arms, uncompacted=UncompactedRun(folder))


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.integers(1, 99))
def test_a_quantile_is_the_least_number_that_the_share_stayed_within(tokens, percent):
    text, pool = f"q0.{percent:02}", RequestPool(tuple(sorted(tokens)), 1, 0)
    quantile = pool.find_quantile(text, "here").tokens
    assert quantile in tokens
    assert (
        bisect.bisect_right(pool.tokens, quantile)
        >= Fraction(percent, 100) * len(tokens)
        > bisect.bisect_left(pool.tokens, quantile)
    )


@pytest.mark.parametrize("text", ["q0", "q0.0", "q1", "q1.5", "q90", "q-0.5", "q.5", "q", "quite", "q0.5 "])
def test_an_invalid_quantile_is_refused_with_its_path(text):
    with pytest.raises(
        UsageError, match=r"axes\.policy\.trigger_tokens: a quantile must be above 0 and below 1, e\.g\. q0\.5 or q0\.95"
    ):
        RequestPool((1, 2, 3), 1, 0).find_quantile(text, f"axes.{PATH}")


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_every_answered_request_of_the_uncompacted_sessions_of_a_task_is_pooled(run, folder):
    for task in (TINY, WORDY):
        pool = UncompactedRun(folder).load_pool(to_plain(Trial(task=task, policy=POLICY)), QUARTER)
        assert list(pool.tokens) == sorted(of(run, task)["view_tokens"])
        assert (pool.sessions, pool.cut_short) == (2, 0)


@pytest.mark.bubblewrap
def test_a_request_counts_as_the_policy_of_the_trial_would_have_estimated_it(run, folder):
    expected = []
    with Journal.open(folder / "output" / "journal.sqlite", read_only=True) as journal:
        for trial in journal.list_trials():
            if (trial.task, trial.policy) != (TINY, "none"):
                continue
            messages = [
                entry.event.message for entry in journal.read_entries(trial.session_id) if isinstance(entry.event, MessageAdded)
            ]
            sums = accumulate((COUNTER.count(message) for message in messages), initial=0)
            expected += [tokens for tokens, message in zip(sums, messages, strict=False) if message.role == "assistant"]
    (cell,) = grid(folder, {"policy": [{"kind": "langchain-clear-tool-uses", "trigger_tokens": "q0.5"}]})
    assert cell.trial.policy.trigger_tokens == RequestPool(tuple(sorted(expected)), 2, 0).find_quantile("q0.5", "").tokens
    assert (
        cell.trial.policy.trigger_tokens
        != UncompactedRun(folder).load_pool(to_plain(BASE), QUARTER).find_quantile("q0.5", "").tokens
    )


@pytest.mark.bubblewrap
def test_a_request_counts_as_the_provider_reported_it_if_the_policy_acts_on_reports(run, folder):
    expected = RequestPool(tuple(sorted(of(run, TINY)["prompt_tokens"])), 2, 0).find_quantile("q0.5", "").tokens
    estimated = RequestPool(tuple(sorted(of(run, TINY)["view_tokens"])), 2, 0).find_quantile("q0.5", "").tokens
    (by_reports, by_estimates) = grid(folder, {"policy.measure": ["calibrated", "estimate"], PATH: ["q0.5"]})
    assert (by_reports.trial.policy.trigger_tokens, by_estimates.trial.policy.trigger_tokens) == (expected, estimated)
    assert expected != estimated


@pytest.mark.bubblewrap
def test_a_trial_holds_the_number_and_arm_and_axis_show_the_quantile(folder):
    cells = grid(folder, {PATH: ["q0.5", "q0.9"], "task": [TINY, WORDY], "seed": [7]})
    assert [cell.arm for cell in cells] == ["trigger_tokens=q0.5", "trigger_tokens=q0.9"] * 2
    assert [cell.axes[PATH] for cell in cells] == ["q0.5", "q0.9"] * 2
    pools = {
        task: UncompactedRun(folder).load_pool(to_plain(Trial(task=task, policy=POLICY)), QUARTER, reported=True)
        for task in (TINY, WORDY)
    }
    for cell in cells:
        tokens = pools[cell.trial.task].find_quantile(cell.axes[PATH], "").tokens
        (written,) = Grid(BASE, {PATH: [tokens], "task": [cell.trial.task], "seed": [7]})
        assert cell.trial == written.trial
        assert cell.trial.trial_id == written.trial.trial_id
    assert len({cell.trial.policy.trigger_tokens for cell in cells}) == 4


@pytest.mark.bubblewrap
def test_whole_policies_and_arms_may_hold_quantiles_too(folder):
    tables = [{"kind": "anthropic-clear-tool-uses", "trigger_tokens": one} for one in ("q0.25", "q0.75", 4_000)]
    arm = Arm(name="late", trial={"policy": {"trigger_tokens": "q0.95"}})
    cells = grid(folder, {"policy": tables}, arm)
    names = [f"policy=anthropic-clear-tool-uses(trigger_tokens={one})" for one in ("q0.25", "q0.75", "4000")]
    assert [cell.arm for cell in cells] == [*names, "late"]
    assert [set(cell.quantiles) for cell in cells] == [{PATH}, {PATH}, set(), {PATH}]
    assert cells[3].trial.policy == replace(POLICY, trigger_tokens=cells[3].quantiles[PATH].tokens)


@pytest.mark.bubblewrap
def test_a_plan_names_the_measured_run_and_prints_the_quantile_before_it_starts(folder, tmp_path):
    trial = f'[trial]\ntask = "{TINY}"\npolicy = "keep-last"\n'
    (tmp_path / "plan.toml").write_text(
        f'[experiment]\nuncompacted = "{folder}"\n{trial}[axes]\n{PATH} = ["q0.5"]\nseed = [0, 1]\n'
    )
    planned = Experiment.from_toml(tmp_path)
    quantile = planned.grid[0].quantiles[PATH]
    assert quantile.sessions == 2
    lines = [line for line in describe_plan(planned).splitlines() if line.startswith(PATH)]
    assert lines == [
        f"{PATH}=q0.5 of {TINY}: {quantile.tokens:,} tokens, from {quantile.requests} requests of 2 uncompacted sessions"
    ]


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_run_is_compacted_at_the_step_that_reached_the_quantile_without_compaction(run, folder, tmp_path):
    settings = Settings(uncompacted=str(folder))
    axes: dict[str, list[object]] = {PATH: ["q0.5", "q0.8"], "seed": [0, 1]}
    base = replace(BASE, policy=replace(POLICY, measure="estimate"))
    experiment = Experiment(name="quantiles", base=base, axes=axes, settings=settings, folder=tmp_path)
    results = experiment.run(workers=1, progress="off")
    assert sorted(results.axes[PATH].unique()) == ["q0.5", "q0.8"]
    for cell, trial in zip(experiment.grid, results.trials.set_index("trial_id").loc[ids(experiment)].itertuples(), strict=True):
        steps = of(run, TINY, trial.seed)
        reached = steps[steps["view_tokens"] >= cell.quantiles[PATH].tokens]
        assert trial.threshold_tokens == cell.quantiles[PATH].tokens
        assert trial.first_compaction_step == reached["step"].min()


def ids(experiment):
    return [cell.trial.trial_id for cell in experiment.grid]


@pytest.mark.bubblewrap
@pytest.mark.parametrize(
    ("base", "axes", "words"),
    [
        (
            {"model": "scripted:typical"},
            {PATH: ["q0.5"]},
            r"no session without compaction of .*:tiny with scripted:typical, only of ",
        ),
        (
            {},
            {PATH: ["q0.5"], "task": ["flashcards"]},
            r"no session without compaction of flashcards with scripted, only of .*:tiny with",
        ),
        (
            {"nominal_window_tokens": 128_000},
            {PATH: ["q0.5"]},
            r"axes\.policy\.trigger_tokens: 'q0\.5' is a quantile, which nominal_window_tokens cannot scale",
        ),
        ({}, {PATH: ["q0.5", "q0.50"]}, r"trigger_tokens=q0\.5 \(.*\) and .*=q0\.50 \(.*\) give the same trial of"),
        ({}, {PATH: ["q2"]}, r"axes\.policy\.trigger_tokens: a quantile must be"),
        ({}, {PATH: ["half"]}, r"axes\.policy\.trigger_tokens: must be a whole number \(got 'half'\)"),
    ],
)
def test_an_invalid_or_unavailable_quantile_is_refused(folder, base, axes, words):
    with pytest.raises(UsageError, match=words):
        grid(folder, axes, base=replace(BASE, **base))


@pytest.mark.bubblewrap
def test_a_run_that_is_not_over_has_no_quantiles_yet(folder, tmp_path):
    shutil.copytree(folder / "output", tmp_path / "output")
    UncompactedRun(tmp_path)
    UncompactedRun(tmp_path / "output")
    with Journal.open(tmp_path / "output" / "journals" / "t.sqlite"):
        pass
    with pytest.raises(UsageError, match="its run has not finished"):
        UncompactedRun(tmp_path)


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"uncompacted = '.*nowhere': the folder does not exist"):
        UncompactedRun(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="the folder contains no results; run `harness run"):
        UncompactedRun(tmp_path)


def test_a_quantile_is_refused_without_an_uncompacted_run():
    with pytest.raises(UsageError, match=r"set `uncompacted` under \[experiment\]"):
        Grid(BASE, {PATH: ["q0.5"]})


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_sessions_that_were_cut_short_are_counted_and_what_is_compacted_is_not_there(tmp_path):
    axes = {"max_steps": [3, 60], "window_tokens": [1_800, 100_000], "seed": [0]}
    Experiment(name="cut", base=PLAIN, axes=axes, folder=tmp_path).run(workers=1, progress="off")
    pool = UncompactedRun(tmp_path).load_pool(to_plain(BASE), QUARTER)
    assert (pool.sessions, pool.cut_short) == (4, 3)
    only = Experiment(name="only", base=BASE, folder=tmp_path / "only")
    only.run(progress="off")
    with pytest.raises(UsageError, match="it contains no trial with policy 'none'"):
        UncompactedRun(tmp_path / "only")


@pytest.mark.slow
@given(conversations())
def test_contexts_are_what_the_view_held_before_each_answer(messages):
    entries = [Entry(seq, MessageAdded(message=message, step=0)) for seq, message in enumerate(messages, start=1)]
    held = [fold_all(entries[:at], COUNTER).tokens for at, message in enumerate(messages) if message.role == "assistant"]
    assert list(measure_contexts(iter(entries), COUNTER)) == held
