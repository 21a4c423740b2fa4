"""Tests of SWE-agent's last observations: which results become a line, one at a time and several at a time."""

import pytest

from harness.compaction.description import choose_truncation
from harness.compaction.presets.none import NoCompaction
from harness.compaction.presets.swe_agent import ComplexityTrapMask, ComplexityTrapSummary, MiniSweAgent, SweAgent
from harness.conversation.messages import ToolCall, assistant, user
from harness.conversation.view import View
from harness.errors import UsageError
from harness.protocols import ExecResult, Policy
from harness.testing.fakes import MemorySandbox
from harness.tools.session_tools import make_session_tools
from tests.compaction.conversations import Room, grown, numbers, step, view_of

LONG = "a line of output\n" * 40
STUB = "Old environment output: (40 lines omitted)"


def worked(steps: int, policy: Policy, room: Room | None = None) -> View:
    """Return a session of a number of steps, with the policy applied before each step."""
    room, view = room or Room(policy, 100_000), view_of(user("mend it"), policy=policy)
    for number in range(1, steps + 1):
        view = grown(view, policy, *step(number, LONG), seq=10 * number)
        event = room.ask(view)
        view = room.after(view, event, seq=10 * number + 5) if event else view
    return view


def masked(view: View) -> list[int]:
    """Return the numbers of the masked results, counted from 1."""
    results = [item.message.results[0].output for item in view.items if item.message.role == "tool"]
    return [number for number, output in enumerate(results, 1) if output == STUB]


@pytest.mark.parametrize(("steps", "gone"), [(5, []), (6, [1]), (9, [1, 2, 3, 4])])
def test_the_newest_five_results_stay(steps: int, gone: list[int]) -> None:
    assert masked(worked(steps, SweAgent())) == gone


@pytest.mark.parametrize(("steps", "gone"), [(10, []), (11, [1])])
def test_the_newest_ten_results_stay_in_the_study(steps: int, gone: list[int]) -> None:
    assert masked(worked(steps, ComplexityTrapMask())) == gone


@pytest.mark.parametrize(("steps", "gone"), [(7, 0), (8, 3), (10, 3), (11, 6), (13, 6), (14, 9)])
def test_polling_masks_observations_in_groups_counted_with_the_request(steps: int, gone: int) -> None:
    """Check the original formula: of k observations, with the request, the second to the (k // 3 · 3 − 5)-th are masked."""
    assert masked(worked(steps, SweAgent(polling=3))) == list(range(1, gone + 1))
    k = steps + 1
    assert gone == max(0, k // 3 * 3 - 5 - 1)


def test_calls_and_requests_stay_and_only_a_result_changes() -> None:
    policy = SweAgent()
    view = view_of(user("mend it"), *(message for number in range(6) for message in step(number, LONG)), policy=policy)
    event = Room(policy, 100_000).ask(view)
    assert event is not None
    assert [change.item.event for change in event.patch.replace] == [4]
    assert (event.patch.forget, event.patch.insert) == ((), ())


def test_results_shorter_than_the_replacement_line_are_kept() -> None:
    policy = SweAgent(keep_results=1)
    view = view_of(user("mend it"), *(message for number in range(6) for message in step(number, "ok")), policy=policy)
    event = Room(policy, 100_000).ask(view)
    assert event is not None
    assert (event.status, event.tokens_after) == ("no-op", view.tokens)


def test_keeping_no_results_is_refused() -> None:
    with pytest.raises(UsageError, match="keep_results"):
        SweAgent(keep_results=0)


CHECKPOINTS = ("21 turns in short", "21 more", "the last 21")
"""Policy for steps that are events 10 and 11, 20 and 21, ...; the checkpoint behind step n is event 10 n + 5."""


def turns_in(view: View) -> list[int]:
    return [at // 10 for at in numbers(view)[2:] if at % 10 == 0]


def test_at_31_turns_the_oldest_21_become_a_checkpoint_of_the_assistant() -> None:
    policy = ComplexityTrapSummary()
    assert turns_in(worked(30, policy)) == list(range(1, 31))
    view = worked(31, policy, Room(policy, 100_000, *CHECKPOINTS))
    assert numbers(view)[:4] == [1, 2, 315, 220]
    assert turns_in(view) == list(range(22, 32))
    assert view.items[2].message == assistant("Checkpoint of earlier turns:\n21 turns in short")


def test_checkpoints_accumulate_and_the_newest_goes_into_the_prompt_with_the_next_turns() -> None:
    policy = ComplexityTrapSummary()
    room = Room(policy, 100_000, *CHECKPOINTS)
    view = worked(73, policy, room)
    assert numbers(view)[:6] == [1, 2, 315, 525, 735, 640]
    assert turns_in(view) == list(range(64, 74))
    first, second, third = room.prompts()
    assert ("PREVIOUS SUMMARY" in first, "21 turns in short" in second) == (False, True)
    assert ("21 more" in third, "21 turns in short" in third) == (True, False)


def test_only_one_checkpoint_is_in_view_if_only_the_latest_is_kept() -> None:
    policy = ComplexityTrapSummary(latest_only=True)
    view = worked(73, policy, Room(policy, 100_000, *CHECKPOINTS))
    assert numbers(view)[:4] == [1, 2, 735, 640]


def test_the_hybrid_masks_results_between_its_checkpoints() -> None:
    policy = ComplexityTrapSummary(mask_results=10)
    assert masked(worked(12, policy)) == [1, 2]
    view = worked(40, policy, Room(policy, 100_000, *CHECKPOINTS))
    assert numbers(view)[2] == 315
    assert masked(view) == list(range(1, 10))


def test_mini_swe_agent_compacts_nothing_and_shows_both_ends_of_a_long_output() -> None:
    policy = MiniSweAgent()
    assert numbers(worked(200, policy)) == numbers(worked(200, NoCompaction()))
    size = 30_000
    result = ExecResult(exit_code=0, stdout=b"h" * size + b"t" * size, stderr=b"", stdout_bytes=2 * size, stderr_bytes=0)
    (run, *_) = make_session_tools(choose_truncation(policy), MemorySandbox(lambda _: result), None)
    output = run.run(ToolCall(call_id="x", name="execute_command", arguments_json='{"command": "x"}')).output
    assert choose_truncation(policy).keep == "ends"
    assert output.endswith("]\n" + "t" * 4_970)
    assert ("h" * 4_900 in output, "h" * 4_971 in output) == (True, False)
