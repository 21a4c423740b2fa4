"""What a journal need not keep: tool outputs that were saved long enough, contents that nobody refers to, and free pages."""

from typing import NamedTuple

from harness.store.journal import Journal
from harness.store.texts import CONTENT_TABLES, MIN_NAME_CHARACTERS, find_addresses, find_hashes
from harness.store.workspaces import find_file_hashes


class CleanupResult(NamedTuple):
    """What went."""

    outputs: int
    """Saved tool outputs."""
    texts: int
    """Texts that no session refers to any more."""
    files: int
    """Files of workspaces that no session refers to any more."""
    freed_bytes: int
    """Of the journal file."""


QUIET_MS = 10 * 60 * 1000
"""A journal in which nothing was logged for so long has no session that is just keeping a workspace."""


def clean(journal: Journal, *, outputs_before_ms: int, quiet_before_ms: int) -> CleanupResult:
    """Remove what is not needed and give its space back. Others may read and write meanwhile.

    Args:
        journal: open for writing.
        outputs_before_ms: saved tool outputs that are older go (S3.1), in milliseconds since the epoch.
        quiet_before_ms: kept workspaces are looked through only if nothing was logged since, for they are kept right before the
            event that names them.

    Raises:
        StoreError: nothing could be written, or others kept the file busy; what was removed before stays removed.
    """
    before = _measure_size(journal)
    outputs = journal.remove_outputs(outputs_before_ms)
    database = journal.database
    with database.transaction():
        referenced_addresses, referenced_hashes = _collect_references(journal)
        texts = _remove(journal, "text", referenced_addresses)
        files = _remove_workspaces(journal, referenced_hashes) if _find_newest_ms(journal) < quiet_before_ms else 0
    database.fetch("VACUUM")
    database.fetch("PRAGMA wal_checkpoint(TRUNCATE)")
    return CleanupResult(outputs, texts, files, max(0, before - _measure_size(journal)))


def _remove_workspaces(journal: Journal, referenced_hashes: set[str]) -> int:
    _remove(journal, "tree", referenced_hashes)
    tree_ids = [row[0] for row in journal.database.execute("SELECT tree_id FROM tree")]
    return _remove(journal, "blob", referenced_hashes | find_file_hashes(journal.database, tree_ids))


def _find_newest_ms(journal: Journal) -> int:
    return int(journal.database.execute("SELECT coalesce(max(at_ms), 0) FROM event").fetchone()[0])


def _remove(journal: Journal, table: str, needed: set[str]) -> int:
    """Remove the rows whose name nobody needs; return how many."""
    name = CONTENT_TABLES[table]
    unused = {row[0] for row in journal.database.execute(f"SELECT {name} FROM {table}")} - needed
    journal.database.executemany(f"DELETE FROM {table} WHERE {name} = ?", [(one,) for one in unused])
    return len(unused)


def _measure_size(journal: Journal) -> int:
    log = journal.path.with_name(f"{journal.path.name}-wal")
    return sum(path.stat().st_size for path in (journal.path, log) if path.exists())


def _collect_references(journal: Journal) -> tuple[set[str], set[str]]:
    """Addresses and hashes that stand anywhere outside of the contents."""
    execute = journal.database.execute
    referenced_addresses: set[str] = set()
    referenced_hashes: set[str] = set()
    for (table,) in execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'").fetchall():
        columns = [row[1] for row in execute(f'PRAGMA table_info("{table}")') if row[2] == "TEXT"]
        for column in columns if table not in CONTENT_TABLES else ():
            for (value,) in execute(f'SELECT "{column}" FROM "{table}" WHERE length("{column}") >= {MIN_NAME_CHARACTERS}'):
                referenced_addresses.update(find_addresses(value))
                referenced_hashes.update(find_hashes(value))
    return referenced_addresses, referenced_hashes
