"""Test tools for policies, models, sandboxes, workers and tasks that you write yourself.

A contract suite is a class of tests that every implementation of an interface must pass. Inherit the suite in a test module and
name your implementation; pytest then runs every test of the suite. The package also has Hypothesis strategies, fakes, and the
laws (validity checks of tasks). The names below are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.testing.fakes import FakeModel, FakeTool, MemorySandbox
    from harness.testing.laws import Law, LawResult, check_laws
    from harness.testing.laws.findings import Finding
    from harness.testing.laws.simulation import Run, ScriptedModelSpec, SessionCache, simulate
    from harness.testing.model_contract import ModelContract
    from harness.testing.policy_contract import PolicyContract
    from harness.testing.sandbox_attacks import SandboxAttacks
    from harness.testing.sandbox_contract import SandboxContract
    from harness.testing.strategies import conversations, logs, multi_turn_logs, sessions, sessions_with_rollback
    from harness.testing.workers_contract import WorkersContract

_NAMES_BY_MODULE = {
    "fakes": ("FakeModel", "FakeTool", "MemorySandbox"),
    "laws": ("Law", "LawResult", "check_laws"),
    "laws.findings": ("Finding",),
    "laws.simulation": ("Run", "ScriptedModelSpec", "SessionCache", "simulate"),
    "model_contract": ("ModelContract",),
    "policy_contract": ("PolicyContract",),
    "sandbox_attacks": ("SandboxAttacks",),
    "sandbox_contract": ("SandboxContract",),
    "strategies": ("conversations", "logs", "multi_turn_logs", "sessions", "sessions_with_rollback"),
    "workers_contract": ("WorkersContract",),
}
"""Public names of `harness.testing`, by the module that defines each name."""

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
    """Load a public name of this package from the module that defines it."""
    for module, names in _NAMES_BY_MODULE.items():
        if name in names:
            globals()[name] = value = getattr(import_module(f"harness.testing.{module}"), name)
            return value
    raise AttributeError(f"module 'harness.testing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
