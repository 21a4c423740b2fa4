"""Requests of a session as chains of blocks, made from the messages sent, for live sessions and stored ones alike."""

from collections.abc import Callable, Sequence

from harness.conversation.codec import digest_message
from harness.conversation.messages import Message
from harness.conversation.tokens import QuarterOfCharacters
from harness.prices.requests import Block, Request

_ESTIMATE = QuarterOfCharacters()


class RequestMaker:
    """Maker of the requests of one session, with one block for each message.

    The definitions of tools are in no message, but are part of the reported length of a prompt, so the blocks of the first prompt
    share their tokens.
    """

    def __init__(self, count: Callable[[Message], int] = _ESTIMATE.count) -> None:
        """Begin a session.

        Args:
            count: Function that returns the number of tokens of a message. Default: a quarter of its characters.
        """
        self._count = count
        self._sent: Sequence[Message] = ()
        self._known: dict[int, tuple[Message, Block]] = {}  # keeps the messages, so no other message gets the `id` of one

    def make(self, messages: Sequence[Message]) -> Request:
        """Return the next request of the session, without time, length and usage."""
        kept = _count_equal(self._sent, messages)
        self._sent = messages
        return Request(
            kept_blocks=kept,
            blocks=tuple(map(self.make_block, messages[kept:])),
            fixed_blocks=1 if messages and messages[0].role == "system" else 0,
        )

    def make_block(self, message: Message) -> Block:
        """Return the block of a message."""
        if id(message) not in self._known:
            self._known[id(message)] = message, Block(digest_message(message), self._count(message), message.role)
        return self._known[id(message)][1]


def _count_equal(first: Sequence[Message], second: Sequence[Message]) -> int:
    """Return how many messages two requests have in common at their beginning."""
    for position, (one, other) in enumerate(zip(first, second, strict=False)):
        if one is not other and one != other:
            return position
    return min(len(first), len(second))
