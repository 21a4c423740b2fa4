"""Unnecessary steps of the task `bug-hunt`, in which the agent looks at files and parts of logs that it does not need."""

from collections.abc import Iterator

from harness.tasks.bug_hunt.stages import STAGES, TIERED_STAGES
from harness.tasks.bug_hunt.structure import LETTER_COUNT, MONTHS
from harness.tasks.kit.calls import read, run
from harness.tasks.kit.steps import StepSpec, look


def _list_looks() -> Iterator[StepSpec]:
    for module, text in {
        "engine": "The engine, from which everything starts.",
        "config": "The order of the stages.",
        "reading": "How readings are parsed.",
        "money": "How amounts are settled.",
        "ledger": "The ledger, which found the drift at night.",
        "text": "Invoices as text.",
        "errors": "The errors.",
        "cli": "The command line.",
    }.items():
        yield look(f"read_{module}", text, read(f"wattbook/{module}.py"))
    for stage in STAGES:
        yield look(f"read_{stage.name}", f"The stage {stage.name}.", read(f"wattbook/stages/{stage.name}.py"))
    for stage in TIERED_STAGES:
        text = f"Would the tests of {stage.name} notice a stale figure?"
        yield look(f"read_test_{stage.name}", text, read(f"tests/stages/test_{stage.name}.py"))
    for name in ("engine", "money", "reference"):
        yield look(f"read_test_{name}", f"The tests of {name}, before I believe them.", read(f"tests/test_{name}.py"))
    for month in MONTHS:
        yield look(f"minutes_{month}", f"The minutes of {month}; somebody may have noticed.", read(f"docs/minutes/{month}.md"))
    for number in range(1, LETTER_COUNT + 1):
        yield look(f"letter_{number}", f"Is the letter {number} about the drift?", read(f"letters/{number:02}.txt"))
    for name, text, command in (
        ("log_head", "The nightly log from its beginning, when all was well.", "head -n 45 logs/nightly.log"),
        ("log_week", "Some nights line by line.", "sed -n 46,185p logs/nightly.log"),
        ("log_middle", "The nights in the middle of the month.", "sed -n 186,330p logs/nightly.log"),
        ("log_tail", "The end of the nightly log.", "tail -n 90 logs/nightly.log"),
        ("log_printers", "The printers, around the same days.", "sed -n 1,104p logs/printers.log"),
        ("log_collectors", "The collectors, who deliver the readings.", "tail -n 104 logs/collectors.log"),
        ("probe_readings", "Another suspect: the readings.", "python3 tools/probe.py --readings"),
        ("probe_settle", "And settling.", "python3 tools/probe.py --settle"),
        ("all_readings", "The counts themselves.", "cat data/readings.csv"),
        ("data_head", "What the data looks like.", "head -n 12 data/readings.csv data/reference.csv data/audited.csv"),
        ("audited", "The regulator's figures of the audited invoices.", "cat data/audited.csv"),
        ("attempts", "What was tried on the bench before.", "cat ci/attempts.log"),
    ):
        yield look(name, text, run(command))


LOOKS = {step.name: step for step in _list_looks()}
"""Every unnecessary step (look) that the agent of the script can take, by name; each seed selects some of them."""
