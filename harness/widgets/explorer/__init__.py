"""The compaction explorer: `exploration` is where one looks and what is seen, `controls` what is turned, `widget` its face."""

from harness.widgets.explorer.widget import CompactionExplorer

__all__ = ["CompactionExplorer"]
