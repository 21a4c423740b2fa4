"""What a session refers to: texts by their address, kept workspaces by their hash, files of those by theirs.

Names are found by their looks, in whatever kind of event or table, so that a kind that this module does not know keeps what it
needs: rather one too many than one too few.
"""

import re
from collections.abc import Iterable

from harness.store.database import Database

_ADDRESS = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{28}(?![A-Za-z0-9+/])")
_HASH = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
MIN_NAME_CHARACTERS = 28
"""Characters of the shortest name."""


def find_addresses(text: str) -> list[str]:
    """What looks like the address of a text."""
    return _ADDRESS.findall(text)


def find_hashes(text: str) -> list[str]:
    """What looks like the hash of a workspace or a file."""
    return _HASH.findall(text)


def find_file_hashes(database: Database, trees: Iterable[str], *, schema: str = "main") -> set[str]:
    """The hashes of the files of kept workspaces.

    Args:
        database: that holds the workspaces.
        trees: their hashes; what is no workspace is left out.
        schema: `main`, or the name of an attached database.
    """
    file_hashes: set[str] = set()
    for tree in trees:
        for (data,) in database.execute(f"SELECT data FROM {schema}.tree WHERE tree_id = ?", (tree,)):
            file_hashes.update(find_hashes(database.packer.unpack(data)))
    return file_hashes
