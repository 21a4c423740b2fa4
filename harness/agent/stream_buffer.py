"""An answer as far as it was heard: what is kept of it when it is stopped, or when its process is killed."""

from collections.abc import Callable

from harness.agent.cancellation import raise_if_abandoned
from harness.events import TextDelta
from harness.messages import Message, assistant
from harness.protocols import ignore


class StreamBuffer:
    """A listener that puts the pieces of an answer together. Not thread-safe."""

    def __init__(self, listen: Callable[[TextDelta], None] = ignore) -> None:
        """Nothing came yet; `listen` is told of each piece that shows something."""
        self._listen = listen
        self._texts: list[str] = []
        self._reasonings: list[str] = []

    def __call__(self, delta: TextDelta) -> None:
        """Take the next piece and tell of it.

        Raises:
            GivenUp: nobody waits for the answer.
        """
        raise_if_abandoned()
        self.add(delta)
        if delta.text or delta.anew:
            self._listen(delta)

    def add(self, delta: TextDelta) -> None:
        """Take the next piece."""
        if delta.anew:
            self.clear()
        (self._texts if delta.part == "text" else self._reasonings).append(delta.text)

    def clear(self) -> None:
        """The answer is logged, or counts no more."""
        self._texts, self._reasonings = [], []

    @property
    def text(self) -> str:
        """Its text so far."""
        self._texts = ["".join(self._texts)]
        return self._texts[0]

    @property
    def reasoning(self) -> str:
        """Its reasoning so far."""
        self._reasonings = ["".join(self._reasonings)]
        return self._reasonings[0]

    def build_message(self) -> Message | None:
        """The answer so far; None = nothing came."""
        text, reasoning = self.text, self.reasoning
        return assistant(text, reasoning=reasoning) if text or reasoning else None
