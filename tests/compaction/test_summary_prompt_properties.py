"""Properties of the prompt for a summarizer that cannot read everything: the newest messages, and a note about the rest."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.summary_formats import SixSections
from harness.conversation.events import Compaction, Entry, Insert, ItemId, MessageAdded, Patch
from harness.conversation.messages import Message, assistant, system, user
from harness.conversation.plan import Slot, build_summary_request
from harness.conversation.tokens import Estimated, QuarterOfCharacters
from harness.conversation.view import View, fold_all
from harness.errors import SummaryFailed
from harness.session.compactor import build_summary_prompt
from harness.testing.strategies import conversations

COUNTER = QuarterOfCharacters()


def count(prompt: tuple[Message, ...]) -> int:
    return sum(map(COUNTER.count, prompt))


def view_of(messages: tuple[Message, ...]) -> View:
    return fold_all(Entry(seq, MessageAdded(message=message, step=1)) for seq, message in enumerate(messages, 1))


def slot(view: View, **changes: Any) -> Slot:
    items = tuple(item.item_id for item in view.items[1:])
    unchanged = Slot(after=ItemId(1), role="assistant", stands_for=items, format=SixSections(), max_tokens=100)
    return replace(unchanged, **changes)


@given(conversations(), st.integers(200, 3_000))
def test_the_prompt_contains_the_newest_messages_that_fit_and_calls_with_their_results(
    messages: tuple[Message, ...], limit: int
) -> None:
    view = view_of(messages)
    whole = build_summary_prompt(slot(view), view, count)
    limited = slot(view, max_input_tokens=limit)
    if count(whole.prompt) <= limit:
        assert build_summary_prompt(limited, view, count) == whole
        return
    try:
        tale = build_summary_prompt(limited, view, count)
    except SummaryFailed:
        return
    gone = len(limited.stands_for) - len(tale.stands_for)
    assert count(tale.prompt) <= limit
    assert tale.stands_for == limited.stands_for[gone:]
    assert f"({gone} older messages of {len(limited.stands_for)} are left out here;" in tale.prompt[0].text
    assert f"left out: {gone} of {len(limited.stands_for)} (" in tale.note
    asked, answered = ({part.call_id for message in tale.request.to_summarize for part in getattr(message, parts)}
                       for parts in ("calls", "results"))  # fmt: skip
    assert asked >= answered
    more = next(at for at in range(gone - 1, -1, -1) if view.items[at + 1].message.role != "tool")
    fuller = build_summary_request(slot(view, stands_for=limited.stands_for[more:]), view)
    assert count(SixSections().build_prompt(fuller)) > limit - 30, "one more would have fitted, with its mark"


def test_tokens_are_not_counted_without_a_limit() -> None:
    view = view_of((system("s"), user("build it"), assistant("on")))
    assert build_summary_prompt(slot(view), view, lambda _: 1 // 0).note == ""


@pytest.mark.parametrize("former", ["apart", "among"])
def test_a_former_summary_is_never_omitted_from_the_prompt(former: str) -> None:
    entries = [Entry(1, MessageAdded(message=system("s"), step=0)), Entry(2, MessageAdded(message=user("build it"), step=0))]
    summary = Insert(message=assistant("what was before"), after=ItemId(1), stands_for=(ItemId(2),))
    event = Compaction(
        round=1, step=1, moment="step", status="applied", reason="r", patch=Patch(forget=(ItemId(2),), insert=(summary,)),
        tokens_before=Estimated(9), tokens_after=Estimated(8), messages_before=2, messages_after=2,
    )  # fmt: skip
    later = [Entry(4 + number, MessageAdded(message=assistant(f"part {number} " * 100), step=1)) for number in range(6)]
    view = fold_all([*entries, Entry(3, event), *later])
    tale = build_summary_prompt(slot(view, former=former, max_input_tokens=900), view, count)
    assert "what was before" in tale.prompt[0].text
    assert "part 5" in tale.prompt[0].text
    assert "part 0" not in tale.prompt[0].text
    assert tale.stands_for[0] == view.summaries[0]
    assert " of 6 (" in tale.note
