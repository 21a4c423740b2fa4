"""Which stretch of a view goes, by the rules of published agents: where it ends is a place that each of them finds its own way.

Every stretch begins behind the system message and leaves calls with their results.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.compaction.cuts import Snap
from harness.compaction.moves.around import answered, said_by_user
from harness.tokens import Budget, written_characters
from harness.view import Item, View


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """All but what the user has said since the last answer."""

    def items(self, view: View, budget: Budget) -> tuple[Item, ...]:
        """See `harness.compaction.stages.Stretch`."""
        return view.items[1 : answered(view)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeSaid:
    """The first share of the characters that were sent and answered, up to the next message of the user.

    Without such a message behind that share: all of it where the last answer has no calls, else what lies before the user's
    last message.
    """

    keep_share: float
    answers: bool = False
    """Whether a place before an answer of the model will do as well."""

    def items(self, view: View, budget: Budget) -> tuple[Item, ...]:
        """See `harness.compaction.stages.Stretch`."""
        return view.items[1 : self._end(view.items)]

    def _end(self, items: Sequence[Item]) -> int:
        end = len(items)
        while end > 1 and items[end - 1].message.role != "assistant":
            end -= 1
        sizes = [written_characters(item.message) for item in items[1:end]]
        before, found = (1 - self.keep_share) * sum(sizes), 1
        gone = 0
        for index, size in enumerate(sizes, start=1):
            role = items[index].message.role
            if role == "user" or (self.answers and role == "assistant"):
                if gone >= before:
                    return index
                found = index
            gone += size
        return end if end > 1 and not items[end - 1].message.calls else found


@dataclass(frozen=True, slots=True, kw_only=True)
class UpToShare:
    """A first share of the messages, in steps more of them, until what stays is less than a share of the window.

    It ends at the last answer within that share; where nothing less will do, it is everything.
    """

    first_share: float
    step_share: float
    goal_share: float
    """Of the window, for the system message and what stays."""

    def items(self, view: View, budget: Budget) -> tuple[Item, ...]:
        """See `harness.compaction.stages.Stretch`."""
        items, goal = view.items, self.goal_share * budget.window_tokens
        answers = [index for index, item in enumerate(items) if item.message.role == "assistant" and index > 1]
        steps = 1
        while (share := self.first_share + steps * self.step_share) < 1 - 1e-9:
            end = max((index for index in answers if index <= round(share * len(items))), default=None)
            if end is not None and items[0].tokens + sum(item.tokens for item in items[end:]) < goal:
                return items[1:end]
            steps += 1
        return items[1:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """How much a view may hold after a compaction, as shares of the trigger and of the longest input."""

    input_share: float
    """Longest input, as a share of the window."""
    trigger_share: float
    long_share: float
    """Of the longest input, in its place once there are `long_answers`."""
    long_answers: int

    def tokens(self, view: View, budget: Budget) -> int:
        """The target in tokens."""
        answers = sum(item.message.role == "assistant" for item in view.items)
        if answers >= self.long_answers:
            return int(self.long_share * self.input_share * budget.window_tokens)
        return int(self.trigger_share * (budget.threshold_tokens or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeNewest:
    """What lies before the newest tokens, and before the last message of the user unless that is the first message of all.

    The newest tokens are no more than what the target leaves beside the system message. It ends at an answer or at a message
    of the user.
    """

    most_tokens: int
    target: Target

    def items(self, view: View, budget: Budget) -> tuple[Item, ...]:
        """See `harness.compaction.stages.Stretch`."""
        items = view.items
        keep = min(self.most_tokens, self.target.tokens(view, budget) - items[0].tokens)
        held, cut = 0, len(items)
        while cut > 1 and held < keep:
            cut -= 1
            held += items[cut].tokens
        typed = next((index for index in range(len(items) - 1, 0, -1) if said_by_user(view, index)), 1)
        if typed > 1:
            cut = min(cut, typed)
        return items[1 : Snap(legal="user-or-assistant").snapped(items, min(cut, len(items) - 1))]


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeTurns:
    """What lies before the last turns, as far as these fit a share of the threshold between two bounds.

    Newest first: a turn stays whole while it fits what is left; of the first that does not, the longest end that fits.
    """

    turns: int
    share: float
    least_tokens: int
    most_tokens: int

    def items(self, view: View, budget: Budget) -> tuple[Item, ...]:
        """See `harness.compaction.stages.Stretch`."""
        items, end = view.items, len(view.items)
        room = min(self.most_tokens, max(self.least_tokens, int(self.share * (budget.threshold_tokens or 0))))
        asked = [index for index in range(1, end) if said_by_user(view, index) and not _heads_summary(view, index)]
        before = end
        for start in asked[::-1][: self.turns]:
            size = sum(item.tokens for item in items[start:before])
            if size > room:
                return items[1 : _fitting(items, start + 1, before, room)]
            before, room = start, room - size
        return items[1:before]


def _heads_summary(view: View, index: int) -> bool:
    """Whether a message stands right before a summary, as the question that it answers."""
    return index + 1 < len(view.items) and view.items[index + 1].item_id in view.summaries


def _fitting(items: Sequence[Item], start: int, end: int, room: int) -> int:
    """The first place from which all up to `end` fits, never at a result; `end` if there is none."""
    held, found = 0, end
    for index in range(end - 1, start - 1, -1):
        held += items[index].tokens
        if held > room:
            break
        if items[index].message.role != "tool":
            found = index
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeTurnsOrShare:
    """What lies before the last turns; where nothing does, all but the last share of the messages since the last summary."""

    turns: int
    share: float
    least_messages: int
    """Of that share."""

    def items(self, view: View, budget: Budget) -> tuple[Item, ...]:
        """See `harness.compaction.stages.Stretch`."""
        items = view.items
        first = 1 + max((index for index, item in enumerate(items) if item.item_id in view.summaries), default=0)
        asked = [index for index in range(first, len(items)) if said_by_user(view, index)]
        cut = asked[-self.turns] if len(asked) >= self.turns else first
        if cut <= first:
            new = len(items) - first
            cut = Snap().snapped(items, len(items) - max(self.least_messages, int(self.share * new)))
        return items[1:cut] if cut > first else ()
