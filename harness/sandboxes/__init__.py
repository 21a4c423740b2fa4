"""Where commands run: one tool server, one client, and a launcher for each backend, opened by `open_sandbox`."""

from harness.sandboxes.backends import (
    BACKEND_CHOICES,
    BACKENDS,
    BackendName,
    Probe,
    choose_backend,
    is_isolated,
    open_sandbox,
    probe_backend,
)

__all__ = [
    "BACKENDS",
    "BACKEND_CHOICES",
    "BackendName",
    "Probe",
    "choose_backend",
    "is_isolated",
    "open_sandbox",
    "probe_backend",
]
