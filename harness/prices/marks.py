"""Where a cache with marks finds the beginning of a prompt: only at the end of an earlier request, not at the end of any message.

A policy that edits old messages again and again leaves nothing to find: the beginning that a request shares with the one before
was never the end of a request, since an earlier edit had changed it.
"""

from collections.abc import Sequence


def find_whole_requests(lengths: Sequence[int], kept: Sequence[int]) -> list[int]:
    """Return for each request of a session the latest request before that it begins with, whole; -1 if there is none.

    Args:
        lengths: Number of messages of each request.
        kept: Number of messages at its beginning that the request before had, too; 0 for the first one.
    """
    found, held = list[int](), list[int]()  # `held`: earlier requests that are beginnings of this one, in ascending order
    for index, same in enumerate(kept):
        while held and lengths[held[-1]] > same:
            held.pop()
        found.append(held[-1] if held else -1)
        held.append(index)
    return found
