"""Scripted models whose use of a prompt cache is simulated, and priced under the rule of a plan.

A scripted model reports the length of a prompt and knows no cache. The wrapped model splits each prompt as a provider's cache
would, so that hit rate, costs, alerts and savings of a simulated session come from the same places as those of a real one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from harness.conversation.events import TextDelta
from harness.conversation.messages import Message
from harness.conversation.tokens import Measured, Usage
from harness.models.scripted.summarizers import ScriptedSummarizer
from harness.models.wrapped_model import WrappedModel
from harness.prices.message_blocks import RequestMaker
from harness.prices.split import PromptSplit
from harness.prices.terms import Terms
from harness.protocols import Reply, Request, ignore

if TYPE_CHECKING:
    from harness.prices.cache import PromptCache


@dataclass(slots=True)
class SessionCache:
    """Prompt cache of one session, with the clock of the session."""

    terms: Terms
    now_seconds: float | None = None
    """Simulated time before the next step in seconds; None advances only by the duration of the model's answers."""
    requests: RequestMaker = field(default_factory=RequestMaker)
    cache: "PromptCache" = field(init=False)
    _answering_seconds: float = 0.0

    def __post_init__(self) -> None:
        from harness.prices.cache import PromptCache  # noqa: PLC0415 - loads numpy, which few sessions need

        self.cache = PromptCache(self.terms.rule, self.terms.lifetime)

    def send(self, request: Request, reply: Reply) -> Reply:
        """Return the reply to the next request of the session's agent, with the usage of the cache and its cost."""
        at_seconds = self._answering_seconds if self.now_seconds is None else self.now_seconds
        self._answering_seconds += reply.seconds
        sent = replace(
            self.requests.make(request.messages),
            at_seconds=at_seconds,
            answer_seconds=reply.seconds,
            prompt_tokens=reply.usage.prompt_tokens,
            output_tokens=reply.usage.output_tokens,
            reasoning_tokens=reply.usage.reasoning_tokens,
        )
        return price_reply(reply, self.cache.send(sent), self.terms)

    def send_beside(self, request: Request, reply: Reply) -> Reply:
        """Return the reply to a request beside those of the agent, such as a summarizer's, which reads what the cache holds."""
        prompt_tokens = reply.usage.prompt_tokens
        blocks = list(map(self.requests.make_block, request.messages))
        held_tokens = min(prompt_tokens, self.cache.count_held_tokens(blocks, prompt_tokens))
        return price_reply(reply, PromptSplit(held_tokens, 0, 0, 0, prompt_tokens - held_tokens), self.terms)


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedAgent(WrappedModel):
    """Scripted model of an agent, whose prompts pass a simulated cache."""

    session_cache: SessionCache

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        """Answer a request, with the usage and the cost that follow from the simulated cache."""
        return self.session_cache.send(request, self.model.reply(request, listen))


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedSummarizer(WrappedModel):
    """Scripted summarizer, whose prompts read from the cache of the agent what it holds of them."""

    model: ScriptedSummarizer
    session_cache: SessionCache

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        """Answer a request, with the usage and the cost that follow from the simulated cache."""
        return self.session_cache.send_beside(request, self.model.reply(request, listen))

    def count_prompt_tokens(self, messages: Sequence[Message]) -> Measured:
        """Return the number of prompt tokens that the summarizer would report for these messages."""
        return self.model.count_prompt_tokens(messages)


def price_reply(reply: Reply, split: PromptSplit, terms: Terms) -> Reply:
    """Return a reply with the usage that a provider would report for a split prompt, and with its cost.

    A provider that does not bill writes does not report them: they are plain input.
    """
    written_tokens = split.write_tokens if terms.rule.bills_writes else 0
    usage: Usage = replace(
        reply.usage,
        input_tokens=Measured(split.prompt_tokens - split.read_tokens - written_tokens),
        cache_read_tokens=Measured(split.read_tokens),
        cache_write_tokens=Measured(written_tokens),
    )
    return replace(reply, usage=usage, cost_usd=terms.price_call(split, usage.output_tokens, usage.reasoning_tokens))
