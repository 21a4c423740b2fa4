"""Comparison of the speed, memory and disk space of this package with those of other agent programs: `make bench-peers`."""
