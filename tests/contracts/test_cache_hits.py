"""The share of prompt tokens that came from a cache is one number, wherever it is shown, and is marked where it is simulated."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.alerts import evaluate_alerts
from harness.conversation.events import StepFinished
from harness.conversation.tokens import Measured, compute_cache_hits
from harness.inspection.loading import load
from harness.inspection.recorded_session import RecordedSession
from harness.inspection.session_steps import SessionSteps
from harness.inspection.timeline import inspect_session
from harness.reporting.monitoring import build_alert_sections
from harness.store.journal import Journal
from harness.widgets.compaction_history import CompactionHistory
from harness.widgets.feed import build_feed
from tests.cli.command import within
from tests.store.samples import ENDED, begun, opening, step, trial

COUNTS = st.integers(0, 1_000)


def write_session(folder, *, is_reported):
    """Write an experiment of one trial with three steps, whose provider reports cached tokens or none."""
    events = [*opening(), *step(1), *step(2), *step(3), ENDED]
    if not is_reported:
        events = [forget_cache(event) if isinstance(event, StepFinished) else event for event in events]
    with Journal.open(folder / "output" / "journal.sqlite") as journal:
        begun(journal).append(events)
        prompt_tokens = sum(event.usage.prompt_tokens for event in events if isinstance(event, StepFinished))
        journal.record_trial(trial(prompt_tokens=prompt_tokens, steps=3))
        return tuple(journal.read_entries("s"))


def forget_cache(event):
    usage = replace(
        event.usage, input_tokens=event.usage.prompt_tokens, cache_read_tokens=Measured(0), cache_write_tokens=Measured(0)
    )
    return replace(event, usage=usage)


@pytest.mark.slow
@pytest.mark.parametrize(("is_reported", "share"), [(True, 540 / 579), (False, 540 / 600)])
def test_table_alert_report_inspection_page_and_widget_show_the_same_share(tmp_path, is_reported, share):
    """S3.5, S3.16, S3.17."""
    entries = write_session(tmp_path, is_reported=is_reported)
    results = load(tmp_path)
    row = results.trials.iloc[0]
    assert (row.cache_hit_share, row.cache_hits_simulated) == (pytest.approx(share), not is_reported)
    (alert,) = evaluate_alerts(results).query("alert == 'cache hit rate'").itertuples()
    assert (alert.value, alert.simulated) == (row.cache_hit_share, not is_reported)
    text = f"{100 * share:.1f} %"
    [section] = build_alert_sections(results)
    assert any(text in str(cell) for cell in section.rows[0])
    assert any("simulated" in note for note in section.notes) == (not is_reported)
    totals = inspect_session(entries).totals
    assert totals.cache_hits == (row.cache_hit_share, not is_reported)
    feed = build_feed(CompactionHistory(), entries)
    session = RecordedSession(name="s", entries=entries)
    shown = [
        dict(SessionSteps(session).describe_session())["cache"],
        dict(feed.state["figures"]["metrics"])["cache"],
        within("inspect", "s", "--in", tmp_path / "output" / "journal.sqlite").stdout,
    ]
    for words in shown:
        line = next(line for line in words.splitlines() if text in line)
        assert ("simulated" in line) == (not is_reported)


@given(COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)
def test_reported_numbers_win_over_simulated_ones(read, written, uncached, kept, rest):
    prompt = read + written + uncached
    hits = compute_cache_hits(
        read_tokens=read, write_tokens=written, prompt_tokens=prompt, kept_prefix_tokens=kept, view_tokens=kept + rest
    )
    assert hits.is_simulated == (read + written == 0)
    part, whole = (kept, kept + rest) if hits.is_simulated else (read, prompt)
    assert hits.share == (part / whole if whole else None)
