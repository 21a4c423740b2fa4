"""A compaction without a model: the user's words and the newest messages stay, a notice lists what was done in between.

The notice stands below the user's last message. It is made of lines, so that the next one can go on where it ended.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from harness import transcript
from harness.compaction.formats.checkpoint import READERS, WRITERS
from harness.compaction.moves.around import said_by_user
from harness.compaction.moves.stretches import Target
from harness.events import Replace
from harness.messages import Text, ToolCall
from harness.plan import Plan
from harness.tokens import Budget
from harness.view import Item, View

HEADING = "[Older messages were left out. What was done in them:]"
RUNNERS = frozenset({"execute_command"})
LABELS = {**dict.fromkeys(READERS, "read"), **dict.fromkeys(WRITERS, "edited"), **dict.fromkeys(RUNNERS, "ran")}
SAID = "said: "
COMMAND_CHARACTERS = 100
SAID_CHARACTERS = 500
"""Of one text in the notice; the source gives none, ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """Keeps every message of the user, the last plain answer to each but the last, and the newest messages that fit a target."""

    target: Target
    texts: int
    """Answers that the notice repeats, newest ones."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        asked = [index for index in range(1, len(view.items)) if said_by_user(view, index)]
        survivors = {0, *asked, *(index for index in range(1, len(view.items)) if view.items[index].item_id in view.summaries)}
        for start, end in pairwise(asked):
            survivors |= set(_last_plain(view.items, start, end))
        room = self.target.tokens(view, budget) - sum(view.items[index].tokens for index in survivors)
        begin = _newest_fitting(view.items, (asked or [0])[-1] + 1, room)
        gone = [item for index, item in enumerate(view.items) if index not in survivors and index < begin]
        if not gone:
            return Plan(reason=f"{reason}, but everything that may go fits the target")
        anchor = view.items[asked[-1] if asked else max(survivors)]
        change = () if anchor is view.items[0] else (self._noticed(anchor, gone),)
        return Plan(reason=reason, forget=tuple(item.item_id for item in gone), replace=change)

    def _noticed(self, anchor: Item, gone: Sequence[Item]) -> Replace:
        """The message with its notice, a former one brought up to date."""
        said, _, former = anchor.message.text.partition(f"\n\n{HEADING}\n")
        lines = [*former.splitlines(), *_lines(gone)]
        answers = [line for line in lines if line.startswith(SAID)]
        done = dict.fromkeys(line for line in lines if not line.startswith(SAID))
        text = "\n".join((f"{said}\n\n{HEADING}", *done, *answers[-self.texts :]))
        others = tuple(part for part in anchor.message.parts if not isinstance(part, Text))
        return Replace(item=anchor.item_id, message=replace(anchor.message, parts=(Text(text=text), *others)))


def _last_plain(items: Sequence[Item], start: int, end: int) -> tuple[int, ...]:
    """Index of the last answer without calls between two places, if there is one."""
    plain = [index for index in range(start, end) if items[index].message.role == "assistant" and not items[index].message.calls]
    return tuple(plain[-1:])


def _newest_fitting(items: Sequence[Item], start: int, room: int) -> int:
    """The first answer from which on all fits; the number of items if there is none."""
    found = len(items)
    for index in range(len(items) - 1, start - 1, -1):
        room -= items[index].tokens
        if room < 0:
            break
        if items[index].message.role == "assistant":
            found = index
    return found


def _lines(gone: Iterable[Item]) -> Iterable[str]:
    """What a notice says of messages: files and commands by their calls, texts by their first line."""
    for item in gone:
        for call in item.message.calls:
            if label := LABELS.get(call.name):
                yield f"{label}: {_about(call)}"
        if item.message.role == "assistant" and (text := " ".join(item.message.text.split())):
            yield f"{SAID}{text[:SAID_CHARACTERS]}"


def _about(call: ToolCall) -> str:
    """The path, with the lines if the call names them, or the beginning of the command."""
    key, given = transcript.key_argument(call), transcript.arguments(call)
    if call.name in RUNNERS:
        return key[:COMMAND_CHARACTERS]
    return f"{key}{_range(given)}"


def _range(given: Mapping[str, object]) -> str:
    first, last = given.get("start_line"), given.get("end_line")
    return f":{first}-{last}" if isinstance(first, int) and isinstance(last, int) else ""
