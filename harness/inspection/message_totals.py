"""Running totals over the messages of a session, with which a counterfactual run passes many steps at once."""

from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np

from harness.conversation.messages import Message
from harness.conversation.tokens import Counter
from harness.conversation.view import count_events
from harness.inspection.calibration import TextSizes


class MessageTotals:
    """Totals over the first 0, 1, 2, ... messages of a session."""

    def __init__(self, messages: Sequence[Message], counter: Counter, measure_texts: Callable[[Message], TextSizes]) -> None:
        """Add up the messages.

        Args:
            messages: Messages of the session.
            counter: Token counter.
            measure_texts: Function that returns the sizes of the texts of a message.
        """
        self.counts = [counter.count(message) for message in messages]
        """Estimated tokens of each message."""
        self.tokens = [0, *accumulate(self.counts)]
        self.events = [0, *accumulate(map(count_events, messages))]
        sizes = np.array([(0, 0, 0), *map(measure_texts, messages)], np.int64)
        self.sizes = sizes.cumsum(axis=0)
        """Characters typed, of answers and of results: one row for each number of messages."""

    def grow_sizes(self, sizes: TextSizes, start: int, end: int) -> TextSizes:
        """Return the sizes of texts together with those of the messages with an index from `start` to below `end`."""
        return TextSizes(*(int(size) for size in self.sizes[end] - self.sizes[start] + np.array(sizes)))
