"""Alerts of one session: announced when they begin to hold, and shown by terminal, inspection and widgets with what to do."""

import io
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analysis.alerts import evaluate_alerts
from harness.cli.event_printer import EventPrinter
from harness.cli.inspect_session import build_overview
from harness.cli.terminal import print_parts
from harness.compaction.presets.keep_last import KeepLast
from harness.conversation.events import Compaction, Entry, Insert, ItemId, Patch, SessionEnded, StepFinished
from harness.conversation.messages import user
from harness.conversation.tokens import Estimated, Measured
from harness.inspection.loading import load
from harness.inspection.recorded_session import RecordedSession
from harness.inspection.sample_run import build_sample_log
from harness.inspection.session_steps import SessionSteps
from harness.inspection.timeline import inspect_session
from harness.metrics.alerts import MIN_CALLS, AlertAnnouncer, AlertMonitor
from harness.store.journal import Journal
from harness.widgets.compaction_history import CompactionHistory
from harness.widgets.feed import build_feed
from harness.widgets.inspector import SessionInspector
from harness.widgets.snapshot import render_html
from tests.cli.command import LOCAL, TINY
from tests.cli.command import harness as run_command
from tests.cli.test_event_printer import STARTED, step

ADVICE = {
    "overflow rate": "check the thresholds of pruning and what fills the context",
    "cache hit rate": "check what changes early in the requests",
    "summarization cost": "check how often summaries are written",
}


def make_summary(number, cost_usd=0.0, before=0):
    return Compaction(
        round=number, step=before or number, moment="step", status="applied", reason="full", summarizer="m",
        patch=Patch(insert=(Insert(message=user("summary"), after=ItemId(1)),)), summarizer_cost_usd=cost_usd,
        tokens_before=Estimated(9), tokens_after=Estimated(5), messages_before=9, messages_after=5,
    )  # fmt: skip


def make_log(steps, summaries=()):
    """Return a log of steps of a session whose provider reports 20 % of the prompt as read from a cache."""
    events = [STARTED]
    for number in range(1, steps + 1):
        events += [make_summary(number, cost) for before, cost in summaries if before == number]
        events.append(step(number))
    return [Entry(seq, event) for seq, event in enumerate(events, 1)]


def name_firing(readings):
    return [reading.alert.name for reading in readings]


def test_an_alert_is_announced_once_when_it_begins_to_hold_and_not_before_ten_calls():
    announcer = AlertAnnouncer()
    announced = [(entry.event.step, name_firing(announcer.receive(entry))) for entry in make_log(30)[1:]]
    assert [item for item in announced if item[1]] == [(MIN_CALLS, ["cache hit rate"])]
    assert name_firing(announcer.firing) == ["cache hit rate"]


def test_an_alert_that_stops_holding_is_announced_again_when_it_begins_anew():
    announcer = AlertAnnouncer()
    log = make_log(60, [(number, 0.0) for number in (5, 9, 58, 59, 60)])
    usage = replace(step(1).usage, cache_read_tokens=Measured(10_000))
    log = [Entry(seq, replace(event, usage=usage) if isinstance(event, StepFinished) else event) for seq, event in log]
    announced = [(entry.event.step, name_firing(alerts)) for entry in log if (alerts := announcer.receive(entry))]
    assert announced == [(10, ["overflow rate"])]
    assert name_firing(announcer.monitor.list_firing()) == []


def test_the_advice_says_value_step_and_what_to_do():
    monitor = AlertMonitor()
    for entry in make_log(5, [(3, 11.5)]):
        monitor(entry)
    texts = {reading.alert.name: reading.describe() for reading in monitor.list_firing()}
    assert texts.keys() == ADVICE.keys()
    assert all(ADVICE[name] in text for name, text in texts.items())
    assert "(20.0 % at step 5)" in texts["overflow rate"]
    assert (
        "critical, summarization cost: more than $10 for summaries within one hour ($11.50 at step 3)"
        in (texts["summarization cost"])
    )


def test_a_marker_that_no_model_wrote_costs_nothing():
    monitor = AlertMonitor()
    for entry in make_log(3, [(2, None)]):
        event = entry.event
        monitor(Entry(entry.seq, replace(event, summarizer="")) if isinstance(event, Compaction) else entry)
    values = {reading.alert.name: reading.value for reading in monitor.read()}
    assert values["summarization cost"] == 0.0
    assert values["overflow rate"] == pytest.approx(1 / 3)


@pytest.mark.slow
@settings(max_examples=30)
@given(steps=st.lists(st.sampled_from([0.0, 1.0, 40.0, 299.0]), min_size=1, max_size=12), data=st.data())
def test_a_log_and_the_tables_of_its_journal_give_the_same_alerts(steps, data):
    costs = st.sampled_from([0.0, 4.0, 7.5, None])
    summaries = data.draw(st.lists(st.tuples(st.integers(1, len(steps) + 1), costs), max_size=6))
    events = [STARTED]
    for number, seconds in enumerate([*steps, None], 1):
        events += [make_summary(number, cost) for before, cost in summaries if before == number]
        events += [] if seconds is None else [replace(step(number), model_seconds=seconds)]
    log = [Entry(seq, event) for seq, event in enumerate(events, 1)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "j.sqlite"
        with Journal.open(path) as journal:
            journal.open_session_log("s", created_at_ms=1, clock=lambda: 1.0).append(events)
        table = evaluate_alerts(load(path))
    monitor = AlertMonitor()
    for entry in log:
        monitor(entry)
    readings = list(monitor.read())
    assert table["alert"].tolist() == name_firing(readings)
    assert table["value"].tolist() == pytest.approx([reading.value for reading in readings], nan_ok=True)
    assert table["fired"].tolist() == [reading.fires for reading in readings]
    assert table["simulated"].tolist() == [reading.is_simulated for reading in readings]


def test_the_terminal_prints_an_alert_when_it_begins_and_at_the_end():
    log = io.StringIO()
    printer = EventPrinter(text_stream=io.StringIO(), log_stream=log)
    for entry in make_log(12):
        printer(entry)
    (line,) = [line for line in log.getvalue().splitlines() if line.startswith("alert: ")]
    assert "cache hit rate" in line
    assert ADVICE["cache hit rate"] in line
    printer.print_alerts()
    assert log.getvalue().count("alert: ") == 2


@pytest.mark.slow
def test_the_command_agent_prints_the_alerts_of_its_session(tmp_path):
    done = run_command("agent", "--task", TINY, "--window", "16000", "--threshold", "0.3", "--keep-last", "2",
                       "--summarizer", "scripted/oracle", "--journal", tmp_path / "j.sqlite", *LOCAL)  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("alert: ")]
    assert any("overflow rate" in line and ADVICE["overflow rate"] in line for line in lines)
    shown = run_command("inspect", tmp_path / "j.sqlite")
    assert ADVICE["overflow rate"] in " ".join(shown.stdout.split())


def test_inspection_shows_the_alerts_as_text_and_in_the_widget(capsys):
    entries = tuple(make_log(12, [(3, 11.5)]))
    inspection = inspect_session(entries)
    assert name_firing(inspection.alerts) == ["summarization cost", "cache hit rate"]
    print_parts(build_overview(inspection))
    printed = " ".join(capsys.readouterr().out.split())
    rows = SessionSteps(RecordedSession(name="a session", entries=entries)).describe_session()
    for reading in inspection.alerts:
        assert reading.describe() in printed
        assert ("alert", reading.describe()) in rows


def test_the_inspector_shows_the_alerts_of_its_session():
    entries = build_sample_log(20_000)
    text = SessionInspector(RecordedSession(name="a session", entries=entries)).render_text()
    assert text.count("alert: ") == len(inspect_session(entries).alerts)


def test_the_panel_shows_an_alert_as_a_row_and_those_that_hold_above_the_transcript():
    feed = build_feed(CompactionHistory(None, KeepLast().counter), ())
    for entry in make_log(12):
        feed.receive(entry)
    (row,) = [row for row in feed.rows if row["kind"] == "notice"]
    assert ADVICE["cache hit rate"] in row["text"]
    (shown,) = feed.state["alerts"]
    assert ADVICE["cache hit rate"] in shown
    assert "<p>Alert: warning, cache hit rate" in render_html(feed)
    feed.receive(Entry(99, SessionEnded(status="completed", reason="replied")))
    assert feed.state["alerts"] == [shown]
