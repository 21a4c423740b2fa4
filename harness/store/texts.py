"""Storage of long strings in a journal: each is stored once, compressed or plain, under a hash of the text (its address).

The address is the SHA-256 of the text, truncated to 168 bits, so journals that share texts can be merged without renaming. Texts
that people read in a SQLite shell (prompts, answers, summaries) stay plain up to 16,384 characters. Tool outputs, arguments and
files are packed with zstd.
"""

import binascii
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

from harness.errors import StoreError
from harness.text import replace_surrogates

MAX_TEXT_BYTES = 160 * 2**20
"""Maximum size of a stored text in bytes; the largest outputs and files of a sandbox have 144 MiB as text."""
INLINE_CHARACTERS = 256
"""Maximum length, in characters, of a string that is stored inside its event instead of separately."""
PLAIN_CHARACTERS = 16_384
HEAD_CHARACTERS = 60
_PACKED_FIELDS = frozenset({"output", "arguments_json", "content", "policy_json", "setup_json"})
_LEVEL = 3

CONTENT_TABLES = {"text": "address", "blob": "sha256", "tree": "tree_id"}
"""Tables of texts, files and snapshots to which sessions refer, each with the name of the column that identifies a row."""
find_addresses = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{28}(?![A-Za-z0-9+/])").findall
"""Return all substrings of a text that look like addresses of stored texts (28 characters of base64)."""
find_hashes = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])").findall
"""Return all substrings of a text that look like the SHA-256 hash of a workspace or a file."""
MIN_NAME_CHARACTERS = 28
"""Length in characters of the shortest reference to stored content, which is the address of a text."""


_REFERENCE = re.compile(r'\{"address":"([A-Za-z0-9+/]{28})"\}')
"""Reference to a long text in stored JSON. In the strings of JSON, quotation marks are escaped, so no string contains one."""


class StoredText(NamedTuple):
    """Row of the journal's table `text`, which holds one long string, compressed (packed) or plain."""

    address: str
    characters: int
    head: str | None
    data: str | bytes


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def compute_address(text: str) -> str:
    """Return the address under which a text is stored: a hash as 28 characters of base64."""
    return binascii.b2a_base64(hashlib.sha256(_to_bytes(text)).digest()[:21], newline=False).decode()


def compute_body_digest(body: str) -> int:
    """Return the number by which a journal looks up a body that it holds: the first 48 bits of the SHA-256 of the body."""
    return int.from_bytes(hashlib.sha256(body.encode()).digest()[:6], signed=True)


def detach_texts(plain: Any, texts: dict[str, tuple[str, bool]], name: str = "") -> Any:
    """Move each long string in JSON-ready data to `texts`, and leave the string's address (hash) in its place.

    Dicts are changed in place; use the returned data.

    Args:
        plain: JSON-ready dicts, lists, strings and numbers.
        texts: Dict to which each long string is added by address, with a flag that is true if it must be stored compressed.
        name: Name of the field that holds the data; the strings of some fields are always compressed.
    """
    if isinstance(plain, str):
        if len(plain) <= INLINE_CHARACTERS:
            return plain
        address = compute_address(plain)
        texts[address] = plain, name in _PACKED_FIELDS or len(plain) > PLAIN_CHARACTERS
        return {"address": address}
    if isinstance(plain, dict):
        for key, value in plain.items():
            # most values are short strings, which need no call
            if isinstance(value, (dict, tuple, list)) or (isinstance(value, str) and len(value) > INLINE_CHARACTERS):
                plain[key] = detach_texts(value, texts, key)
        return plain
    if isinstance(plain, (list, tuple)):
        return [detach_texts(value, texts, name) if isinstance(value, (str, dict, tuple, list)) else value for value in plain]
    return plain


def list_addresses(body: str) -> list[str]:
    """Return the addresses that `detach_texts` has put into stored JSON in place of long texts."""
    return _REFERENCE.findall(body)


def parse_stored(body: str, texts: Mapping[str, str]) -> Any:
    """Parse stored JSON, and put long texts back in place of their addresses, which reverses `detach_texts`.

    Tuples that `detach_texts` received are lists in the result.

    Raises:
        KeyError: A text is missing.
        ValueError: The text is not JSON.
    """
    if '"address"' not in body:
        return json.loads(body)
    return json.loads(body, object_hook=lambda plain: texts[plain["address"]] if plain.keys() == {"address"} else plain)


def check_unpacked_size(data: bytes, max_bytes: int, what: str) -> None:
    """Raise StoreError unless zstd-compressed data declares an unpacked size of at most `max_bytes`.

    Args:
        data: Compressed data, or at least its header.
        max_bytes: Largest allowed size of the unpacked data.
        what: Name of the data in the error message, with the file in which it is stored.
    """
    try:
        size_bytes = zstandard.frame_content_size(data)
    except zstandard.ZstdError as error:
        raise StoreError(f"{what} is damaged ({error}); restore the file from a copy") from None
    if not 0 <= size_bytes <= max_bytes:
        size = "an unknown size" if size_bytes < 0 else f"{size_bytes:,} bytes"
        raise StoreError(f"{what} has {size} when it is unpacked; at most {max_bytes:,} bytes are allowed")


class Packer:
    """Compressor of the texts of a journal with zstd, which reuses buffers; each thread needs a packer of its own."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._decompress = zstandard.ZstdDecompressor().decompress
        self._compress = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=False).compress

    def pack(self, address: str, text: str, *, compress: bool) -> StoredText:
        """Return the table row for a text, compressed if requested or if SQLite cannot store one of its characters."""
        if not compress and "\0" not in text and text == replace_surrogates(text):
            return StoredText(address, len(text), None, text)
        head = replace_surrogates(text[:HEAD_CHARACTERS].replace("\0", "\ufffd"))
        return StoredText(address, len(text), head, self._compress(_to_bytes(text)))

    def unpack(self, data: str | bytes) -> str:
        """Return the text for a value of the column `data` of the table `text`, which may be compressed."""
        if isinstance(data, str):
            return data
        check_unpacked_size(data, MAX_TEXT_BYTES, f"a text in journal {str(self._journal)!r}")
        return self._decompress(data).decode("utf-8", "surrogatepass")
