"""Compaction policies: when to compact (triggers), where to cut (cuts), what a summary is (formats), and who applies it."""
