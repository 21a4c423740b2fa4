"""Which messages stay: the reducer of the bounds, and how it ranks what it keeps.

Nobody is asked, and nothing is written that was not there. What stays together is kept or forgotten together: a call and all
its results are one block, every other message is one.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from harness.errors import UsageError
from harness.events import ItemId, Replace
from harness.messages import Part, ToolCall, ToolResult
from harness.plan import Plan
from harness.protocols import Need, Oracle
from harness.tokens import Budget, Counter
from harness.transcript import parse_arguments
from harness.view import Item, View

RECEIPT_CHARACTERS = 100
"""Longest first line of a result in a receipt."""


class Block(NamedTuple):
    """Items that only make sense together."""

    items: tuple[Item, ...]

    @property
    def tokens(self) -> int:
        """Of all its items."""
        return sum([item.tokens for item in self.items])


def group_blocks(items: Sequence[Item]) -> list[Block]:
    """Items in blocks, in order: tool messages stay with the message before them."""
    groups: list[list[Item]] = []
    for item in items:
        if item.message.role == "tool" and groups:
            groups[-1].append(item)
        else:
            groups.append([item])
    return [Block(tuple(one)) for one in groups]


class RankedBlock(NamedTuple):
    """A block as it would be kept."""

    rank: tuple[float, ...]
    """Lower ones are kept first."""
    items: tuple[Item, ...]
    """As they would stand in the view."""

    @property
    def tokens(self) -> int:
        """Of all its items."""
        return sum([item.tokens for item in self.items])


class Ranking(Protocol):
    """Says which blocks are kept first, and how. Pure."""

    def rank_blocks(self, view: View, candidates: Sequence[Block]) -> list[RankedBlock | None]:
        """An offer for each candidate; None = not worth keeping."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Retain:
    """Keep the best blocks that fit a share of the threshold, forget the others.

    The system message and the newest block always stay and count; if they alone fill the share, all else goes.
    """

    ranking: Ranking
    share: float
    """Of the threshold, up to which the view is filled."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        *candidates, newest = group_blocks(view.items[1:]) or [Block(())]
        room = int((budget.threshold_tokens or 0) * self.share) - newest.tokens - sum(item.tokens for item in view.items[:1])
        ranked_blocks = self.ranking.rank_blocks(view, candidates)
        kept_items: dict[ItemId, Item] = {}
        for offer in sorted((offer for offer in ranked_blocks if offer is not None), key=lambda offer: offer.rank):
            if offer.tokens <= room:
                kept_items.update((item.item_id, item) for item in offer.items)
                room -= offer.tokens
        before = [item for block in candidates for item in block.items]
        forgotten_ids = tuple(item.item_id for item in before if item.item_id not in kept_items)
        changed = [kept_items[item.item_id] for item in before if kept_items.get(item.item_id, item) != item]
        changes = tuple(Replace(item=item.item_id, message=item.message) for item in changed)
        nothing = f"{reason}, but nothing lies outside of what is kept"
        return Plan(reason=reason if forgotten_ids or changes else nothing, forget=forgotten_ids, replace=changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomRanking:
    """By lot. A block has one draw for its whole life, so at each compaction every block of the session had the same chance."""

    seed: int

    def rank_blocks(self, view: View, candidates: Sequence[Block]) -> list[RankedBlock | None]:
        """From (seed, the user's request, ids): ids alone would keep the same places in every session of an arm."""
        request = view.task.text if view.task else ""
        salt = hashlib.sha256(f"{self.seed}/{request}".encode(errors="surrogatepass")).digest()
        return [RankedBlock((_draw_rank(salt, block.items[0].item_id),), block.items) for block in candidates]


def _draw_rank(salt: bytes, item: ItemId) -> int:
    """A digest, since seeding a generator for each block costs ten times as much."""
    return int.from_bytes(hashlib.sha256(b"%b/%d/%d" % (salt, *item)).digest()[:8])


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleRanking:
    """By what is needed, as somebody knows who has seen the future: what cannot be got again first, and of that the soonest.

    Of two that are needed alike, the shorter one is kept first. Of a call or result whose content is not needed, only the
    receipt is kept: the call without its further arguments, and the first line of its result.
    """

    oracle: Oracle
    counter: Counter

    def rank_blocks(self, view: View, candidates: Sequence[Block]) -> list[RankedBlock | None]:
        """The most pressing need of the items of a block."""
        needs = dict(zip((item.item_id for item in view.items), self.oracle.predict_needs(view.messages), strict=True))
        return [self._rank_block(block, [needs[item.item_id] for item in block.items]) for block in candidates]

    def _rank_block(self, block: Block, needs: Sequence[Need | None]) -> RankedBlock | None:
        pressing = [(not need.lost_for_good, need.in_steps) for need in needs if need]
        if not pressing:
            return None
        pairs = zip(block.items, needs, strict=True)
        items = tuple(item if need and not need.receipt_only else self._reduce_to_receipt(item) for item, need in pairs)
        return RankedBlock((*min(pressing), sum(item.tokens for item in items)), items)

    def _reduce_to_receipt(self, item: Item) -> Item:
        message = replace(item.message, parts=tuple(map(shorten_part, item.message.parts)))
        return Item(item.item_id, message, self.counter.count(message)) if message != item.message else item


def shorten_part(part: Part) -> Part:
    """A part with what a receipt of its call is made from, and no more."""
    if isinstance(part, ToolResult):
        return replace(part, output=part.output.split("\n", 1)[0][:RECEIPT_CHARACTERS])
    if isinstance(part, ToolCall):
        first = next(((name, text) for name, text in parse_arguments(part).items() if isinstance(text, str)), None)
        return replace(part, arguments_json=json.dumps(dict([first]))) if first else part
    return part


@dataclass(frozen=True, slots=True)
class MissingRanking:
    """Stands where foresight has not been given yet."""

    def rank_blocks(self, view: View, candidates: Sequence[Block]) -> list[RankedBlock | None]:
        """Refuses.

        Raises:
            UsageError: always.
        """
        raise UsageError("policy 'oracle' must be told the future before it plans; see its method `with_oracle`")
