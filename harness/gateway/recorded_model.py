"""Model of an external agent: it applies a policy to each request, records the conversation, and asks the model of a trial.

The agent sends its whole history with each request, in whatever protocol the endpoint serves. Which conversation a request
continues, and what goes to the model, is decided by `SessionRecorder`, as in the gateway. Unlike the gateway's proxy, this model
can send a request again: a prompt that the model refuses as too long is compacted at once, as in this project's own loop.
"""

import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

from harness.agent.cancellation import Cancellation
from harness.agent.loop import MAX_EMERGENCY_COMPACTIONS, Stop
from harness.conversation.events import TextDelta
from harness.conversation.messages import sanitize_message
from harness.conversation.tokens import Window
from harness.errors import CompactionError, ContextOverflow, ModelError, RequestRefused, UsageError, format_count
from harness.gateway.recorder import SessionRecorder
from harness.models.failures import is_unavailable
from harness.models.openai_format import decode_messages, encode_messages
from harness.models.watched_model import ProviderWatch
from harness.protocols import Model, Reply, Request, ignore


class RecordedModel:
    """Model that records the conversations of an external agent and compacts what it asks another model. Thread-safe.

    Args:
        model: Model that answers.
        recorder: Recorder of the sessions, with the policy.
        max_calls: Number of answers after which the agent is stopped.
        stop: Function that ends the agent, called once; it must not wait for the agent.
        cancellation: Request to stop the session, which is looked at before each answer. Default: `None`.
        watch: Watch over the summarizer; the agent is stopped if the summarizer becomes unavailable. Default: `None`.
    """

    def __init__(
        self,
        model: Model,
        recorder: SessionRecorder,
        *,
        max_calls: int,
        stop: Callable[[], None],
        cancellation: Cancellation | None = None,
        watch: ProviderWatch | None = None,
    ) -> None:
        self._model, self._recorder, self._max_calls, self._stop = model, recorder, max_calls, stop
        self._cancellation, self._watch = cancellation, watch or ProviderWatch()
        self._numbers, self._lock, self._answers = count(1), threading.Lock(), 0
        self.stopped: Stop | None = None
        """Reason why the agent was stopped; None if it was not."""
        self.error: Exception | None = None
        """Error of this project that stopped the agent, such as an illegal plan of the policy; None if there was none."""
        self.refusal: UsageError | ModelError | None = None
        """Error with which the newest request was refused; None if it was answered, or there was none."""

    @property
    def name(self) -> str:
        """Name of the model that answers."""
        return self._model.name

    @property
    def window(self) -> Window:
        """Context window of the model that answers."""
        return self._model.window

    @property
    def answers(self) -> int:
        """Number of answers that the agent has got."""
        return self._answers

    def end(self, stop: Stop, error: Exception | None = None) -> None:
        """Stop the agent, which gets no further answers; only the first reason counts."""
        with self._lock:
            if self.stopped is not None:
                return
            self.stopped, self.error = stop, error
        self._stop()

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        """Answer the agent with the answer of the model to the compacted request.

        Raises:
            UsageError: The agent sent messages that cannot be recorded; the error names the message.
            ModelError: The model failed, or the agent was stopped.
        """
        if self._cancellation is not None and self._cancellation.is_requested:
            self.end(Stop("cancelled", "stopped by the user"))
        if self._answers >= self._max_calls:
            self.end(Stop("max_steps", f"stopped after {format_count(self._max_calls, 'step')}"))
        if self.stopped is not None:
            raise RequestRefused(self.name, None, f"the trial has ended: {self.stopped.detail or self.stopped.reason}")
        try:
            reply = self._ask(request, listen)
        except (UsageError, ModelError) as error:
            self.refusal = error
            if isinstance(error, ModelError) and is_unavailable(error):  # the agent would try again until its time is over
                self.end(Stop.from_error(error))
            raise
        except Exception as error:  # of the policy or the journal: another request would change nothing
            stop = Stop("illegal_plan", str(error)) if isinstance(error, CompactionError) else Stop.from_error(error)
            self.end(stop, error)
            raise RequestRefused(self.name, None, str(error)) from error
        with self._lock:
            self._answers += 1
        self.refusal = None
        return reply

    def _ask(self, request: Request, listen: Callable[[TextDelta], None]) -> Reply:
        raws = encode_messages(request.messages)
        call_id = next(self._numbers)
        asked: dict[str, Any] = {
            "kind": "request",
            "call_id": call_id,
            "model": self.name,
            "messages": raws,
            "tools": [{"name": tool.name, "parameters": tool.parameters_json} for tool in request.tools],
        }
        reply, sent, overflows = None, list[Any](), 0
        while reply is None:
            last, sent = sent, [raws[part] if isinstance(part, int) else part for part in self._recorder.take_request(asked)]
            if self._watch.failure is not None:
                raise self._watch.failure
            messages = tuple(map(sanitize_message, decode_messages(sent)))
            try:
                reply = self._model.reply(replace(request, messages=messages), listen)
            except ModelError as error:
                self._report_failure(call_id, error)
                overflows += 1
                if not isinstance(error, ContextOverflow) or sent == last or overflows > MAX_EMERGENCY_COMPACTIONS:
                    raise
        answer = encode_messages([reply.message])
        answered = {"call_id": call_id, "messages": answer, "usage": reply.usage, "seconds": reply.seconds}
        self._recorder.take_answer({"kind": "answer", **answered})
        return reply

    def _report_failure(self, call_id: int, error: ModelError) -> None:
        name = "ContextWindowExceededError" if isinstance(error, ContextOverflow) else type(error).__name__
        status = getattr(error, "status", None)
        self._recorder.take_failure({"call_id": call_id, "status": status, "name": name, "message": str(error)})


if TYPE_CHECKING:
    _: type[Model] = RecordedModel
