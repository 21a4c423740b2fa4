"""What must hold in the end, and the program that looks whether it does."""

from collections.abc import Mapping

from harness.task import Check, Grader
from harness.tasks.bug_hunt.facts import DESKS
from harness.tasks.bug_hunt.stages import STAGES, TIERED_STAGES, draw_readings, draw_tariff, settle
from harness.tasks.bug_hunt.workspace import find_culprit_path
from harness.tasks.kit import graders
from harness.tasks.kit.graders import describe_initial_files, make_check
from harness.tasks.kit.texts import fill_text

SWEEP_KWH = range(384, 1404, 7)
"""Kilowatt hours at which the hidden check looks; steps of seven meet every remainder of a cent."""


CHECKS: tuple[Check, ...] = (
    make_check("suite", "all tests pass, those that were there unchanged, and there are new ones", "final_rate", "culprit"),
    make_check("fixed", "the stage computes with the figures in force", "culprit", "decree_tier", "final_rate", "rounding"),
    make_check("only_one_module", "the module with the bug was changed, and no other one", "culprit"),
    make_check("owner_tag", "the changed module says who answers for it", "owner_tag", "culprit"),
    make_check(
        *("regression_test", "the regression test is as ordered and fails without the fix"),
        *("test_prefix", "entry_point", "complaint", "culprit"),
    ),
    make_check(
        "tries", "the bench accepted one patch and was never asked twice for the same", "final_rate", "decree_tier", "rounding"
    ),
    make_check("notes", "the notes tell what was ruled out and since when it drifts", "suspect", "drift_since"),
    make_check("changelog", "the change log has exactly one new entry, with channel and ticket", "channel", "ticket"),
    make_check("announced", "the fix was announced once, at the right desk", "desk", "severity", "ticket"),
    make_check(
        *("report", "the report names what it must"),
        *("ticket", "severity", "complaint", "drift_since", "culprit"),
        *("ruled_out", "provisional_rate", "final_rate", "attempt_id"),
    ),
    make_check(
        *("handover", "the hand-over states what holds"), *("ticket", "attempt_id", "desk", "entry_point", "frozen", "drift_goal")
    ),
)


def build_grader(values: Mapping[str, str], initial_files: Mapping[str, str], task_seed: int) -> Grader:
    """Build the program that judges a workspace under these values.

    Args:
        values: values of the facts and of the workspace.
        initial_files: text of every file as the agent finds it, by path.
        task_seed: draws the figures of the tariff.
    """
    correct_tariff = draw_tariff(values, task_seed)
    quarter = draw_readings(values, correct_tariff, task_seed).values()
    words = {
        **values,
        **describe_initial_files(initial_files, ("wattbook/", "tests/", "data/")),
        "swept": repr([_compute_added_cents(values, correct_tariff.base[values["culprit"]], kwh) for kwh in SWEEP_KWH]),
        "invoices": repr([sum(correct_tariff.compute_stage_cents(counts).values()) for counts in quarter]),
        "desks": repr(DESKS),
    }
    observer_words = {
        "fields": repr([(stage.name, "day_kwh" if stage.field == "kwh" else stage.field) for stage in TIERED_STAGES]),
        "sweep": repr(SWEEP_KWH),
        "found": repr({stage.name: initial_files[find_culprit_path({"culprit": stage.name})] for stage in STAGES}),
    }
    judge = fill_text(__package__, "grader/judge.py", words)
    return graders.build_grader(judge, fill_text(__package__, "grader/observe.py", observer_words))


def _compute_added_cents(values: Mapping[str, str], base: int, kwh: int) -> int:
    """Return the cents that the stage with the bug should add."""
    beyond = max(0, kwh - int(values["decree_tier"]))
    return settle(base * (kwh - beyond) + int(values["final_rate"]) * beyond, values["rounding"])
