"""Conversations of a program with message objects of its own: each goes on with its own state, and objects stay the same."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pytest

import harness
from harness.compaction.presets.langchain import LangChainClear
from harness.errors import UsageError
from harness.integrations.conversations import MAX_CONVERSATIONS, Codec, Conversations


@dataclass(frozen=True, slots=True)
class Line:
    """Message of another program; `number` is None in what harness wrote."""

    role: str
    text: str
    number: int | None = None
    call: str = ""


def dump(line: Line, index: int) -> dict[str, Any]:
    name = f"#{index}" if line.number is None else str(line.number)
    raw: dict[str, Any] = {"role": line.role, "content": line.text, "id": name}
    if line.call and line.role == "assistant":
        raw["tool_calls"] = [{"id": line.call, "type": "function", "function": {"name": "read", "arguments": "{}"}}]
    elif line.call:
        raw["tool_call_id"] = line.call
    return raw


CODEC = Codec(
    dump,
    lambda line, changes: replace(line, text=changes["content"]),
    lambda raw: Line(raw["role"], raw["content"]),
)


def make_conversations(policy: Any = "keep-last", **settings: Any) -> Conversations[Line]:
    return Conversations(CODEC, policy, window_tokens=32_000, summarizer="scripted/extractive", **settings)


def make_history(name: str, answers: int) -> list[Line]:
    lines = [Line("assistant", f"{name} {number}: " + "word " * 800, number) for number in range(1, answers + 1)]
    return [Line("user", f"Write {name}.", 0), *lines]


def test_the_whole_history_may_be_passed_again_and_again():
    conversations = make_conversations()
    history, sizes = make_history("prose", 60), []
    for end in range(1, len(history) + 1):
        sent, _ = conversations.compact(history[:end])
        assert sent[-1] is history[end - 1]
        assert all(line.number is None or line is history[line.number] for line in sent)
        sizes.append(len(sent))
    assert max(sizes) < 45
    (compactor,) = conversations.compactors
    assert compactor.view.rounds > 1


def test_the_result_may_be_passed_with_new_messages_behind_it():
    whole, shortened = make_conversations(), make_conversations()
    history = make_history("prose", 60)
    sent: list[Line] = []
    for end, line in enumerate(history, 1):
        expected, _ = whole.compact(history[:end])
        sent, _ = shortened.compact([*sent, line])
        assert sent == expected
    assert len(shortened.compactors) == 1


def test_edited_messages_are_copies_and_keep_their_other_fields():
    conversations = make_conversations(LangChainClear(trigger_tokens=1_000, keep_results=1))
    history = [Line("user", "Read.", 0)]
    for number in range(1, 9, 2):
        history += [Line("assistant", "", number, f"call_{number}"), Line("tool", "word " * 800, number + 1, f"call_{number}")]
    for _ in range(2):
        sent, _ = conversations.compact(history)
        assert [line.number for line in sent] == list(range(9))
        assert [line.number for line, given in zip(sent, history, strict=True) if line is not given] == [2, 4, 6]
        assert {sent[index].text for index in (2, 4, 6)} == {"[cleared]"}
    assert len(history[2].text) > 200


def test_conversations_that_take_turns_keep_their_own_state():
    conversations, apart = make_conversations(), [make_conversations(), make_conversations()]
    histories = [make_history("prose", 40), make_history("poems", 40)]
    for end in range(1, 42):
        for history, own in zip(histories, apart, strict=True):
            assert conversations.compact(history[:end])[0] == own.compact(history[:end])[0]
    assert len(conversations.compactors) == 2


def test_equal_conversations_are_told_apart_by_their_key():
    conversations = make_conversations()
    history = make_history("prose", 3)
    for key in ("one", "two"):
        for end in range(1, 5):
            conversations.compact(history[:end], key=key)
    assert [compactor.messages for compactor in conversations.compactors] == [4, 4]


def test_threads_share_the_conversations_of_one_program(tmp_path):
    conversations = make_conversations(journal=tmp_path / "agent.sqlite")

    def run(name: str) -> int:
        history = make_history(name, 30)
        return [len(conversations.compact(history[:end], key=name)[0]) for end in range(1, 32)][-1]

    with ThreadPoolExecutor(4) as pool:
        lengths = set(pool.map(run, "abcdefgh"))
    conversations.close()
    assert len(lengths) == 1
    assert harness.load(tmp_path / "agent.sqlite").trials["steps"].tolist() == [30] * 8


def test_the_last_answer_completes_the_session(tmp_path):
    conversations = make_conversations(journal=tmp_path / "agent.sqlite")
    history = make_history("prose", 3)
    conversations.compact(history[:3])
    conversations.record(history)
    conversations.close()
    conversations.close()
    trials = harness.load(tmp_path / "agent.sqlite").trials
    assert trials[["steps", "status"]].to_numpy().tolist() == [[3, "completed"]]


def test_the_number_of_open_conversations_is_limited():
    conversations = make_conversations("none")
    for number in range(MAX_CONVERSATIONS + 5):
        conversations.compact(make_history(str(number), 1))
    assert len(conversations.compactors) == MAX_CONVERSATIONS


def test_invalid_settings_are_refused_before_the_first_request():
    with pytest.raises(UsageError, match="window_tokens"):
        Conversations(CODEC, "keep-last", window_tokens=0)
    with pytest.raises(UsageError, match="summarizer"):
        Conversations(CODEC, "keep-last", window_tokens=32_000)
