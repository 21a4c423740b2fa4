"""harness: run coding agents under grids of context-compaction policies, and compare them."""
