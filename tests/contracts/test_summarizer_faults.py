"""What becomes of a session when its summarizer fails, for every preset that has one.

Each preset's rule stands in one table. A summarizer's words are not judged: nobody can tell for sure whether a text is a
summary, a refusal or an answer to the conversation, so all of them are taken as what was asked for. They stand in the event,
and what they do not say is lost.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import pytest

from harness.compaction.compactor import FRUITLESS_IN_A_ROW, GROWTH_BEFORE_NEXT
from harness.compaction.describing import abilities
from harness.compaction.presets import PRESETS
from harness.errors import ContextOverflow, ModelError, ProviderFailed
from harness.events import Compaction, TextDelta
from harness.experiment.preview.walk import Walk, walk
from harness.messages import Message, ToolCall, assistant
from harness.protocols import Policy, Reply, Request, unheard
from harness.tokens import Measured, QuarterOfCharacters, Usage, Window
from tests.contracts.test_policy_properties import POLICIES

WINDOW_TOKENS = 16_000
COUNTER = QuarterOfCharacters()

Left = Literal["stays", "goes", "stand-in"]
"""What was to be summarized stays in view, and the attempt is recorded as failed; or it goes without a summary; or it goes,
and a text of the policy's own stands for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Documented:
    """What a preset says that it does."""

    failed: Left = "stays"
    """When no answer comes: an error, a time-out, a prompt too long for the summarizer."""
    empty: Left = "stays"
    """When an answer comes without text."""


RULES: dict[str, Documented] = {
    "cline": Documented(failed="goes"),
    "codex": Documented(empty="stand-in"),
    "complexity-trap-summary": Documented(),
    "crush": Documented(),
    "deepagents": Documented(),
    "dexto": Documented(failed="stand-in", empty="stand-in"),
    "gemini-cli": Documented(),
    "goose": Documented(),
    "inspect-summary": Documented(),
    "keep-last": Documented(),
    "langchain-summary": Documented(),
    "letta": Documented(),
    "message-window": Documented(failed="goes", empty="goes"),
    "opencode": Documented(),
    "openhands": Documented(),
    "openhands-v0": Documented(),
    "pi": Documented(),
    "pydantic-summary": Documented(),
    "ratio": Documented(),
    "reserve-recent": Documented(),
    "roo-code": Documented(failed="goes", empty="goes"),
    "seed-gemini": Documented(),
    "seed-opencode": Documented(),
    "three-tiers": Documented(),
}
"""By kind, every preset that can ask for a summary."""


def kind(policy: Policy) -> str:
    return str(policy.kind)  # type: ignore[attr-defined]


SUMMARIZING = [policy for policy in POLICIES if abilities(policy).summarizes]
ASKING = [policy for policy in SUMMARIZING if kind(policy) in RULES]


class Faulty:
    """A summarizer with a fault."""

    name = "faulty"
    window = Window(tokens=128_000, source="configuration")

    def __init__(self, fault: Callable[[Request], Message]) -> None:
        self.asked = 0
        self._fault = fault

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = unheard) -> Reply:
        self.asked += 1
        message = self._fault(request)
        read = Measured(sum(map(COUNTER.count, request.messages)))
        usage = Usage(input_tokens=read, output_tokens=Measured(COUNTER.count(message)))
        return Reply(message=message, usage=usage, seconds=1.0, cost_usd=0.5)


def raising(error: ModelError) -> Callable[[Request], Message]:
    def fault(_: Request) -> Message:
        raise error

    return fault


def saying(*parts: Any) -> Callable[[Request], Message]:
    return lambda _: assistant(*parts)


CALL = ToolCall(call_id="x", name="execute_command", arguments_json='{"command": "rm -rf /"}')
NO_ANSWER = {
    "fails": raising(ProviderFailed("faulty", 500, "down")),
    "times out": raising(ProviderFailed("faulty", None, "Request timed out.")),
    "overflows itself": raising(ContextOverflow("faulty", 9_000, 8_000)),
}
NO_TEXT = {"returns nothing": saying(""), "returns blanks": saying(" \n\t"), "calls a tool": saying("", CALL)}
NO_SUMMARY = {
    "refuses": saying("I'm sorry, but I can't help with that."),
    "answers the conversation instead": saying("Sure! I have run the tests and they pass. Shall I go on with the next file?"),
    "calls a tool beside its text": saying("I will look at the files first.", CALL),
}


def attempts(tried: Walk) -> list[Compaction]:
    """Those for which the summarizer was asked."""
    return [change.event for change in tried.changes if change.event.summarizer or change.event.failure]


def test_every_preset_that_summarizes_has_its_rule() -> None:
    assert set(RULES) == {kind(policy) for policy in SUMMARIZING}
    assert set(RULES) == {name for name, made in PRESETS.items() if "summarizer" in made.__dataclass_fields__}


def test_every_preset_that_summarizes_is_made_to_ask() -> None:
    asking = {kind(policy) for policy in ASKING if attempts(walk(policy, WINDOW_TOKENS, Faulty(saying("so far, so good"))))}
    assert asking == set(RULES)


@pytest.mark.parametrize("fault", [*NO_ANSWER, *NO_TEXT])
@pytest.mark.parametrize("policy", ASKING, ids=repr)
def test_a_summary_that_does_not_come_leaves_the_documented_state_and_the_event_says_so(policy: Policy, fault: str) -> None:
    rule = RULES[kind(policy)]
    left = rule.failed if fault in NO_ANSWER else rule.empty
    summarizer = Faulty({**NO_ANSWER, **NO_TEXT}[fault])
    tried = walk(policy, WINDOW_TOKENS, summarizer)
    found = attempts(tried)
    assert bool(found) == bool(summarizer.asked)
    for event in found:
        assert event.failure
        assert event.failure in event.reason
        assert ("called a tool" in event.failure) == (fault == "calls a tool")
        assert (event.summarizer_usage is not None) == (fault in NO_TEXT), "what was paid for is on the bill"
        assert any(insert.stands_for for insert in event.patch.insert) == (left == "stand-in")
        assert bool(event.patch.forget) == (left != "stays")
        assert event.status == ("applied" if event.patch.forget or event.patch.replace else "failed")
    if left == "stays":
        assert_patient(tried)
    if found:
        assert tried.steps >= found[0].step, "the session goes on"
        assert not (left != "stays" and tried.overflowed), "there is room without a summary"
        assert tried.activity == ("active" if tried.applied else "no effect")


def assert_patient(tried: Walk) -> None:
    """After some fruitless attempts in a row nobody is asked before the view has grown."""
    fruitless: list[int] = []
    for change in tried.changes:
        fruitless = [] if change.event.status == "applied" else [*fruitless, change.event.tokens_before]
        late = fruitless[FRUITLESS_IN_A_ROW - 1 :]
        assert all(after >= before * GROWTH_BEFORE_NEXT for before, after in pairwise(late))


@pytest.mark.parametrize("policy", ASKING, ids=repr)
def test_a_summary_longer_than_what_it_stands_for_is_paid_for_and_not_taken(policy: Policy) -> None:
    longer = Faulty(lambda request: assistant("\n".join(message.text for message in request.messages) * 3))
    tried = walk(policy, WINDOW_TOKENS, longer)
    for event in attempts(tried):
        assert event.tokens_after < event.tokens_before or event.status == "no-op"
        assert event.status == "applied" or "would be no fewer" in event.reason
        assert event.summarizer_cost_usd is not None
    assert_patient(tried)


@pytest.mark.parametrize("fault", NO_SUMMARY)
@pytest.mark.parametrize("policy", ASKING, ids=repr)
def test_a_text_that_is_no_summary_is_taken_for_one_and_can_be_read_in_the_event(policy: Policy, fault: str) -> None:
    tried = walk(policy, WINDOW_TOKENS, Faulty(NO_SUMMARY[fault]))
    text = NO_SUMMARY[fault](Request(messages=())).text
    found = [change for change in tried.applied if change.event.summary]
    assert bool(found) == bool(attempts(tried))
    for change in found:
        assert text in change.event.summary
        assert (change.event.status, change.event.failure) == ("applied", "")
        assert not any(call.call_id == "x" for message in change.after.messages for call in message.calls), "nothing is run"
    assert not tried.overflowed or not found
