"""A real tokenizer for the scripted models' usage reports, without any download.

`cl100k_base` comes as a file with litellm, which is not imported for it. What a scripted model reports therefore differs
from the characters/4 estimate as it does in the field.
"""

import os
import re
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UsageError
from harness.messages import Message, extract_part_text
from harness.tokens import Measured

if TYPE_CHECKING:
    from tiktoken import Encoding

ENCODING = "cl100k_base"
MESSAGE_OVERHEAD_TOKENS = 4
"""Role and separators of one message in the chat format of the models that use this encoding."""
SPLIT_ABOVE_CHARACTERS = 8_000
_LINE_END = re.compile(r"\n(?=\S)")


@lru_cache(maxsize=1)
def _load_encoding() -> "Encoding":
    found = find_spec("litellm")
    folders = list(found.submodule_search_locations or ()) if found else []
    bundled = [path for folder in folders if (path := Path(folder) / "litellm_core_utils" / "tokenizers").is_dir()]
    if not bundled:
        raise UsageError("the scripted model counts with a tokenizer file that litellm brings; install litellm")
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(bundled[0]))
    import tiktoken  # noqa: PLC0415  (slow, and it reads the variable above)

    return tiktoken.get_encoding(ENCODING)


@lru_cache(maxsize=20_000)
def count_text_tokens(text: str) -> Measured:
    """Tokens of a text; what looks like a control token is counted as text.

    No token of this encoding goes on behind a line that something other than space follows. So a long text, such as a prompt
    for a summary, is the sum of its pieces between such places, and most of these were seen in prompts before it.
    """
    if len(text) < SPLIT_ABOVE_CHARACTERS:
        return Measured(len(_load_encoding().encode_ordinary(text)))
    *ended, last = _LINE_END.split(text)
    return Measured(sum([_count_piece_tokens(piece + "\n") for piece in ended]) + _count_piece_tokens(last))


@lru_cache(maxsize=50_000)
def _count_piece_tokens(piece: str) -> int:
    return len(_load_encoding().encode_ordinary(piece))


@lru_cache(maxsize=20_000)
def count_message_tokens(message: Message) -> Measured:
    """Tokens of a message with the overhead of the chat format."""
    return Measured(MESSAGE_OVERHEAD_TOKENS + sum(count_text_tokens(extract_part_text(part)) for part in message.parts))


class PromptTokenCounter:
    """Tokens of whole prompts; a prompt that begins with the last one costs only what it adds. Thread-safe, and a function."""

    def __init__(self) -> None:
        """Nothing counted yet."""
        self._last: tuple[tuple[Message, ...], int] = ((), 0)

    def count(self, messages: tuple[Message, ...]) -> Measured:
        """Sum over the messages."""
        seen, total = self._last
        if messages[: len(seen)] != seen:
            seen, total = (), 0
        total += sum(map(count_message_tokens, messages[len(seen) :]))
        self._last = (messages, total)
        return Measured(total)
