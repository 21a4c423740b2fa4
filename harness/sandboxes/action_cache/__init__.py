"""The action cache, which stores the effect of a command so that the command need not run again in an equal workspace."""

from harness.sandboxes.action_cache.cache import ActionCache, find_default_folder, has_cache, open_cache
from harness.sandboxes.action_cache.sandbox import CacheCounts, CachedSandbox

__all__ = ["ActionCache", "CacheCounts", "CachedSandbox", "find_default_folder", "has_cache", "open_cache"]
