"""Compaction policies by family, one module each, with the stages used only there; `harness.policies` lists all of them."""
