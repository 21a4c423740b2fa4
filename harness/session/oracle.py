"""Prediction of the messages that the agent will need (an oracle), made from a task's script for upper-bound policies."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from harness.compaction.description import name_policy
from harness.conversation.messages import Message
from harness.conversation.tokens import count_characters
from harness.errors import UsageError
from harness.models.scripted.profiles import EXACT, Reader
from harness.models.scripted.visible_state import ConversationReader, MessageReading, VisibleState
from harness.protocols import Need, Oracle, Policy
from harness.task import Fact, Script, Task


def supply_oracle(policy: Policy, oracle: Oracle | None, task: Task | None, reader: Reader = EXACT) -> Policy:
    """Return a compaction policy together with its oracle, which is a prediction of what the agent will need.

    Only a policy with a method `with_oracle` uses an oracle; any other policy is returned unchanged.

    Args:
        policy: Compaction policy of the session.
        oracle: Prediction of what the agent will need; None derives the prediction from the script of the task.
        task: Task of the session; None for a session without a task.
        reader: Rule by which the scripted agent finds values in the texts that it sees.

    Raises:
        UsageError: The policy needs an oracle and there is none.
    """
    with_oracle = getattr(policy, "with_oracle", None)
    if with_oracle is None:
        return policy
    oracle = oracle or build_scripted_oracle(task, reader)
    if oracle is None:
        raise UsageError(
            f"policy {name_policy(policy)!r} needs a forecast of the messages that the session will use; only a task with a "
            "script provides one, so choose such a task, or another policy"
        )
    informed: Policy = with_oracle(oracle)
    return informed


def build_scripted_oracle(task: Task | None, reader: Reader = EXACT) -> Oracle | None:
    """Return a prediction of what the agent will need (an oracle); None without a task or a script."""
    return ScriptedOracle(task.facts, task.script, reader) if task and task.script.steps else None


class ScriptedOracle:
    """Oracle that predicts from the script of a task which messages the agent will need. Not thread-safe.

    The script lists the steps of the scripted agent. A message is needed for one of two reasons:

    - It is the newest message that states a fact. The agent needs it at the next unfinished step that uses the fact.
    - It shows that a step is done which the agent would otherwise repeat: the furthest one (the frontier), one beyond it, or one
      before it that another message shows as failed or missing. The agent has to see this in every later step. If several
      messages show it, the shortest is needed.
    """

    def __init__(self, facts: Sequence[Fact], script: Script, reader: Reader = EXACT) -> None:
        """Create an oracle for a task.

        Args:
            facts: Facts of the task.
            script: Script of the task, which says what each step of the scripted agent needs.
            reader: Rule by which the scripted agent finds values in the texts that it sees.
        """
        self._facts, self._steps, self._reader = facts, script.steps, ConversationReader(facts, script, reader)

    def predict_needs(self, messages: Sequence[Message]) -> Sequence[Need | None]:
        """Return for each message in how many steps the agent will need it next; None for never."""
        state, readings = self._reader.read(tuple(messages)), tuple(self._reader.read_each(tuple(messages)))
        needs: list[list[Need]] = [[] for _ in messages]
        next_use = self._compute_next_uses(state)
        newest = {fact.name: index for index, reading in enumerate(readings) for fact in reading.facts}
        for fact in self._facts:
            if fact.name in newest and fact.name in next_use:
                needs[newest[fact.name]].append(Need(next_use[fact.name], _is_lost_for_good(fact)))
        for index, need in self._iter_evidence(state, readings, _measure_blocks(messages)):
            needs[index].append(need)
        return [_merge_needs(item_needs) for item_needs in needs]

    def _compute_next_uses(self, state: VisibleState) -> dict[str, int]:
        """Return the number of steps until the agent next needs each fact, by name of the fact."""
        uses: dict[str, int] = {}
        for distance, index in enumerate(state.list_open_steps(self._steps)):
            step = self._steps[index]
            for name in (*step.required_facts, *(name for repair in step.repairs for name in repair.required_facts)):
                uses.setdefault(name, distance)
        return uses

    def _iter_evidence(
        self, state: VisibleState, readings: Sequence[MessageReading], sizes: Sequence[int]
    ) -> Iterator[tuple[int, Need]]:
        """Yield the index of each message that has to show that a step is done, and when it is needed.

        If the agent still sees the results of all tool calls of a step, these results show it as done; else the shortest message
        with other evidence does.
        """
        states = [self._reader.build_state(reading) for reading in readings]  # what each message shows without the others
        message_by_receipt = {receipt: index for index, item_state in enumerate(states) for receipt in item_state.receipt_slots}
        message_by_path = {path: index for index, item_state in enumerate(states) for path in item_state.listed_paths}
        message_by_step: dict[int, int] = {}
        for index in sorted(range(len(states)), key=sizes.__getitem__):
            for step in states[index].done_steps:
                message_by_step.setdefault(step, index)
        undone_steps = {step for reading in readings for step in self._reader.list_missing_steps(reading)}.union(state.failures)
        for step in state.done_steps:
            if step < state.frontier and step not in undone_steps:
                continue
            slots = [(step, slot) for slot in range(len(self._steps[step].done.receipts))]
            if slots and message_by_receipt.keys() >= set(slots):
                yield from ((message_by_receipt[slot], Need(0, receipt_only=True)) for slot in slots)
            elif step in message_by_step:
                yield message_by_step[step], Need(0)
            else:
                listed = self._steps[step].done.listed_paths
                yield from ((message_by_path[path], Need(0)) for path in listed if path in message_by_path)


def _is_lost_for_good(fact: Fact) -> bool:
    """Return whether no tool call can show the newest value of a fact again."""
    return fact.recover is None or (fact.is_superseded and fact.said_in != "file")


def _merge_needs(needs: Sequence[Need]) -> Need | None:
    """Combine several predictions of when one message is needed; None if there are none."""
    if not needs:
        return None
    irrecoverable_needs = [need for need in needs if need.lost_for_good]
    in_steps = min(need.in_steps for need in irrecoverable_needs or needs)
    return Need(in_steps, bool(irrecoverable_needs), all(need.receipt_only for need in needs))


def _measure_blocks(messages: Sequence[Message]) -> list[int]:
    """Return for each message the number of characters in its group, which has to be kept or removed together.

    Such a group is, for example, a message with tool calls and the messages with their results.
    """
    owners: list[int] = []
    for index, message in enumerate(messages):
        owners.append(owners[-1] if message.role == "tool" and owners else index)
    totals: dict[int, int] = {}
    for owner, message in zip(owners, messages, strict=True):
        totals[owner] = totals.get(owner, 0) + count_characters(message)
    return [totals[owner] for owner in owners]


if TYPE_CHECKING:
    _: type[Oracle] = ScriptedOracle
