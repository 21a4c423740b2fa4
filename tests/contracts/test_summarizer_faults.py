"""What becomes of a session when its summarizer fails, for every preset that has one.

Each preset's rule stands in one table. A summarizer's words are not judged: nobody can tell for sure whether a text is a
summary, a refusal or an answer to the conversation, so all of them are taken as what was asked for. They stand in the event,
and what they do not say is lost.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import pytest

from harness.compaction.compactor import FRUITLESS_IN_A_ROW, GROWTH_BEFORE_NEXT
from harness.compaction.description import inspect_abilities
from harness.compaction.presets.letta import Letta
from harness.compaction.presets.roo_code import RooCode
from harness.errors import ContextOverflow, ModelError, ProviderFailed
from harness.events import Compaction, TextDelta
from harness.inspection.sample_run import SampleRun, run_on_sample
from harness.messages import Message, ToolCall, assistant
from harness.policies import PRESETS
from harness.protocols import Policy, Reply, Request, ignore
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
    "deepagents": Documented(empty="stand-in"),
    "dexto": Documented(failed="stand-in", empty="stand-in"),
    "gemini-cli": Documented(),
    "goose": Documented(),
    "inspect-summary": Documented(empty="stand-in"),
    "keep-last": Documented(),
    "langchain-summary": Documented(empty="stand-in"),
    "letta": Documented(),
    "message-window": Documented(failed="goes", empty="goes"),
    "opencode": Documented(),
    "openhands": Documented(empty="stand-in"),
    "openhands-v0": Documented(),
    "paced": Documented(),
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

WORDS: dict[str, Left] = {
    "changes nothing": "stays",
    "go without one": "goes",
    "goes on as it is": "stays",
    "is replaced": "stand-in",
    "is taken": "stand-in",
    "takes its place": "stand-in",
}
"""How the description of a preset tells what is left; the first of them in a sentence counts."""


def kind(policy: Policy) -> str:
    return str(policy.kind)  # type: ignore[attr-defined]


ROOMIER = (Letta(threshold=0.15), RooCode(max_output_tokens=12_400))
"""In place of those of their kind that the properties try: these are due when there is enough to be summarized or dropped."""
ASKING = [
    policy for policy in POLICIES if inspect_abilities(policy).can_summarize and kind(policy) not in set(map(kind, ROOMIER))
]
ASKING = [policy for policy in ASKING if not getattr(policy, "pins", ())]  # they would fill the window of these sessions
ASKING += ROOMIER


class Faulty:
    """A summarizer with a fault."""

    name = "faulty"
    window = Window(tokens=128_000, source="configuration")

    def __init__(self, fault: Callable[[Request], Message]) -> None:
        self.asked = 0
        self._fault = fault

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
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


def attempts(tried: SampleRun) -> list[Compaction]:
    """Those for which the summarizer was asked."""
    return [change.event for change in tried.attempts if change.event.summarizer or change.event.failure]


def test_every_preset_that_summarizes_has_its_rule() -> None:
    assert set(RULES) == {kind(policy) for policy in ASKING}
    assert set(RULES) == {name for name, made in PRESETS.items() if "summarizer" in made.__dataclass_fields__}


def described(kind: str, beginning: str) -> Left | None:
    """What the one sentence of a preset's description that begins so tells; None = the same as if no answer came."""
    told = " ".join((inspect.getdoc(PRESETS[kind]) or "").split())
    (sentence,) = [one for one in re.split(r"(?<=\.) (?=[A-Z])", told) if one.startswith(beginning)]
    if "has failed too" in sentence:
        return None
    return WORDS[min((words for words in WORDS if words in sentence), key=sentence.index)]


@pytest.mark.parametrize("kind", RULES)
def test_a_preset_describes_what_is_left_when_the_summary_fails_and_when_it_is_empty(kind: str) -> None:
    rule = RULES[kind]
    assert described(kind, "When the summary fails") == rule.failed
    assert (described(kind, "An empty summary") or rule.failed) == rule.empty


def test_every_preset_that_summarizes_is_made_to_ask() -> None:
    asking = {
        kind(policy) for policy in ASKING if attempts(run_on_sample(policy, WINDOW_TOKENS, Faulty(saying("so far, so good"))))
    }
    assert asking == set(RULES)


@pytest.mark.parametrize("fault", [*NO_ANSWER, *NO_TEXT])
@pytest.mark.parametrize("policy", ASKING, ids=repr)
def test_a_summary_that_does_not_come_leaves_the_documented_state_and_the_event_says_so(policy: Policy, fault: str) -> None:
    rule = RULES[kind(policy)]
    left = rule.failed if fault in NO_ANSWER else rule.empty
    summarizer = Faulty({**NO_ANSWER, **NO_TEXT}[fault])
    tried = run_on_sample(policy, WINDOW_TOKENS, summarizer)
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
        assert not (left != "stays" and tried.has_overflowed), "there is room without a summary"
        assert tried.activity == ("active" if tried.applied_attempts else "no effect")


def assert_patient(tried: SampleRun) -> None:
    """After some fruitless attempts in a row nobody is asked before the view has grown."""
    fruitless: list[int] = []
    for change in tried.attempts:
        fruitless = [] if change.event.status == "applied" else [*fruitless, change.event.tokens_before]
        late = fruitless[FRUITLESS_IN_A_ROW - 1 :]
        assert all(after >= before * GROWTH_BEFORE_NEXT for before, after in pairwise(late))


@pytest.mark.parametrize("policy", ASKING, ids=repr)
def test_a_summary_longer_than_what_it_stands_for_is_paid_for_and_not_taken(policy: Policy) -> None:
    longer = Faulty(lambda request: assistant("\n".join(message.text for message in request.messages) * 3))
    tried = run_on_sample(policy, WINDOW_TOKENS, longer)
    for event in attempts(tried):
        assert event.tokens_after < event.tokens_before or event.status == "no-op"
        assert event.status == "applied" or "would be no fewer" in event.reason
        assert event.summarizer_cost_usd is not None
    assert_patient(tried)


@pytest.mark.parametrize("fault", NO_SUMMARY)
@pytest.mark.parametrize("policy", ASKING, ids=repr)
def test_a_text_that_is_no_summary_is_taken_for_one_and_can_be_read_in_the_event(policy: Policy, fault: str) -> None:
    tried = run_on_sample(policy, WINDOW_TOKENS, Faulty(NO_SUMMARY[fault]))
    text = NO_SUMMARY[fault](Request(messages=())).text
    found = [change for change in tried.applied_attempts if change.event.summary]
    assert bool(found) == bool(attempts(tried))
    for change in found:
        assert text in change.event.summary
        assert (change.event.status, change.event.failure) == ("applied", "")
        assert not any(call.call_id == "x" for message in change.after.messages for call in message.calls), "nothing is run"
    assert not tried.has_overflowed or not found


class ShortSighted(Faulty):
    """A summarizer that reads little."""

    def __init__(self, max_input_tokens: int | None) -> None:
        super().__init__(saying("so far, so good"))
        self.max_input_tokens = max_input_tokens
        self.read: list[int] = []

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        self.read.append(sum(map(COUNTER.count, request.messages)))
        return super().reply(request, listen)


@pytest.mark.parametrize("policy", ASKING, ids=repr)
def test_a_summarizer_that_reads_little_is_told_no_more_and_the_event_says_what_was_left_out(policy: Policy) -> None:
    reader = ShortSighted(None)
    run_on_sample(policy, WINDOW_TOKENS, reader)
    limit = max(reader.read, default=1) * 9 // 10
    short = ShortSighted(limit)
    found = attempts(run_on_sample(policy, WINDOW_TOKENS, short))
    assert bool(short.read) == bool(reader.read)
    assert max(short.read, default=0) <= limit
    said = ("were not told", "was not reviewed", "no prompt of at most")
    assert any(words in event.reason for event in found for words in said) == bool(reader.read)
