"""Run coding agents under many policies for the compaction of their context, and compare these policies.

The names below are loaded when they are first used, so that importing the package takes almost no time.
"""

from typing import TYPE_CHECKING

from harness.lazy_names import load_name as _load_name

if TYPE_CHECKING:
    from harness.agent.loop import Agent, Outcome
    from harness.analysis import figures
    from harness.analysis.comparison import Comparison, compare
    from harness.analysis.outcomes import load_outcomes
    from harness.compaction.presets.keep_last import KeepLast
    from harness.compaction.presets.none import NoCompaction
    from harness.errors import HarnessError, PolicyWarning, UsageError
    from harness.experiment.contrasts import Contrast
    from harness.experiment.experiment import Experiment
    from harness.experiment.grid import Arm
    from harness.experiment.limits import RunLimits
    from harness.experiment.trial import Trial
    from harness.experiment.workers import Workers
    from harness.inspection.loading import load
    from harness.inspection.recording_folder import load_sessions
    from harness.inspection.timeline import Inspection, inspect_session, reconstruct_request
    from harness.integrations.compaction import compact
    from harness.integrations.compactor import Compactor
    from harness.models.factory import open_model, open_summarizer
    from harness.reporting.best_arm import estimate_best_arm
    from harness.reporting.experiment_report import Report, report
    from harness.reporting.page.document import write_page
    from harness.sandboxes import open_sandbox
    from harness.sandboxes.backends import SandboxChoice
    from harness.session.compactor import SessionCompactor
    from harness.session.live_session import LiveSession
    from harness.session.spec import SessionSpec
    from harness.store.journal import Journal
    from harness.store.results import Results
    from harness.store.sessions.lookup import find_session
    from harness.task import Task
    from harness.tasks import load_task
    from harness.tools import make_standard_tools
    from harness.widgets.agent import AgentWidget
    from harness.widgets.explorer import CompactionExplorer
    from harness.widgets.grid import GridWidget
    from harness.widgets.grid_form import GridForm
    from harness.widgets.inspector import SessionInspector

_MODULE_BY_NAME = {
    "Agent": "harness.agent.loop",
    "AgentWidget": "harness.widgets.agent",
    "Arm": "harness.experiment.grid",
    "CompactionExplorer": "harness.widgets.explorer",
    "Compactor": "harness.integrations.compactor",
    "Comparison": "harness.analysis.comparison",
    "Contrast": "harness.experiment.contrasts",
    "Experiment": "harness.experiment.experiment",
    "GridForm": "harness.widgets.grid_form",
    "GridWidget": "harness.widgets.grid",
    "HarnessError": "harness.errors",
    "Inspection": "harness.inspection.timeline",
    "Journal": "harness.store.journal",
    "KeepLast": "harness.compaction.presets.keep_last",
    "LiveSession": "harness.session.live_session",
    "NoCompaction": "harness.compaction.presets.none",
    "Outcome": "harness.agent.loop",
    "PolicyWarning": "harness.errors",
    "Report": "harness.reporting.experiment_report",
    "Results": "harness.store.results",
    "RunLimits": "harness.experiment.limits",
    "SandboxChoice": "harness.sandboxes.backends",
    "SessionCompactor": "harness.session.compactor",
    "SessionInspector": "harness.widgets.inspector",
    "SessionSpec": "harness.session.spec",
    "Task": "harness.task",
    "Trial": "harness.experiment.trial",
    "UsageError": "harness.errors",
    "Workers": "harness.experiment.workers",
    "compact": "harness.integrations.compaction",
    "compare": "harness.analysis.comparison",
    "estimate_best_arm": "harness.reporting.best_arm",
    "figures": "harness.analysis.figures",
    "find_session": "harness.store.sessions.lookup",
    "inspect_session": "harness.inspection.timeline",
    "load": "harness.inspection.loading",
    "load_outcomes": "harness.analysis.outcomes",
    "load_sessions": "harness.inspection.recording_folder",
    "load_task": "harness.tasks",
    "make_standard_tools": "harness.tools",
    "open_model": "harness.models.factory",
    "open_sandbox": "harness.sandboxes",
    "open_summarizer": "harness.models.factory",
    "reconstruct_request": "harness.inspection.timeline",
    "report": "harness.reporting.experiment_report",
    "write_page": "harness.reporting.page.document",
}
"""Module of each public name, from which the name is imported at its first use."""

__all__ = [
    "Agent",
    "AgentWidget",
    "Arm",
    "CompactionExplorer",
    "Compactor",
    "Comparison",
    "Contrast",
    "Experiment",
    "GridForm",
    "GridWidget",
    "HarnessError",
    "Inspection",
    "Journal",
    "KeepLast",
    "LiveSession",
    "NoCompaction",
    "Outcome",
    "PolicyWarning",
    "Report",
    "Results",
    "RunLimits",
    "SandboxChoice",
    "SessionCompactor",
    "SessionInspector",
    "SessionSpec",
    "Task",
    "Trial",
    "UsageError",
    "Workers",
    "compact",
    "compare",
    "estimate_best_arm",
    "figures",
    "find_session",
    "inspect_session",
    "load",
    "load_outcomes",
    "load_sessions",
    "load_task",
    "make_standard_tools",
    "open_model",
    "open_sandbox",
    "open_summarizer",
    "reconstruct_request",
    "report",
    "write_page",
]


def __getattr__(name: str) -> object:
    return _load_name(__name__, name, _MODULE_BY_NAME)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
