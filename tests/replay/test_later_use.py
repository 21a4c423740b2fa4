"""Use of what a compaction evicted: repeated calls and words, beside the same counts where nothing was compacted."""

import pytest

from harness.conversation.events import Compaction, Entry, Insert, ItemId, MessageAdded, Patch, StepFinished
from harness.conversation.messages import Message, Text, ToolCall, ToolResult, assistant, system, user
from harness.conversation.tokens import Estimated, Measured, Usage
from harness.replay.later_use import BoundaryCounts, count_later_use, estimate_reading
from tests.replay.fact_ledger import run_sessions


class Log:
    """Log of a session in which each step reads a file."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.steps = 0
        self.add(MessageAdded(message=system("You are an agent."), step=0))
        self.add(MessageAdded(message=user("Read the files."), step=0))

    def add(self, event: MessageAdded | StepFinished | Compaction) -> None:
        self.entries.append(Entry(len(self.entries) + 1, event))

    def read(self, path: str, output: str, say: str = "") -> None:
        self.steps += 1
        call = ToolCall(call_id=f"c{self.steps}", name="read", arguments_json=f'{{"path": "{path}"}}')
        parts = (*((Text(text=say),) if say else ()), call)
        self.add(MessageAdded(message=Message(role="assistant", parts=parts), step=self.steps))
        result = ToolResult(call_id=call.call_id, name="read", output=output)
        self.add(MessageAdded(message=Message(role="tool", parts=(result,)), step=self.steps))
        usage = Usage(input_tokens=Measured(0), output_tokens=Measured(0))
        self.add(
            StepFinished(
                step=self.steps,
                view_tokens=Estimated(0),
                view_messages=0,
                usage=usage,
                cost_usd=0.0,
                request_digest="",
                kept_prefix_messages=0,
                kept_prefix_tokens=Estimated(0),
                calls=1,
                call_errors=0,
                model_seconds=0.0,
                tool_seconds=0.0,
            )
        )

    def compact(self, summary: str) -> None:
        messages = [entry.seq for entry in self.entries if isinstance(entry.event, MessageAdded)]
        forgotten = tuple(ItemId(seq) for seq in messages[1:])
        patch = Patch(forget=forgotten, insert=(Insert(message=user(summary), after=ItemId(1), stands_for=forgotten),))
        self.add(
            Compaction(
                round=1,
                step=self.steps + 1,
                moment="step",
                status="applied",
                reason="test",
                patch=patch,
                tokens_before=Estimated(100),
                tokens_after=Estimated(10),
                messages_before=len(messages),
                messages_after=2,
            )
        )


def count_real(log: Log) -> BoundaryCounts:
    (counts,) = [one for one in count_later_use(log.entries) if one.is_real]
    return counts


def test_repeated_calls_and_calls_on_the_same_path_are_counted():
    log = Log()
    log.read("src/first.py", "value_one = 4711\n")
    log.read("src/second.py", "value_two = 1234\n")
    log.compact("Two files were read.")
    log.read("src/first.py", "x" * 400)
    log.read("src/third.py", "")
    counts = count_real(log)
    assert (counts.repeated_calls, counts.repeated_tokens) == (1, 100)
    assert counts.same_target_calls == 1
    assert counts.evicted_tokens > 0


def test_a_word_counts_as_used_if_it_was_evicted_and_not_seen_again():
    log = Log()
    log.read("src/first.py", "port 4711, backup_host, limit 9999, other_name, kept_name")
    log.compact("The summary names kept_name.")
    log.read("src/a.py", "limit 9999", say="The port is 4711.")
    log.read("src/b.py", "", say="So 9999 it is, on backup_host, as kept_name says.")
    counts = count_real(log)
    assert counts.evicted_words == {"path": 0, "number": 2, "identifier": 2}
    assert counts.used_words == {"path": 0, "number": 1, "identifier": 1}  # 9999 was seen again, kept_name was in the summary
    assert counts.surviving_words == {"path": 0, "number": 0, "identifier": 1}


def test_words_that_the_agent_wrote_first_are_left_out():
    log = Log()
    log.read("src/first.py", "my_invention is defined", say="I call it my_invention.")
    log.compact("Nothing.")
    log.read("src/a.py", "", say="my_invention again")
    assert count_real(log).evicted_words["identifier"] == 0


def test_a_session_without_compactions_has_no_boundaries():
    log = Log()
    log.read("src/first.py", "")
    assert count_later_use(log.entries) == ()
    assert estimate_reading([()]) is None


def test_what_is_also_repeated_without_a_compaction_is_chance():
    """Each session reads the same file over and over, before and after its compaction."""
    sessions = []
    for _ in range(3):
        log = Log()
        for step in range(70):
            if step == 35:
                log.compact("Go on.")
            log.read("src/same.py", "x" * 400)
        sessions.append(count_later_use(log.entries))
    reading = estimate_reading(sessions)
    assert reading is not None
    assert reading.compactions == 3
    assert reading.shifted > 0
    assert (reading.calls, reading.tokens, reading.high_tokens) == (0, 0, 0)


def test_the_answer_before_a_compaction_is_not_counted_as_use():
    log = Log()
    log.read("src/first.py", "secret_word")
    log.read("src/second.py", "", say="secret_word")
    log.compact("Nothing.")
    log.add(MessageAdded(message=assistant("Done."), step=3))
    assert count_real(log).used_words["identifier"] == 0


@pytest.mark.slow
def test_each_use_of_a_distinctive_value_that_was_not_seen_again_is_found(tmp_path):
    """Words that are no facts are found besides."""
    [(_, agreement)] = run_sessions(tmp_path, ["flashcards"], [0])
    assert agreement.uses >= agreement.distinctive_uses > 0
    assert agreement.found_distinctive_uses == agreement.distinctive_uses
    assert 0 < agreement.right_words <= agreement.words
