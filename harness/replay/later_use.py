"""Later use of evicted content: calls that an agent repeated after a compaction, and words that were no longer in view.

`later_use_of_evicted` is the share of the distinctive words that a compaction evicted which the agent used later, in the
arguments of a call or in its text, before it saw them again; words that the agent wrote first are left out. The command
`python -m tests.replay.fact_ledger` compares it with the known uses of facts in scripted sessions.

Neither is harm or loss. An agent also repeats calls and uses old words without any compaction, so both are counted at shifted
boundaries of the same session, too, at which nothing was compacted; that count is the chance level.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from harness.conversation.events import Compaction, Entry, Event, ItemId, MessageAdded
from harness.conversation.messages import Message, ToolCall
from harness.conversation.tokens import QuarterOfCharacters
from harness.conversation.view import View, drop_rolled_back, fold, fold_entries
from harness.inspection.distinctive_words import MAX_WORDS_PER_KIND, WORD_KINDS, Survival, WordFinder, count_survival, split_views

CALLS_AFTER = 20
"""Number of calls after a boundary among which repeated ones are counted."""
MIN_CALLS_BEFORE = 5
"""Smallest number of calls before a shifted boundary."""
SHIFT_CALLS = 20
"""Number of calls between two shifted boundaries, and smallest number between one and a compaction."""
BOOTSTRAP_DRAWS = 1_000
KINDS = WORD_KINDS
"""Kinds of distinctive words whose later use is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryCounts:
    """Calls and words of an agent after one boundary.

    At a compaction the boundary is real. At a shifted boundary nothing was compacted, and the same part of the conversation
    counts as if it had been evicted.
    """

    is_real: bool
    step: int
    """Number of the first step behind the boundary."""
    evicted_tokens: int
    repeated_calls: int
    """Calls among the next `CALLS_AFTER` that repeat an evicted call, with equal arguments."""
    repeated_tokens: int
    """Estimated tokens of their results."""
    same_target_calls: int
    """Calls that name the same first path or command as an evicted call, those with equal arguments included."""
    same_target_tokens: int
    evicted_words: Mapping[str, int]
    """Number of distinctive words that stand nowhere in the view behind the boundary, by kind."""
    used_words: Mapping[str, int]
    """Number of these that the agent used later, before it saw them again, by kind."""
    surviving_words: Mapping[str, int]
    """Number of distinctive words of the evicted messages that still stand in the view, as in a summary, by kind."""
    survival: tuple[Survival, ...] = ()
    """Words and phrases of the evicted messages in the view behind the compaction and behind stand-ins of it, by kind; empty at
    a shifted boundary."""

    @property
    def later_use_of_evicted(self) -> float | None:
        """Share from 0 to 1 of the evicted words that the agent used later; None if none was evicted."""
        evicted = sum(self.evicted_words.values())
        return sum(self.used_words.values()) / evicted if evicted else None


class LaterUse(NamedTuple):
    """Use of a distinctive word that stood nowhere in the view.

    Args:
        kind: Kind of the word, such as `path`.
        word: The word.
        step: Number of the step in which the agent used it.
    """

    kind: str
    word: str
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    """Message of a session, with the words and calls in it."""

    message: Message
    words: Mapping[str, frozenset[str]]
    tokens: int
    calls: tuple[tuple[str, tuple[str, str], str], ...]
    """Id, digest and target of each call."""


def count_later_use(entries: Sequence[Entry]) -> tuple[BoundaryCounts, ...]:
    """Return what the agent did after each of its compactions, and after shifted boundaries of the same session.

    Args:
        entries: Log of a session with the compactions of its agent.
    """
    log = drop_rolled_back(entries)
    if not any(_removes_messages(entry.event) for entry in log):
        return ()
    session = _Session(log)
    return (*session.count_compactions(), *session.count_shifted())


def find_later_uses(entries: Sequence[Entry], step: int) -> tuple[LaterUse, ...]:
    """Return what the agent used later of all that stood before a step.

    The result is that of a policy which kept nothing there but the system message.

    Args:
        entries: Log of a session without compactions.
        step: Number of the first step behind the boundary.
    """
    session = _Session(drop_rolled_back(entries))
    answers = [place for place, turn in enumerate(session.turns) if turn.message.role == "assistant"]
    place = answers[step - 1] if step <= len(answers) else len(session.turns)
    evicted = [index for index in range(place) if session.turns[index].message.role != "system"]
    lost, _ = session.sort_words(evicted, ())
    numbers = {index: number for number, index in enumerate(answers, 1)}
    return tuple(
        LaterUse(kind, word, numbers[index])
        for kind, words in lost.items()
        for word, index in session.find_used(kind, words, place).items()
    )


def _removes_messages(event: Event) -> bool:
    return isinstance(event, Compaction) and event.status == "applied" and bool(event.patch.forget)


class _Session:
    def __init__(self, entries: Sequence[Entry]) -> None:
        counter, view = QuarterOfCharacters(), View()
        self.finder = WordFinder()
        self.turns: list[_Turn] = []
        self.cuts: list[tuple[int, Compaction, View, View]] = []
        """Number of messages before each compaction, with the views before and after it."""
        self.place_of_item: dict[ItemId, int] = {}
        unfolded: list[Entry] = []  # the view is needed at compactions only
        for entry in entries:
            unfolded.append(entry)
            match entry.event:
                case MessageAdded(message=message):
                    self.place_of_item[ItemId(entry.seq)] = len(self.turns)
                    words, calls = self.finder.find_words(message), message.calls if message.role == "assistant" else ()
                    digests = tuple([(call.call_id, _digest(call), _find_target(call)) for call in calls])
                    self.turns.append(_Turn(message=message, words=words, tokens=counter.count(message), calls=digests))
                case Compaction() as event:
                    before = fold_entries(view, unfolded[:-1], counter)
                    view, unfolded = fold(before, entry, counter), []
                    if _removes_messages(event):
                        self.cuts.append((len(self.turns), event, before, view))
        self.results = _pair_results(self.turns)
        self._followed: list[int] = []
        """Messages whose words `_own` (those that the agent wrote first) and `_found` (the others) hold."""
        self._own: dict[str, set[str]] = {kind: set() for kind in KINDS}
        self._found: dict[str, dict[str, None]] = {kind: {} for kind in KINDS}

    def count_compactions(self) -> Iterator[BoundaryCounts]:
        for place, event, before, after in self.cuts:
            kept = {item.item_id for item in after.items}
            gone = [item.item_id for item in before.items if item.item_id not in kept]
            evicted = [self.place_of_item[item] for item in gone if item in self.place_of_item]
            seen = [self.finder.find_words(item.message) for item in after.items]
            removed, left, written = ([item.message for item in items] for items in split_views(before, after))
            counts = self._count(place, evicted, seen, is_real=True, step=event.step)
            yield replace(counts, survival=count_survival(removed, left, written, self.finder))

    def count_shifted(self) -> Iterator[BoundaryCounts]:
        """Yield the counts at boundaries where nothing was compacted, evenly spaced, away from compactions."""
        if not self.cuts:
            return
        answers = [place for place, turn in enumerate(self.turns) if turn.message.role == "assistant"]
        real = [sum(answer < place for answer in answers) for place, *_ in self.cuts]
        starts = [0, *real]
        for number in range(MIN_CALLS_BEFORE, len(answers) - CALLS_AFTER, SHIFT_CALLS):
            start = max(begin for begin in starts if begin <= number)
            is_near = any(number - SHIFT_CALLS < one < number + CALLS_AFTER for one in real)
            if is_near or number - start < MIN_CALLS_BEFORE:
                continue
            first = 0 if not start else answers[start]
            place = answers[number]
            evicted = [index for index in range(first, place) if self.turns[index].message.role != "system"]
            yield self._count(place, evicted, (), is_real=False, step=number + 1)

    def _count(
        self, place: int, evicted: Sequence[int], seen: Iterable[Mapping[str, frozenset[str]]], *, is_real: bool, step: int
    ) -> BoundaryCounts:
        gone = set(evicted)
        calls = {digest for index in evicted for _, digest, _ in self.turns[index].calls}
        targets = {target for index in evicted for *_, target in self.turns[index].calls if target}
        repeated = same = repeated_tokens = same_tokens = followed = 0
        for index in range(place, len(self.turns)):
            if followed >= CALLS_AFTER:
                break
            for call_id, digest, target in self.turns[index].calls:
                followed += 1
                tokens = self.results.get(call_id, 0)
                is_equal = digest in calls
                repeated, repeated_tokens = repeated + is_equal, repeated_tokens + tokens * is_equal
                is_same = is_equal or target in targets
                same, same_tokens = same + is_same, same_tokens + tokens * is_same
        lost, surviving = self.sort_words(evicted, seen)
        return BoundaryCounts(
            is_real=is_real,
            step=step,
            evicted_tokens=sum(self.turns[index].tokens for index in gone),
            repeated_calls=repeated,
            repeated_tokens=repeated_tokens,
            same_target_calls=same,
            same_target_tokens=same_tokens,
            evicted_words={kind: len(words) for kind, words in lost.items()},
            used_words={kind: len(self.find_used(kind, words, place)) for kind, words in lost.items()},
            surviving_words=surviving,
        )

    def sort_words(
        self, evicted: Sequence[int], seen: Iterable[Mapping[str, frozenset[str]]]
    ) -> tuple[dict[str, set[str]], dict[str, int]]:
        """Return the evicted words that are in view no more, and the number of those that still are, by kind.

        Words that the agent wrote first are left out: it may have invented them, and may write them again.
        """
        in_view: dict[str, set[str]] = {kind: set() for kind in KINDS}
        for words in seen:
            for kind in KINDS:
                in_view[kind] |= words[kind]
        lost, surviving = {}, {}
        for kind, found in self._follow(evicted).items():
            followed = list(found)[-MAX_WORDS_PER_KIND:]
            lost[kind] = {word for word in followed if word not in in_view[kind]}
            surviving[kind] = len(followed) - len(lost[kind])
        return lost, surviving

    def _follow(self, evicted: Sequence[int]) -> Mapping[str, dict[str, None]]:
        """Return the words of some messages that the agent did not write first, by kind, those mentioned last at the end."""
        known = len(self._followed)
        if list(evicted[:known]) != self._followed:
            known, self._own, self._found = 0, {kind: set() for kind in KINDS}, {kind: {} for kind in KINDS}
        self._followed = list(evicted)  # of shifted boundaries, most continue the one before
        for turn in (self.turns[index] for index in evicted[known:]):
            for kind, words in self.finder.sort_words(turn.message).items():
                own, found = self._own[kind], self._found[kind]
                if turn.message.role == "assistant":
                    own |= turn.words[kind] - found.keys()
                    continue
                for word in words:
                    if word not in own:
                        found.pop(word, None)
                        found[word] = None
        return self._found

    def find_used(self, kind: str, words: set[str], place: int) -> dict[str, int]:
        """Return the words that the agent used behind a place before it saw them again, with the places of use."""
        waiting, used = set(words), dict[str, int]()
        for index, turn in enumerate(self.turns[place:], place):
            if not waiting:
                break
            found = turn.words[kind] & waiting
            if turn.message.role == "assistant":
                used |= dict.fromkeys(found, index)
            waiting -= found
        return used


def _pair_results(turns: Sequence[_Turn]) -> dict[str, int]:
    """Return the estimated tokens of the result of each call, by the id of the call."""
    return {result.call_id: len(result.output) // 4 for turn in turns for result in turn.message.results}


def _digest(call: ToolCall) -> tuple[str, str]:
    return call.name, call.arguments_json


def _find_target(call: ToolCall) -> str:
    """Return the first path in the arguments of a call; empty if there is none."""
    match = KINDS["path"].search(_digest(call)[1])
    return match[0] if match else ""


class ExtraReading(NamedTuple):
    """Tokens and calls read again after compactions, less those read again without any.

    Args:
        compactions: Number of compactions.
        shifted: Number of shifted boundaries.
        calls: Extra calls with equal arguments per compaction.
        tokens: Their extra tokens per compaction.
        target_calls: Extra calls on the same path per compaction.
        target_tokens: Their extra tokens per compaction.
        low_tokens: Lower end of the band: that of the 95 % interval of `tokens`, and at least 0.
        high_tokens: Upper end of the band: that of the 95 % interval of `target_tokens`.
    """

    compactions: int
    shifted: int
    calls: float
    tokens: float
    target_calls: float
    target_tokens: float
    low_tokens: float
    high_tokens: float


def estimate_reading(sessions: Sequence[Sequence[BoundaryCounts]], seed: int = 0) -> ExtraReading | None:
    """Return what was read again after the compactions of some sessions, with a band by a bootstrap over sessions.

    Args:
        sessions: Counts of each session.
        seed: Seed of the bootstrap.

    Returns:
        ExtraReading; None if fewer than two sessions have a compaction, or there is no shifted boundary.
    """
    rows = [
        [
            [float(one.is_real), one.repeated_calls, one.repeated_tokens, one.same_target_calls, one.same_target_tokens]
            for one in session
        ]
        for session in sessions
        if session
    ]
    tables = [np.array(table) for table in rows]
    if sum(bool(table[:, 0].any()) for table in tables) < 2 or not any((table[:, 0] == 0).any() for table in tables):
        return None
    sums = np.array([_sum_kinds(table) for table in tables])
    whole = _subtract_chance(sums.sum(axis=0))
    rng = np.random.default_rng(seed)
    drawn = np.array([_subtract_chance(sums[rng.integers(0, len(sums), len(sums))].sum(axis=0)) for _ in range(BOOTSTRAP_DRAWS)])
    low, high = np.nanpercentile(drawn, (2.5, 97.5), axis=0)
    total = sums.sum(axis=0)
    return ExtraReading(
        compactions=int(total[0, 0]),
        shifted=int(total[1, 0]),
        calls=float(whole[0]),
        tokens=float(whole[1]),
        target_calls=float(whole[2]),
        target_tokens=float(whole[3]),
        low_tokens=max(0.0, float(low[1])),
        high_tokens=max(0.0, float(high[3])),
    )


def _sum_kinds(table: "np.ndarray") -> "np.ndarray":
    """Return number and sums of the real boundaries, then those of the shifted ones."""
    return np.array([[len(part), *part[:, 1:].sum(axis=0)] for part in (table[table[:, 0] == 1], table[table[:, 0] == 0])])


def _subtract_chance(sums: "np.ndarray") -> "np.ndarray":
    """Return the means at real boundaries less those at shifted ones; NaN without either."""
    if not sums[0, 0] or not sums[1, 0]:
        return np.full(4, np.nan)
    difference: np.ndarray = sums[0, 1:] / sums[0, 0] - sums[1, 1:] / sums[1, 0]
    return difference
