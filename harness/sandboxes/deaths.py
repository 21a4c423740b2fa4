"""Data from which the cause of a sandbox's death is found: how its tool server ended, and the last commands.

If the commands of an agent end the sandbox, the agent has failed, and its trial counts. If the machine loses the sandbox, the
trial is set aside. The commands are the cause if the processes of the sandbox ran out of memory, or if the same commands end a
new sandbox too. So that they can be repeated, a sandbox keeps all requests since the last snapshot that contained its whole
state.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from harness.protocols import Snapshot
from harness.sandboxes.framing import Frame
from harness.sandboxes.snapshots import compute_tree_id

EMPTY_SNAPSHOT: Final = Snapshot(tree_id=compute_tree_id({}))
"""Snapshot of an empty workspace, with which every new sandbox begins."""
_CHANGING_OPERATIONS: Final = frozenset({"run", "write", "apply", "reset"})


class ServerEnd(NamedTuple):
    """Record of how the tool server of a lost sandbox ended, as far as this is known."""

    signal_number: int | None = None
    """Number of the signal that killed the tool server; None if it ended by itself, still runs, or this is unknown."""
    ran_out_of_memory: bool = False
    """Whether the kernel killed processes of the sandbox for lack of memory after the last reply of the tool server."""


@dataclass(slots=True)
class ActionHistory:
    """Record of the requests that brought a sandbox from a snapshot of its workspace to its current state."""

    base: Snapshot = EMPTY_SNAPSHOT
    """State of the workspace before the first of the requests."""
    requests: list[tuple[Frame, float]] = field(default_factory=list)
    """Requests to the tool server since the snapshot, each with its timeout in seconds."""
    is_contained: bool = True
    """Whether the commands since the snapshot left no process and changed nothing outside the workspace."""

    def add(self, request: Frame, timeout_seconds: float) -> None:
        """Add a request that is sent to the tool server, if it can change the state of the sandbox."""
        if request.header["op"] in _CHANGING_OPERATIONS:
            self.requests.append((request, timeout_seconds))

    def begin_at(self, snapshot: Snapshot) -> None:
        """Forget all requests, because a new snapshot contains the whole state of the sandbox."""
        self.base, self.is_contained = snapshot, True
        self.requests.clear()
