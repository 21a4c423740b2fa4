"""The rank correlation of `experiments/published_arms` with the published table, on results that are made up."""

import runpy
from pathlib import Path

import pandas as pd
import pytest

from harness.experiment.grid import Grid
from harness.experiment.plan import read_plan
from harness.experiment.trial import to_plain

FOLDER = Path(__file__).parents[2] / "experiments" / "published_arms"
TABLE = runpy.run_path(str(FOLDER / "table.py"))
SURVIVAL = "scripted/survival:constraints-rounds"


def make_trials(success: dict[str, float]) -> pd.DataFrame:
    """Return a trial of each arm on each of two tasks, with the given success, and costs as in the published table."""
    rows = [
        {
            "agent": "typical",
            "policy_name": arm,
            "summarizer": SURVIVAL if "summary" in arm else "",
            "task": task,
            "success": rate,
            "score": rate,
            "steps": -TABLE["PUBLISHED"]["steps"][arm],
            "total_cost_usd": TABLE["PUBLISHED"]["cost"][arm],
        }
        for arm, rate in success.items()
        for task in ("a", "b")
    ]
    return pd.DataFrame(rows)


def test_the_plan_has_the_four_published_arms_and_two_summarizers_with_both_agents() -> None:
    plan = read_plan(FOLDER)
    labels = {TABLE["label_trial"](to_plain(cell.trial)) for cell in Grid(plan.base, plan.axes, plan.arms)}
    arms = {(arm, summarizer) for arm in TABLE["ARMS"] for summarizer in (TABLE["SUMMARIZERS"] if "summary" in arm else ("",))}
    assert labels == {(agent, *arm) for agent in ("attentive", "typical") for arm in arms}


def test_equal_orders_correlate_with_1_and_opposite_orders_with_minus_1() -> None:
    row = TABLE["correlate"](make_trials(TABLE["PUBLISHED"]["success"].to_dict())).loc[("typical", SURVIVAL)]
    assert row.to_dict() == {"success": 1.0, "score": 1.0, "steps": -1.0, "cost": 1.0}


def test_arms_without_any_difference_have_no_correlation() -> None:
    row = TABLE["correlate"](make_trials(dict.fromkeys(TABLE["ARMS"], 0.5))).loc[("typical", SURVIVAL)]
    assert pd.isna(row["success"])
    assert row["cost"] == pytest.approx(1.0)
