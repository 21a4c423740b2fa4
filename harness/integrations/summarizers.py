"""Summarizers for message lists: a model by its name, a model object, or a function of the caller."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import Any, TypeAlias

from harness.compaction.description import find_summarizer, inspect_abilities, name_policy
from harness.conversation.events import TextDelta
from harness.conversation.messages import assistant
from harness.conversation.shapes.openai_chat import OpenAIChat
from harness.conversation.tokens import Measured, Usage, Window
from harness.errors import HarnessError, ProviderFailed, UsageError
from harness.models.factory import SAME_MODEL, SCRIPTED_WINDOW_TOKENS, open_summarizer
from harness.protocols import Model, Policy, Reply, Request, ignore

WriteSummary: TypeAlias = Callable[[list[dict[str, Any]]], str | Coroutine[Any, Any, str]]
"""Function that answers the messages of a prompt, in the shape of OpenAI's chat completions, with the text of a summary."""
SummarizerChoice: TypeAlias = Model | str | WriteSummary | None


class FunctionSummarizer:
    """Model that answers with the result of a function of the caller.

    A function that raises an error counts as a failed request, so the policy's fallback applies. A coroutine function runs in the
    event loop that awaits the compaction.
    """

    name = "function"
    window = Window(tokens=0, source="unknown")

    def __init__(self, write_summary: WriteSummary) -> None:
        """Create a summarizer from a function."""
        self._write_summary = write_summary
        self.name = f"function {getattr(write_summary, '__name__', type(write_summary).__name__)}"
        self.loop: asyncio.AbstractEventLoop | None = None

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        """Return the text that the function writes for a prompt; usage and cost are unknown.

        Raises:
            ProviderFailed: The function raised an error.
            UsageError: The function returned no text, or is a coroutine function and no event loop awaits the compaction.
        """
        start_seconds = perf_counter()
        prompt = [dict(raw) for message in request.messages for raw in OpenAIChat().write(message)]
        try:
            answer = self._write_summary(prompt)
            if inspect.iscoroutine(answer):
                answer = self._await(answer)
        except HarnessError:
            raise
        except Exception as error:
            raise ProviderFailed(self.name, None, f"it raised {type(error).__name__}: {error}") from error
        if not isinstance(answer, str):
            raise UsageError(f"summarizer: {self.name} must return the text of the summary (got {answer!r:.80})")
        usage = Usage(input_tokens=Measured(0), output_tokens=Measured(0))
        return Reply(message=assistant(answer), usage=usage, seconds=perf_counter() - start_seconds)

    def _await(self, answer: Coroutine[Any, Any, str]) -> str:
        if self.loop is None:
            answer.close()
            raise UsageError(
                f"summarizer: {self.name} is a coroutine function; await acompact(...) instead of calling compact(...)"
            )
        return asyncio.run_coroutine_threadsafe(answer, self.loop).result()


class _AbsentAgent:
    """Stand-in for the agent's model, which runs elsewhere; only its name and window are read."""

    name = ""
    window = Window(tokens=SCRIPTED_WINDOW_TOKENS, source="unknown")

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        """Raise an error, because the agent runs elsewhere."""
        raise UsageError("the agent's model runs outside of this project")


def choose_summarizer(choice: SummarizerChoice, policy: Policy) -> Model | None:
    """Return the model that writes the summaries of a policy; None for a policy that requests none.

    Args:
        choice: Name of a model, a model object, or a function from the messages of a prompt to a text. None opens the model that
            the policy names.
        policy: Compaction policy.

    Raises:
        UsageError: The policy requests summaries from the agent's own model, which runs elsewhere, and there is no choice.
        UnknownName: There is no model with this name.
    """
    if choice is None or isinstance(choice, str):
        name = choice or find_summarizer(policy)
        if name is None or (choice is None and not inspect_abilities(policy).can_summarize):
            return None
        if name == SAME_MODEL:
            raise UsageError(
                f"summarizer: policy {name_policy(policy)!r} requests summaries; pass a model's name such as "
                "'openai/gpt-5-mini', a function from prompt messages to a text, or 'scripted/extractive', which needs no model"
            )
        return open_summarizer(name, agent=_AbsentAgent(), task=None, seed=0, window_tokens=None)
    if hasattr(choice, "reply") and hasattr(choice, "window"):
        return choice  # type: ignore[return-value]
    if callable(choice):
        return FunctionSummarizer(choice)
    raise UsageError(f"summarizer: must be a model, the name of a model, or a function (got {choice!r:.80})")
