"""Token counts for scripted models, made with a real tokenizer that needs no download.

The tokenizer `cl100k_base` comes as a file with litellm; litellm itself is not imported. The reported counts therefore differ
from the estimate of one token for four characters, as those of real models do.

The trials of an experiment contain mostly the same texts. `COUNTS` keeps the counts of all texts that this process has counted,
by digest of the text. The worker processes of a run exchange these counts through the action cache. A process that receives the
counts of all its texts does not load the tokenizer, which takes about as much CPU time as a trial with a filled cache.
"""

import os
import re
import struct
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from harness.conversation.growing_sequence import find_difference, has_prefix
from harness.conversation.messages import Message, Reasoning, ToolCall, ToolResult, count_image_tokens, extract_part_text
from harness.conversation.tokens import Measured
from harness.errors import UsageError

if TYPE_CHECKING:
    from tiktoken import Encoding

ENCODING = "cl100k_base"
MESSAGE_OVERHEAD_TOKENS = 4
"""Number of tokens that the chat format adds to each message for its role and separators."""
SPLIT_ABOVE_CHARACTERS = 8_000
"""Length in characters above which a text is split into pieces whose tokens are counted and cached separately."""
MAX_COUNTS = 100_000
"""Maximum number of texts whose counts are held in memory and exchanged."""
_RECORD = struct.Struct("<16sI")
# no token of the encoding spans a line break before a character that is not white space
_LINE_END = re.compile(r"\n(?=\S)")


@lru_cache(maxsize=1)
def _load_encoding() -> "Encoding":
    package = find_spec("litellm")
    folders = list(package.submodule_search_locations or ()) if package else []
    bundled_folders = [path for folder in folders if (path := Path(folder) / "litellm_core_utils" / "tokenizers").is_dir()]
    if not bundled_folders:
        raise UsageError("the scripted model counts tokens with a file of litellm, which is not installed; install litellm")
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(bundled_folders[0]))
    import tiktoken  # noqa: PLC0415  (slow, and reads the variable set above)

    return tiktoken.get_encoding(ENCODING)


class TokenCounts:
    """Table of the token counts of texts, by digest of the text. Thread-safe.

    Other processes can take over the packed table.
    """

    def __init__(self) -> None:
        self._counts: dict[bytes, int] = {}
        self._lock = threading.Lock()
        self.unsaved = 0
        """Number of texts counted since `pack` was last called."""
        self.unsaved_trials = 0
        """Number of trials that have ended since `pack` was last called, each with texts still unsaved."""

    def find_or_count(self, text: str, count: Callable[[str], int]) -> int:
        """Return the number of tokens in a text from the table, or compute it with `count` and remember it."""
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        known = self._counts.get(digest)
        if known is None:
            known = count(text)
            with self._lock:
                self._counts[digest] = known
                self.unsaved += 1
                self._drop_oldest()
        return known

    def pack(self) -> bytes:
        """Return all counts as bytes, which another process can add to its own counts with `merge`."""
        with self._lock:
            self.unsaved = self.unsaved_trials = 0
            return b"".join([_RECORD.pack(digest, count) for digest, count in self._counts.items()])

    def merge(self, packed: bytes) -> None:
        """Add counts that another process has packed; a part of a record at the end is ignored."""
        with self._lock:
            self._counts = {**dict(_RECORD.iter_unpack(packed[: len(packed) // _RECORD.size * _RECORD.size])), **self._counts}
            self._drop_oldest()

    def __len__(self) -> int:
        return len(self._counts)

    def _drop_oldest(self) -> None:
        if len(self._counts) > MAX_COUNTS:
            for digest in list(islice(self._counts, len(self._counts) - MAX_COUNTS // 2)):
                del self._counts[digest]


COUNTS = TokenCounts()
"""Token counts of all texts that this process has counted or received."""


@lru_cache(maxsize=20_000)
def count_text_tokens(text: str) -> Measured:
    """Return the number of tokens in a text; control tokens in the text count as plain text.

    A long text, such as a summary prompt, is counted in pieces, because most pieces are already in the cache.
    """
    return Measured(COUNTS.find_or_count(text, _encode if len(text) < SPLIT_ABOVE_CHARACTERS else _count_pieces))


def _encode(text: str) -> int:
    return len(_load_encoding().encode_ordinary(text))


def _count_pieces(text: str) -> int:
    *ended, last = _LINE_END.split(text)
    return sum([_count_piece_tokens(piece + "\n") for piece in ended]) + _count_piece_tokens(last)


@lru_cache(maxsize=50_000)
def _count_piece_tokens(piece: str) -> int:
    return _encode(piece)


@lru_cache(maxsize=20_000)
def count_message_tokens(message: Message) -> Measured:
    """Return the number of tokens of a message, including the overhead of the chat format.

    Texts are sent as one, with a line break between two parts.
    """
    if len(message.parts) == 1:
        text_tokens = count_text_tokens(extract_part_text(message.parts[0]))
        return Measured(MESSAGE_OVERHEAD_TOKENS + text_tokens + count_image_tokens(message))
    content = [extract_part_text(part) for part in message.parts if not isinstance(part, Reasoning | ToolCall | ToolResult)]
    others = [extract_part_text(part) for part in message.parts if isinstance(part, Reasoning | ToolCall | ToolResult)]
    return Measured(
        MESSAGE_OVERHEAD_TOKENS + sum(map(count_text_tokens, ("\n".join(content), *others))) + count_image_tokens(message)
    )


class IncrementalTokenCounter:
    """Counter of the tokens in whole prompts. Thread-safe.

    Only the messages of a prompt behind its common beginning with the previous prompt are counted.
    """

    def __init__(self) -> None:
        self._last: tuple[Sequence[Message], int] = ((), 0)

    def count(self, messages: Sequence[Message]) -> Measured:
        """Return the number of tokens of all messages of a prompt together."""
        counted_messages, total = self._last
        count = len(counted_messages)
        if not has_prefix(messages, counted_messages):
            count = find_difference(messages, counted_messages)
            total -= sum(map(count_message_tokens, counted_messages[count:]))
        total += sum(map(count_message_tokens, messages[count:]))
        self._last = (messages, total)
        return Measured(total)
