"""Tests: one folder per package, and folders for contracts, the repository itself, laws, notebooks, benchmarks and goldens."""
