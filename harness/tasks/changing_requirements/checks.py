"""What must hold in the end, and the program that looks whether it does."""

from collections.abc import Mapping

from harness.task import Grader
from harness.tasks.changing_requirements.facts import BAYS
from harness.tasks.kit import graders
from harness.tasks.kit.graders import make_check
from harness.tasks.kit.texts import fill_text

CHECKS = (
    *(
        make_check(name, f"every sheet has the {name.replace('_', ' ')} that holds in the end", name)
        for name in ("operator", "interval", "first_bus", "zone")
    ),
    *(
        make_check(name, f"the papers name the {name.replace('_', ' ')}", name)
        for name in ("opening", "ticket", "hotline", "rest_day", "greeting")
    ),
    make_check("poster_interval", "the poster names the interval that holds in the end", "interval"),
    make_check("permit", "the letter names the permit", "permit"),
    make_check("one_permit", "one permit was asked for, and no more"),
    *(make_check(f"bay_{stop}", f"the bay of {stop} is named", f"bay_{stop}") for stop in BAYS),
)


def build_grader(words: Mapping[str, str]) -> Grader:
    """Build the program that judges a workspace; no code of the agent runs."""
    return graders.build_grader(fill_text(__package__, "verdicts.py", words))
