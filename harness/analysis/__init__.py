"""Analysis of stored results: tables by arm, paired comparisons, figures and the report.

The package imports neither the agent nor any model, so stored results can be analysed without them.
"""

from harness.analysis.comparison import Comparison, compare
from harness.analysis.experiment_report import Report, report

__all__ = ["Comparison", "Report", "compare", "report"]
