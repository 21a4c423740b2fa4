"""Compaction policies, with one module for each agent or idea that they come from; `harness.policies` lists all policies."""
