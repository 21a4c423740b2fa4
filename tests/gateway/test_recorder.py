"""Sessions of agents behind the gateway: what goes upstream and what the journal has, without the proxy."""

import json
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.analysis.random_arms import compare_random_arms
from harness.cli import main as command_line
from harness.gateway.recorder import Arm, SessionRecorder, draw_arms, make_arms
from harness.inspection.loading import load
from harness.policies import policy_from_plain, resolve_policy
from harness.replay.sessions import replay_sessions
from harness.store.journal import Journal

TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]
SYSTEM = {"role": "system", "content": "You are a coding agent."}
KEEP_LAST = {"kind": "keep-last", "threshold": 0.2, "keep_last": 4, "summarizer": "scripted/extractive"}


class Agent:
    """Agent that resends its whole history, as all agents do."""

    def __init__(self, recorder: SessionRecorder, task: str = "Fix the test.", name: str = "", tools: Any = TOOLS) -> None:
        self.recorder, self.tools = recorder, tools
        self.headers = {"X-Session-Id": name} if name else {}
        self.history: list[dict[str, Any]] = [SYSTEM, {"role": "user", "content": task}]
        self.sent: list[dict[str, Any]] = []
        self.requests = 0

    def ask(self, messages: list[Any] | None = None) -> dict[str, Any]:
        messages = self.history if messages is None else messages
        self.requests += 1
        question = {
            "kind": "request", "call_id": f"{id(self)}-{self.requests}", "headers": self.headers,
            "model": "gpt-4o", "messages": messages, "tools": self.tools,
        }  # fmt: skip
        answer = dict(self.recorder.answer(json.loads(json.dumps(question))))
        if "messages" in answer:
            self.sent = [messages[part] if isinstance(part, int) else part for part in answer["messages"]]
        return answer

    def receive(self, text: str, *, calls: bool = True, prompt_tokens: int | None = None, command: str = "ls") -> dict[str, Any]:
        function = {"name": "bash", "arguments": json.dumps({"command": command})}
        call = {"id": f"call-{self.requests}", "type": "function", "function": function}
        message: dict[str, Any] = {"role": "assistant", "content": text} | ({"tool_calls": [call]} if calls else {})
        usage = {"prompt_tokens": prompt_tokens or 100 * self.requests, "completion_tokens": 7}
        shown = {**message, "provider_specific_fields": {}}
        self.recorder.answer({"kind": "answer", "call_id": f"{id(self)}-{self.requests}", "messages": [shown], "usage": usage})
        self.history.append(message)
        return message

    def fail(self, status: int, text: str) -> None:
        call_id = f"{id(self)}-{self.requests}"
        self.recorder.answer(
            {"kind": "failure", "call_id": call_id, "status": status, "name": "BadRequestError", "message": text}
        )

    def step(self, number: int, size: int = 400) -> None:
        assert "messages" in self.ask(), self.ask()
        call = self.receive(f"Step {number}.")["tool_calls"][0]
        self.history.append({"role": "tool", "tool_call_id": call["id"], "content": f"output {number} " + "word " * size})

    def finish(self) -> None:
        self.ask()
        self.receive("Done.", calls=False)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "gateway.sqlite"


@pytest.fixture
def recorder(journal: Path) -> Iterator[SessionRecorder]:
    recorder = SessionRecorder(make_arms({"none": "none"}), journal=journal, window_tokens=20_000)
    yield recorder
    recorder.close()


def read_events(journal: Path) -> list[list[Any]]:
    with Journal.open(journal, read_only=True) as opened:
        return [[entry.event for entry in opened.read_entries(session)] for session in opened.list_session_ids()]


def compacting(journal: Path, policy: Any = None, **settings: Any) -> SessionRecorder:
    return SessionRecorder(make_arms({"arm": policy or make_keep_last()}), journal=journal, window_tokens=20_000, **settings)


def make_keep_last(**fields: Any) -> Any:
    return policy_from_plain({**KEEP_LAST, **fields})


def test_record_only_sends_what_it_got_and_records_everything(recorder: SessionRecorder, journal: Path) -> None:
    agent = Agent(recorder)
    for number in range(5):
        agent.step(number)
        assert agent.sent == agent.history[: len(agent.sent)]
    agent.finish()
    recorder.close()
    trials = load(journal).trials
    assert trials[["status", "steps", "compactions"]].values.tolist() == [["completed", 6, 0]]
    assert trials["prompt_tokens"].tolist() == [sum(100 * number for number in range(1, 7))]
    assert trials["cost_usd"][0] > 0
    (events,) = read_events(journal)
    texts = [event.message.text for event in events if event.kind == "message-added"]
    assert texts[-1] == "Done."
    assert len(texts) == len(agent.history)


def test_a_policy_decides_what_goes_upstream_while_the_agent_keeps_everything(journal: Path) -> None:
    recorder = compacting(journal)
    agent = Agent(recorder)
    lengths = []
    for number in range(30):
        agent.step(number)
        lengths.append(len(agent.sent))
        assert agent.sent[0] == SYSTEM
        called = {call["id"] for raw in agent.sent for call in raw.get("tool_calls", ())}
        assert called == {raw["tool_call_id"] for raw in agent.sent if raw["role"] == "tool"}
    agent.finish()
    recorder.close()
    assert max(lengths) < len(agent.history) * 2 / 3
    trials = load(journal).trials
    assert trials["compactions"][0] > 1
    assert trials["policy"].tolist() == ["keep-last"]


def test_replay_reads_the_journal_of_record_only(recorder: SessionRecorder, journal: Path, tmp_path: Path) -> None:
    for session in range(3):
        agent = Agent(recorder, f"Task {session}.")
        for number in range(6):
            agent.step(number, 800)
        agent.finish()
    recorder.close()
    replay = replay_sessions(journal, ["keep-last"], [5_000], ["own"], cache_folder=tmp_path / "cache", workers=1)
    assert replay.sessions["calls"].tolist() == [7, 7, 7]
    assert replay.sessions["paid_usd"].gt(0).all()
    assert "keep-last at 5K" in set(replay.settings["setting"])


def test_the_usage_of_a_last_answer_with_a_call_is_kept(recorder: SessionRecorder, journal: Path) -> None:
    agent = Agent(recorder)
    agent.step(0)
    recorder.close()
    assert load(journal).trials[["prompt_tokens", "output_tokens"]].values.tolist() == [[100, 7]]


def test_inspect_opens_the_journal(recorder: SessionRecorder, journal: Path) -> None:
    agent = Agent(recorder)
    agent.step(0)
    agent.finish()
    recorder.close()
    shown = CliRunner().invoke(command_line, ["inspect", str(journal)])
    assert shown.exit_code == 0, shown.output
    assert "Fix the test." in shown.output


def test_answers_have_the_time_at_which_they_were_given(journal: Path) -> None:
    now = [1_000.0]
    recorder = SessionRecorder(make_arms({"none": "none"}), journal=journal, window_tokens=20_000, clock=lambda: now[0])
    agent = Agent(recorder)
    agent.ask()
    now[0] = 1_005.0
    call = agent.receive("Step.")["tool_calls"][0]
    now[0] = 1_060.0
    agent.history.append({"role": "tool", "tool_call_id": call["id"], "content": "out"})
    agent.ask()
    recorder.close()
    with Journal.open(journal, read_only=True) as opened:
        (session,) = opened.list_session_ids()
        times = [row[0] for row in opened.query("SELECT at_ms FROM event ORDER BY seq")]
        roles = [entry.event.message.role for entry in opened.read_entries(session) if entry.event.kind == "message-added"]
    assert roles == ["system", "user", "assistant", "tool"]
    assert times[1:5] == [1_000_000, 1_000_000, 1_005_000, 1_060_000]


@pytest.mark.parametrize(
    ("last", "status", "reason", "detail"),
    [
        ("answer", "completed", "replied", ""),
        ("call", "failed", "broken_off", "the last answer calls bash, and no result came back"),
        ("final call", "completed", "declared", ""),
        ("request", "failed", "broken_off", "a request that has no answer"),
        ("failure", "failed", "model_error", "failed with status 503: try later"),
        ("overflow", "failed", "overflow", "prompt is too long"),
        ("refused request", "failed", "broken_off", "the gateway refused the newest request: messages[5]"),
        ("failure, then an answer", "completed", "replied", ""),
    ],
)
def test_a_session_ends_as_its_last_request_did(journal: Path, last: str, status: str, reason: str, detail: str) -> None:
    recorder = SessionRecorder(make_arms({"none": "none"}), journal=journal, window_tokens=20_000)
    agent = Agent(recorder)
    agent.step(0)
    agent.ask()
    match last:
        case "call":
            agent.receive("Next.")
        case "final call":
            agent.receive("", command="echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")
        case "failure":
            agent.fail(503, "try later")
        case "overflow":
            agent.fail(400, "prompt is too long: 30000 tokens > 20000 maximum")
        case "refused request":
            agent.receive("Next.")
            assert agent.ask([*agent.history, {"role": "user", "content": "Go on."}])["status"] == 422
        case "answer":
            agent.receive("Done.", calls=False)
        case "failure, then an answer":
            agent.fail(503, "try later")
            agent.finish()
    recorder.close()
    row = load(journal).trials.iloc[0]
    assert (row["status"], row["reason"]) == (status, reason)
    assert detail in row["error"]
    assert ("did not end by the agent's own answer" in recorder.describe()) == (status == "failed")


def test_a_session_whose_policy_raised_an_error_has_failed_by_it(journal: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def broken(messages, budget):\n    raise KeyError('on purpose')\n")
    recorder = compacting(journal, resolve_policy(f"{tmp_path / 'mine.py'}:broken"))
    agent = Agent(recorder)
    agent.step(0, 20_000)
    assert agent.ask()["status"] == 500
    recorder.close()
    row = load(journal).trials.iloc[0]
    assert (row["status"], row["reason"]) == ("failed", "illegal_plan")
    assert "KeyError: 'on purpose'" in row["error"]


def test_marks_of_caches_and_a_changed_system_message_go_upstream_but_break_no_session(
    recorder: SessionRecorder, journal: Path
) -> None:
    agent = Agent(recorder)
    agent.step(0)
    agent.history[0] = {"role": "system", "content": "It is noon."}
    marked = [*agent.history[:-1], {**agent.history[-1], "content": [
        {"type": "text", "text": agent.history[-1]["content"], "cache_control": {"type": "ephemeral"}}]}]  # fmt: skip
    agent.ask(marked)
    assert agent.sent == marked
    agent.receive("Next.", calls=False)
    agent.ask()
    assert agent.sent == agent.history
    recorder.close()
    assert len(read_events(journal)) == 1


def test_two_agents_with_one_request_are_two_sessions(recorder: SessionRecorder, journal: Path) -> None:
    first, second = Agent(recorder), Agent(recorder)
    first.step(0)
    second.ask()
    second.receive("Another answer.", calls=False)
    second.history.append({"role": "user", "content": "Go on."})
    first.step(1)
    second.ask()
    first.finish()
    recorder.close()
    lengths = sorted(sum(event.kind == "message-added" for event in events) for events in read_events(journal))
    assert lengths == [4, 7]


@pytest.mark.parametrize("steps", [2, 4, 6])
def test_a_task_that_begins_once_more_is_a_session_of_its_own(recorder: SessionRecorder, journal: Path, steps: int) -> None:
    """A second run of one agent on one task makes the same requests as the first, which ended or was killed after 4 steps."""
    for count in (4, steps):
        agent = Agent(recorder)
        for number in range(count):
            agent.step(number)
    recorder.close()
    runs = read_events(journal)
    assert [sum(event.kind == "step-finished" for event in events) for events in runs] == [4, steps]
    assert not [event for events in runs for event in events if event.kind == "compaction"]


def test_a_retry_of_a_later_request_stays_in_its_session(recorder: SessionRecorder, journal: Path) -> None:
    agent = Agent(recorder)
    agent.step(0)
    agent.ask()
    agent.ask()
    agent.finish()
    recorder.close()
    assert len(read_events(journal)) == 1


def test_a_title_call_stands_apart_and_belongs_to_the_session_that_the_agent_names(
    recorder: SessionRecorder, journal: Path
) -> None:
    agent = Agent(recorder, name="abc")
    agent.step(0)
    title = Agent(recorder, "Write a title for: Fix the test.", name="abc", tools=None)
    title.finish()
    agent.finish()
    recorder.close()
    assert len(read_events(journal)) == 2
    assert len(load(journal).trials) == 1  # the table of trials has no row for a sub-agent


def test_an_agents_own_compaction_is_logged_as_such(journal: Path) -> None:
    lines = list[str]()
    recorder = compacting(journal, report=lines.append)
    agent = Agent(recorder)
    for number in range(4):
        agent.step(number, 100)
    summary = {"role": "user", "content": "Summary of my work: four steps."}
    agent.history = [*agent.history[:2], summary, *agent.history[-2:]]
    assert "messages" in (answer := agent.ask()), answer
    assert agent.sent == agent.history
    agent.receive("Go on.", calls=False)
    agent.ask()
    recorder.close()
    (events,) = read_events(journal)
    (own,) = [event for event in events if event.kind == "compaction"]
    assert own.reason.startswith("the agent's own compaction; two policies act")
    assert len(own.patch.forget) == 6
    assert [insert.message.text for insert in own.patch.insert] == ["Summary of my work: four steps."]
    assert any("two policies act" in line for line in lines)


def test_a_step_back_is_logged_as_one(recorder: SessionRecorder, journal: Path) -> None:
    agent = Agent(recorder)
    for number in range(3):
        agent.step(number)
    agent.history = agent.history[:4]
    agent.ask()
    assert agent.sent == agent.history
    recorder.close()
    (events,) = read_events(journal)
    (back,) = [event for event in events if event.kind == "compaction"]
    assert back.reason == "the agent took its newest messages back"


def test_after_an_overflow_the_session_compacts_at_its_next_request(journal: Path) -> None:
    recorder = SessionRecorder(make_arms({"arm": make_keep_last(threshold=0.95)}), journal=journal, window_tokens=200_000)
    agent = Agent(recorder)
    for number in range(8):
        agent.step(number)
    agent.ask()
    assert len(agent.sent) == len(agent.history)
    agent.fail(400, "This model's maximum context length is 4000 tokens, however you requested 5000 tokens in the messages.")
    agent.ask()
    assert len(agent.sent) < len(agent.history)
    recorder.close()
    (events,) = read_events(journal)
    assert [event.moment for event in events if event.kind == "compaction"] == ["overflow"]
    (failed,) = [event for event in events if event.kind == "model-call-failed"]
    assert failed.is_overflow


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ("hello", "messages: must be a list of dicts"),
        ([], "messages: the list is empty"),
        ([{"foo": 1}], "messages[0]: no known shape"),
        (["text"], "messages[0]: a message must be a dict"),
        (
            [SYSTEM, {"role": "user", "content": "a"}, {"role": "tool", "tool_call_id": "x", "content": "b"}],
            "messages[2]: is the",
        ),
    ],
)
def test_what_cannot_be_recorded_is_refused_and_leaves_no_session(
    recorder: SessionRecorder, journal: Path, messages: Any, words: str
) -> None:
    answer = Agent(recorder).ask(messages)
    assert answer["status"] == 422
    assert answer["error"].startswith(f"harness gateway: {words}")
    recorder.close()
    assert not journal.exists() or not read_events(journal)


def test_half_a_tool_pair_is_refused_and_the_session_goes_on(recorder: SessionRecorder, journal: Path) -> None:
    agent = Agent(recorder)
    agent.step(0)
    broken = [*agent.history[:-1], {"role": "user", "content": "no result"}]
    assert "comes before the result of call" in agent.ask(broken)["error"]
    agent.finish()
    assert agent.sent == agent.history[:-1]
    recorder.close()
    assert [len([e for e in events if e.kind == "message-added"]) for events in read_events(journal)] == [5]


def _raise(messages: Any, budget: Any) -> Any:
    raise KeyError("missing")


def _lose_system(messages: Any, budget: Any) -> Any:
    return messages[1:]


def _return_garbage(messages: Any, budget: Any) -> Any:
    return 7


def _mutate(messages: Any, budget: Any) -> Any:
    messages.clear()
    return messages


@pytest.mark.parametrize("function", [_raise, _lose_system, _return_garbage, _mutate])
def test_a_broken_policy_is_an_error_that_names_it(journal: Path, function: Any) -> None:
    recorder = compacting(journal, function)
    agent = Agent(recorder)
    while "messages" in (answer := agent.ask()):  # until the policy is due
        call = agent.receive("Step.")["tool_calls"][0]
        agent.history.append({"role": "tool", "tool_call_id": call["id"], "content": "word " * 4_000})
    assert answer.keys() == {"status", "error"}
    assert function.__name__ in answer["error"]
    recorder.close()


def test_a_sub_agent_with_the_tools_and_the_name_of_its_session_is_no_compaction(
    recorder: SessionRecorder, journal: Path
) -> None:
    agent = Agent(recorder, name="abc")
    for number in range(3):
        agent.step(number)
    Agent(recorder, "Look into one file.", name="abc").finish()
    agent.finish()
    recorder.close()
    assert not [event for events in read_events(journal) for event in events if event.kind == "compaction"]
    assert load(journal).trials["steps"].tolist() == [4]


@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": -1}, {"prompt_tokens": 1.5}, "much", None])
def test_a_usage_that_nobody_knows_refuses_no_request(recorder: SessionRecorder, usage: Any) -> None:
    agent = Agent(recorder)
    agent.ask()
    message = {"role": "assistant", "content": "Next."}
    recorder.answer({"kind": "answer", "call_id": f"{id(agent)}-1", "messages": [message], "usage": usage})
    agent.history += [message, {"role": "user", "content": "Go on."}]
    assert "messages" in agent.ask()


def test_an_unknown_window_is_an_error_that_names_the_option(journal: Path) -> None:
    recorder = SessionRecorder(make_arms({"none": "none"}), journal=journal, window_tokens=None)
    agent = Agent(recorder)
    assert "messages" in agent.ask()  # the registry knows this model
    question = {"kind": "request", "call_id": "x", "model": "my-own", "messages": agent.history, "tools": None}
    assert "start the gateway with --window TOKENS" in recorder.answer(question)["error"]
    recorder.close()


def test_a_gateway_that_no_agent_called_says_what_to_check(recorder: SessionRecorder) -> None:
    assert "no request arrived: check that the agent uses the printed address" in recorder.describe()


def test_refused_requests_are_reported_once_and_are_no_missing_agent(journal: Path) -> None:
    lines = list[str]()
    recorder = SessionRecorder(
        make_arms({"none": "none"}), journal=journal, window_tokens=None, model="my-own", report=lines.append
    )
    agent = Agent(recorder)
    for _ in range(3):
        assert "--window TOKENS" in agent.ask()["error"]
    (line,) = lines
    assert line.startswith("refused a request with status 422: the context window of model 'my-own' is unknown")
    assert recorder.describe() == f"no session was recorded: 3 requests arrived; {line}"


def test_a_failing_upstream_is_reported_when_the_failure_changes_or_once_a_second(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = list[str]()
    recorder = SessionRecorder(make_arms({"none": "none"}), journal=journal, window_tokens=20_000, report=lines.append)
    agent = Agent(recorder)
    agent.ask()
    del lines[:]  # the line of the session itself
    now = time.monotonic()
    for seconds, text in ((0, "gone\x1b[2J"), (0.1, "gone\x1b[2J"), (0.9, "gone\x1b[2J"), (1.5, "gone\x1b[2J"), (1.6, "busy")):
        monkeypatch.setattr(time, "monotonic", lambda: now + seconds)  # noqa: B023
        agent.ask()
        agent.fail(502, text)
    recorder.answer({"kind": "failure", "call_id": "unknown", "status": 500, "message": "raw", "explained": [502, "what to do"]})
    (session_id,) = {line.split(": ")[0] for line in lines[:3]}
    assert session_id.startswith("session ")
    assert "\x1b" not in "".join(lines)
    assert [line.removeprefix(f"{session_id}: ").replace("\ufffd", "?") for line in lines] == [
        "a request failed upstream with status 502: gone?[2J",
        "a request failed upstream with status 502: gone?[2J (3 times since the last such line)",
        "a request failed upstream with status 502: busy",
        "a request failed upstream with status 502: what to do",
    ]
    recorder.close()
    assert (
        recorder.describe()
        == f"1 session recorded in {journal}; 1 did not end by the agent's own answer; 6 requests failed upstream"
    )


def test_arms_are_drawn_by_a_seed(journal: Path, tmp_path: Path) -> None:
    def draw(seed: int, name: str) -> list[str]:
        arms = [Arm(name=letter, policy=make_keep_last()) for letter in "ab"]
        lines = list[str]()
        recorder = SessionRecorder(arms, journal=tmp_path / name, window_tokens=20_000, seed=seed, report=lines.append)
        for number in range(12):
            Agent(recorder, f"Task {number}").ask()
        recorder.close()
        return [line.split("arm ")[1][0] for line in lines]

    first = draw(1, "one.sqlite")
    assert first == draw(1, "two.sqlite") != draw(2, "three.sqlite")
    assert all(set(first[number : number + 2]) == {"a", "b"} for number in range(0, 12, 2))
    assert first + draw(1, "one.sqlite") == list(islice(draw_arms("ab", 1), 24))  # a gateway that starts again goes on
    assert draw(2, "one.sqlite") == list(islice(draw_arms("ab", 2), 12))


def test_a_planted_difference_between_arms_is_found_in_the_journal(journal: Path) -> None:
    arms = [Arm(name="all", policy=policy_from_plain({"kind": "none"})), Arm(name="short", policy=make_keep_last())]
    recorder = SessionRecorder(arms, journal=journal, window_tokens=20_000, seed=3)
    for number in range(16):
        agent = Agent(recorder, f"Task {number}")
        for step in range(8):
            assert "messages" in agent.ask()
            size = sum(len(str(raw)) for raw in agent.sent)
            call = agent.receive(f"Step {step}.", prompt_tokens=size // 4)["tool_calls"][0]
            agent.history.append({"role": "tool", "tool_call_id": call["id"], "content": "word " * 1_000})
    recorder.close()
    rows = {row.metric: row for row in compare_random_arms(load(journal).trials)}
    assert rows["prompt_tokens"].is_claimed
    assert rows["prompt_tokens"].mean < rows["prompt_tokens"].baseline_mean
    assert rows["compactions"].is_claimed
    assert rows["steps"].p == 1.0
    shown = CliRunner().invoke(command_line, ["report", str(journal)])
    assert shown.exit_code == 0, shown.output
    assert "short against all" in shown.output
    assert "No session is marked" in shown.output
