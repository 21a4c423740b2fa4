"""Session with a small real model: several steps in a sandbox with native and textual tool calls, and a summary.

The success of the model is not tested, but the requests, tool calls, loop and compaction with an unscripted model.
"""

import pytest

from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.conversation.events import Compaction, Entry, MessageAdded, StepFinished
from harness.sandboxes.backends import SandboxChoice
from harness.session.execution import execute_session
from harness.session.spec import SessionSpec

pytestmark = [pytest.mark.local_coder, pytest.mark.bubblewrap, pytest.mark.timeout(3_600)]

NAME = "local/qwen2.5-coder-1.5b"
REQUEST = """\
Do these steps one after the other, with one tool call for each:
1. Run the command `python3 -c "import this"`.
2. Write the file hello.py, which prints the word hello.
3. Run `python3 hello.py`.
4. Write the file sum.py, which prints the sum of the numbers from 1 to 100.
5. Run `python3 sum.py`.
When all are done, answer with the word finished."""
WINDOW_TOKENS = 1_480
POLICY = KeepLast(
    threshold=0.5,
    keep_last=2,
    summarizer="same",
    summary_max_tokens=100,
    system_reserve_tokens=0,
    output_reserve_tokens=300,
    safety_reserve_tokens=100,
)
"""Policy that compacts before the third step, when the long output of the first step can be evicted."""


IN_TEXT = """Run the command `python3 -c "print(6 * 7)"` with the tool execute_command. When you have its result you are done."""


def format_entry(entry):
    """Return an event as one line of text, which the test prints."""
    match entry.event:
        case MessageAdded(message=message) if message.calls or message.results or message.role == "assistant":
            calls = [f"{call.name} {call.arguments_json}" for call in message.calls]
            return f"{message.role}: {message.text[:200]!r} {calls} {[result.output[:120] for result in message.results]}"
        case StepFinished() as step:
            usage = step.usage
            return f"step {step.step}: {usage.prompt_tokens} tokens in, {usage.output_tokens} out, {step.model_seconds:.0f} s"
        case Compaction() as event:
            return f"{event.status}: {event.tokens_before} -> {event.tokens_after} tokens {event.failure}\n{event.summary}"
        case other:
            return f"{other.kind}"


def held(session):
    """Run the session, print each event, and return the outcome with all events."""
    entries = []

    def listen(heard):
        if isinstance(heard, Entry):
            entries.append(heard.event)
            print(format_entry(heard), flush=True)

    return execute_session(session, "coder", on_event=listen).outcome, entries


def test_a_local_model_calls_tools_in_a_sandbox_and_summarizes_its_own_session():
    session = SessionSpec(
        request=REQUEST,
        policy=POLICY,
        model=NAME,
        window_tokens=WINDOW_TOKENS,
        max_steps=9,
        sandbox=SandboxChoice(backend="bubblewrap"),
    )
    outcome, entries = held(session)
    results = [result for event in entries if isinstance(event, MessageAdded) for result in event.message.results]
    compactions = [event for event in entries if isinstance(event, Compaction) and event.status == "applied"]
    assert outcome.reason in {"replied", "declared", "max_steps"}
    assert sum(result.status == "completed" for result in results) >= 3
    assert len({result.name for result in results if result.status == "completed"}) >= 2
    assert compactions
    assert not compactions[0].failure
    assert compactions[0].summarizer == NAME
    assert len(compactions[0].summary.split()) > 15
    assert compactions[0].tokens_after < compactions[0].tokens_before
    assert any(isinstance(event, StepFinished) and event.step > compactions[0].step for event in entries)


def test_a_model_of_no_native_calls_acts_by_the_protocol_in_text():
    session = SessionSpec(
        request=IN_TEXT,
        policy=NoCompaction(),
        model=NAME,
        tool_calls="text",
        window_tokens=4_096,
        max_steps=4,
        sandbox=SandboxChoice(backend="bubblewrap"),
    )
    outcome, entries = held(session)
    results = [result for event in entries if isinstance(event, MessageAdded) for result in event.message.results]
    assert any(result.name == "execute_command" and result.status == "completed" and "42" in result.output for result in results)
    assert outcome.reason in {"replied", "declared"}
