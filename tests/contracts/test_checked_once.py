"""A setting of a plan is checked once on its way to the session, not again in each package that passes it on.

A reader who follows a setting then meets each rule about it in one place.
"""

import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

import harness
from harness.experiment.experiment import Experiment
from tests.experiment.run_grid import TINY

pytestmark = pytest.mark.slow

PACKAGE = str(Path(harness.__file__).parent)
THRESHOLD = "0.5173"
PLAN = f"""
[experiment]
executor = "threads"
[trial]
task = "{TINY}"
window_tokens = 32_768
max_steps = 2
policy = {{ kind = "keep-last", summarizer = "scripted/extractive" }}
[axes]
policy.threshold = [{THRESHOLD}]
"""
REPEATED = {"check_feasible"}
"""Checks that the session repeats: it may run in another process, and a live session has no check before it."""


@pytest.mark.bubblewrap
def test_no_check_of_a_threshold_sees_an_equal_value_twice(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    checks: Counter[tuple[str, str]] = Counter()

    def count_check(frame, event, _argument):
        code = frame.f_code
        if (
            event == "call"
            and code.co_name.lstrip("_").startswith(("check_", "refuse_"))
            and code.co_filename.startswith(PACKAGE)
        ):
            arguments = repr([frame.f_locals[name] for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]])
            checks[code.co_qualname, arguments] += THRESHOLD in arguments

    threading.setprofile(count_check)
    sys.setprofile(count_check)
    try:
        results = Experiment.from_toml(str(tmp_path)).run(workers=1)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert len(results.trials) == 1
    checks = +checks
    assert {"Preset.check_combination", "check_policy"} <= {name for name, _ in checks}
    assert {name: count for (name, _), count in checks.items() if count > 1 and name not in REPEATED} == {}
