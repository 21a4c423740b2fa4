"""Test tools for policies, models, sandboxes, workers and tasks that you write yourself.

A contract suite is a class of tests that every implementation of an interface must pass. Inherit the suite in a test module and
name your implementation; pytest then runs every test of the suite. The package also has Hypothesis strategies, fakes, and the
laws. The names below are loaded when they are first used.
"""

from typing import TYPE_CHECKING

from harness.lazy_names import load_name as _load_name

if TYPE_CHECKING:
    from harness.task_checks.findings import Finding
    from harness.task_checks.laws import Law, LawResult, check_laws
    from harness.task_checks.simulation import Run, ScriptedModelSpec, SessionCache, simulate
    from harness.testing.fakes import FakeModel, FakeTool, MemorySandbox
    from harness.testing.model_contract import ModelContract
    from harness.testing.policy_contract import PolicyContract
    from harness.testing.sandbox_attacks import SandboxAttacks
    from harness.testing.sandbox_contract import SandboxContract
    from harness.testing.strategies import conversations, logs, multi_turn_logs, sessions, sessions_with_rollback
    from harness.testing.workers_contract import WorkersContract

_MODULE_BY_NAME = {
    "FakeModel": "harness.testing.fakes",
    "FakeTool": "harness.testing.fakes",
    "Finding": "harness.task_checks.findings",
    "Law": "harness.task_checks.laws",
    "LawResult": "harness.task_checks.laws",
    "MemorySandbox": "harness.testing.fakes",
    "ModelContract": "harness.testing.model_contract",
    "PolicyContract": "harness.testing.policy_contract",
    "Run": "harness.task_checks.simulation",
    "SandboxAttacks": "harness.testing.sandbox_attacks",
    "SandboxContract": "harness.testing.sandbox_contract",
    "ScriptedModelSpec": "harness.task_checks.simulation",
    "SessionCache": "harness.task_checks.simulation",
    "WorkersContract": "harness.testing.workers_contract",
    "check_laws": "harness.task_checks.laws",
    "conversations": "harness.testing.strategies",
    "logs": "harness.testing.strategies",
    "multi_turn_logs": "harness.testing.strategies",
    "sessions": "harness.testing.strategies",
    "sessions_with_rollback": "harness.testing.strategies",
    "simulate": "harness.task_checks.simulation",
}
"""Module of each public name, from which the name is imported at its first use."""

__all__ = [
    "FakeModel",
    "FakeTool",
    "Finding",
    "Law",
    "LawResult",
    "MemorySandbox",
    "ModelContract",
    "PolicyContract",
    "Run",
    "SandboxAttacks",
    "SandboxContract",
    "ScriptedModelSpec",
    "SessionCache",
    "WorkersContract",
    "check_laws",
    "conversations",
    "logs",
    "multi_turn_logs",
    "sessions",
    "sessions_with_rollback",
    "simulate",
]


def __getattr__(name: str) -> object:
    return _load_name(__name__, name, _MODULE_BY_NAME)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
