"""Simulated prompt cache: how many tokens of each request a provider would read from its cache, write to it, or neither.

The simulation follows a price rule exactly and knows nothing of a provider's machines, so its reads are an upper bound: a real
cache also forgets when it is full, and may route a request to a machine that does not know its beginning.
"""

import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from harness.prices.requests import Block, Request
from harness.prices.rules import PriceRule
from harness.prices.split import PromptSplit

_Numbers = NDArray[np.int64]


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
        self._path, self._estimates = np.empty(0, np.int64), np.empty(0, np.int64)
        self._used_at = np.empty(0)  # seconds at which each beginning was last written, or read if that refreshes it
        self._is_entry = np.empty(0, np.bool_)  # whether the cache can find the beginning: ends of marked blocks
        self._sent_digests: set[Hashable] = set()

    def send(self, request: Request) -> PromptSplit:
        """Split the prompt of the next request, and change the cache as the request does.

        A request without a time is taken to follow the request before it at once.

        Raises:
            ValueError: The request keeps more blocks than the request before it has.
        """
        self._requests += 1
        kept = request.kept_blocks
        if not 0 <= kept <= len(self._path):
            raise ValueError(f"request {self._requests} keeps {kept} blocks, but the request before it has {len(self._path)}")
        paths, now = self._paths, self._now if request.at_seconds is None else request.at_seconds
        new = paths.extend(int(self._path[kept - 1]) if kept else -1, request.blocks)
        estimates = np.array([block.tokens for block in request.blocks], np.int64)
        self._path = path = np.concatenate([self._path[:kept], np.array(new, np.int64)])
        self._estimates = sizes = np.concatenate([self._estimates[:kept], estimates])
        self._now = now
        if request.prompt_tokens is not None:
            sizes = scale_tokens(sizes, request.prompt_tokens)
        if not self._rule.has_cache:
            return PromptSplit(0, 0, 0, 0, int(sizes.sum()))
        self._grow(len(paths.digests))
        ends = np.cumsum(sizes)
        marks = self._place_marks(ends, path, request.fixed_blocks)
        if not len(marks):
            self._sent_digests.update(paths.digests[node] for node in path)
            return PromptSplit(0, 0, 0, 0, int(sizes.sum()))
        hit = self._find_hit(path, ends, marks, now)
        written = int(marks[-1])
        read_tokens = self._floor(int(ends[hit - 1])) if hit else 0
        tokens = {"new": int(ends[hit - 1]) - read_tokens if hit else 0, "rewarmed": 0, "edited": 0}
        used_at = self._used_at[path]
        has_expired = (used_at > -math.inf) & (now - used_at > self._lifetime_seconds)
        for position in range(hit, written):
            digest = paths.digests[path[position]]
            kind = "rewarmed" if has_expired[position] else "edited" if digest in self._sent_digests else "new"
            tokens[kind] += int(sizes[position])
        if self._rule.refreshes:
            self._used_at[path[:hit]] = now
        self._used_at[path[hit:written]] = now
        self._is_entry[path[marks - 1]] = True
        self._sent_digests.update(paths.digests[node] for node in path[hit:])
        return PromptSplit(read_tokens, tokens["new"], tokens["rewarmed"], tokens["edited"], int(ends[-1] - ends[written - 1]))

    def count_held_tokens(self, blocks: Sequence[Block], prompt_tokens: int) -> int:
        """Return how many tokens at the beginning of another prompt the cache could be read for now; nothing changes.

        Args:
            blocks: Blocks of the prompt, such as that of a summarizer which continues the session's own prompt.
            prompt_tokens: Number of tokens of the whole prompt, to which the sizes of the blocks are scaled.
        """
        path = np.array(self._paths.find(blocks), np.int64)
        if not len(path) or not self._rule.has_cache:
            return 0
        ends = np.cumsum(scale_tokens(np.array([block.tokens for block in blocks], np.int64), prompt_tokens))[: len(path)]
        is_live = self._is_entry[path] & (self._now - self._used_at[path] <= self._lifetime_seconds)
        held_tokens = ends[is_live & (ends >= self._rule.least_prefix_tokens)]
        return self._floor(int(held_tokens[-1])) if len(held_tokens) else 0

    def _grow(self, count: int) -> None:
        missing = count - len(self._used_at)
        if missing > 0:
            spare = max(missing, len(self._used_at))  # doubled, so that growing costs little
            self._used_at = np.concatenate([self._used_at, np.full(spare, -math.inf)])
            self._is_entry = np.concatenate([self._is_entry, np.zeros(spare, np.bool_)])

    def _place_marks(self, ends: _Numbers, path: _Numbers, fixed_blocks: int) -> _Numbers:
        """Return after how many blocks the prompt is marked for the cache, in ascending order."""
        long_enough = int(np.searchsorted(ends, self._rule.least_prefix_tokens)) + 1
        if long_enough > len(ends):
            return np.empty(0, np.int64)
        if self._rule.marks is None:
            return np.arange(long_enough, len(ends) + 1)
        # An agent marks the end of what never changes and the end of the prompt, and renews the newest marks of earlier requests.
        places = {len(ends)} | ({fixed_blocks} if fixed_blocks else set())
        earlier = np.nonzero(self._is_entry[path])[0] + 1
        for place in reversed(earlier.tolist()):
            if len(places) >= self._rule.marks:
                break
            places.add(place)
        return np.array(sorted(place for place in places if place >= long_enough), np.int64)

    def _find_hit(self, path: _Numbers, ends: _Numbers, marks: _Numbers, now: float) -> int:
        """Return how many blocks at the beginning of a prompt the cache holds."""
        is_live = self._is_entry[path] & (now - self._used_at[path] <= self._lifetime_seconds)
        places = np.nonzero(is_live)[0] + 1
        if self._rule.look_back_blocks is not None:
            nearest_marks = marks[np.minimum(np.searchsorted(marks, places), len(marks) - 1)]
            places = places[(nearest_marks >= places) & (nearest_marks - places < self._rule.look_back_blocks)]
        places = places[ends[places - 1] >= self._rule.least_prefix_tokens]
        return int(places[-1]) if len(places) else 0

    def _floor(self, tokens: int) -> int:
        return tokens - tokens % self._rule.granularity_tokens
