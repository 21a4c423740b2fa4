"""Tests of messages that stay verbatim, and of the focus of a summary, under every summarizing policy."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.preserving import find_preserved
from harness.conversation.messages import user
from harness.conversation.view import find_violation, fold_all
from harness.errors import UsageError
from harness.experiment.trial import Trial
from harness.policies import PRESETS, KeepLast, policy_from_plain
from harness.testing.strategies import logs
from tests.compaction.conversations import Room, lengthened, step, view_of, work

SUMMARIZING = sorted(kind for kind, preset in PRESETS.items() if "summarizer" in preset.__dataclass_fields__)
RULES = "exit code 0\n" + "always run the linter\n" * 20


def make_view(policy, count: int = 120):
    messages = [*step(900, RULES, name="skill", key="lint"), *step(901, "exit code 1\nno such file", key="cat missing")]
    later = [message for part in range(4) for message in (user("go on"), *work(30 * part, count // 4, 1_200))]
    return view_of(user("build it"), *messages, *later, policy=policy)


@pytest.mark.parametrize("kind", SUMMARIZING)
def test_preserved_messages_stay_verbatim_and_the_summarizer_reads_the_focus(kind: str):
    policy = PRESETS[kind](preserve=("sk?ll", "kind:failure"), focus="names of ports")
    room = Room(policy, 48_000, *["## Objective\nRANGES TO DELETE\n1-3000"] * 9)
    view = make_view(policy)
    event = room.ask(view, hook="manual")
    assert event is not None
    assert event.status == "applied", event.reason
    after = room.after(view, event)
    stays = [item.message for item in view.items[2:6]]
    assert [message for message in after.messages if message in stays] == stays
    assert find_violation(after.messages) is None
    if event.summary:
        assert all("Attend in particular to: names of ports" in prompt for prompt in room.prompts()[:1])
        assert not any("always run the linter" in prompt for prompt in room.prompts())


@pytest.mark.slow
@given(log=logs().map(lengthened), patterns=st.lists(st.sampled_from(["*", "read_*", "kind:user", "kind:failure"])))
def test_any_preserved_messages_leave_a_valid_conversation(log, patterns):
    policy = KeepLast(preserve=tuple(patterns), keep_last=1)
    view = fold_all(log)
    event = Room(policy, 32_768, "short").ask(view, hook="manual")
    kept_ids = find_preserved(view, policy.preserve, policy.preserve_tokens)
    if event is not None and event.status == "applied":
        assert not kept_ids & set(event.patch.forget)


def test_preserved_messages_have_a_limit_and_the_newest_come_first():
    policy = KeepLast()
    view = view_of(user("build it"), *work(1, 10), policy=policy)
    assert len(find_preserved(view, ("execute_command",), 10_000)) == 20
    newest = find_preserved(view, ("execute_command",), 250)
    assert newest == {item.item_id for item in view.items[-4:]}
    assert find_preserved(view, ("kind:user",), 10_000) == {view.items[1].item_id}


INVALID = ["", "  ", "[", "skill[", "[!]", "[]", "[a-z][", "[z-a]"]


@pytest.mark.parametrize("pattern", [*INVALID, "kind:", "kind:users"])
def test_a_pattern_that_can_match_nothing_is_refused(pattern):
    with pytest.raises(
        UsageError,
        match=r"policy: preserve\[1\]: must be a shell pattern such as .skill\*. of tool names, or one of kind:user",
    ):
        policy_from_plain({"kind": "keep-last", "preserve": ["skill", pattern]})


@pytest.mark.parametrize("pattern", INVALID)
@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("claude-code", "skill_tools"),
        *((kind, "exempt_tools") for kind, preset in PRESETS.items() if "exempt_tools" in preset.__dataclass_fields__),
    ],
)
def test_every_field_with_patterns_refuses_invalid_ones(kind, field, pattern):
    with pytest.raises(UsageError, match=rf"policy: {field}\[1\]: must be a shell pattern such as 'skill\*' \(got"):
        policy_from_plain({"kind": kind, field: ["skill", pattern]})


def test_the_message_on_an_unfinished_set_says_what_ends_it():
    with pytest.raises(UsageError, match=r"\(got '\['\); each `\[` begins a set of characters that a `\]` ends"):
        KeepLast(preserve=("[",))
    with pytest.raises(UsageError, match=r"pins\[0\]: must be a shell pattern"):
        PRESETS["paced"](pins=("RULE [",))


@pytest.mark.parametrize("pattern", ["*", "[[]", "[]]", "[!]]*", "skill[0-9]", "a]", "[!a]?", "[a-]"])
def test_valid_patterns_are_accepted(pattern):
    assert KeepLast(preserve=(pattern,)).preserve == (pattern,)


def test_ids_without_preserved_messages_and_focus_stay():
    plain = Trial(task="flashcards", policy="keep-last")
    assert Trial(task="flashcards", policy=KeepLast(preserve=(), focus="")).trial_id == plain.trial_id
    others = {Trial(task="flashcards", policy=replace(KeepLast(), **{name: value})).trial_id for name, value in CHANGES}
    assert len(others | {plain.trial_id}) == 4


CHANGES: list[tuple[str, Any]] = [("preserve", ("skill",)), ("preserve_tokens", 5), ("focus", "paths")]
