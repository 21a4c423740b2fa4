"""The action cache: what a command printed and changed is kept, and an equal action in an equal workspace is not run."""

from harness.sandboxes.actions.cache import ActionCache, default_folder, open_cache
from harness.sandboxes.actions.sandbox import CachedSandbox, Counts

__all__ = ["ActionCache", "CachedSandbox", "Counts", "default_folder", "open_cache"]
