"""Three policies without summaries to compare others with: they retain nothing, random messages, or the messages needed later.

All three policies are triggered like `keep-last` and use the same budget, so they can be compared with that policy and with each
other.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, Protocol

from harness.compaction.conditions import plan_under
from harness.compaction.cuts import LastMessages
from harness.compaction.pipeline import NonNegative, Pipeline, Share, ThresholdPreset
from harness.compaction.stages import Block, Forget, Middle, group_blocks
from harness.compaction.triggers import Measure, select_calibration
from harness.conversation.events import Hook, ItemId, Replace
from harness.conversation.messages import Part, ToolCall, ToolResult
from harness.conversation.plan import CompactionPlan
from harness.conversation.tokens import Budget, Counter, Usage, Window
from harness.conversation.transcript import parse_arguments
from harness.conversation.view import Item, View
from harness.errors import UsageError
from harness.protocols import Need, Oracle

RECEIPT_CHARACTERS = 100
"""Maximum number of characters of a tool output's first line that are kept when a call and its result are shortened."""


class RankedBlock(NamedTuple):
    """Messages that stay together, such as a call with its results, and their rank for being retained."""

    rank: tuple[float, ...]
    """Sort key of the block among the blocks that could be retained; blocks with lower ranks are retained first."""
    block: Block
    """Messages of the block as they would be in the view, possibly shortened."""


class Ranking(Protocol):
    """Rule that ranks blocks of messages (such as a call with its results); the best-ranked are retained first."""

    def rank_blocks(self, view: View, candidates: Sequence[Block]) -> list[RankedBlock | None]:
        """Return each block of messages with its rank, in the given order; None for a block not worth retaining."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Retain:
    """Part of a policy that retains the messages with the best ranks, up to a share of the threshold, and evicts all others.

    Messages are ranked in blocks, such as a call with its results. The system message and the newest block are always retained.
    If they alone fill the share, everything else is evicted.
    """

    ranking: Ranking
    """Rule that ranks the blocks of messages. Blocks are retained in this order until the allowed tokens are used up."""
    share: float
    """Maximum size of the retained messages, as a share of the number of tokens that triggers compaction."""
    measure: Measure = field(repr=False)
    """Way in which the size of the retained messages is measured."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that retains the best-ranked messages up to the allowed tokens and evicts all others."""
        *candidates, newest = group_blocks(view.items[1:]) or [Block(())]
        room = select_calibration(self.measure, view).invert(int((budget.threshold_tokens or 0) * self.share))
        room -= newest.tokens + sum(item.tokens for item in view.items[:1])
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
        nothing = f"{reason}, but everything in view is retained"
        return CompactionPlan(reason=reason if forgotten_ids or changes else nothing, forget=forgotten_ids, replace=changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomRanking:
    """Random order in which blocks of messages are retained.

    A block is a message with the results of its calls. A block keeps its random rank for the whole session. With a new draw in
    each compaction, older blocks would be evicted more often.
    """

    seed: int
    """Seed of the random order in which blocks of messages are retained."""

    def rank_blocks(self, view: View, candidates: Sequence[Block]) -> list[RankedBlock | None]:
        """Return the blocks of messages with random ranks.

        The ranks depend on the seed, the user's request and the message ids. With the ids alone, every session of an experiment
        would have the same ranks.
        """
        request = view.task.text if view.task else ""
        salt = hashlib.sha256(f"{self.seed}/{request}".encode(errors="surrogatepass")).digest()
        return [RankedBlock((_draw_rank(salt, block.items[0].item_id),), block) for block in candidates]


def _draw_rank(salt: bytes, item: ItemId) -> int:
    """Return a pseudo-random rank of a message; a random generator for each message would take ten times as long."""
    return int.from_bytes(hashlib.sha256(b"%b/%d/%d" % (salt, *item)).digest()[:8])


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleRanking:
    """Ranking by future need: messages that cannot be obtained again come first, then those that are needed soonest.

    Of two blocks (messages with the results of their calls) that are needed equally, the shorter one is retained first. If a
    later step needs to know only that a tool was called, the call is retained with its first argument and the first line of its
    result.
    """

    oracle: Oracle
    """Predictor of which messages of the session will be needed again, and when."""
    counter: Counter
    """Token counter with which the shortened messages are measured."""

    def rank_blocks(self, view: View, candidates: Sequence[Block]) -> list[RankedBlock | None]:
        """Return each block of messages with the rank of its most urgent message; None if it is never needed again."""
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
        return item._replace(message=message, tokens=self.counter.count(message)) if message != item.message else item


def shorten_part(part: Part) -> Part:
    """Shorten a tool call to its first argument, or a tool result to its first line; leave other parts unchanged."""
    if isinstance(part, ToolResult):
        return replace(part, output=part.output.split("\n", 1)[0][:RECEIPT_CHARACTERS])
    if isinstance(part, ToolCall):
        first = next(((name, text) for name, text in parse_arguments(part).items() if isinstance(text, str)), None)
        return replace(part, arguments_json=json.dumps(dict([first]))) if first else part
    return part


@dataclass(frozen=True, slots=True)
class MissingRanking:
    """Placeholder for a ranking of messages, used while the policy has no oracle (a predictor of future needs)."""

    def rank_blocks(self, view: View, candidates: Sequence[Block]) -> list[RankedBlock | None]:
        """Raise UsageError, because messages cannot be ranked without a predictor of future needs.

        Raises:
            UsageError: Always, because no oracle was given.
        """
        raise UsageError(
            "policy 'oracle' has no oracle, which predicts the needed messages; add one with its method `with_oracle`"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DropAll(ThresholdPreset):
    """Policy that evicts everything but the system message and the newest message: the lower bound of what a policy achieves.

    Choose it as the lower bound of a comparison; a policy that is not better than this one retains nothing useful.

    Source: this project, as the lower bound of every comparison.

    The newest message is retained because providers refuse an empty conversation. If the newest message is a tool result, its
    call and all results of that call's message are retained too. The user's request is evicted like everything else.

    Example:
        Compare a policy with the lower and the upper bound:

        >>> from harness import Experiment, Trial
        >>> from harness.policies import DropAll
        >>> base = Trial(task="flashcards", policy=DropAll(), window_tokens=32_768)
        >>> experiment = Experiment(name="bounds", base=base, axes={"policy": ["drop-all", "keep-last", "oracle"]})
        >>> len(experiment.grid)
        3
    """

    kind: Literal["drop-all"] = "drop-all"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's only rule, which evicts all messages but the system message and the newest one with its call."""
        return self.build_pipeline(Forget(middle=Middle(tail=LastMessages(count=1))))


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomRetention(ThresholdPreset):
    """Policy that retains the system message, the newest message, and randomly chosen messages up to a share of the threshold.

    Choose it as the baseline for policies that select messages; they should do better than a random choice of equal size.

    Source: this project, as a baseline for policies that select messages.

    Attributes:
        keep_share: Maximum size of the retained messages, as a share of the tokens that trigger compaction, above 0 and at most
            1. Default: `0.5`.
        seed: Seed of the random choice of retained messages, at least 0. Default: `0`.

    Example:
        Repeat the random choice with three seeds, to see how much the result depends on it:

        >>> from harness import Experiment, Trial
        >>> from harness.policies import RandomRetention
        >>> base = Trial(task="flashcards", policy=RandomRetention(), window_tokens=32_768)
        >>> experiment = Experiment(name="chance", base=base, axes={"policy.seed": [0, 1, 2]})
        >>> len(experiment.grid)
        3
    """

    keep_share: Share = 0.5
    seed: NonNegative = 0
    kind: Literal["random"] = "random"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's only rule, which retains randomly chosen messages up to a share of the threshold."""
        return self.build_pipeline(Retain(ranking=RandomRanking(seed=self.seed), share=self.keep_share, measure=self.measure))


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleRetention(ThresholdPreset):
    """Policy that retains the messages which the task's script will still need: the upper bound of what retention achieves.

    Choose it with a scripted agent, as the upper bound of a comparison; it knows which messages the task still needs.

    Source: the optimal replacement algorithm of Belady (1966), applied to messages.

    This policy removes messages and writes no summary. The summarizer `scripted/oracle`, by contrast, writes the best possible
    summary for a policy that summarizes, such as `keep-last`.

    Messages whose content cannot be obtained again are retained first, then all others. Both are retained in the order in which
    steps will need them, until a share of the threshold is filled. Messages that are never needed again are evicted even if there
    is room. If the task only needs to know that a tool was called, the call is retained with the first line of its result,
    because whole messages would soon fill any budget.

    The policy is an upper bound only if all messages that one step needs fit into the window. If they exceed the share, the agent
    reads some of them again: in a window of 32,768 tokens, a step of the task `spec-api` needs seven readings of its
    specification at once (15,000 tokens), and the agent makes seven calls more than without compaction.

    The policy needs an oracle (see `with_oracle`), which predicts the needs of a session. The runner provides one for every task
    that has a script.

    Attributes:
        keep_share: Maximum size of the retained messages, as a share of the tokens that trigger compaction, above 0 and at most
            1. Default: `0.5`.

    Example:
        Measure how much must be retained for the task to succeed:

        >>> from harness import Experiment, Trial
        >>> from harness.policies import OracleRetention
        >>> base = Trial(task="flashcards", policy=OracleRetention(), window_tokens=32_768)
        >>> experiment = Experiment(name="retained", base=base, axes={"policy.keep_share": [0.2, 0.5, 0.8]})
        >>> len(experiment.grid)
        3
    """

    keep_share: Share = 0.5
    kind: Literal["oracle"] = "oracle"

    @property
    def pipeline(self) -> Pipeline:
        """Rules used before the policy has an oracle; they give the threshold but cannot plan."""
        return self.build_ranked_pipeline(MissingRanking())

    def build_ranked_pipeline(self, ranking: Ranking) -> Pipeline:
        """Return a pipeline with one rule, which retains messages in the order of the given ranking."""
        return self.build_pipeline(Retain(ranking=ranking, share=self.keep_share, measure=self.measure))

    def with_oracle(self, oracle: Oracle) -> "OraclePolicy":
        """Return a copy of this policy with an oracle, which predicts the messages that one session will need again."""
        return OraclePolicy(self, oracle)


class OraclePolicy:
    """Policy bound to one session, with the oracle that predicts which messages this session will need again."""

    def __init__(self, policy: OracleRetention, oracle: Oracle) -> None:
        self._policy, self._pipeline = policy, policy.build_ranked_pipeline(OracleRanking(oracle=oracle, counter=policy.counter))
        self.kind, self.clip_characters, self.truncation = policy.kind, policy.clip_characters, policy.truncation
        self.least_saved_share = policy.least_saved_share

    def __repr__(self) -> str:
        return f"{self._policy!r}.with_oracle(…)"

    @property
    def counter(self) -> Counter:
        """Token counter that the policy uses to estimate the size of messages."""
        return self._policy.counter

    def budget(self, window: Window) -> Budget:
        """Return the token budget (such as the trigger threshold) of a context window; it does not depend on the oracle."""
        return self._policy.budget(window)

    def plan(self, view: View, budget: Budget, usage: Usage | None, hook: Hook = "step") -> CompactionPlan | None:
        """Return a plan that retains the messages that the oracle expects to be needed; None if nothing is triggered."""
        return plan_under(self._policy.when, self._pipeline.plan)(view, budget, usage, hook)

    @property
    def reads_time(self) -> bool:
        """Whether the policy decides by the time between steps, which the log of its session must then have."""
        return self._policy.reads_time
