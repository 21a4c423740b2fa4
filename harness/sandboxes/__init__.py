"""Sandboxes in which a model's commands run. Each has a tool server (first process), a client, and a launcher of its backend."""

from harness.sandboxes.backends import Probe, choose_backend, open_sandbox, probe_backend

__all__ = ["Probe", "choose_backend", "open_sandbox", "probe_backend"]
