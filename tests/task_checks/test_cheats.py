"""Each shipped cheat, a task with one defect, is reported by the law that its description names."""

import re

import pytest

from harness.sandboxes.backends import SandboxChoice
from harness.task_checks.cheats import CHEATS
from harness.task_checks.laws import LAWS
from harness.task_checks.simulation import BUBBLEWRAP, SessionCache
from harness.tasks import load_task

LOCAL = SandboxChoice(backend="local")
BY_NAME = {law.name: law for law in LAWS}


def open_sessions(cheat, path):
    name = cheat.write_task(path)
    return SessionCache(load_task(name), name=name, sandbox=BUBBLEWRAP if cheat.needs_isolation else LOCAL)


@pytest.mark.slow
@pytest.mark.parametrize(
    "cheat", [pytest.param(one, marks=[pytest.mark.bubblewrap] * one.needs_isolation, id=name) for name, one in CHEATS.items()]
)
def test_a_law_names_the_cheat(cheat, tmp_path):
    findings = list(BY_NAME[cheat.law].find(open_sessions(cheat, tmp_path / "mine.py"), 1, "extractive"))
    named = [
        finding.message
        for finding in findings
        if (finding.step, finding.fact, finding.check) == (cheat.step, cheat.fact, cheat.check)
    ]
    assert any(re.search(cheat.words, finding) for finding in named), [str(finding) for finding in findings]
