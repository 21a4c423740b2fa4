"""Trials in which an external agent works: a program in the sandbox with a loop of its own, which asks its model over HTTP."""

import json
import os
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.conversation.events import Compaction, Event, MessageAdded, SessionEnded, SessionStarted, SubAgentEnded
from harness.errors import UsageError
from harness.experiment.experiment import Experiment
from harness.experiment.job import FinishedTrial, Job, collect_provenance
from harness.experiment.run_trial import run_trial
from harness.experiment.trial import Trial
from harness.inspection.timeline import inspect_session
from harness.protocols import SandboxLimits
from harness.reporting.experiment_report import report
from harness.sandboxes.backends import SandboxChoice
from harness.session.external_agent import ExternalAgent
from harness.store.journal import Journal
from tests.models.openai_stub import Refuse, Say, serving

pytestmark = [pytest.mark.bubblewrap, pytest.mark.slow]

AGENTS = Path(__file__).parent / "agents"
TASK = f"{Path(__file__).parent / 'tiny_task.py'}:alone"
SMALL_AGENT = f"python3 {shlex.quote(str(AGENTS / 'small_agent.py'))} {{prompt}}"
TIGHT = KeepLast(
    threshold=0.25,
    keep_last=2,
    summarizer="scripted/extractive",
    system_reserve_tokens=100,
    output_reserve_tokens=100,
    safety_reserve_tokens=100,
)
ASK = (
    "import json, os, sys, urllib.request as u, urllib.error\n"
    "def ask(path, body, key='OPENAI_BASE_URL'):\n"
    "    data = body if isinstance(body, bytes) else json.dumps(body).encode()\n"
    "    try:\n"
    "        return u.urlopen(u.Request(os.environ[key] + path, data, {'Content-Type': 'application/json'})).read().decode()\n"
    "    except urllib.error.HTTPError as error:\n"
    "        return str(error.code) + ' ' + error.read().decode()\n"
)


def make_agent(command: str = SMALL_AGENT) -> ExternalAgent:
    return ExternalAgent(command=command, paths=(str(AGENTS),))


def make_program(source: str) -> ExternalAgent:
    """Return an agent that runs a Python program, with the prompt of the task as its first argument."""
    return make_agent(f"python3 -c {shlex.quote(ASK + source)} {{prompt}}")


BASE = Trial(task=TASK, policy=NoCompaction(), window_tokens=16_384, seed=5, agent=make_agent())


class Ran:
    """Trial that ran, with its record, its checks and the events of its session."""

    def __init__(self, job: Job, finished: FinishedTrial) -> None:
        self.job, self.record = job, finished.record
        self.checks = [(check.check, check.passed, check.detail) for check in finished.checks]
        with Journal.open(job.journal, read_only=True) as journal:
            self.sessions = {name: [entry.event for entry in journal.read_entries(name)] for name in journal.list_session_ids()}
        self.events: list[Event] = self.sessions[self.record.session_id]

    @property
    def messages(self) -> list[Any]:
        return [event.message for event in self.events if isinstance(event, MessageAdded)]

    @property
    def end(self) -> SessionEnded:
        ends = [event for event in self.events if isinstance(event, SessionEnded)]
        assert ends == self.events[-1:]
        return ends[0]


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Ran]:
    numbers = iter(range(99))

    def run_one(trial: Trial = BASE, **changes: Any) -> Ran:
        job = Job(
            trial=trial,
            trial_id=trial.trial_id,
            experiment="e",
            arm="an arm",
            axes={"seed": trial.seed},
            backend="bubblewrap",
            provenance=collect_provenance("prices-1"),
            journal=tmp_path / f"{next(numbers)}.sqlite",
        )
        job = replace(job, **changes)
        return Ran(job, run_trial(job))

    return run_one


@pytest.mark.parametrize("policy", [NoCompaction(), TIGHT], ids=["none", "keep-last"])
def test_two_runs_make_the_same_calls_with_the_same_outcome(run: Callable[..., Ran], policy: Any) -> None:
    first, second = (run(replace(BASE, policy=policy)) for _ in range(2))
    record = first.record
    assert (record.status, record.reason, record.success, record.level) == ("completed", "declared", True, "L0"), record.error
    assert first.messages == second.messages
    assert first.checks == second.checks
    patches = [[event.patch for event in ran.events if isinstance(event, Compaction)] for ran in (first, second)]
    assert patches[0] == patches[1]
    assert record.compactions == len(patches[0])
    assert (record.compactions > 0) is (policy is TIGHT)


def test_the_record_is_that_of_a_session_of_this_project(run: Callable[..., Ran], tmp_path: Path) -> None:
    ran = run(replace(BASE, policy=TIGHT))
    own = run(replace(BASE, policy=TIGHT, agent=ExternalAgent()))
    started, own_started = ran.events[0], own.events[0]
    assert isinstance(started, SessionStarted)
    assert isinstance(own_started, SessionStarted)
    same = replace(started, session_id=own_started.session_id, advisories=own_started.advisories)
    assert same == own_started
    assert [message.role for message in ran.messages[:3]] == ["system", "user", "assistant"]
    assert ran.messages[1].text == started.task
    calls = [[(call.name, call.arguments_json) for message in one.messages for call in message.calls] for one in (ran, own)]
    assert set(calls[0]) == set(calls[1])  # the scripted model does the same work through either loop
    assert ran.record.steps == sum(event.kind == "step-finished" for event in ran.events)
    assert ran.record.prompt_tokens > 0
    assert ran.record.cost_usd
    assert ran.record.output_limits_json is None
    assert "exit code 0; its output: All done." in ran.end.detail
    with Journal.open(ran.job.journal, read_only=True) as journal:
        inspected = inspect_session(journal.read_entries(ran.record.session_id))
    assert inspected.totals.steps == ran.record.steps
    assert len(inspected.compactions) == ran.record.compactions


def test_an_experiment_compares_policies_behind_an_external_agent(tmp_path: Path) -> None:
    axes: dict[str, list[object]] = {"policy": [NoCompaction(), TIGHT], "seed": [0, 1]}
    results = Experiment(name="agents", base=BASE, axes=axes).run(tmp_path / "run", workers=2, progress="off")
    trials = results.trials
    assert list(trials["status"]) == ["completed"] * 4, list(trials["error"])
    assert set(trials.loc[trials["policy"] == "keep-last", "compactions"] > 0) == {True}
    assert set(trials.loc[trials["policy"] == "none", "compactions"]) == {0}
    assert len(results.checks) == 8
    assert "keep-last" in report(results).render_markdown()


def test_keys_and_folders_of_this_machine_stay_outside(run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "sk-the-secret-of-this-machine")
    source = (
        "from pathlib import Path\n"
        "paths = [path for path in Path('/proc').glob('[0-9]*/environ') if os.access(path, os.R_OK)]\n"
        "environments = b''.join(path.read_bytes() for path in paths)\n"
        "keys = [os.environ[name + '_API_KEY'] for name in ('OPENAI', 'ANTHROPIC', 'GEMINI')]\n"
        "print(b'sk-the-secret' in environments, *keys)\n"
        f"print(Path({str(Path.home())!r}, '.ssh').exists(), Path({str(AGENTS.parent)!r}, 'conftest.py').exists())\n"
        "print(sum(1 for line in open('/proc/net/route')) - 1, 'routes')\n"
    )
    ran = run(replace(BASE, agent=make_program(source)))
    assert "False no-key-needed no-key-needed no-key-needed False False 0 routes" in " ".join(ran.end.detail.split()), (
        ran.end.detail
    )


def test_a_real_model_answers_with_a_key_that_stays_outside(run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    write = ("c1", "write_file", json.dumps({"path": "conf.txt", "content": "port=4005\n"}))
    look = ("c2", "execute_command", json.dumps({"command": "env; cat conf.txt"}))
    calls = (Say(calls=(call,), finish="tool_calls") for call in (write, look))
    with serving(*calls, Say(pieces=("It is ", "done."))) as stub:
        monkeypatch.setenv("OPENAI_API_BASE", stub.base)
        monkeypatch.setenv("OPENAI_API_KEY", "planted-0123456789")
        ran = run(replace(BASE, model="openai/gpt-4o", window_tokens=None))
    record = ran.record
    assert (record.status, record.success, record.level, record.steps) == ("completed", True, "L3", 3), record.error
    assert [headers["Authorization"] for headers in stub.headers_seen] == ["Bearer planted-0123456789"] * 3
    assert [tool["function"]["name"] for tool in stub.asked[0]["tools"]] == [
        *("execute_command", "read_file", "write_file", "list_directory"),
    ]
    assert [message["role"] for message in stub.asked[1]["messages"]] == ["system", "user", "assistant", "tool"]
    assert "planted" not in str(ran.messages)
    assert (record.prompt_tokens, record.output_tokens) == (33, 21)
    assert record.cost_usd
    assert "It is done." in ran.end.detail


def test_a_provider_that_refuses_is_not_the_agents_fault(run: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(*[Refuse(status=401, error={"message": "Incorrect API key provided"})] * 4) as stub:
        monkeypatch.setenv("OPENAI_API_BASE", stub.base)
        monkeypatch.setenv("OPENAI_API_KEY", "planted-0123456789")
        ran = run(replace(BASE, model="openai/gpt-4o", window_tokens=None))
    assert (ran.record.status, ran.record.reason, ran.record.steps) == ("failed", "model_error", 0)
    assert "Incorrect API key provided" in ran.record.error
    assert "planted-0123456789" not in ran.record.error


def test_a_call_without_tools_before_the_work_is_a_session_of_its_own(run: Callable[..., Ran]) -> None:
    title = {"model": "m", "messages": [{"role": "user", "content": "Write a title."}]}
    source = (
        f"ask('/chat/completions', {title!r})\nos.execvp('python3', ['python3', {str(AGENTS / 'small_agent.py')!r}, sys.argv[1]])"
    )
    ran = run(replace(BASE, agent=make_program(source)))
    plain = run()
    assert ran.record.success
    assert ran.messages == plain.messages
    assert sorted(ran.sessions) == [ran.record.session_id, f"{ran.record.session_id}.1"]
    (ended,) = [event for event in ran.events if isinstance(event, SubAgentEnded)]
    assert (ended.session_id, ended.steps) == (f"{ran.record.session_id}.1", 1)
    assert ran.record.sub_agent_prompt_tokens == ended.prompt_tokens > 0
    side = ran.sessions[ended.session_id]
    assert "Write a title." in [event.message.text for event in side if isinstance(event, MessageAdded)]


def test_an_agent_without_tools_is_the_session_of_the_trial(run: Callable[..., Ran]) -> None:
    messages = [{"role": "user", "content": "Say something."}]
    ran = run(replace(BASE, agent=make_program(f"print(ask('/chat/completions', {{'model': 'm', 'messages': {messages!r}}}))")))
    assert (ran.record.status, ran.record.steps, list(ran.sessions)) == ("completed", 1, [ran.record.session_id])
    assert "Say something." in [message.text for message in ran.messages]


HELLO = [{"role": "user", "content": "Hello."}]
REQUESTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "responses": ("OPENAI_BASE_URL", "/responses", {"model": "m", "input": HELLO}),
    "messages": ("ANTHROPIC_BASE_URL", "/v1/messages", {"model": "m", "max_tokens": 99, "messages": HELLO}),
    "generateContent": (
        "GOOGLE_GEMINI_BASE_URL",
        "/v1beta/models/m:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "Hello."}]}]},
    ),
}


@pytest.mark.parametrize(("variable", "path", "body"), REQUESTS.values(), ids=REQUESTS)
def test_other_protocols_reach_the_same_model(run: Callable[..., Ran], variable: str, path: str, body: dict[str, Any]) -> None:
    ran = run(replace(BASE, agent=make_program(f"print(ask({path!r}, {body!r}, {variable!r}))")))
    assert (ran.record.status, ran.record.steps) == ("completed", 1), ran.record.error
    assert "Hello." in [message.text for message in ran.messages]


FAILURES: dict[str, tuple[str, str]] = {
    "never asks": (
        "echo hello {prompt} >/dev/null; echo bye",
        "ended with exit code 0 and never asked its model; .*OPENAI_BASE_URL",
    ),
    "is missing": ("no-such-agent {prompt}", "exit code 127 and never asked its model; .*no-such-agent: not found"),
    "breaks off": (f"{SMALL_AGENT} > /dev/null; exit 3", "ended with exit code 3; it printed nothing"),
    "is killed": ("kill -9 $$; {prompt}", "ended with exit code 137"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_an_agent_that_fails_is_a_failed_trial_with_the_reason(run: Callable[..., Ran], case: str) -> None:
    command, pattern = FAILURES[case]
    ran = run(replace(BASE, agent=make_agent(command)))
    assert (ran.record.status, ran.record.reason, ran.record.traceback) == ("failed", "agent_failed", "")
    assert re.search(pattern, ran.record.error, re.DOTALL), ran.record.error
    assert ran.end.detail == ran.record.error
    assert len(ran.checks) == 2  # the workspace is graded as it is
    assert ("port", case == "breaks off") in [(name, passed) for name, passed, _ in ran.checks]


def test_garbage_for_the_model_is_named(run: Callable[..., Ran]) -> None:
    orphan = [{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "call_9", "content": "y"}]
    source = (
        f"print(ask('/chat/completions', b'garbage')); print(ask('/chat/completions', {{'model': 'm', 'messages': {orphan!r}}}))"
    )
    ran = run(replace(BASE, agent=make_program(source)))
    assert (ran.record.status, ran.record.reason) == ("failed", "agent_failed")
    assert "ended with exit code 0 after its request was refused: messages[1]" in ran.record.error
    assert "call_9" in ran.record.error
    assert ran.record.error.count("400 {") == 2
    assert "the body is not valid JSON" in ran.record.error


def test_a_hanging_agent_is_ended_by_the_time_limit(run: Callable[..., Ran]) -> None:
    ran = run(replace(BASE, agent=make_agent("echo started {prompt}; sleep 600 & sleep 600")), tool_time_seconds=2.0)
    assert (ran.record.status, ran.record.reason) == ("failed", "timeout")
    assert "the agent ran longer than 2 s; its output: started" in ran.record.error


def test_the_limit_on_steps_ends_the_agent(run: Callable[..., Ran]) -> None:
    ran = run(replace(BASE, max_steps=4, agent=make_agent(f"{SMALL_AGENT}; sleep 600")))
    assert (ran.record.status, ran.record.reason, ran.record.steps) == ("failed", "max_steps", 4)
    assert ran.record.error.startswith("stopped after 4 steps")


def test_memory_that_ran_out_is_named(run: Callable[..., Ran]) -> None:
    limits = SandboxLimits(memory_bytes=64 * 2**20)
    source = "block = b'x' * (100 << 20)"
    ran = run(replace(BASE, agent=make_program(source), sandbox=SandboxChoice(limits=limits)))
    assert (ran.record.status, ran.record.reason) == ("failed", "agent_failed")
    assert re.search("memory (had|may have) run out; raise sandbox.limits.memory_bytes", ran.record.error)


@pytest.mark.parametrize("failure", ["kill -TRAP $$", "echo 'MemoryExhaustion: memory is exhausted' >&2; exit 3"])
def test_an_agent_that_got_no_memory_is_told_from_one_that_failed(run: Callable[..., Ran], failure: str) -> None:
    ran = run(replace(BASE, agent=make_agent(f"{failure} # {{prompt}}")))
    assert (ran.record.status, ran.record.reason) == ("failed", "agent_failed")
    assert "memory may have run out; raise sandbox.limits.memory_bytes (now 536,870,912)" in ran.record.error
    assert "may reserve 4,294,967,296 bytes of addresses" in ran.record.error
    plain = run(replace(BASE, agent=make_agent("exit 3 # {prompt}")))
    assert "memory" not in plain.record.error


def test_hostile_output_is_cut_and_harmless(run: Callable[..., Ran]) -> None:
    hostile = "python3 -c 'import sys; sys.stdout.buffer.write(bytes(range(256)) * 9_000 + b\"\\x1b]0;title\\x07<script>\")'"
    ran = run(replace(BASE, agent=make_agent(f"{hostile}; {SMALL_AGENT} >&2")))
    assert ran.record.success
    assert len(ran.end.detail) < 2_000
    assert "end of its output" in ran.end.detail
    assert not {"\x1b", "\x07", "\x00", "\x9b"} & set(ran.end.detail)


def test_a_policy_that_fails_ends_the_trial_with_its_name(run: Callable[..., Ran], tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def lose(messages, budget):\n    return messages[:1] + messages[-1:] if len(messages) > 6 else messages\n")
    ran = run(replace(BASE, policy=f"{file}:lose"))
    assert (ran.record.status, ran.record.reason) == ("failed", "illegal_plan"), ran.record.error
    assert "lose" in ran.record.error


def test_a_prompt_that_is_too_long_is_compacted_and_sent_again(run: Callable[..., Ran]) -> None:
    late = replace(TIGHT, threshold=1.0, measure="estimate")  # the estimate of numbers is too small
    ran = run(replace(BASE, policy=late, window_tokens=6_000))
    assert (ran.record.status, ran.record.success) == ("completed", True), ran.record.error
    assert ran.record.overflows == sum(event.kind == "model-call-failed" for event in ran.events) > 0
    assert "overflow" in {event.moment for event in ran.events if isinstance(event, Compaction)}


def test_the_model_of_the_trial_answers_whatever_name_the_agent_uses(run: Callable[..., Ran]) -> None:
    body = {"model": "gpt-99", "messages": [{"role": "user", "content": "x"}]}
    ran = run(replace(BASE, agent=make_program(f"print(ask('/chat/completions', {body!r})); print(ask('/models', None))")))
    assert ran.record.status == "completed"
    assert ran.record.model == "scripted/tiny:attentive"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"explore": True}, "explore: an external agent has its own loop and tools, so it must be False"),
        ({"gaps": "claude-code"}, "gaps: an external agent"),
        ({"parallel_tools": True}, "parallel_tools: an external agent"),
        ({"sandbox": SandboxChoice(backend="local")}, r"sandbox: an external agent needs the backend 'bubblewrap' .*'local'"),
        (
            {"sandbox": SandboxChoice(limits=SandboxLimits(network=True))},
            "sandbox.limits.network: an external agent has no network",
        ),
        ({"policy": "oracle"}, "policy: 'oracle' predicts the steps of this project's own loop"),
    ],
)
def test_settings_of_the_own_loop_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(BASE, **settings)


@pytest.mark.parametrize(
    ("trial", "message"),
    [
        (replace(BASE, task=TASK.replace(":alone", ":tiny")), "cannot solve the task .*messages arrive while the agent works"),
        (replace(BASE, task="changing-requirements-skill"), "cannot solve the task 'changing-requirements-skill'"),
        (replace(BASE, agent=ExternalAgent(command="x {prompt}", paths=("/no/such/venv",))), "'/no/such/venv' does not exist"),
        (
            replace(BASE, agent=ExternalAgent(command="x" * 120_000 + " {prompt}")),
            r"agent.command: 120,\d+ bytes with the prompt",
        ),
    ],
)
def test_trials_that_no_agent_could_run_are_refused_before_the_start(trial: Trial, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        Experiment(name="agents", base=trial, axes={"seed": [0]}).run(tmp_path / "run", progress="off")
    assert not (tmp_path / "run" / "journal.sqlite").exists()


def test_a_plan_names_the_agent_and_an_axis_varies_it(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(
        f'[trial]\ntask = "{TASK}"\npolicy = "none"\nwindow_tokens = 16384\n'
        f'agent = {{ command = {json.dumps(SMALL_AGENT)}, paths = ["{AGENTS}"] }}\n\n'
        f'[axes]\n"agent.command" = [{json.dumps(SMALL_AGENT)}, "other {{prompt}}"]\nseed = [5]\n'
    )
    experiment = Experiment.from_toml(tmp_path / "plan.toml")
    trials = [cell.trial for cell in experiment.grid]
    assert [trial.agent.command for trial in trials] == [SMALL_AGENT, "other {prompt}"]
    assert trials[0].trial_id == BASE.trial_id
    assert len({trial.trial_id for trial in trials}) == 2
    assert len({cell.arm for cell in experiment.grid}) == 2


def test_the_default_leaves_ids_as_they_were() -> None:
    own = Trial(task="flashcards", policy="none")
    assert replace(own, agent=ExternalAgent()).trial_id == own.trial_id
    assert replace(own, agent=make_agent()).trial_id != own.trial_id
    assert os.sep not in own.trial_id
