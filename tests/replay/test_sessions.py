"""Replay of a folder: tables, choice, what is not counted, and the cache."""

import os
import re

import numpy as np
import pytest

from harness.errors import UsageError
from harness.replay import replay_sessions
from harness.replay.sentences import build_headline, list_uncounted, measure_agreement
from harness.replay.sessions import find_break_even
from harness.replay.settings import AS_IT_WAS, BY_HAND, parse_thresholds
from tests.replay.recorded import write_recording


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("projects")
    for number in range(5):
        write_recording(place / f"project-{number}" / f"session-{number}.jsonl", 20 + 4 * number, pauses=[8, 15])
    return place


@pytest.fixture(scope="module")
def replay(folder, tmp_path_factory):
    return replay_sessions(
        folder,
        ["claude-code"],
        [40_000, 80_000],
        workers=1,
        cache_folder=tmp_path_factory.mktemp("cache"),
        reread_tokens=(0, 2_500, 5_000),
    )


@pytest.mark.slow
def test_the_paid_cost_is_that_of_the_reported_usage(replay):
    row = replay.sessions.iloc[0]
    parts = row[["output_usd", "read_usd", "new_usd", "after_pauses_usd", "after_edits_usd", "unexplained_usd"]]
    assert row["paid_usd"] == pytest.approx(parts.sum())
    assert row["output_usd"] == pytest.approx(20 * 100 * 15 / 1e6)
    assert row["after_pauses_usd"] > 0.1
    assert row["unexplained_usd"] == pytest.approx(0, abs=1e-6)
    assert replay.covered_share == pytest.approx(1)


@pytest.mark.slow
def test_the_model_of_what_was_run_agrees_where_the_cache_does_as_the_rule_says(replay):
    agreement = measure_agreement(replay)
    assert (agreement.within, agreement.sessions) == (5, 5)
    assert agreement.median_error < 0.02


@pytest.mark.slow
def test_the_setting_is_chosen_on_one_half_of_the_projects(replay):
    assert replay.group_kind == "project"
    choice = replay.choices["own"]
    assert choice is not None
    assert choice.groups == 5
    assert choice.saving_usd > 0
    first = build_headline(replay)[0]
    assert "On your 5 sessions (5 Jan 2026 – 5 Jan 2026, $" in first
    assert "chosen on half of your projects and judged on the other, would have cost" in first


@pytest.mark.slow
def test_settings_have_a_band_and_a_break_even(replay):
    rows = replay.settings[(replay.settings["setting"] != AS_IT_WAS) & (replay.settings["rule"] == "own")]
    assert list(rows["setting"]) == ["claude-code at 40K", "claude-code at 80K", BY_HAND]
    rows = rows.iloc[:-1]
    assert (rows["low_change"] <= rows["change"]).all()
    assert (rows["change"] <= rows["high_change"]).all()
    assert (rows["compactions"] > 0).all()
    as_it_was = replay.find_setting(AS_IT_WAS, "own")
    assert as_it_was["change"] == 0


@pytest.mark.slow
def test_the_bill_alone_is_that_of_a_whole_replay(folder, replay, tmp_path):
    bill = replay_sessions(folder, bill_only=True, workers=1, cache_folder=tmp_path)
    assert bill.sessions.equals(replay.sessions)
    rows = replay.costs[(replay.costs["setting"] == AS_IT_WAS) & (replay.costs["rule"] == "own")].reset_index(drop=True)
    assert bill.costs.equals(rows)
    assert (bill.tried, bill.rules, bill.choices["own"], len(bill.boundaries)) == ((), ("own",), None, 0)
    assert build_headline(bill)[0].startswith("Your 5 sessions (")


def test_a_second_replay_opens_no_file(folder, tmp_path):
    cache = tmp_path / "cache"
    settings = {"policies": ["claude-code"], "thresholds": [60_000], "workers": 1, "cache_folder": cache}
    before = replay_sessions(folder, **settings)
    file = folder / "project-0" / "session-0.jsonl"
    status, text = file.stat(), file.read_bytes()
    file.write_bytes(b"x" * len(text))  # as long and as old as before, so only opening it would show the change
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    try:
        assert replay_sessions(folder, **settings).settings.equals(before.settings)
        os.utime(file)
        assert len(replay_sessions(folder, **settings).sessions) == len(before.sessions) - 1
    finally:
        file.write_bytes(text)


def test_sessions_without_usage_price_or_times_are_said_and_not_guessed(tmp_path):
    write_recording(tmp_path / "a" / "no-usage.jsonl", 3, has_usage=False)
    write_recording(tmp_path / "b" / "no-price.jsonl", 3, model="claude-lamp-1")
    replay = replay_sessions(tmp_path, ["claude-code"], [40_000], ["own"], workers=1, cache_folder=tmp_path / "cache")
    assert replay.paid_usd == 0
    assert replay.covered_share == 0
    assert "no setting can be chosen" in build_headline(replay)[0]
    lines = list_uncounted(replay)
    assert "3 calls without reported usage, in 1 session" in lines
    assert "3 calls of models whose price is unknown, in 1 session" in lines


def test_a_session_whose_usage_shows_no_cache_is_in_no_check(tmp_path):
    write_recording(tmp_path / "a" / "bare.jsonl", 4, reports_cache=False)
    replay = replay_sessions(tmp_path, ["claude-code"], [40_000], ["own"], workers=1, cache_folder=tmp_path / "cache")
    row = replay.sessions.iloc[0]
    assert row["uncached_usd"] > row["new_usd"] > 0
    assert row["unexplained_usd"] == 0
    assert measure_agreement(replay).sessions == 0
    assert "the cache in 1 session whose usage shows none: it is modelled, and in no check" in list_uncounted(replay)


def test_a_resumed_session_counts_once(tmp_path):
    write_recording(tmp_path / "a" / "first.jsonl", 4, name="same")
    write_recording(tmp_path / "b" / "second.jsonl", 6, name="same")
    replay = replay_sessions(tmp_path, ["claude-code"], [40_000], ["own"], workers=1, cache_folder=tmp_path / "cache")
    assert list(replay.sessions["has_copied_calls"]) == [False, True]
    assert "1 resumed or forked session with calls that another session made" in list_uncounted(replay)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"rules": ["nobody"]}, "nobody"),
        ({"rules": ["anthropic-2026-10:2h"]}, "2h"),
        ({"rules": ["own:2h"]}, "2h"),
        ({"policies": ["nobody"]}, "nobody"),
        ({"reread_tokens": (5_000, 1_000, 2_000)}, "low end, middle and high end"),
        ({"policies": ["codex@2026"], "thresholds": [2_000_000_000]}, "none of these settings is possible"),
    ],
)
def test_unknown_names_and_numbers_are_refused(tmp_path, arguments, reason):
    write_recording(tmp_path / "session.jsonl", 2)
    with pytest.raises(UsageError, match=reason):
        replay_sessions(tmp_path, **arguments, workers=1, cache_folder=tmp_path / "cache")


def test_a_folder_without_sessions_is_refused_with_the_reason(tmp_path):
    with pytest.raises(UsageError, match="there is no session in"):
        replay_sessions(tmp_path, workers=1, cache_folder=tmp_path / "cache")
    with pytest.raises(UsageError, match="there is no folder"):
        replay_sessions(tmp_path / "missing", workers=1)


def test_thresholds_are_numbers_of_tokens():
    assert parse_thresholds("80K, 100000,2.5k") == (80_000, 100_000, 2_500)
    with pytest.raises(UsageError, match="'much' is no number of tokens"):
        parse_thresholds("much")


def test_the_break_even_is_where_the_cost_reaches_what_was_paid():
    assert find_break_even(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 2.5) == 3_750
    assert find_break_even(np.array([3.0] * 6), 2.5) == 0
    assert find_break_even(np.array([1.0] * 6), 2.5) is None


@pytest.mark.slow
def test_the_band_of_simulated_sessions_is_a_share_of_what_is_evicted_and_says_so(folder, tmp_path):
    replay = replay_sessions(folder, ["claude-code"], [40_000], workers=1, cache_folder=tmp_path, reread_tokens="simulated")
    costs = replay.costs
    mean = costs["evicted_tokens"].sum() / costs["compactions"].sum()
    assert replay.band[:3] == pytest.approx((0.0, 0.07 * mean, 0.11 * mean))
    assert "simulated" in replay.band.source
    with pytest.raises(UsageError, match="expected three numbers, or 'simulated'"):
        replay_sessions(folder, reread_tokens="assumed")  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_ends_of_an_interval_say_whether_they_are_more_or_less(replay):
    first, *others = build_headline(replay)
    assert re.search(r"would have cost \$[\d.]+ less \(95 % interval: from \$[\d.]+ (less|more) to \$[\d.]+ less\)", first)
    hindsight = (
        r"In hindsight, which flatters a setting, claude-code at .* would have cost over all projects "
        r"(\$[\d.]+ (less|more) \(from \$[^)]* to \$[^)]*\) under [^$]+){3}\.$"
    )
    assert [line for line in others if "would have cost" in line and re.match(hindsight, line)]
