"""The compaction explorer: `exploration` holds settings and results, `controls` the policy's fields, `widget` the display."""

from harness.widgets.explorer.widget import CompactionExplorer

__all__ = ["CompactionExplorer"]
