"""Tests of the third design document (S2): its picture, cuts, format, windows and events."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.compaction.presets.reserve import ReserveRecent
from harness.compaction.summary_formats import extract_paths
from harness.conversation.events import Entry, MessageAdded
from harness.conversation.messages import Message, assistant, user
from harness.conversation.tokens import Window
from harness.conversation.view import Item, fold_all
from harness.errors import ProviderFailed, UsageError
from harness.models.registry import look_up_window
from harness.testing.strategies import conversations
from tests.compaction.conversations import Room, grown, lengthened, numbers, report, step, user_of_size, view_of, window

SMALL = ReserveRecent(reserve_tokens=9_700, keep_recent_tokens=100)
"""Policy that, in a window of 10,000 tokens, is due above 300 tokens and retains 100."""


def test_a_window_of_200000_is_compacted_above_183616() -> None:
    policy = ReserveRecent()
    budget = policy.budget(window(200_000))
    view = view_of(user_of_size(30_000), assistant("y" * 80_000), policy=policy)
    assert budget.threshold_tokens == 183_616
    assert policy.plan(view, budget, report(183_000, output=616)) is None
    assert policy.plan(view, budget, report(183_000, output=617)) is not None


def test_messages_since_the_last_report_count_by_estimate() -> None:
    policy = ReserveRecent()
    view = view_of(user_of_size(30_000), *step(1, "r" * 4_000), policy=policy)
    budget = policy.budget(window(200_000))
    assert policy.plan(view, budget, report(182_600, output=16)) is None
    assert policy.plan(view, budget, report(182_600, output=17)) is not None, "1,000 of the result on top"


@pytest.mark.parametrize(
    ("own", "top_level", "resolved", "source"),
    [
        (50_000, 128_000, 50_000, "policy"),
        (None, 128_000, 128_000, "configuration"),
        (None, None, 200_000, "registry"),
    ],
)
def test_the_window_is_the_policys_own_or_that_of_the_plan_or_of_the_registry(
    own: int | None, top_level: int | None, resolved: int, source: str
) -> None:
    """S2.8."""
    model_window = look_up_window("anthropic/claude-sonnet-4-5", top_level)
    budget = ReserveRecent(context_window=own).budget(model_window)
    assert budget.window_tokens == resolved
    assert f"window from {source}" in budget.rule


def test_compaction_is_disabled_if_the_window_is_unknown() -> None:
    """S2.8."""
    policy = ReserveRecent()
    budget = policy.budget(look_up_window("hosted_vllm/nobody-knows-it"))
    assert (budget.window_tokens, budget.threshold_tokens) == (0, None)
    assert policy.plan(view_of(user_of_size(900_000), user_of_size(900_000), policy=policy), budget, report(9_000_000)) is None


def test_disabled_it_never_acts() -> None:
    policy = ReserveRecent(enabled=False)
    budget = policy.budget(window(20_000))
    assert budget.threshold_tokens is None
    assert policy.plan(view_of(user_of_size(30_000), user_of_size(30_000), policy=policy), budget, report(60_000)) is None


def picture() -> list[Message]:
    """Return the conversation of the picture: [user] [assistant/tools] [user] [assistant/tools] [user] [assistant].

    The last four messages must be retained.
    """
    return [user_of_size(200), *step(1, "a" * 400), user_of_size(20), *step(2, "b" * 200), user_of_size(20), assistant("z" * 80)]


def test_the_picture_of_the_seed() -> None:
    room = Room(SMALL, 10_000, "## Goal\n- done")
    view = view_of(*picture(), policy=room.policy)
    assert numbers(view) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    after = room.after(view, room.ask(view))
    assert numbers(after) == [1, 1_000, 5, 6, 7, 8, 9], "system, summary, and all from first_kept_entry_id on"
    assert [message.role for message in after.messages] == ["system", "user", "user", "assistant", "tool", "user", "assistant"]


@pytest.mark.parametrize(("keep", "first_kept"), [(40, 8), (41, 5), (119, 5), (120, 3)])
def test_walking_back_ends_at_the_message_that_reaches_the_tokens_and_moves_back_to_a_user_message(
    keep: int, first_kept: int
) -> None:
    """S2.2: where no user message is left to cut at, the cut lies at an answer."""
    room = Room(ReserveRecent(reserve_tokens=9_700, keep_recent_tokens=keep), 10_000, "doc")
    view = view_of(*picture(), policy=room.policy)
    assert numbers(room.after(view, room.ask(view)))[2] == first_kept


@pytest.mark.slow
@given(messages=conversations(), keep=st.integers(1, 2_000))
def test_the_newest_tokens_stay_verbatim_and_are_never_summarized(messages: tuple[Message, ...], keep: int) -> None:
    """S2.2: the newest messages that together reach `keep_recent_tokens`, whatever their roles and sizes."""
    policy = ReserveRecent(reserve_tokens=7_000, keep_recent_tokens=keep)
    room = Room(policy, 10_000, "## Goal\ndone", "the beginning")
    log = tuple(Entry(number, MessageAdded(message=message, step=0)) for number, message in enumerate(messages))
    view = fold_all(lengthened(log), policy.counter)
    event = room.ask(view, report(9_999))
    assume(event is not None and event.status == "applied")
    assert event is not None
    newest, tokens = list[Item](), 0
    for item in reversed(view.items):
        newest.insert(0, item)
        tokens += item.tokens
        if tokens >= keep:
            break
    after = room.after(view, event, len(log) + 1)
    assert after.items[-len(newest) :] == tuple(newest)
    summarized = {source for insert in event.patch.insert for source in insert.stands_for}
    assert summarized.isdisjoint(item.item_id for item in newest)
    assert summarized, "something was summarized"


def test_a_session_of_two_turns_stays_within_its_window() -> None:
    """S2.2: with the document's defaults, the request is the only user message before a second turn of few tokens."""
    policy = ReserveRecent()
    room = Room(policy, 60_000, *[f"## Goal\n{number}" for number in range(20)])
    view = view_of(user("build it"), policy=policy)
    events = []
    for at in range(90):
        more = [user("now test it")] if at == 36 else []
        view = grown(view, policy, *more, *step(at, "r" * 4_400), seq=2_000 + 10 * at)
        assert view.tokens <= 60_000, "the provider would refuse the prompt"
        if event := room.ask(view):
            events.append(event)
            view = room.after(view, event, 2_005 + 10 * at)
    assert [event.status for event in events] == ["applied"] * len(events)
    assert "an older turn is split" in events[0].reason
    assert "## Turn in progress" not in events[0].summary, "nothing else was summarized, so the document describes all of it"


def test_an_older_turn_is_split_if_a_cut_before_it_would_not_make_room() -> None:
    """S2.2: the turns before the long one hold a few tokens, so a cut at its user message would leave the view too long."""
    room = Room(SMALL, 10_000, "HISTORY", "BEGINNING")
    long_turn = [user("the long one"), *step(1, "a" * 1_200), *step(2, "b" * 200)]
    view = view_of(user("hello"), assistant("hi"), *long_turn, user("and now"), *step(3, "c" * 160), policy=SMALL)
    after = room.after(view, room.ask(view))
    assert numbers(after) == [1, 1_000, 7, 8, 9, 10, 11]
    assert after.messages[1].text == "HISTORY\n\n## Turn in progress\nBEGINNING"
    assert after.tokens <= 300


def test_a_summary_alone_is_not_summarized_again() -> None:
    """S2.2: a cut behind the former summary evicts nothing, so the turn that follows it is split."""
    room = Room(SMALL, 10_000, "## Goal\nfirst", "## Goal\nsecond")
    view = view_of(user_of_size(300), *step(1, "a" * 400), user_of_size(120), policy=SMALL)
    view = room.after(view, room.ask(view))
    assert numbers(view) == [1, 1_000, 5]
    view = grown(view, SMALL, *step(2, "b" * 400), *step(3, "c" * 200), user("and now"), *step(4, "d" * 120))
    view = room.after(view, room.ask(view), 3_000)
    assert numbers(view) == [1, 3_000, 2_002, 2_003, 2_004, 2_005, 2_006]
    assert "PREVIOUS SUMMARY:\n## Goal\nfirst" in room.prompts()[1]


def test_a_newest_turn_that_is_too_long_is_split_at_an_answer_and_summarized_in_two_parts() -> None:
    """S2.3."""
    room = Room(SMALL, 10_000, "HISTORY", "BEGINNING")
    view = view_of(
        user_of_size(50),
        assistant("ok"),
        user("newest"),
        *step(1, "a" * 800),
        *step(2, "b" * 800),
        *step(3, "c" * 800),
        policy=SMALL,
    )
    event = room.ask(view)
    after = room.after(view, event)
    assert numbers(after) == [1, 1_000, 9, 10], "the last answer and its result hold 200 tokens"
    assert after.messages[1].text.startswith("HISTORY")
    assert after.messages[1].text.endswith("## Turn in progress\nBEGINNING")
    assert event is not None
    assert "newest turn is split" in event.reason
    history, beginning = room.prompts()
    assert "newest" not in history.split("ORIGINAL USER TASK")[0]
    assert "newest" in beginning
    assert "b" * 800 in beginning
    assert "c" * 800 not in beginning, "what stays is not told"


def test_in_a_single_prompt_session_the_one_turn_is_split_and_its_beginning_is_the_history() -> None:
    room = Room(SMALL, 10_000, "## Goal\nall of it", "## Goal\nmore of it")
    view = view_of(user("build it"), *step(1, "a" * 800), *step(2, "b" * 800), *step(3, "c" * 800), policy=SMALL)
    view = room.after(view, room.ask(view))
    assert numbers(view) == [1, 1_000, 7, 8]
    assert "## Goal" in room.prompts()[0]
    view = grown(view, SMALL, *step(4, "d" * 800), *step(5, "e" * 800))
    view = room.after(view, room.ask(view), 3_000)
    assert numbers(view) == [1, 3_000, 2_002, 2_003]
    assert "PREVIOUS SUMMARY:\n## Goal\nall of it" in room.prompts()[1]


def test_a_cut_is_never_at_a_tool_result() -> None:
    for keep in range(1, 300, 3):
        policy = ReserveRecent(reserve_tokens=9_700, keep_recent_tokens=keep)
        room = Room(policy, 10_000, "one", "two")
        view = view_of(user("build it"), *step(1, "a" * 800), *step(2, "b" * 1_600), *step(3, "c" * 400), policy=policy)
        event = room.ask(view)
        assert event is not None
        if event.status == "applied":
            assert room.after(view, event).messages[2].role != "tool"


FORMAT = """\
## Goal
[What the user is trying to accomplish]

## Constraints & Preferences
- [Requirements and constraints mentioned by user]

## Progress
### Done
- [x] [Completed tasks]

### In Progress
- [ ] [Current work]

### Blocked
- [Blockers, if any]

## Key Decisions
- **[Decision]**: [Rationale and context]

## Next Steps
1. [What should happen next]
2. [...]

## Critical Context
- [Data, values, or state needed to continue]"""
"""The document's format of a summary; the lists of files that follow in the document are added by the harness."""


def test_the_summary_is_one_user_message_with_the_seeds_sections_and_its_lists_of_files() -> None:
    """S2.4."""
    room = Room(SMALL, 10_000, "## Goal\nx\n<read-files>\nmade/up.py\n</read-files>")
    files = [*step(1, "a" * 400, name="read_file", key="b.py"), *step(2, "a" * 400, name="read_file", key="a.py")]
    files += [*step(3, "ok", name="write_file", key="a.py"), *step(4, "ok", name="write_file", key="c.py")]
    view = view_of(user_of_size(100), *files, user_of_size(120), policy=SMALL)
    after = room.after(view, room.ask(view))
    assert after.messages[1].role == "user"
    assert (
        after.messages[1].text
        == "## Goal\nx\n\n<read-files>\nb.py\n</read-files>\n\n<modified-files>\na.py\nc.py\n</modified-files>"
    )
    assert room.prompts()[0].endswith(f"in exactly this format.\n\n{FORMAT}")


def test_a_second_compaction_merges_the_former_document_and_carries_its_files_on() -> None:
    """S2.5."""
    room = Room(SMALL, 10_000, "## Goal\nfirst", "## Goal\nmerged")
    view = view_of(user_of_size(300), *step(1, "a" * 400, name="read_file", key="old.py"), user_of_size(120), policy=SMALL)
    view = room.after(view, room.ask(view))
    view = grown(view, SMALL, assistant("hm"), *step(2, "a" * 400, name="write_file", key="new.py"), user_of_size(120))
    view = room.after(view, room.ask(view), 3_000)
    first, second = room.prompts()
    assert "PREVIOUS SUMMARY" not in first
    assert "PREVIOUS SUMMARY:\n## Goal\nfirst" in second
    assert "Merge the previous summary" in second
    assert [item for item in numbers(view) if item in {1_000, 3_000}] == [3_000]
    assert extract_paths("read-files", view.messages[1].text) == ["old.py"]
    assert extract_paths("modified-files", view.messages[1].text) == ["new.py"]


def test_the_event_tells_tokens_before_and_after_and_how_many_messages_went() -> None:
    """S2.7."""
    room = Room(SMALL, 10_000, "doc")
    view = view_of(*picture(), policy=room.policy)
    event = room.ask(view)
    assert event is not None
    assert (event.tokens_before, event.tokens_after) == (view.tokens, room.after(view, event).tokens)
    assert len(event.patch.forget) == 3
    assert (event.messages_before, event.messages_after) == (9, 7)


@pytest.mark.parametrize("trouble", [ProviderFailed("s", 500, "down"), ""])
def test_a_failed_summary_leaves_everything_as_it_was(trouble: ProviderFailed | str) -> None:
    event = Room(SMALL, 10_000, trouble).ask(view_of(*picture(), policy=SMALL))
    assert event is not None
    assert (event.status, event.patch.forget) == ("failed", ())


@pytest.mark.parametrize(
    "wrong", [{"reserve_tokens": -1}, {"keep_recent_tokens": 0}, {"context_window": 0}, {"summary_max_tokens": 0}]
)
def test_values_that_no_session_can_run_with_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        ReserveRecent(**wrong)  # type: ignore[arg-type]


def test_a_reserve_over_the_window_is_refused_with_the_numbers() -> None:
    with pytest.raises(UsageError, match="16,384 tokens leave nothing of the window of 16,000"):
        ReserveRecent().budget(Window(tokens=16_000, source="configuration"))
