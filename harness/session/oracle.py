"""Oracle of a scripted session: predicts from the task's script what will be needed, for clairvoyant policies.

`harness.compaction` imports no tasks and `harness.models` no policies, so the two meet here.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from harness.compaction.description import name_policy
from harness.errors import UsageError
from harness.messages import Message
from harness.models.scripted.visible_state import ConversationReader, MessageReading, VisibleState
from harness.protocols import Need, Oracle, Policy
from harness.task import Fact, Script, Task
from harness.tokens import count_characters


def supply_oracle(policy: Policy, oracle: Oracle | None, task: Task | None) -> Policy:
    """Return a policy as it runs in a session: one with a method `with_oracle` is given the oracle.

    Args:
        policy: policy of the session.
        oracle: knowledge of what will be needed; None = read off the script of the task.
        task: task of the session, if it has one.

    Raises:
        UsageError: the policy needs an oracle and there is none.
    """
    with_oracle = getattr(policy, "with_oracle", None)
    if with_oracle is None:
        return policy
    oracle = oracle or build_scripted_oracle(task)
    if oracle is None:
        raise UsageError(
            f"policy {name_policy(policy)!r} must know what will be needed, and only the script of a task says so; choose a task "
            "with a script, or another policy"
        )
    informed: Policy = with_oracle(oracle)
    return informed


def build_scripted_oracle(task: Task | None) -> Oracle | None:
    """Build the oracle of a task; None without a task or a script."""
    return ScriptedOracle(task.facts, task.script) if task and task.script.steps else None


class ScriptedOracle:
    """Needs by the script: a fact is needed by the next open step that names it, evidence of a done step by every step.

    Only the newest message with a fact carries its value. Of several messages that show a step as done the shortest counts.
    Not thread-safe.
    """

    def __init__(self, facts: Sequence[Fact], script: Script) -> None:
        """Read what the scripted model reads."""
        self._facts, self._steps, self._reader = facts, script.steps, ConversationReader(facts, script)

    def predict_needs(self, messages: Sequence[Message]) -> Sequence[Need | None]:
        """See `harness.protocols.Oracle`."""
        sight, readings = self._reader.read(tuple(messages)), tuple(self._reader.read_each(tuple(messages)))
        found: list[list[Need]] = [[] for _ in messages]
        next_use = self._next_uses(sight)
        newest = {told.name: at for at, reading in enumerate(readings) for told in reading.facts}
        for fact in self._facts:
            if fact.name in newest and fact.name in next_use:
                found[newest[fact.name]].append(Need(next_use[fact.name], _is_lost_for_good(fact)))
        for at, need in self._evidence(sight, readings, _measure_blocks(messages)):
            found[at].append(need)
        return [_merge_needs(each) for each in found]

    def _next_uses(self, sight: VisibleState) -> dict[str, int]:
        """In how many steps each fact is needed next."""
        uses: dict[str, int] = {}
        for distance, index in enumerate(index for index in range(len(self._steps)) if index not in sight.done_steps):
            step = self._steps[index]
            for name in (*step.required_facts, *(name for repair in step.repairs for name in repair.required_facts)):
                uses.setdefault(name, distance)
        return uses

    def _evidence(
        self, sight: VisibleState, readings: Sequence[MessageReading], sizes: Sequence[int]
    ) -> Iterator[tuple[int, Need]]:
        """The messages by which the done steps are known to be done: receipts where there are all, else what tells it."""
        alone = [self._reader.build_state(reading) for reading in readings]
        signs = {sign: at for at, each in enumerate(alone) for sign in each.receipt_slots}
        paths = {path: at for at, each in enumerate(alone) for path in each.listed_paths}
        tellers: dict[int, int] = {}
        for at in sorted(range(len(alone)), key=lambda at: sizes[at]):
            for step in alone[at].done_steps:
                tellers.setdefault(step, at)
        for step in sight.done_steps:
            slots = [(step, slot) for slot in range(len(self._steps[step].done.receipts))]
            if slots and signs.keys() >= set(slots):
                yield from ((signs[slot], Need(0, receipt_only=True)) for slot in slots)
            elif step in tellers:
                yield tellers[step], Need(0)
            else:
                yield from ((paths[path], Need(0)) for path in self._steps[step].done.listed_paths if path in paths)


def _is_lost_for_good(fact: Fact) -> bool:
    """Whether no call brings its newest value back: none brings it back at all, or a page shows what was later corrected."""
    return fact.recover is None or (fact.is_superseded and fact.said_in != "file")


def _merge_needs(needs: Sequence[Need]) -> Need | None:
    """The needs of one message as one."""
    if not needs:
        return None
    irrecoverable_needs = [need for need in needs if need.lost_for_good]
    in_steps = min(need.in_steps for need in irrecoverable_needs or needs)
    return Need(in_steps, bool(irrecoverable_needs), all(need.receipt_only for need in needs))


def _measure_blocks(messages: Sequence[Message]) -> list[int]:
    """Characters of each message together with what must stay with it: a call with its results."""
    owners: list[int] = []
    for index, message in enumerate(messages):
        owners.append(owners[-1] if message.role == "tool" and owners else index)
    totals: dict[int, int] = {}
    for owner, message in zip(owners, messages, strict=True):
        totals[owner] = totals.get(owner, 0) + count_characters(message)
    return [totals[owner] for owner in owners]


if TYPE_CHECKING:
    _: type[Oracle] = ScriptedOracle
