"""Tests of twins of stored trials and sessions: a real grid of trials with snapshots, continued from its journal."""

import json
from dataclasses import replace

import pytest

from harness.cli.autopsy import render_autopsy
from harness.errors import UsageError
from harness.experiment.experiment import Experiment
from harness.experiment.trial import Trial, from_plain, to_plain
from harness.inspection.autopsy import describe_compaction
from harness.inspection.autopsy_page import encode_compaction
from harness.inspection.loading import load
from harness.inspection.session_task import build_stored_autopsy
from harness.inspection.stored_twins import open_twin_source
from harness.policies import policy_from_plain
from harness.sandboxes.backends import SandboxChoice
from harness.session.live_session import LiveSession
from harness.store.journal import Journal
from harness.store.sessions.lookup import find_session
from tests.experiment.run_grid import TINY
from tests.session.test_execution import session
from tests.session.test_twins import FORGETFUL, list_compactions, list_digests

pytestmark = pytest.mark.slow


def make_trial(**changes):
    plain = {
        "task": TINY,
        "policy": policy_from_plain(FORGETFUL),
        "model": "scripted:typical",
        "window_tokens": 16_000,
        "sandbox": SandboxChoice(backend="local"),
        "compaction_snapshots": True,
    }
    return Trial(**{**plain, **changes})


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """Results of the same trial with and without snapshots."""
    folder = tmp_path_factory.mktemp("grid") / "twins"
    experiment = Experiment(name="twins", base=make_trial(), axes={"compaction_snapshots": [True, False]})
    return experiment.run(folder, workers=1, unsafe_local=True)


def find_trial(results, *, has_snapshots):
    axes = results.axes
    return axes.loc[axes["compaction_snapshots"] == has_snapshots, "trial_id"].item()


def read_entries(results, trial_id):
    with Journal.open(results._journal_paths[0], read_only=True) as journal:
        return tuple(journal.read_entries(trial_id))


def test_snapshots_change_nothing_that_a_trial_sends_and_are_kept_at_each_compaction(grid):
    with_snapshots, without = (read_entries(grid, find_trial(grid, has_snapshots=flag)) for flag in (True, False))
    assert list_digests(with_snapshots) == list_digests(without)
    assert len(list_compactions(with_snapshots)) >= 2
    assert all(entry.event.tree_id for entry in list_compactions(with_snapshots))
    assert not any(entry.event.tree_id for entry in list_compactions(without))


def test_the_field_is_left_out_of_ids_at_its_default_and_usable_in_plans():
    trial = make_trial(compaction_snapshots=False)
    plain = to_plain(trial)
    del plain["compaction_snapshots"]
    assert from_plain(plain).trial_id == trial.trial_id != make_trial().trial_id
    assert from_plain({**plain, "compaction_snapshots": True}) == make_trial()


def test_twins_of_a_trial_repeat_it_request_for_request_and_pass_with_the_facts_put_back(grid):
    trial_id = find_trial(grid, has_snapshots=True)
    entries = read_entries(grid, trial_id)
    count = len(list_compactions(entries))
    exact = grid.twins(trial_id, count, ["as it was"], repetitions=1, later_compactions=True, unsafe_local=True)
    assert list_digests(exact.runs[0].entries) == list_digests(entries)
    twins = load(grid.output).twins(trial_id[:8], 1, ["as it was", "facts put back"], repetitions=2, unsafe_local=True)
    assert twins.table.groupby("arm")["passed"].mean().to_dict() == {"as it was": 0.0, "facts put back": 1.0}
    journal = grid._journal_paths[0].read_bytes()
    assert load([grid.output, grid.output]).twins(trial_id, 1, ["as it was"], repetitions=1, unsafe_local=True).runs
    assert grid._journal_paths[0].read_bytes() == journal


def test_a_trial_without_snapshots_is_refused_with_the_field_and_how_to_run_it_again(grid):
    with pytest.raises(UsageError, match=r"run the trial again with compaction_snapshots = true .*compaction_snapshots=True"):
        grid.twins(find_trial(grid, has_snapshots=False), 1, unsafe_local=True)


def test_a_compaction_beyond_the_last_and_an_unknown_trial_are_refused(grid):
    with pytest.raises(UsageError, match="no compaction of round 99"):
        grid.twins(find_trial(grid, has_snapshots=True), 99, unsafe_local=True)
    with pytest.raises(UsageError, match="no session id begins or ends with 'ffffffffff'"):
        grid.twins("ffffffffff", 1)


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [("agent", -1, "agent -1, now"), ("policy keep-last", -1, "policy keep-last -1, now"), (f"task {TINY}", "0" * 12, "now")],
)
def test_a_trial_whose_parts_have_changed_since_is_refused(grid, part, value, message):
    trial_id = find_trial(grid, has_snapshots=True)
    path = grid._journal_paths[0]
    with Journal.open(path) as journal:
        (text,) = journal.query("SELECT provenance_json FROM trial WHERE trial_id = ?", trial_id)[0]
        changed = json.loads(text)
        assert part in changed["revisions"]
        changed["revisions"][part] = value
        with journal.database.transaction():
            journal.database.execute("UPDATE trial SET provenance_json = ? WHERE trial_id = ?", (json.dumps(changed), trial_id))
        try:
            with pytest.raises(UsageError, match=f"parts of it have changed since it ran .*{message}"):
                grid.twins(trial_id, 1, unsafe_local=True)
        finally:
            with journal.database.transaction():
                journal.database.execute("UPDATE trial SET provenance_json = ? WHERE trial_id = ?", (text, trial_id))


def test_twins_of_a_session_in_a_journal_need_its_snapshots(tmp_path):
    path = tmp_path / "j.sqlite"
    spec = replace(session(policy=policy_from_plain(FORGETFUL), window_tokens=16_000), journal=path)
    live = LiveSession(spec).start()
    live.wait()
    live.close()
    results = load(path)
    twins = results.twins(live.session_id, 1, ["facts put back"], unsafe_local=True)
    assert twins.table["passed"].tolist() == [True]


def test_the_autopsy_says_which_check_failed_by_the_loss_only_where_twins_show_it(grid):
    trial_id = find_trial(grid, has_snapshots=True)
    autopsy = build_stored_autopsy(find_session(trial_id, grid._journal_paths))
    compaction = autopsy.find_compaction(1)
    twins = grid.twins(trial_id, 1, ["as it was", "facts put back"], repetitions=2, unsafe_local=True)
    assert describe_compaction(compaction).endswith("1 failed check rests on facts lost here.")
    shown = (
        "1 check failed by it (The port is written down: passed by 2 of 2 twins with the lost facts put back, by 0 as it was)."
    )
    assert describe_compaction(compaction, twins).endswith(shown)
    assert encode_compaction(autopsy, compaction, twins=twins)["says"].endswith(shown)
    failing = [replace_checks(run, passed=False) for run in twins.runs]
    unexplained = describe_compaction(compaction, replace(twins, runs=tuple(failing)))
    assert "failed by it" not in unexplained
    assert unexplained.endswith("but did not fail by it: with the facts put back, twins have the same result.")
    text = "\n".join(str(part) for part in render_autopsy(autopsy, 1, twins))
    assert shown in text
    assert "Twins of compaction 1, before step" in text


def replace_checks(run, *, passed):
    return run._replace(checks=tuple(replace(check, passed=passed) for check in run.checks))


def test_a_stored_trial_can_be_forked_at_a_compaction_and_goes_on(grid):
    location = find_session(find_trial(grid, has_snapshots=True), grid._journal_paths)
    with open_twin_source(location, unsafe_local=True) as source:
        fork = LiveSession.fork_source(source, 1, "not compacted").start()
    fork.wait(300)
    fork.resume()
    assert fork.wait(300) == "idle", fork.failure
    assert [graded.passed for graded in fork.close().checks] == [True, True]
    location = find_session(find_trial(grid, has_snapshots=False), grid._journal_paths)
    with pytest.raises(UsageError, match="compaction_snapshots = true"), open_twin_source(location, unsafe_local=True):
        pass
