"""Values to JSON and back, and the hashes that name them: the only module that knows how a value is written.

Canonical JSON has sorted keys and no spaces, so equal values have equal bytes and an arm's id is the hash of its
configuration. Adapters are built once for each type.
"""

import hashlib
import json
from functools import lru_cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from harness.errors import StoreError, UsageError
from harness.events import Event
from harness.messages import Message

T = TypeVar("T")

VERSION_TAG = "harness-1"
"""Part of every configuration hash; changes when the meaning of a configuration changes."""


@lru_cache(maxsize=256)
def adapter(of: Any) -> TypeAdapter[Any]:
    """The one adapter of a type (a dataclass or a union of them)."""
    built: TypeAdapter[Any] = TypeAdapter(of)
    return built


def to_plain(value: object, of: Any = None) -> Any:
    """A value as JSON-ready dicts, lists, strings and numbers."""
    kind: Any = of or type(value)
    return adapter(kind).dump_python(value, mode="json")


def from_plain(of: type[T], plain: object, where: str = "") -> T:
    """A value of type `of` from JSON-ready data.

    Raises:
        UsageError: names the path inside the data, what stood there and what is allowed.
    """
    kind: Any = of
    try:
        return cast(T, adapter(kind).validate_python(plain))
    except ValidationError as error:
        raise UsageError(_explain(error, where)) from None


def _explain(error: ValidationError, where: str) -> str:
    lines = []
    for problem in error.errors(include_url=False):
        path = ".".join(str(step) for step in (*([where] if where else []), *problem["loc"]))
        lines.append(f"{path or 'value'}: {problem['msg']} (got {problem['input']!r:.80})")
    return "; ".join(lines)


EVENTS: TypeAdapter[Any] = adapter(Event)
MESSAGES: TypeAdapter[Any] = adapter(Message)


def encode_event(event: Event) -> bytes:
    """An event as one line of JSON."""
    return EVENTS.dump_json(event)


def decode_event(data: bytes | str) -> Event:
    """The event of a line of JSON.

    Raises:
        StoreError: the line is not an event.
    """
    try:
        return cast(Event, EVENTS.validate_json(data))
    except ValidationError as error:
        raise StoreError(f"not an event: {_explain(error, '')}") from None


def canonical_json(value: object, of: Any = None) -> str:
    """Sorted keys, no spaces, no NaN: equal values give equal text."""
    return json.dumps(to_plain(value, of), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def configuration_hash(value: object, of: Any = None) -> str:
    """Twenty hex digits that name a configuration; equal exactly when the canonical JSON is."""
    return hashlib.sha256(f"{VERSION_TAG}\n{canonical_json(value, of)}".encode()).hexdigest()[:20]


def message_digest(message: Message, before: bytes = b"") -> bytes:
    """SHA-256 over a message chained to the digest of all messages before it (32 bytes)."""
    return hashlib.sha256(before + MESSAGES.dump_json(message)).digest()
