"""Compaction explorer, a widget that shows what a policy would keep or remove at each step of a finished session."""

from harness.widgets.explorer.widget import CompactionExplorer

__all__ = ["CompactionExplorer"]
