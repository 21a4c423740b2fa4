"""A model that says what it was told to say, and fails loudly when it has nothing left."""

from collections.abc import Callable, Iterable

from harness.errors import ModelError
from harness.events import TextDelta
from harness.messages import Message
from harness.protocols import Reply, Request, ignore
from harness.tokens import Measured, QuarterOfCharacters, Usage, Window


class FakeModel:
    """Gives prepared replies in order, raising the errors among them; keeps the requests that it got in `requests`."""

    def __init__(self, replies: Iterable[Message | ModelError], *, name: str = "puppet", window_tokens: int = 128_000) -> None:
        """Prepare the replies."""
        self.name = name
        self.window = Window(tokens=window_tokens, source="configuration")
        self.requests: list[Request] = []
        self._replies = iter(replies)

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        """The next prepared reply.

        Raises:
            AssertionError: no reply is left.
        """
        self.requests.append(request)
        prepared = next(self._replies, None)
        if prepared is None:
            raise AssertionError(f"{self.name!r} was asked {len(self.requests)} times and has no reply left")
        if isinstance(prepared, ModelError):
            raise prepared
        for line in prepared.text.splitlines(keepends=True):
            listen(TextDelta(text=line))
        counter = QuarterOfCharacters()
        usage = Usage(
            input_tokens=Measured(sum(counter.count(message) for message in request.messages)),
            output_tokens=Measured(counter.count(prepared)),
        )
        return Reply(message=prepared, usage=usage, seconds=0.0)
