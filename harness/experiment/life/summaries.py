"""What a session changed in its workspace, in sum (S3.11)."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.protocols import FileChange


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The first workspace of a session beside the last."""

    files: int
    """Added, modified or deleted."""
    additions: int
    """Lines."""
    deletions: int
    """Lines."""
    changes: tuple[FileChange, ...]
    """By path."""


def summed(changes: Sequence[FileChange]) -> Summary:
    """The sums of some changes."""
    return Summary(
        files=len(changes),
        additions=sum(change.added_lines for change in changes),
        deletions=sum(change.removed_lines for change in changes),
        changes=tuple(changes),
    )
