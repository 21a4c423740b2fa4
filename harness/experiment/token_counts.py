"""Exchange of token counts of texts between the workers of a run, through the action cache.

Trials of one experiment contain mostly the same texts. Without an exchange, each worker would count the tokens of each text anew.
All counts are stored as one entry of the cache. Each process reads the entry at its first trial, and replaces it after a trial
that has counted many new texts, or some trials after a few. If two processes replace the entry at the same time, some counts are
lost and made again later.
"""

import functools
import hashlib
from importlib.metadata import version

from harness.models.tokenizer import COUNTS, ENCODING
from harness.sandboxes.action_cache import ActionCache
from harness.sandboxes.action_cache.entry import pack_bytes, unpack_bytes

COMMAND = "(token counts of texts)"
"""Text that `harness cache` shows for the stored token counts in place of a command."""
MIN_UNSAVED = 200
"""Minimum number of newly counted texts after which the stored counts are replaced."""
MIN_UNSAVED_SHARE = 0.05
"""Minimum share of newly counted texts among all counted texts, from 0 to 1, after which the stored counts are replaced."""
MAX_UNSAVED_TRIALS = 10
"""Number of trials after which fewer counts are stored, too.

Otherwise each process of each later run would load the tokenizer for the last few texts of the first run.
"""


@functools.lru_cache(maxsize=1)
def compute_counts_key() -> bytes:
    """Return the key of the token counts in the action cache, which depends on the tokenizer and its version."""
    return hashlib.sha256(f"token counts\n{ENCODING}\n{version('tiktoken')}".encode()).digest()


@functools.lru_cache(maxsize=8)
def receive_token_counts(cache: ActionCache) -> None:
    """Add the token counts in the cache to those of this process; later calls with the same cache do nothing."""
    _merge_stored(cache)


def publish_token_counts(cache: ActionCache, task: str) -> None:
    """Add the token counts of this process to those in the cache, if it has counted many new texts or has kept a few for long.

    Called at the end of each trial.

    Args:
        cache: Action cache of the run.
        task: Name of the task under which lists of the cache show the entry.
    """
    if not COUNTS.unsaved:
        return
    COUNTS.unsaved_trials += 1
    has_few = COUNTS.unsaved < max(MIN_UNSAVED, MIN_UNSAVED_SHARE * len(COUNTS))
    if has_few and COUNTS.unsaved_trials < MAX_UNSAVED_TRIALS:
        return
    _merge_stored(cache)
    key = compute_counts_key()
    cache.store(key, pack_bytes(key, COUNTS.pack()), task=task, command=COMMAND)


def _merge_stored(cache: ActionCache) -> None:
    if packed := cache.find(compute_counts_key(), unpack_bytes):
        COUNTS.merge(packed)
