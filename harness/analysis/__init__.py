"""Analysis of stored results: tables by arm, paired comparisons and figures.

The package imports neither the agent nor any model, so stored results can be analysed without them. Its names are loaded when
they are first used, so that the options of charts and the power of a plan are known without pandas.
"""

from typing import TYPE_CHECKING

from harness.lazy_names import load_name as _load_name

if TYPE_CHECKING:
    from harness.analysis.comparison import Comparison, compare

_MODULE_BY_NAME = {"Comparison": "harness.analysis.comparison", "compare": "harness.analysis.comparison"}

__all__ = ["Comparison", "compare"]


def __getattr__(name: str) -> object:
    return _load_name(__name__, name, _MODULE_BY_NAME)
