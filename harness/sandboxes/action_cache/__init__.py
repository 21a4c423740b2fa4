"""The action cache: what a command printed and changed is kept, and an equal action in an equal workspace is not run."""

from harness.sandboxes.action_cache.cache import ActionCache, default_folder, has_cache, open_cache
from harness.sandboxes.action_cache.pool import SPARES
from harness.sandboxes.action_cache.sandbox import CachedSandbox, Counts

__all__ = ["SPARES", "ActionCache", "CachedSandbox", "Counts", "default_folder", "has_cache", "open_cache"]
