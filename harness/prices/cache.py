"""Simulated prompt cache: how many tokens of each request a provider would read from its cache, write to it, or neither.

The simulation follows a price rule exactly and knows nothing of a provider's machines, so its reads are an upper bound: a real
cache also forgets when it is full, and may route a request to a machine that does not know its beginning. Where documentation is
silent, it does what recorded sessions show: a lifetime begins at the end of an answer, and agents mark the ends of instructions,
prompt and former prompt, so that nothing but the instructions is found behind an edit further back than the look-back.
"""

import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from harness.prices.requests import Block, Request
from harness.prices.rules import PriceRule
from harness.prices.split import PromptSplit

_Numbers = NDArray[np.int64]
_Flags = NDArray[np.bool_]


def split_prompts(requests: Sequence[Request], rule: PriceRule, lifetime: str | None = None) -> list[PromptSplit]:
    """Return how a cache under a rule splits the prompt of each request of a session.

    A request without a time is taken to follow the request before it at once.

    Args:
        requests: Requests of one session in the order in which they were sent.
        rule: Rule of the cache.
        lifetime: Name of one of the rule's lifetimes. Default: the rule's first one.

    Raises:
        ValueError: A request keeps more blocks than the request before it has.
        UnknownName: The rule has no such lifetime.
    """
    cache = PromptCache(rule, lifetime)
    return [cache.send(request) for request in requests]


def scale_tokens(estimates: _Numbers, total_tokens: int) -> _Numbers:
    """Return sizes in proportion to estimated ones with a given sum, rounded by the method of the largest remainder."""
    whole = int(estimates.sum())
    if whole == total_tokens or not len(estimates):
        return estimates
    if not whole:
        estimates, whole = np.ones_like(estimates), len(estimates)
    exact = estimates * (total_tokens / whole)
    sizes: _Numbers = np.floor(exact).astype(np.int64)
    missing = total_tokens - int(sizes.sum())
    sizes[np.argsort(sizes - exact, kind="stable")[:missing]] += 1
    return sizes


def _fit_sizes(sizes: _Numbers, is_sized: _Flags, sized_blocks: int, fixed_blocks: int, total_tokens: int) -> _Numbers:
    """Return sizes of blocks with a given sum, in which those that are known stay and the others share what is left.

    If nothing is left for the others, the agent dropped something of what it had sent before. Then only the beginning stays, or
    only the fixed blocks.
    """
    places = np.arange(len(sizes))
    for stays in (is_sized, places < sized_blocks, places < min(sized_blocks, fixed_blocks)):
        left_tokens = total_tokens - int(sizes[stays].sum())
        if left_tokens > 0 and not stays.all():
            fitted = sizes.copy()
            fitted[~stays] = scale_tokens(sizes[~stays], left_tokens)
            return fitted
    return scale_tokens(sizes, total_tokens)


def _list_estimates(blocks: Sequence[Block]) -> _Numbers:
    return np.array([block.tokens for block in blocks], np.int64)


class _Paths:
    """Numbers for the beginnings of prompts: equal beginnings have equal numbers, whatever request they stand in."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, Hashable], int] = {}
        self.digests: list[Hashable] = []
        """Digest of the last block of each beginning."""

    def extend(self, parent: int, blocks: Sequence[Block]) -> list[int]:
        """Return the numbers of the beginnings that end with each of the blocks behind a beginning; -1 is the empty one."""
        path = []
        for block in blocks:
            key = parent, block.digest
            parent = self._numbers.setdefault(key, len(self.digests))
            if parent == len(self.digests):
                self.digests.append(block.digest)
            path.append(parent)
        return path

    def find(self, blocks: Sequence[Block]) -> list[int]:
        """Return the numbers of the beginnings of a prompt that are known."""
        path, parent = list[int](), -1
        for block in blocks:
            known = self._numbers.get((parent, block.digest))
            if known is None:
                break
            path.append(parent := known)
        return path


class PromptCache:
    """Cache of a provider, as one session finds it, which takes the requests of the session one by one."""

    def __init__(self, rule: PriceRule, lifetime: str | None = None) -> None:
        """Create an empty cache.

        Args:
            rule: Rule of the cache.
            lifetime: Name of one of the rule's lifetimes. Default: the rule's first one.

        Raises:
            UnknownName: The rule has no such lifetime.
        """
        self._rule, self._lifetime_seconds = rule, rule.find_lifetime_seconds(lifetime)
        self._paths, self._now = _Paths(), 0.0
        self._requests = 0
        self._path, self._estimates, self._sizes = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
        self._sized_blocks = 0  # blocks at the beginning of the last prompt whose sizes follow from a reported length
        self._known_tokens: dict[Hashable, int] = {}  # sizes of all blocks that follow from a reported length, by digest
        self._answer_tokens = 0
        self._reasoning_place: int | None = None  # number of blocks before the first reasoning since the last message of the user
        self._used_at = np.empty(0)  # seconds at which the answer ended that last used each beginning, or wrote it
        self._is_entry = np.empty(0, np.bool_)  # whether the cache can find the beginning: ends of marked blocks
        self._sent_digests: set[Hashable] = set()

    def send(self, request: Request) -> PromptSplit:
        """Split the prompt of the next request, and change the cache as the request does.

        A request without a time is taken to follow the request before it at once.

        Raises:
            ValueError: The request keeps more blocks than the request before it has.
        """
        self._requests += 1
        kept, before_blocks = request.kept_blocks, len(self._path)
        if not 0 <= kept <= before_blocks:
            raise ValueError(f"request {self._requests} keeps {kept} blocks, but the request before it has {before_blocks}")
        limit = self._follow_turn(request)
        new = self._paths.extend(int(self._path[kept - 1]) if kept else -1, request.blocks)
        self._path = np.concatenate([self._path[:kept], np.array(new, np.int64)])
        self._estimates = np.concatenate([self._estimates[:kept], _list_estimates(request.blocks)])
        self._size_blocks(request, min(kept, limit))
        self._now = self._now if request.at_seconds is None else request.at_seconds
        ends = np.cumsum(self._sizes)
        split = PromptSplit(0, 0, 0, 0, int(self._sizes.sum()))
        if self._rule.has_cache:
            self._grow(len(self._paths.digests))
            marks = self._place_marks(ends, request.fixed_blocks, before_blocks if kept == before_blocks else 0)
            if len(marks):
                hit = self._find_hit(self._path[:limit], ends[:limit], marks)
                continues = hit == kept == before_blocks
                read_tokens = self._floor(self._count_held(ends, hit, request.blocks if continues else ()))
                split = self._use(ends, marks, hit, read_tokens, self._now + request.answer_seconds)
        self._sent_digests.update(block.digest for block in request.blocks)
        self._answer_tokens = request.output_tokens
        if self._reasoning_place is None and request.reasoning_tokens:
            self._reasoning_place = len(self._path)
        return split

    def count_held_tokens(self, blocks: Sequence[Block], prompt_tokens: int) -> int:
        """Return how many tokens at the beginning of another prompt the cache could be read for now; nothing changes.

        Args:
            blocks: Blocks of the prompt, such as that of a summarizer which continues the session's own prompt.
            prompt_tokens: Number of tokens of the whole prompt, from which new blocks get their sizes.
        """
        path = np.array(self._paths.find(blocks), np.int64)
        if not len(path) or not self._rule.has_cache:
            return 0
        common = min(len(path), len(self._path))
        differs = np.nonzero(path[:common] != self._path[:common])[0]
        same = int(differs[0]) if len(differs) else common
        sizes = np.concatenate([self._sizes[:same], _list_estimates(blocks[same:])])
        sized_blocks = min(same, self._sized_blocks)
        ends = np.cumsum(_fit_sizes(sizes, np.arange(len(sizes)) < sized_blocks, sized_blocks, 0, prompt_tokens))
        places = self._find_live(path)
        places = places[ends[places - 1] >= self._rule.least_prefix_tokens]
        if not len(places):
            return 0
        hit = int(places[-1])
        return self._floor(self._count_held(ends, hit, blocks[hit:] if hit == same == len(self._path) else ()))

    def _follow_turn(self, request: Request) -> int:
        """Return up to how many blocks the cache may hold the beginning of a prompt.

        A message of the user begins a turn, for which a rule may drop the reasoning since the one before it from the prompt.
        """
        kept, place = request.kept_blocks, self._reasoning_place
        begins_turn = any(block.kind == "user" for block in request.blocks)
        if begins_turn or (place is not None and place > kept):
            self._reasoning_place = None
        if begins_turn and place is not None and self._rule.drops_reasoning:
            self._answer_tokens = 0
            return place
        return kept + len(request.blocks)

    def _size_blocks(self, request: Request, same: int) -> None:
        """Find the sizes of the blocks of a prompt that begins with as many blocks of the prompt before."""
        sizes, sized = np.concatenate([self._sizes[:same], self._estimates[same:]]), min(same, self._sized_blocks)
        is_sized = np.arange(len(sizes)) < sized
        for place, block in enumerate(request.blocks, request.kept_blocks):
            if block.digest in self._known_tokens:
                sizes[place], is_sized[place] = self._known_tokens[block.digest], True
        if request.prompt_tokens is not None:
            before, sizes = sizes, _fit_sizes(sizes, is_sized, sized, request.fixed_blocks, request.prompt_tokens)
            changed = np.nonzero(~is_sized | (before != sizes))[0].tolist()
            digests = self._paths.digests
            self._known_tokens |= {digests[self._path[place]]: int(sizes[place]) for place in changed}
            sized = len(sizes)
        self._sizes, self._sized_blocks = sizes, sized

    def _count_held(self, ends: _Numbers, hit: int, following: Sequence[Block]) -> int:
        """Return how many tokens the cache holds of a prompt.

        Args:
            ends: Tokens up to the end of each block.
            hit: Number of blocks of the prompt that the cache holds.
            following: Blocks behind them, if these are the whole prompt before.
        """
        held_tokens = int(ends[hit - 1]) if hit else 0
        if hit and following and following[0].kind == "assistant" and self._rule.caches_answers:
            held_tokens += min(self._answer_tokens, int(ends[-1]) - held_tokens)
        return held_tokens

    def _use(self, ends: _Numbers, marks: _Numbers, hit: int, read_tokens: int, ended_seconds: float) -> PromptSplit:
        """Read and write the beginnings of the prompt, and return its split."""
        path, written = self._path, int(marks[-1])
        used_at = self._used_at[path]
        has_expired = (used_at > -math.inf) & (self._now - used_at > self._lifetime_seconds)
        tokens = {"new": 0, "rewarmed": 0, "edited": 0}
        for position in range(int(np.searchsorted(ends, read_tokens, side="right")), written):
            is_sent = self._paths.digests[path[position]] in self._sent_digests
            kind = "new" if position < hit or not is_sent else "rewarmed" if has_expired[position] else "edited"
            tokens[kind] += min(int(self._sizes[position]), int(ends[position]) - read_tokens)
        self._used_at[path[0 if self._rule.refreshes else hit : written]] = ended_seconds
        self._is_entry[path[marks - 1]] = True
        return PromptSplit(read_tokens, tokens["new"], tokens["rewarmed"], tokens["edited"], int(ends[-1] - ends[written - 1]))

    def _grow(self, count: int) -> None:
        missing = count - len(self._used_at)
        if missing > 0:
            spare = max(missing, len(self._used_at))  # doubled, so that growing costs little
            self._used_at = np.concatenate([self._used_at, np.full(spare, -math.inf)])
            self._is_entry = np.concatenate([self._is_entry, np.zeros(spare, np.bool_)])

    def _place_marks(self, ends: _Numbers, fixed_blocks: int, before_blocks: int) -> _Numbers:
        """Return after how many blocks the prompt is marked for the cache, in ascending order.

        Args:
            ends: Tokens up to the end of each block.
            fixed_blocks: Number of blocks that all requests of the session share.
            before_blocks: Number of blocks of the prompt before, if this one continues it; otherwise 0.
        """
        long_enough = int(np.searchsorted(ends, self._rule.least_prefix_tokens)) + 1
        if long_enough > len(ends):
            return np.empty(0, np.int64)
        if self._rule.marks is None:
            return np.arange(long_enough, len(ends) + 1)
        # An agent marks the ends of the prompt, of what never changes, and of the prompt before, as far as the rule allows.
        places = [len(ends), *(place for place in (fixed_blocks, before_blocks) if place)][: self._rule.marks]
        return np.array(sorted({place for place in places if place >= long_enough}), np.int64)

    def _find_hit(self, path: _Numbers, ends: _Numbers, marks: _Numbers) -> int:
        """Return how many blocks at the beginning of a prompt the cache holds and finds."""
        places = self._find_live(path)
        if self._rule.look_back_blocks is not None:
            nearest_marks = marks[np.minimum(np.searchsorted(marks, places), len(marks) - 1)]
            places = places[(nearest_marks >= places) & (nearest_marks - places < self._rule.look_back_blocks)]
        places = places[ends[places - 1] >= self._rule.least_prefix_tokens]
        return int(places[-1]) if len(places) else 0

    def _find_live(self, path: _Numbers) -> _Numbers:
        """Return after how many blocks of a path the cache holds a beginning, in ascending order."""
        is_live = self._is_entry[path] & (self._now - self._used_at[path] <= self._lifetime_seconds)
        places: _Numbers = np.nonzero(is_live)[0] + 1
        return places

    def _floor(self, tokens: int) -> int:
        return tokens - tokens % self._rule.granularity_tokens
