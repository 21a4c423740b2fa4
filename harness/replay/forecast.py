"""Forecasts of a bill: stored before a setting is changed, and compared later with what was then recorded.

A forecast says by which factor the cost of a call changes. Projects that keep their setting are the control: what their cost of a
call did in the meantime has other causes, so the change of the others is divided by theirs.
"""

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from harness.conversation.codec import from_plain, to_plain
from harness.errors import StoreError, UsageError, format_count
from harness.files.bounded_input import read_input
from harness.replay.sessions import Replay
from harness.replay.settings import AS_IT_WAS
from harness.store.database import replace_file
from harness.text import format_percent

MAX_FORECAST_BYTES = 2**20
DRAWS = 2_000
MIN_PROJECTS = 3
"""Smallest number of changed projects for which an interval is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BillForecast:
    """Predicted cost of a setting for each project, made on sessions that were recorded before."""

    setting: str
    rule: str
    made_at: str
    """Time at which the forecast was stored, in ISO 8601 format; sessions that began later are compared with it."""
    reread_tokens: float
    """Tokens read again after each compaction, as the forecast assumes."""
    usd_per_call: Mapping[str, float]
    """Paid cost of a call in USD by project."""
    factors: Mapping[str, float]
    """Predicted cost under the setting as a share of the cost as it was, by project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastCheck:
    """Comparison of a forecast with what was recorded after it."""

    setting: str
    projects: int
    """Number of projects that changed and have calls after the forecast."""
    calls: int
    """Number of calls recorded after the forecast in projects that changed."""
    predicted_factor: float
    """Predicted cost of a call after the change as a share of that before, over the projects that changed."""
    actual_factor: float
    """Actual one."""
    control_factor: float | None
    """Actual factor of the projects that did not change; None if there is none."""
    adjusted_factor: float
    """Actual factor divided by that of the control, or the actual one without a control."""
    low: float
    """Lower end of the 95 % interval of `adjusted_factor`, by a bootstrap over projects."""
    high: float


def make_forecast(replay: Replay, setting: str, now: dt.datetime) -> BillForecast:
    """Return the forecast of a setting under the first rule of a replay.

    Args:
        replay: Replay of the sessions recorded so far.
        setting: Name of a setting of the replay, such as `claude-code at 80K`.
        now: Time of the forecast, with a time zone.

    Raises:
        UsageError: The replay does not have the setting, or no project has a cost.
    """
    rule = replay.rules[0]
    known = [name for name in replay.settings["setting"].unique() if name != AS_IT_WAS]
    if setting not in known:
        raise UsageError(f"the replay has no setting {setting!r}; it has {', '.join(map(repr, known))}")
    rows = replay.costs[replay.costs["rule"] == rule]
    before = rows[rows["setting"] == AS_IT_WAS].groupby("group")["reread_0_usd"].sum()
    after = rows[rows["setting"] == setting].groupby("group")[[name for name in rows.columns if name.startswith("reread_")]].sum()
    levels = [int(name.split("_")[1]) for name in after.columns]
    costs = {group: float(np.interp(replay.band.middle_tokens, levels, after.loc[group])) for group in before.index[before > 0]}
    paid = _sum_paid(replay.sessions)
    if not costs:
        raise UsageError("no project has a cost, so there is nothing to predict")
    return BillForecast(
        setting=setting,
        rule=rule,
        made_at=now.isoformat(timespec="seconds"),
        reread_tokens=replay.band.middle_tokens,
        usd_per_call={str(group): float(paid.loc[group, "usd"] / paid.loc[group, "calls"]) for group in costs},
        factors={str(group): cost / float(before[group]) for group, cost in costs.items()},
    )


def _sum_paid(sessions: pd.DataFrame) -> pd.DataFrame:
    rows = sessions[(sessions["paid_usd"] > 0) & (sessions["calls"] > 0)].groupby("group")
    return pd.DataFrame({"usd": rows["paid_usd"].sum(), "calls": rows["calls"].sum()})


def save_forecast(forecast: BillForecast, path: Path) -> None:
    """Write a forecast to a file that does not exist yet, so that no later one replaces it.

    Raises:
        StoreError: The file exists or cannot be written.
    """
    if path.exists():
        raise StoreError(f"{str(path)!r} exists; a forecast is not overwritten, so name another file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(path) as unfinished:
            unfinished.write_text(json.dumps(to_plain(forecast), indent=1), encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot write the forecast {str(path)!r}: {error.strerror or error}") from error


def read_forecast(path: Path) -> BillForecast:
    """Return the forecast in a file.

    Raises:
        UsageError: The file cannot be read or holds no forecast.
    """
    try:
        return from_plain(BillForecast, json.loads(read_input(path, MAX_FORECAST_BYTES)), str(path))
    except (OSError, ValueError) as error:
        raise UsageError(f"{str(path)!r} holds no forecast of `harness replay --freeze`: {error}") from error


def check_forecast(forecast: BillForecast, replay: Replay, controls: Sequence[str] = (), seed: int = 0) -> ForecastCheck:
    """Return how a forecast compares with the sessions that began after it.

    Args:
        forecast: Forecast that was stored.
        replay: Replay of all sessions recorded so far.
        controls: Names of the projects that kept their setting.
        seed: Seed of the bootstrap.

    Raises:
        UsageError: A control is unknown, or no project that changed has calls after the forecast.
    """
    made_at = pd.Timestamp(forecast.made_at)
    later = _sum_paid(replay.sessions[replay.sessions["started_at"] > made_at])
    unknown = [name for name in controls if name not in forecast.factors]
    if unknown:
        raise UsageError(
            f"unknown control {unknown[0]!r}; the forecast has the projects {', '.join(map(repr, forecast.factors))}"
        )
    changed = [name for name in later.index if name in forecast.factors and name not in controls]
    kept = [name for name in later.index if name in controls]
    if not changed:
        raise UsageError(f"no project of the forecast has sessions after {forecast.made_at} that are not controls; wait for some")
    rows = {name: _compare_project(forecast, later, name) for name in (*changed, *kept)}
    one, other = np.array([rows[name] for name in changed]), np.array([rows[name] for name in kept])
    actual, control = _divide(one), _divide(other) if len(other) else None
    rng = np.random.default_rng(seed)
    drawn = [
        _divide(one[rng.integers(0, len(one), len(one))])
        / (_divide(other[rng.integers(0, len(other), len(other))]) if len(other) else 1.0)
        for _ in range(DRAWS)
    ]
    low, high = np.percentile(drawn, (2.5, 97.5))
    return ForecastCheck(
        setting=forecast.setting,
        projects=len(changed),
        calls=int(later.loc[changed, "calls"].sum()),
        predicted_factor=float((one[:, 1] * [forecast.factors[name] for name in changed]).sum() / one[:, 1].sum()),
        actual_factor=actual,
        control_factor=control,
        adjusted_factor=actual / (control or 1.0),
        low=float(low),
        high=float(high),
    )


def _compare_project(forecast: BillForecast, later: pd.DataFrame, name: str) -> tuple[float, float]:
    """Return the paid cost after the forecast, and the cost of as many calls before it, in USD."""
    return float(later.loc[name, "usd"]), float(later.loc[name, "calls"]) * forecast.usd_per_call[name]


def _divide(rows: "np.ndarray") -> float:
    return float(rows[:, 0].sum() / rows[:, 1].sum())


def describe_check(check: ForecastCheck) -> str:
    """Return a comparison in one or two sentences."""
    control = (
        "there is no control, so other causes are not excluded"
        if check.control_factor is None
        else f"the projects that did not change went to {format_percent(check.control_factor)}"
    )
    recorded = f"recorded {format_percent(check.actual_factor)}"
    change = f"predicted {format_percent(check.predicted_factor)} of the former cost of a call, {recorded}"
    first = f"{check.setting}: {change} over {check.calls:,} calls; {control}. Adjusted {format_percent(check.adjusted_factor)}"
    if check.projects < MIN_PROJECTS:
        return f"{first}, from {format_count(check.projects, 'project')}: too few for an interval."
    verdict = "inside" if check.low <= check.predicted_factor <= check.high else "outside"
    return f"{first} [{format_percent(check.low)}, {format_percent(check.high)}]: the forecast is {verdict} the interval."
