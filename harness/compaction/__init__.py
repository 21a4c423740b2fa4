"""Compaction policies: ready-made ones, the parts from which they are built, and the compactor that applies a policy.

A policy decides when and how a conversation that becomes too long is shortened. Its parts are triggers (when to compact), cuts
(which messages stay), and summary formats (how a model is asked for a summary).
"""
