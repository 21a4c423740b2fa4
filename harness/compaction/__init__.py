"""Compaction policies: ready-made ones, the parts from which they are built, and the compactor that applies a policy.

The parts are triggers (when to compact), cuts (which messages stay), and summary formats (how a model is asked for a summary).
"""
