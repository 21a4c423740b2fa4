"""Effect of a failing summarizer on a session, for every preset with a summarizer.

The table `RULES` gives the documented rule of each preset. The text of a summarizer is not judged, because no program can tell
for sure whether it is a summary, a refusal or an answer to the conversation. Any text is used as the summary, except by presets
that require headings.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import pytest

from harness.compaction.description import inspect_abilities
from harness.compaction.pipeline import CalibratedPreset
from harness.compaction.presets.dexto import Dexto
from harness.compaction.presets.gemini import GeminiCli
from harness.compaction.presets.letta import Letta
from harness.compaction.presets.roo_code import RooCode
from harness.conversation.events import Compaction, TextDelta
from harness.conversation.messages import Message, ToolCall, assistant
from harness.conversation.tokens import Measured, QuarterOfCharacters, Usage, Window
from harness.errors import ContextOverflow, ModelError, ProviderFailed
from harness.inspection.sample_run import SampleRun, run_on_sample
from harness.policies import PRESETS
from harness.protocols import Policy, Reply, Request, ignore
from harness.session.compactor import FRUITLESS_IN_A_ROW, GROWTH_BEFORE_NEXT, HOOKS_WITHOUT_PAUSE
from tests.contracts.test_policy_properties import POLICIES

WINDOW_TOKENS = 16_000
COUNTER = QuarterOfCharacters()

Left = Literal["stays", "goes", "stand-in"]
"""Fate of the messages to be summarized. `stays`: they stay in view, and the attempt fails. `goes`: they are evicted without a
summary. `stand-in`: they are evicted, and a fixed text of the policy replaces them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Documented:
    """Documented behaviour of a preset when its summarizer fails."""

    failed: Left = "stays"
    """Effect if there is no answer: an error, a time-out, or a prompt that is too long for the summarizer."""
    empty: Left = "stays"
    """Effect if the answer has no text."""


RULES: dict[str, Documented] = {
    "claude-code": Documented(),
    "cline": Documented(failed="goes"),
    "codex@2025": Documented(empty="stand-in"),
    "codex@2026": Documented(),
    "complexity-trap-summary": Documented(),
    "copilot-inline": Documented(),
    "crush": Documented(),
    "deepagents": Documented(empty="stand-in"),
    "dexto": Documented(failed="stand-in", empty="stand-in"),
    "frozen-ranked": Documented(),
    "gemini-cli": Documented(),
    "goose": Documented(),
    "handoff": Documented(),
    "hermes-lean": Documented(),
    "inspect-summary": Documented(empty="stand-in"),
    "keep-last": Documented(),
    "kimi": Documented(),
    "langchain-summary": Documented(empty="stand-in"),
    "letta": Documented(),
    "message-window": Documented(failed="goes", empty="goes"),
    "openai-agents": Documented(),
    "opencode@v1": Documented(),
    "opencode@v2": Documented(),
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
    "strands-summary": Documented(),
    "three-tiers": Documented(),
    "verbatim-lines": Documented(failed="stand-in", empty="stand-in"),
}
"""Documented rules of every preset with a summarizer, by the kind of the preset."""

WORDS: dict[str, Left] = {
    "stays unchanged": "stays",
    "leaves the conversation unchanged": "stays",
    "only the clearing takes effect": "stays",
    "replaces the messages": "goes",
    "are evicted without": "goes",
    "is replaced": "stand-in",
    "replaces it": "stand-in",
    "is accepted": "stand-in",
}
"""Phrases by which the description of a preset states the effect; the first phrase in a sentence counts."""


def kind(policy: Policy) -> str:
    return str(policy.kind)  # type: ignore[attr-defined]


ROOMIER = (
    Dexto(threshold=0.15),
    Letta(threshold=0.15),
    RooCode(max_output_tokens=12_400),
    GeminiCli(threshold=0.02, adapted=True, protect_tokens=50, result_characters=200),
)
"""Presets that replace those of the same kind in the property tests, so that there is enough to summarize when they compact."""
ASKING = [
    policy for policy in POLICIES if inspect_abilities(policy).can_summarize and kind(policy) not in set(map(kind, ROOMIER))
]
ASKING = [policy for policy in ASKING if not getattr(policy, "pins", ())]  # their pins would fill the window of these sessions
ASKING += ROOMIER


REQUIRING_HEADINGS = {"opencode@v2"}
"""Presets that accept only a summary with at least one of the headings that they ask for."""
NAMING_LINES = {"verbatim-lines"}
"""Presets whose summarizer writes no text for the agent; `tests/compaction/presets` has their tests."""


class Faulty:
    """Summarizer with a given fault."""

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


def fact_text(*parts: Any) -> Callable[[Request], Message]:
    return lambda _: assistant(*parts)


CALL = ToolCall(call_id="x", name="execute_command", arguments_json='{"command": "rm -rf /"}')
NO_ANSWER = {
    "fails": raising(ProviderFailed("faulty", 500, "down")),
    "times out": raising(ProviderFailed("faulty", None, "Request timed out.")),
    "overflows itself": raising(ContextOverflow("faulty", 9_000, 8_000)),
}
NO_TEXT = {"returns nothing": fact_text(""), "returns blanks": fact_text(" \n\t"), "calls a tool": fact_text("", CALL)}
NO_SUMMARY = {
    "refuses": fact_text("I'm sorry, but I can't help with that."),
    "answers the conversation instead": fact_text("Sure! I have run the tests and they pass. Shall I go on with the next file?"),
    "calls a tool beside its text": fact_text("I will look at the files first.", CALL),
}


def attempts(tried: SampleRun) -> list[Compaction]:
    """Return the compaction attempts that called the summarizer."""
    return [change.event for change in tried.attempts if change.event.summarizer or change.event.failure]


def test_every_preset_that_summarizes_has_its_rule() -> None:
    assert set(RULES) == {kind(policy) for policy in ASKING}
    assert set(RULES) == {name for name, preset in PRESETS.items() if "summarizer" in preset.__dataclass_fields__}


def described(kind: str, *beginnings: str) -> Left | None:
    """Return the effect in the sentence of a preset's description that has one of these beginnings; None if there is none."""
    description = " ".join((inspect.getdoc(PRESETS[kind]) or "").split())
    sentences = [one for one in re.split(r"(?<=\.) (?=[A-Z])|; ", description) if one.lower().startswith(beginnings)]
    if not sentences or "counts as failed" in sentences[0]:
        return None
    (sentence,) = sentences
    if "everything is summarized instead" in sentence:
        sentence = description[description.index(sentence) :]
    return WORDS[min((words for words in WORDS if words in sentence), key=sentence.index)]


@pytest.mark.parametrize("kind", RULES)
def test_a_preset_describes_what_is_left_when_the_summary_fails_and_when_it_is_empty(kind: str) -> None:
    rule = RULES[kind]
    assert described(kind, "if the summary fails", "if a summary fails") == rule.failed
    assert (described(kind, "an empty summary") or rule.failed) == rule.empty


@pytest.mark.slow
@pytest.mark.parametrize("fault", [*NO_ANSWER, *NO_TEXT])
@pytest.mark.parametrize("policy", ASKING, ids=repr)
def test_a_summary_that_does_not_come_leaves_the_documented_state_and_the_event_says_so(policy: Policy, fault: str) -> None:
    rule = RULES[kind(policy)]
    left = rule.failed if fault in NO_ANSWER else rule.empty
    summarizer = Faulty({**NO_ANSWER, **NO_TEXT}[fault])
    tried = run_on_sample(policy, WINDOW_TOKENS, summarizer)
    compactions = attempts(tried)
    assert compactions
    assert summarizer.asked
    for event in compactions:
        if event.moment == "overflow" and isinstance(policy, CalibratedPreset):
            assert event.patch.forget, "after a refused prompt, messages go even without a summary"
            continue
        assert event.failure
        assert event.failure in event.reason
        assert ("was a tool call" in event.failure) == (fault == "calls a tool")
        assert (event.summarizer_usage is not None) == (fault in NO_TEXT), "what was paid for is on the bill"
        assert any(insert.stands_for for insert in event.patch.insert) == (left == "stand-in")
        assert bool(event.patch.forget) == (left != "stays")
        assert event.status == ("applied" if event.patch.forget or event.patch.replace else "failed")
    if left == "stays":
        assert_patient(tried)
    assert tried.steps >= compactions[0].step, "the session goes on"
    assert not (left != "stays" and tried.has_overflowed), "there is room without a summary"
    assert tried.activity == ("active" if tried.applied_attempts else "no effect")


def assert_patient(tried: SampleRun) -> None:
    """Check that after several fruitless attempts in a row the summarizer is not called before the view has grown.

    An attempt after an overflow is excepted: without it the session would end at once.
    """
    fruitless: list[int] = []
    for change in tried.attempts:
        if change.event.moment in HOOKS_WITHOUT_PAUSE and change.event.status != "applied":
            continue
        fruitless = [] if change.event.status == "applied" else [*fruitless, change.event.tokens_before]
        late = fruitless[FRUITLESS_IN_A_ROW - 1 :]
        assert all(after >= before * GROWTH_BEFORE_NEXT for before, after in pairwise(late))


@pytest.mark.slow
@pytest.mark.parametrize("policy", ASKING, ids=repr)
def test_a_summary_longer_than_what_it_stands_for_is_paid_for_and_not_taken(policy: Policy) -> None:
    longer = Faulty(lambda request: assistant("\n".join(message.text for message in request.messages) * 3))
    tried = run_on_sample(policy, WINDOW_TOKENS, longer)
    assert longer.asked
    for event in attempts(tried):
        assert event.tokens_after < event.tokens_before or event.status == "no-op"
        assert event.status == "applied" or "would not be fewer" in event.reason
        assert event.summarizer_cost_usd is not None
    assert_patient(tried)


@pytest.mark.slow
@pytest.mark.parametrize("fault", NO_SUMMARY)
@pytest.mark.parametrize("policy", [policy for policy in ASKING if kind(policy) in REQUIRING_HEADINGS], ids=repr)
def test_a_text_without_required_headings_fails_and_the_event_names_them(policy: Policy, fault: str) -> None:
    tried = run_on_sample(policy, WINDOW_TOKENS, Faulty(NO_SUMMARY[fault]))
    compactions = attempts(tried)
    assert compactions
    assert all(event.status == "failed" and "has none of the lines that it needs: ##" in event.failure for event in compactions)
    assert_patient(tried)


@pytest.mark.slow
@pytest.mark.parametrize("fault", NO_SUMMARY)
@pytest.mark.parametrize(
    "policy", [policy for policy in ASKING if kind(policy) not in REQUIRING_HEADINGS | NAMING_LINES], ids=repr
)
def test_a_text_that_is_no_summary_is_taken_for_one_and_can_be_read_in_the_event(policy: Policy, fault: str) -> None:
    tried = run_on_sample(policy, WINDOW_TOKENS, Faulty(NO_SUMMARY[fault]))
    text = NO_SUMMARY[fault](Request(messages=())).text
    changes = [change for change in tried.applied_attempts if change.event.summary]
    assert changes
    for change in changes:
        assert text in change.event.summary
        assert (change.event.status, change.event.failure) == ("applied", "")
        assert not any(call.call_id == "x" for message in change.after.messages for call in message.calls), "nothing is run"
    assert not tried.has_overflowed


class ShortSighted(Faulty):
    """Summarizer with a small context window."""

    def __init__(self, max_input_tokens: int | None) -> None:
        super().__init__(fact_text("so far, so good"))
        self.max_input_tokens = max_input_tokens
        self.read: list[int] = []

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        self.read.append(sum(map(COUNTER.count, request.messages)))
        return super().reply(request, listen)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ASKING, ids=repr)
def test_a_summarizer_with_a_small_input_limit_gets_less_and_the_event_says_what_was_omitted(policy: Policy) -> None:
    reader = ShortSighted(None)
    run_on_sample(policy, WINDOW_TOKENS, reader)
    limit = max(reader.read) * 9 // 10
    short = ShortSighted(limit)
    compactions = attempts(run_on_sample(policy, WINDOW_TOKENS, short))
    assert max(short.read) <= limit
    notices = ("were left out", "was not reviewed", "the prompt is longer than")
    assert any(words in event.reason for event in compactions for words in notices)
