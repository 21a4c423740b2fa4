"""Where commands run: one tool server, one client, and a launcher for each backend, opened by `open_sandbox`."""

from harness.sandboxes.backends import Probe, choose_backend, open_sandbox, probe_backend

__all__ = ["Probe", "choose_backend", "open_sandbox", "probe_backend"]
