"""What the software costs: each figure measured here, printed beside its bar, written to bench.json."""
