"""Bounds of what any policy can do without writing a word: keep nothing, keep what the lot says, keep what will be needed.

All three act when `keep-last` does and fill the same budget, so that they can be compared with it and with each other.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol

from harness.compaction.cuts import LastMessages
from harness.compaction.pipeline import NonNegative, Pipeline, Share, ThresholdPreset
from harness.compaction.stages import Block, Forget, Middle, group_blocks
from harness.errors import UsageError
from harness.events import Hook, ItemId, Replace
from harness.messages import Part, ToolCall, ToolResult
from harness.plan import Plan
from harness.protocols import Need, Oracle
from harness.tokens import Budget, Counter, Usage, Window
from harness.transcript import parse_arguments
from harness.view import Item, View

RECEIPT_CHARACTERS = 100
"""Longest first line of a result in a receipt."""


class RankedBlock(NamedTuple):
    """A block as it would be kept."""

    rank: tuple[float, ...]
    """Lower ones are kept first."""
    block: Block
    """The items as they would stand in the view."""


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
            if offer.block.tokens <= room:
                kept_items.update((item.item_id, item) for item in offer.block.items)
                room -= offer.block.tokens
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
        return [RankedBlock((_draw_rank(salt, block.items[0].item_id),), block) for block in candidates]


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
        kept = Block(tuple(item if need and not need.receipt_only else self._reduce_to_receipt(item) for item, need in pairs))
        return RankedBlock((*min(pressing), kept.tokens), kept)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DropAll(ThresholdPreset):
    """Everything goes but the system message and the newest message: the lower bound.

    The newest message must stay, since no provider answers a conversation that is empty; if it is a tool result, the call that
    it answers stays too, with all results of that call's message. The request goes like everything else.
    """

    kind: Literal["drop-all"] = "drop-all"

    @property
    def pipeline(self) -> Pipeline:
        """Forget all but the last message, its pair left whole."""
        return self.build_pipeline(Forget(middle=Middle(tail=LastMessages(count=1))))


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomRetention(ThresholdPreset):
    """Keeps messages drawn by lot, whatever they say, up to a share of the threshold; system and newest message always stay.

    Attributes:
        keep_share: Share of the threshold up to which the view is filled, above 0 and at most 1. Default: `0.5`.
        seed: Of the lots. Default: `0`.
    """

    keep_share: Share = 0.5
    seed: NonNegative = 0
    kind: Literal["random"] = "random"

    @property
    def pipeline(self) -> Pipeline:
        """Retain what is drawn."""
        return self.build_pipeline(Retain(ranking=RandomRanking(seed=self.seed), share=self.keep_share))


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleRetention(ThresholdPreset):
    """Keeps the messages that will be needed, known from the task's script: the upper bound of keeping messages.

    First those that hold something that cannot be got again, then the others, each by when they are needed next, up to a
    share of the threshold; what is never needed again goes even where there is room. Where it only counts that something was
    done, the receipt of the call stays: whole messages that show it would soon fill any budget. Source: RESEARCH 5.6, after
    Belady 1966.
    It bounds only where what one step needs fits the share in whole messages. `spec-api` has a step that needs seven readings of
    its specification at once, 15,000 tokens of them, and a later one that needs more than the 21,768 that the reserves leave of
    a window of 32,768: there it fetches one and loses another, for ever. In 49,152 tokens it succeeds.
    It needs to be told the future by `with_oracle`; the experiment does that for tasks that have a script.

    Attributes:
        keep_share: Share of the threshold up to which the view is filled, above 0 and at most 1. Default: `0.5`.
    """

    keep_share: Share = 0.5
    kind: Literal["oracle"] = "oracle"

    @property
    def pipeline(self) -> Pipeline:
        """Without foresight it can divide a window but not plan."""
        return self.build_ranked_pipeline(MissingRanking())

    def build_ranked_pipeline(self, ranking: Ranking) -> Pipeline:
        """The pipeline with a ranking."""
        return self.build_pipeline(Retain(ranking=ranking, share=self.keep_share))

    def with_oracle(self, oracle: Oracle) -> "OraclePolicy":
        """The same policy for one session whose future is known."""
        return OraclePolicy(self, oracle)


class OraclePolicy:
    """An oracle that knows the future of one session. See `harness.protocols.Policy`."""

    def __init__(self, policy: OracleRetention, oracle: Oracle) -> None:
        """Join the two."""
        self._policy, self._pipeline = policy, policy.build_ranked_pipeline(OracleRanking(oracle=oracle, counter=policy.counter))
        self.kind, self.clip_characters = policy.kind, policy.clip_characters

    def __repr__(self) -> str:
        return f"{self._policy!r}.with_oracle(…)"

    @property
    def counter(self) -> Counter:
        """See `harness.protocols.Policy`."""
        return self._policy.counter

    def budget(self, window: Window) -> Budget:
        """See `harness.protocols.Policy`."""
        return self._policy.budget(window)

    def plan(self, view: View, budget: Budget, usage: Usage | None, hook: Hook = "step") -> Plan | None:
        """See `harness.protocols.Policy`."""
        return self._pipeline.plan(view, budget, usage, hook)
