"""Forecasts of a bill: stored once, and compared with later sessions against projects that did not change."""

import datetime as dt

import pandas as pd
import pytest

from harness.errors import StoreError, UsageError
from harness.replay.forecast import BillForecast, check_forecast, describe_check, make_forecast, read_forecast, save_forecast
from harness.replay.sessions import Replay, RereadBand

MADE_AT = dt.datetime(2026, 2, 1, tzinfo=dt.UTC)


def make_replay(later_usd_per_call: dict[str, float]) -> Replay:
    """Return a replay of two projects with 100 calls at $0.10, and of 50 later calls of each at the given cost."""
    sessions = [
        {"group": name, "started_at": pd.Timestamp(day, tz="UTC"), "calls": calls, "paid_usd": calls * usd}
        for name, later_usd in later_usd_per_call.items()
        for day, calls, usd in (("2026-01-05", 100, 0.1), ("2026-02-05", 50, later_usd))
    ]
    levels = {f"reread_{tokens}_usd": [10.0, 8.0] * len(later_usd_per_call) for tokens in (0, 40_000)}
    names = [name for name in later_usd_per_call for _ in range(2)]
    costs = pd.DataFrame({"group": names, "setting": ["as it was", "new"] * len(later_usd_per_call), "rule": "own", **levels})
    return Replay(
        sessions=pd.DataFrame(sessions),
        costs=costs,
        settings=pd.DataFrame({"setting": ["as it was", "new"]}),
        boundaries=pd.DataFrame(),
        survival=pd.DataFrame(),
        reading=None,
        choices={"own": None},
        rules=("own",),
        group_kind="project",
        band=RereadBand(0, 10_000, 20_000, "an assumption"),
        refused=(),
        other_files=0,
        notes=(),
        tried=(),
    )


def test_a_change_is_judged_against_the_projects_that_did_not_change():
    replay = make_replay({"changed": 0.12, "kept": 0.15})
    forecast = make_forecast(replay, "new", MADE_AT)
    assert forecast.factors == {"changed": pytest.approx(0.8), "kept": pytest.approx(0.8)}
    before = BillForecast(
        **{name: getattr(forecast, name) for name in ("setting", "rule", "made_at", "reread_tokens", "factors")},
        usd_per_call={"changed": 0.1, "kept": 0.1},
    )
    check = check_forecast(before, replay, ["kept"])
    assert check.calls == 50
    assert check.actual_factor == pytest.approx(1.2)
    assert check.control_factor == pytest.approx(1.5)
    assert check.adjusted_factor == pytest.approx(0.8)
    assert "predicted 80 % of the former cost of a call, recorded 120 %" in describe_check(check)
    assert "Adjusted 80 %, from 1 project: too few for an interval." in describe_check(check)
    alone = check_forecast(before, replay)
    assert alone.control_factor is None
    assert "there is no control" in describe_check(alone)


def test_with_enough_projects_a_wrong_forecast_is_outside_the_interval():
    replay = make_replay(dict.fromkeys("abcd", 0.2))
    forecast = BillForecast(
        setting="new",
        rule="own",
        made_at=MADE_AT.isoformat(),
        reread_tokens=10_000,
        usd_per_call=dict.fromkeys("abcd", 0.1),
        factors=dict.fromkeys("abcd", 0.8),
    )
    assert "Adjusted 200 % [200 %, 200 %]: the forecast is outside the interval." in describe_check(
        check_forecast(forecast, replay)
    )


def test_a_stored_forecast_is_read_as_it_was_and_never_overwritten(tmp_path):
    forecast = make_forecast(make_replay({"one": 0.1}), "new", MADE_AT)
    path = tmp_path / "forecasts" / "new.json"
    save_forecast(forecast, path)
    assert read_forecast(path) == forecast
    with pytest.raises(StoreError, match="is not overwritten"):
        save_forecast(forecast, path)


def test_wrong_forecasts_are_refused(tmp_path):
    replay = make_replay({"one": 0.1})
    with pytest.raises(UsageError, match="the replay has no setting 'other'"):
        make_forecast(replay, "other", MADE_AT)
    broken = tmp_path / "broken.json"
    broken.write_text("{}")
    with pytest.raises(UsageError, match="holds no forecast"):
        read_forecast(broken)
    forecast = make_forecast(replay, "new", dt.datetime(2027, 1, 1, tzinfo=dt.UTC))
    with pytest.raises(UsageError, match="no project of the forecast has sessions after"):
        check_forecast(forecast, replay)
    with pytest.raises(UsageError, match="unknown control 'two'"):
        check_forecast(forecast, replay, ["two"])
