"""Storage of long strings: each string is stored once under its address, packed or plain.

The address is the SHA-256 of the text, truncated to 168 bits, so journals that share texts can be merged without renaming. Texts
that people read in a SQLite shell (prompts, answers, summaries) stay plain up to 16,384 characters; tool outputs, arguments and
files are packed with zstd.
"""

import binascii
import hashlib
import re
from typing import Any, NamedTuple

import zstandard

from harness.text import replace_surrogates

INLINE_CHARACTERS = 256
"""Maximum length of a string that is stored inside its event."""
PLAIN_CHARACTERS = 16_384
HEAD_CHARACTERS = 60
_PACKED_FIELDS = frozenset({"output", "arguments_json", "content", "policy_json", "setup_json"})
_LEVEL = 3

CONTENT_TABLES = {"text": "address", "blob": "sha256", "tree": "tree_id"}
"""Tables with contents that sessions refer to, and the column of each table that the references use."""
find_addresses = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{28}(?![A-Za-z0-9+/])").findall
"""Return all strings in a text that look like the address of a stored text; a few of them may be none."""
find_hashes = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])").findall
"""Return all strings in a text that look like the hash of a workspace or a file."""
MIN_NAME_CHARACTERS = 28
"""Length of the shortest reference to a content, in characters."""


class StoredText(NamedTuple):
    """Row of the table `text`."""

    address: str
    characters: int
    head: str | None
    data: str | bytes


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def compute_address(text: str) -> str:
    """Return the address of a text: 28 characters of base64."""
    return binascii.b2a_base64(hashlib.sha256(_to_bytes(text)).digest()[:21], newline=False).decode()


def detach_texts(plain: Any, texts: dict[str, tuple[str, bool]], name: str = "") -> Any:
    """Return JSON-ready data with long strings replaced by addresses; dicts are changed in place.

    Args:
        plain: JSON-ready data.
        texts: dict to which each long string is added by address, with a flag that is true if the string must be packed.
        name: name of the field that holds `plain`.
    """
    if isinstance(plain, str):
        if len(plain) <= INLINE_CHARACTERS:
            return plain
        address = compute_address(plain)
        texts[address] = plain, name in _PACKED_FIELDS or len(plain) > PLAIN_CHARACTERS
        return {"address": address}
    if isinstance(plain, dict):
        for key, value in plain.items():
            if isinstance(value, (str, dict, tuple, list)):
                plain[key] = detach_texts(value, texts, key)
        return plain
    if isinstance(plain, (list, tuple)):
        return [detach_texts(value, texts, name) for value in plain]
    return plain


def list_addresses(stored: Any) -> list[str]:
    """Return the addresses in data that `detach_texts` returned."""
    if isinstance(stored, dict):
        if stored.keys() == {"address"}:
            return [stored["address"]]
        return [address for value in stored.values() for address in list_addresses(value)]
    if isinstance(stored, list):
        return [address for value in stored for address in list_addresses(value)]
    return []


def attach_texts(stored: Any, texts: dict[str, str]) -> Any:
    """Return the data that was passed to `detach_texts`, with lists in place of tuples."""
    if isinstance(stored, dict):
        if stored.keys() == {"address"}:
            return texts[stored["address"]]
        return {key: attach_texts(value, texts) for key, value in stored.items()}
    if isinstance(stored, list):
        return [attach_texts(value, texts) for value in stored]
    return stored


class Packer:
    """Compressor of texts. It reuses buffers between calls, so each thread needs a packer of its own."""

    def __init__(self) -> None:
        self._compress = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=False).compress
        self._decompress = zstandard.ZstdDecompressor().decompress

    def pack(self, address: str, text: str, *, compress: bool) -> StoredText:
        """Return a text as a row of the table `text`. A text with NUL or lone surrogates is always packed."""
        if not compress and "\0" not in text and text == replace_surrogates(text):
            return StoredText(address, len(text), None, text)
        head = replace_surrogates(text[:HEAD_CHARACTERS].replace("\0", "\ufffd"))
        return StoredText(address, len(text), head, self._compress(_to_bytes(text)))

    def unpack(self, data: str | bytes) -> str:
        """Return the text that is stored, packed or plain, in the column `data` of the table `text`."""
        return data if isinstance(data, str) else self._decompress(data).decode("utf-8", "surrogatepass")
