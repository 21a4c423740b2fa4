"""Where commands run: one tool server, one client, three launchers (docker, bubblewrap, local), opened by `open_sandbox`."""

from harness.sandboxes.opening import choose_backend, open_sandbox, probe_backend
from harness.sandboxes.probe import Probe

__all__ = ["Probe", "choose_backend", "open_sandbox", "probe_backend"]
