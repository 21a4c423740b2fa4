"""The action cache: what a command printed and changed is kept, and an equal action in an equal workspace is not run."""

from harness.sandboxes.action_cache.cache import ActionCache, find_default_folder, has_cache, open_cache
from harness.sandboxes.action_cache.sandbox import SANDBOX_POOL, CacheCounts, CachedSandbox

__all__ = ["SANDBOX_POOL", "ActionCache", "CacheCounts", "CachedSandbox", "find_default_folder", "has_cache", "open_cache"]
