"""What came out: tables by arm, paired comparisons, figures and the report, all drawn from the stored results.

Knows the store and values only, never agent or models, so that results are readable wherever the files are.
"""

from harness.analysis.comparison import Comparison, compare
from harness.analysis.report import Report, report

__all__ = ["Comparison", "Report", "compare", "report"]
