"""Analysis of stored results: tables by arm, paired comparisons and figures.

The package imports neither the agent nor any model, so stored results can be analysed without them.
"""

from harness.analysis.comparison import Comparison, compare

__all__ = ["Comparison", "compare"]
