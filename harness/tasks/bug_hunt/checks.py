"""What must hold in the end, and the program that looks whether it does."""

import hashlib
from collections.abc import Mapping

from harness.task import Check, Grader
from harness.tasks.bug_hunt.facts import DESKS
from harness.tasks.bug_hunt.stages import ORDER, TIERED, readings, settle, tariff
from harness.tasks.bug_hunt.workspace import culprit_path, filled
from harness.tasks.kit import graders

SWEEP = range(384, 1404, 7)
"""Kilowatt hours at which the hidden check looks; steps of seven meet every remainder of a cent."""


def _check(name: str, title: str, *rests_on: str) -> Check:
    return Check(name=name, title=title, rests_on=rests_on)


CHECKS: tuple[Check, ...] = (
    _check("suite", "all tests pass, those that were there unchanged, and there are new ones", "final_rate", "culprit"),
    _check(
        *("fixed", "the stage computes with the figures in force"),
        *("culprit", "decree_tier", "final_rate", "rounding"),
    ),
    _check("only_one_module", "the module with the bug was changed, and no other one", "culprit"),
    _check("owner_tag", "the changed module says who answers for it", "owner_tag", "culprit"),
    _check(
        *("regression_test", "the regression test is as ordered and fails without the fix"),
        *("test_prefix", "entry_point", "complaint", "culprit"),
    ),
    _check(
        "tries", "the bench accepted one patch and was never asked twice for the same", "final_rate", "decree_tier", "rounding"
    ),
    _check("notes", "the notes tell what was ruled out and since when it drifts", "suspect", "drift_since"),
    _check("changelog", "the change log has exactly one new entry, with channel and ticket", "channel", "ticket"),
    _check("announced", "the fix was announced once, at the right desk", "desk", "severity", "ticket"),
    _check(
        *("report", "the report names what it must"),
        *(
            "ticket",
            "severity",
            "complaint",
            "drift_since",
            "culprit",
            "ruled_out",
            "provisional_rate",
            "final_rate",
            "attempt_id",
        ),
    ),
    _check(
        *("handover", "the hand-over states what holds"),
        *("ticket", "attempt_id", "desk", "entry_point", "frozen", "drift_goal"),
    ),
)


def grader(values: Mapping[str, str], found: Mapping[str, str], task_seed: int) -> Grader:
    """The program that judges a workspace under these values.

    Args:
        values: of the facts and of the workspace.
        found: text of every file as the agent finds it, by path.
        task_seed: draws the figures of the tariff.
    """
    kept = {path: text for path, text in found.items() if path.startswith(("wattbook/", "tests/", "data/"))}
    right = tariff(values, task_seed)
    quarter = readings(values, right, task_seed).values()
    words = {
        **values,
        "hashes": repr({path: hashlib.sha256(text.encode()).hexdigest()[:16] for path, text in kept.items()}),
        "tests": str(sum(text.count("def test_") for text in kept.values())),
        "swept": repr([_added(values, right.base[values["culprit"]], kwh) for kwh in SWEEP]),
        "invoices": repr([sum(right.steps(counts).values()) for counts in quarter]),
        "desks": repr(DESKS),
        "entries": str(len(found["CHANGELOG.md"].splitlines())),
    }
    observed = {
        "fields": repr([(stage.name, "day_kwh" if stage.field == "kwh" else stage.field) for stage in TIERED]),
        "sweep": repr(SWEEP),
        "found": repr({stage.name: found[culprit_path({"culprit": stage.name})] for stage in ORDER}),
    }
    return graders.grader(filled("grader/judge.py", words), filled("grader/observe.py", observed))


def _added(values: Mapping[str, str], base: int, kwh: int) -> int:
    """Cents that the stage with the bug should add."""
    beyond = max(0, kwh - int(values["decree_tier"]))
    return settle(base * (kwh - beyond) + int(values["final_rate"]) * beyond, values["rounding"])
