"""An answer as far as it was heard: what is kept of it when it is stopped, or when its process is killed."""

from harness.events import TextDelta
from harness.messages import Message, assistant


class Heard:
    """Puts the pieces of an answer together. Not thread-safe."""

    def __init__(self) -> None:
        """Nothing came yet."""
        self._texts: list[str] = []
        self._reasonings: list[str] = []

    def add(self, delta: TextDelta) -> None:
        """Take the next piece."""
        if delta.anew:
            self.forget()
        (self._texts if delta.part == "text" else self._reasonings).append(delta.text)

    def forget(self) -> None:
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

    def message(self) -> Message | None:
        """The answer so far; None = nothing came."""
        text, reasoning = self.text, self.reasoning
        return assistant(text, reasoning=reasoning) if text or reasoning else None
