"""Sandboxes in which a model's commands run.

In each sandbox a tool server, its first process, runs the commands. A client in the harness sends requests to the tool server. A
launcher, which depends on the kind of sandbox (backend), starts and removes the tool server.
"""

from harness.sandboxes.backends import Probe, choose_backend, open_sandbox, probe_backend

__all__ = ["Probe", "choose_backend", "open_sandbox", "probe_backend"]
