"""How real models are reached in a session: who serves the local ones, how they call tools, and what is recorded of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from harness.errors import UsageError
from harness.models.cassette import Cassette
from harness.models.litellm_model import STALL_SECONDS
from harness.models.local.server import Endpoint

ToolCallMode = Literal["native", "text"]
"""`native` by the provider's own field for tools; `text` by the protocol of `harness.models.text_calls`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """All that decides how a name becomes a model, beside the name."""

    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)
    """Where local models are served; one that is not can tell its window and no more."""
    tool_calls: ToolCallMode = "native"
    """How the agent's model calls tools."""
    cassette: Cassette | None = None
    """None = every answer is asked for, and none is kept."""
    take: int = 0
    """Which of several answers to equal requests is recorded or played."""
    stall_seconds: float = STALL_SECONDS
    """Silence of a provider after which a call has stalled, which is then made again; a model of this machine has its own."""

    def __post_init__(self) -> None:
        """Refuse what no call could be made with."""
        if not self.stall_seconds > 0:
            raise UsageError(f"stall_seconds: must be above 0 (got {self.stall_seconds!r})")

    @property
    def is_replay(self) -> bool:
        """Whether no real model is asked."""
        return self.cassette is not None and self.cassette.mode == "replay"


DEFAULT_WIRING = Wiring()
"""Names alone."""
