"""A recorded session as a frozen value: its messages in legal order, the usage of each call, and its own agent's compactions.

The messages are those before any native compaction: a summary that the recorded agent was given stands in its
`NativeCompaction` and is left out of `messages`, except where the file holds nothing else (`in_place`). Everything that could
not be read, was left out or was repaired has a caveat, so that nothing is lost unseen.
"""

from dataclasses import dataclass
from typing import Literal

from harness.messages import Message
from harness.tokens import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Caveat:
    """Something that was dropped or repaired while reading."""

    place: str
    """Where in the file: a line of a JSONL file, a path inside a JSON object; empty = the file as a whole."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedMessage:
    """One message and what the file says about it."""

    message: Message
    step: int | None
    """Model calls count from 1; results carry the number of their call, other messages that of the call which first read
    them (0 = before the first). None = shown to the model as an example (a demonstration), not part of the session."""
    usage: Usage | None = None
    """Of the call that wrote this message; None = not recorded, or not written by a call."""
    cost_usd: float | None = None
    model: str = ""
    """Who wrote an assistant message; empty = not recorded."""
    place: str = ""
    """Where in the file it begins."""
    synthetic: bool = False
    """Made while reading: the result of a call that has none in the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeCompaction:
    """A compaction that the recorded agent did itself."""

    kind: Literal["compaction", "microcompaction"] = "compaction"
    """`compaction`: a summary took the place of messages; `microcompaction`: old tool results were cleared."""
    position: int = 0
    """Number of messages before the compaction: it took place before `messages[position]`."""
    trigger: Literal["auto", "manual", "unknown"] = "unknown"
    tokens_before: int | None = None
    """As the recorded agent counted them; None = not recorded."""
    tokens_saved: int | None = None
    summary: str = ""
    """Empty for a microcompaction, and where the file does not hold it."""
    in_place: bool = False
    """The summary is one of `messages`, because what it stands for is not in the file."""
    kept_from: int | None = None
    """`messages[kept_from:position]` stayed in the prompt beside the summary; None = nothing did."""
    cleared: tuple[str, ...] = ()
    """Call ids (as in `messages`) whose results were cleared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One recorded session."""

    source: str
    """The format, a key of `harness.replay.formats.FORMATS`."""
    session_id: str
    """Empty = not recorded."""
    models: tuple[str, ...]
    """In the order of their first answer; empty = not recorded."""
    messages: tuple[RecordedMessage, ...]
    """In an order that `harness.view.violation` accepts once a system message stands first."""
    system_recorded: bool
    """Whether `messages` begins with the system prompt that was sent."""
    compactions: tuple[NativeCompaction, ...] = ()
    cost_usd: float | None = None
    """Of the whole session: the file's own total, or else the sum of its calls; None = not recorded."""
    caveats: tuple[Caveat, ...] = ()

    @property
    def steps(self) -> int:
        """How many model calls were recorded."""
        return max((recorded.step or 0 for recorded in self.messages if recorded.message.role == "assistant"), default=0)
