"""Cost of a recorded session: the same in its log, in the tables and on the command line, with its source."""

import os
from pathlib import Path

import pytest

import harness
from harness.inspection.import_export import read_session
from harness.inspection.import_folder import import_files
from harness.inspection.open_session import open_recorded_session
from harness.inspection.recorded_cost import measure_cost
from harness.inspection.recording_folder import load_sessions, read_folder
from harness.recordings.reading import read_recordings, select_main_sessions
from harness.session.totals import SessionTotals
from tests.cli.command import within
from tests.inspection.test_recording_folder import make_rows, write_session

PLACE = Path(os.environ.get("HARNESS_TRAJECTORIES", Path(__file__).parents[3] / "shared" / "data" / "trajectories"))
HOUR_WRITES = {"ephemeral_5m_input_tokens": 1_000, "ephemeral_1h_input_tokens": 3_000}
# Claude Sonnet 4.5: 3 USD input, 15 USD output, 3.75 and 6 USD for writes of five minutes and an hour, per million tokens.
CALL_USD = (100 * 3 + 20 * 15 + 1_000 * 3.75 + 3_000 * 6) / 1e6


@pytest.fixture
def folder(tmp_path):
    rows = make_rows("first", ["m1", "m2"])
    for row in rows[1:]:
        row["message"]["usage"] |= {"cache_creation_input_tokens": 4_000, "cache_creation": HOUR_WRITES}
    write_session(tmp_path / "r" / "first.jsonl", rows)
    return tmp_path / "r"


@pytest.fixture
def journal(folder, tmp_path):
    import_files(read_folder(folder, workers=1, cache_folder=tmp_path / "cache"), tmp_path / "journal.sqlite")
    return tmp_path / "journal.sqlite"


def total(entries):
    totals = SessionTotals()
    for entry in entries:
        totals(entry)
    return totals


def test_a_session_without_a_recorded_cost_is_priced_call_by_call_also_for_writes_of_an_hour(folder, journal):
    [recording] = read_recordings(folder / "first.jsonl")
    cost = measure_cost(recording)
    assert cost.source == "priced"
    assert cost.cost_usd == pytest.approx(2 * CALL_USD)
    totals = total(open_recorded_session(folder / "first.jsonl").entries)
    assert (totals.cost_usd, totals.cost_source) == (pytest.approx(2 * CALL_USD), "priced")
    [trial] = harness.load(journal).trials.to_dict("records")
    assert trial["cost_usd"] == pytest.approx(2 * CALL_USD)


def test_the_command_line_says_that_the_price_is_a_list_price(folder, journal):
    cost = f"${2 * CALL_USD:.4f} at list prices, summaries included"
    assert cost in within("inspect", folder / "first.jsonl").stdout
    assert cost in within("inspect", "first", "--in", journal).stdout
    listed = within("sessions", "list", "--in", journal).stdout
    assert f"{2 * CALL_USD:.4f} list" in listed
    assert "list: the recording gives no cost" in listed


def test_copied_calls_cost_nothing(folder, tmp_path):
    write_session(folder / "second.jsonl", make_rows("later", ["m1", "m2", "m3"], start=30))
    import_files(read_folder(folder, workers=1, cache_folder=tmp_path / "cache"), tmp_path / "copies.sqlite")
    costs_usd = harness.load(tmp_path / "copies.sqlite").trials.set_index("session_id")["cost_usd"]
    assert costs_usd.to_dict() == {"first": pytest.approx(2 * CALL_USD), "later": pytest.approx((100 * 3 + 20 * 15) / 1e6)}


def test_the_price_of_an_unknown_model_stays_unknown(folder):
    text = (folder / "first.jsonl").read_text().replace("claude-sonnet-4-5", "made-up-model")
    (folder / "first.jsonl").write_text(text)
    assert "at an unknown price" in within("inspect", folder / "first.jsonl").stdout


@pytest.mark.slow
@pytest.mark.skipif(not PLACE.is_dir(), reason="no recorded sessions: set HARNESS_TRAJECTORIES to their folder")
def test_log_and_folder_tell_the_same_cost_of_each_session(tmp_path):
    sessions = load_sessions(PLACE, workers=1, cache_folder=tmp_path / "cache").sessions
    compared = []
    for file, rows in sessions.groupby("file"):
        if len(select_main_sessions(read_recordings(PLACE / file))) > 1:
            continue
        totals = total(timed.entry for timed in read_session(PLACE / file)[0])
        known_usd = rows["cost_usd"].sum(min_count=len(rows))
        if rows["cost_source"].eq("unknown").any():
            assert totals.agents_cost_usd is None, file
        else:
            assert totals.agents_cost_usd == pytest.approx(known_usd), file
            compared.append(file)
    assert len(compared) >= 12
