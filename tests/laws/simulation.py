"""The simulation under its former name; see `harness.testing.laws.simulation`."""

from harness.testing.laws.simulation import HUGE, WINDOW, Run, simulate

__all__ = ["HUGE", "WINDOW", "Run", "simulate"]
