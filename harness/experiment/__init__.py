"""Experiments: a plan is expanded into a grid of trials, which a runner executes in worker processes and records."""
