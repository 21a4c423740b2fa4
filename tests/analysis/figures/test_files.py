"""The choices of a person reach every chart that takes them, whichever chart it is."""

from functools import cache
from inspect import signature
from types import ModuleType, SimpleNamespace

import pandas as pd
import pytest

from harness.analysis import figures
from harness.analysis.figures.files import build_table
from harness.analysis.measures import METRICS
from harness.errors import UnknownName
from tests.analysis.selections import grid


@cache
def few_arms():
    return grid(thresholds=(0.5, 0.8), keeps=(10,))


@cache
def default_table(module):
    return module.table(few_arms())


def test_a_chart_that_is_only_registered_gets_the_choices_that_it_takes(monkeypatch):
    def table(results, *, metric=None, baseline=None):
        return pd.DataFrame([{"metric": metric, "baseline": baseline}])

    monkeypatch.setattr(figures.files, "FIGURES", {"made_up": SimpleNamespace(table=table)})
    selection = few_arms()
    assert build_table("made_up", selection).to_numpy().tolist() == [[None, None]]
    chosen = build_table("made_up", selection, metric="steps", baseline={"threshold": 0.5})
    assert chosen.to_numpy().tolist() == [["steps", {"threshold": 0.5}]]


@pytest.mark.slow
@pytest.mark.parametrize("module", [one for one in figures.FIGURES.values() if "metric" in signature(one.table).parameters])
@pytest.mark.parametrize("metric", METRICS)
def test_a_chart_shows_the_chosen_metric_or_its_default(module: ModuleType, metric):
    name = module.__name__.rpartition(".")[2]
    shown = build_table(name, few_arms(), metric=metric)["metric"].dropna()
    default = default_table(module)["metric"]
    assert set(shown) <= (set(default) if metric in getattr(module, "UNSUITABLE_METRICS", ()) else {metric})
    assert len(shown) or metric == "retention"  # no trial of this grid has a compaction of facts


def test_an_unknown_metric_is_refused_by_every_chart_with_a_choice():
    for name, module in figures.FIGURES.items():
        if {"metric", "metrics"} & set(signature(module.table).parameters):
            with pytest.raises(UnknownName, match="scor"):
                build_table(name, few_arms(), metric="scor")
