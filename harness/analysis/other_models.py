"""Trials that a plan runs once more with other models, which reports compare with the trials of the grid's own model.

A plan names such models in `other_models`. Their arms are named after the arms that they repeat, e.g. `control (with gpt-5)`.
"""

import json
from dataclasses import dataclass

import pandas as pd

from harness.analysis.tables import Tables, select
from harness.experiment.paths import parse_repeated_arm


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherModel:
    """Results with another model than the grid's. The arms have the names of the arms that they repeat."""

    model: str
    """Name of the other model, as the plan gives it, e.g. `scripted:typical`."""
    results: Tables


def split_other_models(results: Tables) -> tuple[Tables, tuple[OtherModel, ...]]:
    """Return the results with the model of the grid, and those with each other model.

    Args:
        results: Results of one experiment, without trials of earlier plans. If only trials with other models are left, the first
            part is empty.
    """
    trials = results.trials
    repeated = {arm: parse_repeated_arm(str(arm)) for arm in trials["arm"].unique()}
    models = dict.fromkeys(model for _, model in repeated.values() if model)
    if not models:
        return results, ()
    model_of_trial = trials["arm"].map({arm: model for arm, (_, model) in repeated.items()}).astype(str)
    others = []
    for model in models:
        chosen = trials[model_of_trial == model]
        names = chosen["arm"].map({arm: name for arm, (name, _) in repeated.items()})
        others.append(OtherModel(model=model, results=select(results, chosen.assign(arm=names))))
    return select(results, trials[model_of_trial == ""]), tuple(others)


def read_model(trials: pd.DataFrame) -> str:
    """Return the name of the agent's model of trials, as the plan gives it; several names are joined by commas."""
    names = [json.loads(text or "{}").get("model", "") for text in trials.drop_duplicates("arm")["config_json"]]
    return ", ".join(sorted(set(names)))
