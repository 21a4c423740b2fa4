"""Tests of the lean summary of Hermes: its end, its index of identifiers, and the pointer to the removed text."""

import pytest

from harness.compaction.presets.hermes import INDEX_HEADING, list_identifiers
from harness.conversation.messages import user
from harness.policies import HermesLean
from tests.compaction.conversations import Room, step, view_of, work

LEAN = HermesLean(tail_tokens=500, most_tail_tokens=500, least_summary_tokens=100)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("see src/app/main.py, and README.md.", ["src/app/main.py", "README.md"]),
        ("commit 82f5a8c87 of https://example.org/x?y=1", ["82f5a8c87", "https://example.org/x?y=1"]),
        ("ticket ABC-1234 and MAX_RETRIES twice: MAX_RETRIES", ["ABC-1234", "MAX_RETRIES"]),
        ("nothing to see here", []),
    ],
)
def test_identifiers_are_found_by_their_form(text: str, names: list[str]):
    assert list(list_identifiers(text)) == names


def test_the_users_messages_and_the_end_stay_and_the_rest_becomes_an_indexed_summary():
    seen = step(7, "exit code 0\nport 8080 in conf/server.toml", key="grep port")
    view = view_of(user("go"), *work(10, 20), *seen, user("and on"), *work(40, 20), policy=LEAN)
    room = Room(LEAN, 5_000, "SUMMARY")
    event = room.ask(view)
    assert event is not None
    after = room.after(view, event)
    assert [message.text for message in after.messages[1:3]] == ["go", "and on"]
    summary = after.messages[3].text
    assert "SUMMARY" in summary
    assert "conf/server.toml" in summary.partition(INDEX_HEADING)[2]
    (name,) = event.offloaded
    assert name in summary
    assert "port 8080 in conf/server.toml" in room.outputs.load(name)
    assert sum(item.tokens for item in after.items[4:]) <= 500


def test_the_index_of_a_summary_is_carried_on_and_can_be_switched_off():
    seen = step(7, "exit code 0\nfound in conf/server.toml", key="grep port")
    view = view_of(user("go"), *seen, *work(10, 40), policy=LEAN)
    room = Room(LEAN, 5_000, "ONE", "TWO")
    after = room.after(view, room.ask(view))
    final = room.after(after, room.ask(after, hook="manual"), seq=3_000) if len(after.items) > 20 else after
    assert "conf/server.toml" in "\n".join(message.text for message in final.messages)
    plain = HermesLean(tail_tokens=500, most_tail_tokens=500, most_identifiers=0)
    event = Room(plain, 5_000, "ONE").ask(view)
    assert event is not None
    assert INDEX_HEADING not in event.summary


def test_the_summarizer_reads_the_end_of_a_long_part():
    policy = HermesLean(tail_tokens=100, most_tail_tokens=100, input_characters=3_000)
    room = Room(policy, 5_000, "S")
    room.ask(view_of(user("go"), *work(10, 40), policy=policy))
    (prompt,) = room.prompts()
    assert len(prompt) < 4_500
