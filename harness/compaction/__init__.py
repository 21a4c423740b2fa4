"""Compaction policies: triggers, cuts, summary formats, presets built from these, and the compactor that applies a policy."""
