"""Where a view is cut: everything between the system message and the cut goes, the rest stays as it is."""

from harness.view import View


def before_last(view: View, keep_last: int) -> int:
    """Index of the first message that stays when the last `keep_last` are kept, pairs left whole.

    The cut moves back over tool messages to the call that they answer, so at times more than `keep_last` stay. A result of
    0 or 1 means that nothing but the system message lies before the cut. Source: S0.5 (where its picture and its
    algorithm differ, the algorithm counts).
    """
    index = max(0, len(view.items) - keep_last)
    while index > 0 and index < len(view.items) and view.items[index].message.role == "tool":
        index -= 1
    return index
