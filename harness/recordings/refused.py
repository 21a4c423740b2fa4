"""Agents whose files are recognised and refused, because neither their source code nor a real file shows what a row means.

What other programs guess about these files differs, for example whether tokens include those read from the cache. A wrong guess
would be a wrong cost, so these files are refused until the layout is known.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from harness.recordings.document import Document, is_object_with

REASON = "its source is not public and no file of it could be checked, so its messages and tokens could be read wrongly"


class RefusedAgent(NamedTuple):
    """Agent whose files are refused."""

    name: str
    recognised_by: str
    matches: Callable[[Document], bool]


def _is_droid(document: Document) -> bool:
    return any(is_object_with(value, "type", "id") and value["type"] == "session_start" for _, value in document.rows)


def _is_amp(document: Document) -> bool:
    whole: Any = document.single_value
    if not is_object_with(whole, "v", "id", "messages") or not isinstance(whole["messages"], list):
        return False
    return isinstance(whole["id"], str) and whole["id"].startswith("T-")


REFUSED_AGENTS = (
    RefusedAgent("Amp", "an object with `v`, `messages` and an `id` that begins with `T-`", _is_amp),
    RefusedAgent("Factory droid", "a row `session_start` with an `id`", _is_droid),
)
"""Agents whose files are refused, by name."""


def find_refused_agent(document: Document) -> str:
    """Return the name of the agent that wrote a file and whose files are refused; empty if there is none."""
    return next((agent.name for agent in REFUSED_AGENTS if agent.matches(document)), "")
