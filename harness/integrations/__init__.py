"""Compaction policies in the loops of other agents: plain lists of messages in, plain lists of messages out.

The names below are loaded when they are first used.
"""

from typing import TYPE_CHECKING

from harness.lazy_names import load_name as _load_name

if TYPE_CHECKING:
    from harness.integrations.compaction import acompact, compact
    from harness.integrations.compactor import Compactor
    from harness.integrations.results import CompactResult, CompactState

_MODULE_BY_NAME = {
    "CompactResult": "harness.integrations.results",
    "CompactState": "harness.integrations.results",
    "Compactor": "harness.integrations.compactor",
    "acompact": "harness.integrations.compaction",
    "compact": "harness.integrations.compaction",
}
"""Module of each public name, from which the name is imported at its first use."""

__all__ = ["CompactResult", "CompactState", "Compactor", "acompact", "compact"]


def __getattr__(name: str) -> object:
    return _load_name(__name__, name, _MODULE_BY_NAME)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
