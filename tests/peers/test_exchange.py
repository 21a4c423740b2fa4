"""Exports read by the libraries of their formats: inspect-ai 0.3.285 reads logs, harbor 0.26.0 validates trajectories."""

import json
import subprocess
from pathlib import Path

import pytest

from harness.inspection.exchange.exported_session import AppliedCompaction, build_exported_session
from harness.inspection.exchange.writing import write_session
from harness.recordings.reading import read_recording
from tests.inspection.exchange.sessions import NAMES, build_log
from tests.peers.environments import ENVIRONMENTS

pytestmark = pytest.mark.peers

READ_LOG = """
import json, sys
from inspect_ai.log import read_eval_log
[sample] = read_eval_log(sys.argv[1], resolve_attachments=True).samples
events = [event for event in sample.events if event.event in ("model", "compaction")]
model = [event for event in events if event.event == "model"]
print(json.dumps({
    "messages": [message.role for message in sample.messages],
    "calls": sum(len(message.tool_calls or []) for message in sample.messages if message.role == "assistant"),
    "requests": [len(event.input) for event in model],
    "input": [event.output.usage.input_tokens if event.output.usage else None for event in model],
    "compactions": [[event.tokens_before, event.tokens_after] for event in events if event.event == "compaction"],
}))
"""
READ_TRAJECTORY = """
import json, sys, types
from importlib.util import find_spec
[place] = find_spec("harbor").submodule_search_locations
for name in ("harbor", "harbor.models"):  # the packages themselves import far more than their models
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [place + name.removeprefix("harbor").replace(".", "/")]
from harbor.models.trajectories.trajectory import Trajectory
trajectory = Trajectory.model_validate(json.load(open(sys.argv[1])))
print(json.dumps({
    "steps": [step.source for step in trajectory.steps],
    "calls": sum(len(step.tool_calls or []) for step in trajectory.steps),
    "prompt": trajectory.final_metrics.total_prompt_tokens,
    "boundaries": sum("context_management" in (step.extra or {}) for step in trajectory.steps),
}))
"""


def run_in(name, script, file):
    environment = ENVIRONMENTS[name]
    environment.make()
    ran = subprocess.run([str(environment.interpreter), "-c", script, str(file)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.parametrize("redacted", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_inspect_reads_an_exported_log(name, redacted, tmp_path):
    log = build_log(name)
    write_session(log, tmp_path / "session.eval", "inspect", redacted=redacted)
    answer = run_in("inspect", READ_LOG, tmp_path / "session.eval")
    session = build_exported_session(log)
    calls = list(session.calls)
    assert answer["requests"] == [len(call.request) for call in calls]
    assert answer["input"] == [call.usage.input_tokens if call.usage else None for call in calls]
    assert answer["calls"] == sum(len(call.answer.calls) for call in calls)
    compactions = [item for item in session.items if isinstance(item, AppliedCompaction)]
    assert answer["compactions"] == [[item.tokens_before, item.tokens_after] for item in compactions]


@pytest.mark.parametrize("redacted", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_harbor_validates_an_exported_trajectory(name, redacted, tmp_path):
    log = build_log(name)
    write_session(log, tmp_path / "session.json", "atif", redacted=redacted)
    answer = run_in("harbor", READ_TRAJECTORY, tmp_path / "session.json")
    session = build_exported_session(log)
    calls = list(session.calls)
    assert len(answer["steps"]) == len(session.items)
    assert answer["steps"].count("agent") == len(calls)
    assert answer["calls"] == sum(len(call.answer.calls) for call in calls)
    assert answer["prompt"] == (sum(call.usage.prompt_tokens for call in calls if call.usage) or None)
    assert answer["boundaries"] == sum(isinstance(item, AppliedCompaction) for item in session.items)


FIXTURE = Path(__file__).parents[2] / "harness" / "recordings" / "formats" / "atif" / "fixtures" / "atif-1.7.json"


def test_harbor_validates_our_own_fixture_of_version_1_7():
    assert run_in("harbor", READ_TRAJECTORY, FIXTURE)["boundaries"] == len(read_recording(FIXTURE).compactions)
