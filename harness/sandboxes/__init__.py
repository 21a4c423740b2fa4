"""Sandboxes in which the commands of a model run, with one tool server, one client, and a launcher for each backend."""

from harness.sandboxes.backends import Probe, choose_backend, open_sandbox, probe_backend

__all__ = ["Probe", "choose_backend", "open_sandbox", "probe_backend"]
