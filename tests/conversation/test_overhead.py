"""Overhead of the harness: its parts are measured in each step, add up, exclude the models, and change no comparison of logs."""

import time
from dataclasses import replace

import pytest

import harness
from harness.analysis.overhead import OVERHEAD_PARTS, measure_overhead
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.three_tiers import ThreeTiers
from harness.conversation.events import Compaction, Entry, MessageAdded, StepFinished, TransientEvent
from harness.conversation.messages import assistant
from harness.conversation.overhead import OverheadClock
from harness.conversation.tokens import Measured, Usage, Window
from harness.conversation.view import View, fold
from harness.protocols import Reply
from harness.reporting.monitoring import build_overhead_section
from harness.session.compactor import SessionCompactor
from harness.session.execution import execute_session
from harness.store.columns import TABLES, VOLATILE_COLUMNS
from harness.store.journal import Journal
from tests.experiment.tiny_task import make_tiny_task
from tests.session.test_execution import session

COLUMNS = [f"{part}_seconds" for part in OVERHEAD_PARTS]


@pytest.fixture
def measured(tmp_path):
    """Results of a session with a journal, whose outputs are truncated and whose old outputs are cleared."""
    policy = ThreeTiers(prune_at="step", prune_minimum_tokens=1, protect_tokens=100, summarizer="scripted/empty")
    task = make_tiny_task(0, "seq 1 20000")
    execute_session(session(journal=tmp_path / "j.sqlite", task=task, request=task.prompt, policy=policy), "s")
    return harness.load(tmp_path / "j.sqlite")


def test_each_part_of_a_step_is_measured_and_no_part_is_longer_than_the_session(measured):
    sums = measured.steps[COLUMNS].sum()
    assert (measured.steps[COLUMNS] >= 0).all().all()
    assert (sums > 0).all(), sums
    assert sums.sum() < measured.trials["wall_seconds"].item()


def test_the_columns_of_a_trial_are_the_sums_of_those_of_its_steps(measured):
    trial = measured.trials.iloc[0]
    for name in COLUMNS:
        assert trial[name] == pytest.approx(measured.steps[name].sum())
    totals = measured.sql(f"SELECT {' + '.join(COLUMNS)} AS total FROM trials")
    assert totals["total"].item() == pytest.approx(measured.steps[COLUMNS].sum().sum())


@pytest.mark.slow
def test_the_table_of_overhead_adds_its_parts_up_and_stands_in_the_report(measured):
    (row,) = measure_overhead(measured).to_dict("records")
    assert row["steps"] == len(measured.steps)
    assert row["total_ms"] == pytest.approx(sum(row[f"{part}_ms"] for part in OVERHEAD_PARTS))
    assert row["pruning_ms"] == pytest.approx(1_000 * measured.compactions["wall_seconds"].mean())
    (section,) = build_overhead_section(measured)
    assert section.columns == ("arm", "steps", *OVERHEAD_PARTS, "total", "pruning")
    assert section.heading in harness.report(measured).render_text()


def test_steps_of_old_journals_have_no_times_and_no_section(measured):
    path = measured._journal_paths[0]
    with Journal.open(path) as journal, journal.database.transaction():
        for name in COLUMNS:
            journal.database.execute(f"UPDATE step SET {name} = NULL")
    old = harness.load(path)
    assert old.steps[COLUMNS].isna().all().all()
    assert old.trials[COLUMNS].isna().all().all()
    assert measure_overhead(old).empty
    assert not list(build_overhead_section(old))
    with Journal.open(path, read_only=True) as journal:
        finished = [entry.event for entry in journal.read_entries("s") if isinstance(entry.event, StepFinished)]
    assert {event.planning_seconds for event in finished} == {None}


class SlowSummarizer:
    """Summarizer that takes a fifth of a second."""

    name, window = "slow", Window(tokens=100_000, source="configuration")

    def reply(self, request, listen=None):
        time.sleep(0.2)  # at least that long on any machine
        return Reply(
            message=assistant("The port is 4000."),
            usage=Usage(input_tokens=Measured(1), output_tokens=Measured(1)),
            seconds=0.0,
        )


def run_in_memory(**changes):
    """Run the tiny task without a journal, and return the logged events."""
    heard: list[Entry | TransientEvent] = []
    execute_session(session(**changes), "s", on_event=heard.append)
    return [item.event for item in heard if isinstance(item, Entry)]


def test_planning_that_finds_nothing_is_measured_too():
    events = run_in_memory(policy=KeepLast(), window_tokens=100_000)
    steps = [event for event in events if isinstance(event, StepFinished)]
    assert not any(isinstance(event, Compaction) for event in events)
    assert all(step.planning_seconds is not None and step.planning_seconds > 0 for step in steps)
    assert all(step.compaction_seconds == 0 for step in steps)


def test_waiting_for_the_summarizer_is_no_work_of_the_harness():
    policy = KeepLast(threshold=0.3, keep_last=2, summarizer="scripted/oracle")
    clock = OverheadClock()
    window = Window(tokens=16_000, source="configuration")
    compactor = SessionCompactor(policy=policy, window=window, summarizer=SlowSummarizer(), overhead=clock)
    view = View()
    for seq, event in enumerate(run_in_memory(policy=policy, window_tokens=16_000), 1):
        if isinstance(event, MessageAdded):
            view = fold(view, Entry(seq, event), policy.counter)
    compaction = compactor.compact(view, None, 99, "manual", lambda _: None)
    assert compaction is not None
    assert compaction.wall_seconds >= 0.2
    taken = clock.take()
    assert 0 < taken.compaction_seconds < compaction.wall_seconds - 0.2 + 1e-6
    assert 0 < taken.planning_seconds < compaction.wall_seconds - 0.2 + 1e-6


def test_times_change_no_comparison_of_logs_and_tables():
    event = next(event for event in run_in_memory() if isinstance(event, StepFinished))
    late = replace(event, truncation_seconds=9.0, planning_seconds=9.0, compaction_seconds=9.0)
    assert event == replace(late, snapshot_seconds=9.0, writing_seconds=9.0)
    for name in ("trials", "steps"):
        assert set(COLUMNS) <= VOLATILE_COLUMNS[name]
        assert set(COLUMNS) <= {column.name for column in TABLES[name] if column.unit == "s"}


def test_a_clock_begins_anew_after_each_step_and_takes_back_what_was_too_much():
    clock = OverheadClock()
    clock.add("writing", 0.5)
    clock.add("compaction", 3.0)
    clock.add("compaction", -2.0)
    assert clock.take()._asdict() == dict.fromkeys(COLUMNS, 0.0) | {"writing_seconds": 0.5, "compaction_seconds": 1.0}
    assert sum(clock.take()) == 0
