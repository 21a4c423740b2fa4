"""Benchmarks of speed and memory; each figure is printed next to its limit and written to bench.json."""
