"""Receipt patterns that are derived from calls."""

import re
from string import Template

import pytest

from harness.tasks.kit.calls import run
from harness.tasks.kit.steps import build_steps, look


@pytest.mark.parametrize("before", range(138, 152))
def test_a_long_command_is_known_by_its_receipt_wherever_its_placeholders_stand(before: int) -> None:
    command = "x" * before + " ${name} and so on"
    (step,) = build_steps([look("step", "says", run(command))], ())
    (_, pattern), *_ = step.done.receipts
    assert re.search(pattern, Template(command).substitute(name="value")[:200])
