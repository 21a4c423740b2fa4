"""Recorded sessions under other settings: the cost of other policies and thresholds, and the cheapest choice in hindsight.

The agent's later calls are taken as recorded, so nothing here says how a setting changes the work itself. The names below are
loaded when they are first used.
"""

from typing import TYPE_CHECKING

from harness.lazy_names import load_name as _load_name

if TYPE_CHECKING:
    from harness.replay.probe import Probe, ProbePlan, plan_probe, run_probe
    from harness.replay.sessions import Replay, replay_sessions

_MODULE_BY_NAME = {
    "Probe": "harness.replay.probe",
    "ProbePlan": "harness.replay.probe",
    "Replay": "harness.replay.sessions",
    "plan_probe": "harness.replay.probe",
    "replay_sessions": "harness.replay.sessions",
    "run_probe": "harness.replay.probe",
}
"""Module of each public name, from which the name is imported at its first use."""

__all__ = ["Probe", "ProbePlan", "Replay", "plan_probe", "replay_sessions", "run_probe"]


def __getattr__(name: str) -> object:
    return _load_name(__name__, name, _MODULE_BY_NAME)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
