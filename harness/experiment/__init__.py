"""Experiments: a plan file becomes a list of trials (a grid), which a runner executes in worker processes and records."""
