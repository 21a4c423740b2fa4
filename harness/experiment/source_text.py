"""Text of a trial or an experiment as Python code or as lines of a `plan.toml`, for copying into a notebook or a file.

Only fields that differ from their defaults are written, so that a reader sees what was chosen.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import tomlkit
from tomlkit.items import Table

from harness.compaction.description import name_policy
from harness.conversation import codec
from harness.experiment.contrasts import MARGIN_KEY
from harness.experiment.experiment import Experiment
from harness.experiment.trial import FIELD_NAMES, Trial, to_plain
from harness.policies import PRESETS
from harness.protocols import Policy

PLAIN_TYPES = (str, int, float, bool, type(None))


def format_trial_code(trial: Trial) -> str:
    """Return Python code that creates a trial, such as `harness.Trial(...)`, with one field per line."""
    lines = []
    for name, value in _list_trial_changes(trial).items():
        text = _format_policy(trial.policy) if name == "policy" else _format_value(value)
        lines.append(f"    {name}={text},")
    return "\n".join(["harness.Trial(", *lines, ")"])


def format_trial_plan(trial: Trial) -> str:
    """Return the tables `[trial]` and `[trial.policy]` of a plan file that describe a trial.

    TOML has no value for None. If a field of the policy is None, but not by default, a comment in the text says so.
    """
    document = tomlkit.document()
    document.add("trial", _build_trial_table(trial))
    return tomlkit.dumps(document)


def format_experiment_code(experiment: Experiment) -> str:
    """Return Python code that creates an experiment.

    The code leaves out the folder, the sandbox backend and the recording of model answers.
    """
    base = format_trial_code(experiment.base).replace("\n", "\n    ")
    lines = [f"    name={experiment.name!r},", f"    base={base},"]
    if experiment.axes:
        axes = [f"        {path!r}: [{', '.join(map(_format_value, values))}]," for path, values in experiment.axes.items()]
        lines += ["    axes={", *axes, "    },"]
    if experiment.arms:
        arms = [f"        harness.Arm(name={arm.name!r}, trial={dict(arm.trial)!r})," for arm in experiment.arms]
        lines += ["    arms=(", *arms, "    ),"]
    for name in ("contrasts", "not_worse_margin", "settings"):
        if name in _list_changed_fields(experiment):
            lines.append(f"    {name}={_format_value(getattr(experiment, name))},")
    return "\n".join(["experiment = harness.Experiment(", *lines, ")"])


def format_experiment_plan(experiment: Experiment) -> str:
    """Return the text of a plan file for an experiment.

    The text leaves out the folder, the sandbox backend and the recording of model answers.
    """
    document = tomlkit.document()
    margin = {} if experiment.not_worse_margin is None else {MARGIN_KEY: experiment.not_worse_margin}
    if changed := _list_changed_fields(experiment.settings) | margin:
        document.add("experiment", tomlkit.item(changed))
    document.add("trial", _build_trial_table(experiment.base))
    if experiment.axes:
        axes = tomlkit.table()
        for path, values in experiment.axes.items():
            axes.add(tomlkit.key(path.split(".")), list(values))
        document.add("axes", axes)
    if experiment.arms:
        document.add("arms", tomlkit.item([{"name": arm.name, "trial": _drop_missing(arm.trial)} for arm in experiment.arms]))
    if experiment.contrasts:
        document.add("contrasts", tomlkit.item([_list_changed_fields(contrast) for contrast in experiment.contrasts]))
    return tomlkit.dumps(document)


def _build_trial_table(trial: Trial) -> Table:
    plain = to_plain(trial)
    table = tomlkit.table()
    for name in _list_trial_changes(trial):
        if name != "policy":
            table.add(name, _drop_missing(plain[name]))
    policy = tomlkit.table()
    policy.add("kind", name_policy(trial.policy))
    for name, value in _list_changed_fields(trial.policy).items():
        if value is None:
            policy.add(tomlkit.comment(f"{name} is None, which only Python can express"))
        else:
            policy.add(name, codec.to_plain(trial.policy)[name])
    table.add("policy", policy)
    return table


def _drop_missing(plain: object) -> object:
    # TOML has no value for None.
    if not isinstance(plain, Mapping):
        return plain
    return {name: _drop_missing(value) for name, value in plain.items() if value is not None}


def _list_trial_changes(trial: Trial) -> dict[str, Any]:
    changed = _list_changed_fields(trial)
    return {name: changed[name] for name in FIELD_NAMES if name in changed}


def _list_changed_fields(value: Any) -> dict[str, Any]:
    changed = {}
    for field in fields(value):
        default = field.default_factory() if callable(field.default_factory) else field.default
        if field.init and getattr(value, field.name) != default and field.name != "kind":
            changed[field.name] = getattr(value, field.name)
    return changed


def _format_policy(policy: Policy) -> str:
    changed = _list_changed_fields(policy)
    if PRESETS.get(name_policy(policy)) is type(policy) and all(_is_plain(value) for value in changed.values()):
        arguments = ", ".join(f"{name}={_format_value(value)}" for name, value in changed.items())
        return f"harness.policies.{type(policy).__name__}({arguments})"
    plain: Mapping[str, object] = codec.to_plain(policy)
    return f"harness.policies.policy_from_plain({dict(plain)!r})"


def _is_plain(value: object) -> bool:
    return all(map(_is_plain, value)) if isinstance(value, tuple) else isinstance(value, PLAIN_TYPES)


def _format_value(value: object) -> str:
    if type(value) is int and value >= 10_000:
        return f"{value:_}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_format_value, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, PLAIN_TYPES):
        return repr(value)
    arguments = ", ".join(f"{name}={_format_value(argument)}" for name, argument in _list_changed_fields(value).items())
    return f"{type(value).__module__}.{type(value).__name__}({arguments})"
