"""Analysis of stored results: tables by arm, paired comparisons, figures and the report.

The package depends on the store and on plain values only, not on agent or models, so results can be analysed without any model.
"""

from harness.analysis.comparison import Comparison, compare
from harness.analysis.report import Report, report

__all__ = ["Comparison", "Report", "compare", "report"]
