"""Tests of deletion by lines: what stays is verbatim, and gaps are counted over several compactions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.presets.verbatim_lines import HEADING, delete_lines
from harness.conversation.messages import user
from harness.policies import VerbatimLines
from tests.compaction.conversations import Room, grown, view_of, work

LINES = st.lists(st.sampled_from(["alpha", "beta", "", "[user]", "[tool]", "(left out: 7 lines)"]), max_size=30)
RANGES = st.lists(st.tuples(st.integers(-3, 40), st.integers(-3, 40)))


@given(LINES, RANGES)
def test_kept_lines_are_verbatim_and_no_line_is_lost_from_the_count(lines: list[str], ranges):
    text = delete_lines(lines, ranges)
    lines_after = text.split("\n") if lines else []
    kept = [line for line in lines_after if not line.startswith("(left out:")]
    gaps = sum(int(line.split()[2]) for line in lines_after if line.startswith("(left out:"))
    assert gaps + len(kept) == sum(7 if line.startswith("(left") else 1 for line in lines)
    rest = iter(lines)
    assert all(line in rest for line in kept), "kept lines are a subsequence"
    assert [line for line in kept if line.startswith("[")] == [line for line in lines if line.startswith("[")]


def test_the_named_ranges_are_left_out():
    assert delete_lines(["a", "b", "c", "d"], [(2, 3)]) == "a\n(left out: 2 lines)\nd"
    assert delete_lines(["a", "b"], []) == "a\nb"


def test_the_summarizer_reads_numbered_lines_and_its_ranges_are_deleted():
    policy = VerbatimLines()
    view = view_of(user("go"), *work(0, 40), policy=policy)
    room = Room(policy, 4_000, "RANGES TO DELETE\n4-100\nnonsense\n")
    event = room.ask(view)
    assert event is not None
    assert (event.status, event.failure) == ("applied", "")
    assert "\n1: [user]\n2: go\n" in f"\n{room.prompts()[0]}"
    assert event.summary.startswith(f"{HEADING}\n[user]\ngo\n")
    assert "(left out:" in event.summary


@pytest.mark.parametrize("answer", ["A summary in prose.", "", "12-40"])
def test_without_ranges_the_oldest_lines_go_and_the_failure_is_logged(answer: str):
    policy = VerbatimLines()
    room = Room(policy, 4_000, answer)
    event = room.ask(view_of(user("go"), *work(0, 40), policy=policy))
    assert event is not None
    assert event.status == "applied"
    assert event.failure


def test_gaps_of_an_earlier_compaction_are_added():
    policy = VerbatimLines(keep_last=2)
    room = Room(policy, 4_000, "RANGES TO DELETE\n3-80", "RANGES TO DELETE\n1-900")
    view = view_of(user("go"), *work(0, 40), policy=policy)
    after = room.after(view, room.ask(view))
    later = grown(after, policy, *work(50, 20))
    event = room.ask(later, hook="manual")
    assert event is not None
    gaps = [int(line.split()[2]) for line in event.summary.splitlines() if line.startswith("(left out:")]
    assert sum(gaps) > 78
    assert HEADING not in event.summary.removeprefix(HEADING)
