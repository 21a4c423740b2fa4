"""Models beside that of the agent, watched for errors that say nothing about the policy under study.

A policy may handle a failed summary, and an agent the failure of a sub-agent. If nobody answers at a provider's address any more,
or the account was closed, that would be counted as a result of the policy. A trial watches these models and ends instead.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from harness.conversation.events import TextDelta
from harness.conversation.messages import Message
from harness.conversation.tokens import Measured
from harness.errors import ModelError
from harness.models.failures import is_unavailable
from harness.models.wrapped_model import WrappedModel
from harness.protocols import Model, PromptTokenCounter, Reply, Request, ignore


@dataclass(slots=True)
class ProviderWatch:
    """Note of the first error with which a watched model of a session became unavailable."""

    failure: ModelError | None = None
    """First such error; None while all watched models are available."""

    @contextmanager
    def note_failure(self) -> Iterator[None]:
        """Note an error that is raised within the context, if it says that the model is unavailable."""
        try:
            yield
        except ModelError as error:
            if self.failure is None and is_unavailable(error):
                self.failure = error
            raise


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedModel(WrappedModel):
    """Model that notes the error with which it became unavailable."""

    watch: ProviderWatch

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        """Answer a request."""
        with self.watch.note_failure():
            return self.model.reply(request, listen)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedCountingModel(WatchedModel):
    """Watched model that counts prompt tokens with its own tokenizer."""

    def count_prompt_tokens(self, messages: Sequence[Message]) -> Measured:
        """Return the number of prompt tokens that the model would report for these messages."""
        assert isinstance(self.model, PromptTokenCounter)
        with self.watch.note_failure():
            return self.model.count_prompt_tokens(messages)


def watch_model(model: Model, watch: ProviderWatch) -> Model:
    """Return a model that notes the error with which it becomes unavailable."""
    watched = WatchedCountingModel if isinstance(model, PromptTokenCounter) else WatchedModel
    return watched(model=model, watch=watch)
