"""Tests of the guards that apply to every policy, including policies of other packages."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from harness.compaction.summary_formats import SixSections
from harness.conversation.events import Compaction, Entry, Hook, Insert, ItemId, MessageAdded, Replace, TextDelta
from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, system, tool, user
from harness.conversation.plan import CompactionPlan, Slot
from harness.conversation.tokens import Budget, QuarterOfCharacters, Usage, Window
from harness.conversation.truncation import name_output
from harness.conversation.view import View, fold, fold_all
from harness.errors import FileMissing, IllegalPlan, ProviderFailed, StoreError, UnknownName, UsageError
from harness.policies import Codex
from harness.protocols import OutputStore, Reply, Request, ignore
from harness.session.compactor import SessionCompactor
from harness.store.log import MemoryOutputs
from harness.testing.fakes import FakeModel
from tests.compaction.conversations import seen

CALL = ToolCall(call_id="c", name="read_file", arguments_json="{}")
RESULT = tool(ToolResult(call_id="c", name="read_file", output="x" * 400))
TALK = (system("s"), user("build it" * 50), assistant("", CALL), RESULT, assistant("on"))
VIEW = seen(fold_all(Entry(seq, MessageAdded(message=message, step=1)) for seq, message in enumerate(TALK, 1)))
WINDOW = Window(tokens=32_768, source="configuration")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stubborn:
    """Policy that always proposes the same plan."""

    proposal: CompactionPlan
    clip_characters: int = 10_000
    kind: str = "stubborn"

    @property
    def counter(self) -> QuarterOfCharacters:
        return QuarterOfCharacters()

    def budget(self, window: Window) -> Budget:
        return Budget(window_tokens=window.tokens, reserved_tokens=0, threshold_tokens=0, rule="always")

    def plan(self, view: View, budget: Budget, usage: Usage | None, hook: Hook = "step") -> CompactionPlan | None:
        return self.proposal


def slot(after: int, stands_for: tuple[int, ...] = ()) -> Slot:
    items = tuple(ItemId(number) for number in stands_for)
    return Slot(after=ItemId(after), role="assistant", stands_for=items, format=SixSections(), max_tokens=800)


def apply(plan: CompactionPlan, summarizer: FakeModel | None = None, outputs: OutputStore | None = None) -> Compaction | None:
    room = SessionCompactor(policy=Stubborn(proposal=plan), window=WINDOW, summarizer=summarizer, outputs=outputs)
    return room.compact(VIEW, None, 1, "step", lambda _: None)


@pytest.mark.parametrize(("refused", "note"), [(False, "output limit cut an answer"), (True, "refused to complete")])
def test_a_summary_that_is_incomplete_is_applied_and_noted(refused: bool, note: str) -> None:
    class Incomplete(FakeModel):
        def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
            return replace(super().reply(request, listen), cut_short=not refused, refused=refused)

    plan = CompactionPlan(reason="full", forget=forget(3, 4, 5), slots=(slot(2, (3, 4, 5)),))
    event = apply(plan, Incomplete([assistant("half a summ")]))
    assert event is not None
    assert (event.status, event.failure) == ("applied", "")
    assert note in event.reason


def forget(*items: int) -> tuple[ItemId, ...]:
    return tuple(ItemId(number) for number in items)


@pytest.mark.parametrize(
    ("plan", "explanation"),
    [
        (CompactionPlan(reason="all", forget=forget(1, 2, 3, 4, 5)), "system message"),
        (CompactionPlan(reason="system", forget=forget(1)), "system message .* leave the first of `view.items` out of `forget`"),
        (CompactionPlan(reason="mask", replace=(Replace(item=ItemId(1), message=system("t")),)), "system message"),
        (
            CompactionPlan(reason="result", forget=forget(4)),
            r"call 'c' \(read_file\) has no result before message 4 of 4; evict a tool call",
        ),
        (
            CompactionPlan(reason="call", forget=forget(3)),
            r"message 3 of 4 answers call 'c' \(read_file\), which is not right before it; ",
        ),
        (
            CompactionPlan(reason="stranger", forget=forget(77)),
            "names the message of log event 77, which is not in view; the view has 5 mes",
        ),
        (
            CompactionPlan(reason="stranger", forget=(ItemId(77, 1),)),
            "log event 77, number 2 of that event, which is not in view",
        ),
        (
            CompactionPlan(reason="stranger", replace=(Replace(item=ItemId(77), message=user("t")),)),
            "log event 77, which is not in view",
        ),
        (
            CompactionPlan(reason="aside", forget=forget(3, 4), set_aside=forget(2)),
            "log event 2 aside without evicting it; add the id .* to `forget`",
        ),
    ],
)
def test_a_plan_that_breaks_a_guard_is_refused_by_the_name_of_its_policy(plan: CompactionPlan, explanation: str) -> None:
    with pytest.raises(IllegalPlan, match=explanation) as caught:
        apply(plan)
    assert caught.value.policy == "stubborn"


def test_a_policy_may_be_given_by_its_name() -> None:
    assert SessionCompactor(policy="codex", window=WINDOW, summarizer=None).policy == Codex()
    with pytest.raises(UnknownName, match="codex"):
        SessionCompactor(policy="codx", window=WINDOW, summarizer=None)


def test_a_summary_that_would_stand_nowhere_is_refused_and_not_lost() -> None:
    model = FakeModel([assistant("s")])
    for unknown in (slot(77, (2,)), slot(1, (77,))):
        with pytest.raises(IllegalPlan, match="not in view"):
            apply(CompactionPlan(reason="r", forget=forget(2), slots=(unknown,)), model)
    assert not model.requests, "nothing is paid for a plan that is refused"


def test_an_unknown_message_in_a_fallback_is_refused() -> None:
    with pytest.raises(IllegalPlan, match="log event 77"):
        apply(CompactionPlan(reason="r", forget=forget(2), fallback=CompactionPlan(reason="else", forget=forget(77))))


@pytest.mark.parametrize("second", [assistant(" \n"), ProviderFailed("s", 500, "down")])
def test_the_cost_of_calls_before_a_failed_summary_is_recorded(second: Message | ProviderFailed) -> None:
    plan = CompactionPlan(reason="two", forget=forget(2, 3, 4), slots=(slot(1, (2,)), slot(1, (3, 4))))
    event = apply(plan, FakeModel([assistant("first part"), second]))
    assert event is not None
    assert event.status == "failed"
    assert event.summarizer == "puppet"
    assert event.summarizer_usage is not None
    assert event.summarizer_usage.prompt_tokens > 0


def test_a_failed_request_for_a_summary_is_on_the_bill_if_it_cost_money() -> None:
    error = ProviderFailed("s", 500, "down")
    error.cost_usd = 0.25
    event = apply(CompactionPlan(reason="one", forget=forget(2), slots=(slot(1, (2,)),)), FakeModel([error]))
    assert event is not None
    assert (event.status, event.summarizer, event.summarizer_usage, event.summarizer_cost_usd) == ("failed", "puppet", None, 0.25)


def test_an_applied_plan_tells_before_after_and_its_summary() -> None:
    event = apply(
        CompactionPlan(reason="r", forget=forget(2, 3, 4), slots=(slot(1, (2, 3, 4)),)), FakeModel([assistant("short")])
    )
    assert event is not None
    assert (event.status, event.round, event.messages_before, event.messages_after) == ("applied", 1, 5, 3)
    assert event.tokens_after < event.tokens_before == VIEW.tokens
    assert event.summary.endswith("short")


class ShortSighted(FakeModel):
    """Summarizer with a small input limit."""

    def __init__(self, max_input_tokens: int | None) -> None:
        super().__init__([assistant("short")])
        self.max_input_tokens = max_input_tokens


@pytest.mark.parametrize(("of_the_slot", "of_the_model"), [(None, 480), (480, None), (480, 4_000), (4_000, 480), (4_000, None)])
def test_the_smaller_limit_of_slot_and_summarizer_holds(of_the_slot: int | None, of_the_model: int | None) -> None:
    limited = replace(slot(1, (2, 3, 4, 5)), max_input_tokens=of_the_slot)
    event = apply(CompactionPlan(reason="r", forget=forget(2, 3, 4, 5), slots=(limited,)), ShortSighted(of_the_model))
    assert event is not None
    assert event.status == "applied"
    assert event.summarizer_usage is not None
    assert ("reads at most 480 tokens" in event.reason) == (480 in {of_the_slot, of_the_model})
    assert (event.summarizer_usage.prompt_tokens <= 480) == (480 in {of_the_slot, of_the_model})


class Slow(FakeModel):
    """Summarizer that takes some time to answer."""

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        time.sleep(0.05)
        return super().reply(request, listen)


def test_the_duration_of_a_compaction_is_recorded_and_does_not_make_events_differ() -> None:
    plan = CompactionPlan(reason="all", forget=forget(2, 3, 4), slots=(slot(1, (2, 3, 4)),))
    quick, slow = apply(plan, FakeModel([assistant("s")])), apply(plan, Slow([assistant("s")]))
    assert quick is not None
    assert slow is not None
    assert quick == slow
    assert quick.wall_seconds > 0
    assert slow.wall_seconds >= 0.05


def test_texts_offloaded_by_an_applied_plan_are_saved_once() -> None:
    outputs = MemoryOutputs()
    event = apply(CompactionPlan(reason="r", forget=forget(2, 3, 4), texts_to_save=("one", "two", "one")), outputs=outputs)
    assert event is not None
    assert event.offloaded == (name_output("one"), name_output("two"))
    assert [outputs.load(name) for name in event.offloaded] == ["one", "two"]


def test_a_plan_that_saves_no_tokens_saves_no_text_either() -> None:
    outputs = MemoryOutputs()
    event = apply(
        CompactionPlan(reason="r", insert=(Insert(message=user("x"), after=ItemId(1)),), texts_to_save=("one",)), outputs=outputs
    )
    assert event is not None
    assert (event.status, event.offloaded) == ("no-op", ())
    with pytest.raises(FileMissing):
        outputs.load(name_output("one"))


@pytest.mark.parametrize("answer", [ProviderFailed("s", 500, "down"), assistant("long " * 500)], ids=["fails", "saves nothing"])
def test_only_the_texts_of_the_fallback_are_saved_if_a_plan_fails(answer: Message | ProviderFailed) -> None:
    outputs = MemoryOutputs()
    instead = CompactionPlan(reason="instead", forget=forget(2), texts_to_save=("two",))
    plan = CompactionPlan(
        reason="r", forget=forget(2, 3, 4), slots=(slot(1, (2, 3, 4)),), texts_to_save=("one",), fallback=instead
    )
    event = apply(plan, FakeModel([answer]), outputs)
    assert event is not None
    assert (event.status, event.offloaded) == ("applied", (name_output("two"),))
    with pytest.raises(FileMissing):
        outputs.load(name_output("one"))


class FullDisk(MemoryOutputs):
    """Store that cannot save anything."""

    def save(self, text: str) -> str:
        raise StoreError("the disk is full")


def test_a_text_that_cannot_be_saved_is_not_evicted() -> None:
    plan = CompactionPlan(reason="r", forget=forget(2, 3, 4), texts_to_save=("one",))
    with pytest.raises(StoreError, match="the disk is full"):
        apply(plan, outputs=FullDisk())
    with pytest.raises(UsageError, match="'stubborn' saves texts of the view, but has no store for them"):
        apply(plan)


def test_after_an_overflow_the_summarizer_is_asked_once_although_compaction_pauses() -> None:
    """A pause begins after two attempts in vain; only a compaction can save the session when the provider refuses the prompt."""
    summarizer = FakeModel([ProviderFailed("s", 500, "down")] * 2 + [assistant("Short.")])
    plan = CompactionPlan(reason="summary", forget=forget(2, 3, 4), slots=(slot(1, (2, 3, 4)),))
    room = SessionCompactor(policy=Stubborn(proposal=plan), window=WINDOW, summarizer=summarizer)
    view = VIEW
    for seq in (101, 102):
        event = room.compact(view, None, 1, "step", ignore)
        assert event is not None
        assert event.status == "failed"
        view = fold(view, Entry(seq, event), QuarterOfCharacters())
    assert room.compact(view, None, 1, "step", ignore) is None
    assert room.compact(view, None, 1, "turn", ignore) is None
    event = room.compact(view, None, 1, "overflow", ignore)
    assert event is not None
    assert len(summarizer.requests) == 3


NEW = user("Now delete the file old.py.")
WAITING = fold(VIEW, Entry(6, MessageAdded(message=NEW, step=2)), QuarterOfCharacters())
"""View whose newest message no request has contained yet."""


def compact_waiting(plan: CompactionPlan, *answers: str | ProviderFailed) -> tuple[Compaction, View, str]:
    """Return the event, the view after it and the summarizer's prompts, of a plan for a view with a new message."""
    puppet = FakeModel([assistant(answer) if isinstance(answer, str) else answer for answer in answers])
    room = SessionCompactor(policy=Stubborn(proposal=plan), window=WINDOW, summarizer=puppet)
    event = room.compact(WAITING, None, 1, "step", lambda _: None)
    assert event is not None
    prompts = "\n".join(message.text for request in puppet.requests for message in request.messages)
    return event, fold(WAITING, Entry(9, event), QuarterOfCharacters()), prompts


def test_a_message_that_no_request_has_contained_stays_and_is_not_summarized() -> None:
    covered = forget(2, 3, 4, 5, 6)
    event, after, prompts = compact_waiting(
        CompactionPlan(reason="full", forget=covered, slots=(slot(1, (2, 3, 4, 5, 6)),)), "done so far"
    )
    assert [message.text for message in after.messages[2:]] == [NEW.text]
    assert NEW.text not in prompts
    assert event.patch.insert[0].stands_for == forget(2, 3, 4, 5)
    assert event.reason == "full; messages of the user that no request has contained yet stay"


def test_a_copy_of_a_message_that_stays_is_left_out() -> None:
    around = replace(slot(1, (2, 3, 4, 5, 6)), before=(NEW, user("What did we do?")), behind=(NEW,))
    inserts = (Insert(message=NEW, after=ItemId(6)), Insert(message=user("Go on."), after=ItemId(6)))
    plan = CompactionPlan(reason="full", forget=forget(2, 3, 4, 5, 6), slots=(around,), insert=inserts)
    _, after, _ = compact_waiting(plan, "done so far")
    assert [message.text for message in after.messages[1:]][:1] == ["What did we do?"]
    assert [message.text for message in after.messages[3:]] == [NEW.text, "Go on."]


@pytest.mark.parametrize("text", ["Now delete", "Now delete the file old.py.\n\n[Older messages were left out.]"])
def test_a_new_message_may_be_extended_but_not_shortened(text: str) -> None:
    plan = CompactionPlan(reason="full", forget=forget(2, 3, 4, 5), replace=(Replace(item=ItemId(6), message=user(text)),))
    _, after, _ = compact_waiting(plan)
    assert [message.text for message in after.messages[1:]] == [text if NEW.text in text else NEW.text]


def test_a_plan_that_only_removes_new_messages_has_no_effect() -> None:
    event, after, _ = compact_waiting(CompactionPlan(reason="full", forget=forget(6), slots=(slot(1, (6,)),)))
    assert (event.status, after.items) == ("no-op", WAITING.items)
    assert event.reason == "full, but only messages of the user that no request has contained yet could go"


def test_a_fallback_leaves_new_messages_too() -> None:
    whole = forget(2, 3, 4, 5, 6)
    plan = CompactionPlan(
        reason="full", forget=whole, slots=(slot(1, (2, 3)),), fallback=CompactionPlan(reason="instead", forget=whole)
    )
    event, after, _ = compact_waiting(plan, ProviderFailed("s", 500, "down"))
    assert (event.status, after.messages[1:]) == ("applied", (NEW,))
    nothing = replace(plan, fallback=CompactionPlan(reason="instead", forget=forget(6)))
    event, after, _ = compact_waiting(nothing, ProviderFailed("s", 500, "down"))
    assert (event.status, after.items) == ("failed", WAITING.items)
