"""Digests of a journal's data, by which exported tables and reports are recognized as up to date.

The module is apart from `tables` and needs neither pyarrow nor pandas, so that a command that finds nothing to do ends early.
"""

import hashlib
from collections.abc import Sequence
from itertools import groupby
from typing import Any, TypeAlias

from harness.store.columns import SOURCES, TABLES, build_select
from harness.store.journal import Journal

BLOCK_SIZE = 500
"""Size of a block: number of consecutive keys of sessions or trials whose rows are in one Parquet file."""
BlockStates: TypeAlias = dict[int, bytes]
"""Digests of the data from which a table's rows are computed: one for each block of rows, by the number of the block."""

_MARK_SQL = "s.marked_success, s.marked_score, s.marked_failed_checks"
_SESSION_SQL = f"s.id, s.created_at_ms, {_MARK_SQL}, (SELECT max(seq) FROM event WHERE session = s.key), k.*"
_STATE_SQL = {
    "session": f"""SELECT s.key, r.trial_id, r.revision, {_SESSION_SQL} FROM session AS s
        LEFT JOIN trial AS r ON r.session_id = s.id LEFT JOIN conduct AS k ON k.session = s.key ORDER BY s.key""",
    "trial": f"""SELECT r.revision, s.key, {_SESSION_SQL} FROM trial AS r
        LEFT JOIN session AS s ON s.id = r.session_id LEFT JOIN conduct AS k ON k.session = s.key ORDER BY r.revision""",
}
"""SQL for numbers of each session or trial that change whenever the data of the session or trial changes.

These are the length of the log, which only grows, the revision of the trial, which is new each time the trial is recorded, and
the mark of the user.
"""


def find_block(key: int) -> int:
    """Return the number of the block in which the rows of a session or trial are, by its key."""
    return key // BLOCK_SIZE


def compute_states(journal: Journal) -> dict[str, BlockStates]:
    """Return digests of a journal's data, one for each block of rows of each table.

    A digest changes when the data changes.
    """
    digests = {owner: _digest_blocks(journal.query(sql)) for owner, sql in _STATE_SQL.items()}
    return {
        name: {
            block: hashlib.sha256(f"{build_select(name)} {columns} {digest}".encode()).hexdigest().encode()
            for block, digest in digests[SOURCES[name].owner].items()
        }
        for name, columns in TABLES.items()
    }


def _digest_blocks(rows: Sequence[Sequence[Any]]) -> dict[int, str]:
    """Return a digest of the rows in each block, by block number; the first column of a row is its key.

    Without rows, the result is one block with an empty digest.
    """
    blocks = groupby(rows, key=lambda row: find_block(row[0]))
    digests = {block: hashlib.sha256(repr([tuple(row) for row in of_block]).encode()).hexdigest() for block, of_block in blocks}
    return digests or {0: ""}
