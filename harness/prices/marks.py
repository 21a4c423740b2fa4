"""Search for the earlier request that a prompt repeats completely; a cache with marks holds the prompt up to the end of it.

A policy that edits old messages at every step repeats no earlier request completely, so such a cache holds nothing but the
instructions, although most messages of the prompt are unchanged.
"""

from collections.abc import Sequence


def find_whole_requests(lengths: Sequence[int], kept: Sequence[int]) -> list[int]:
    """Return for each request of a session the index of the latest earlier request that it repeats completely; -1 if none.

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
