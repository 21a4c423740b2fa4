"""Which values a call was written with: its text is laid over the templates of the task's script.

A call is recognised if it has a template's tool and all of its fixed text. What stands in the place of a placeholder is read
as it is, on one line; of values that are known the longest that fits is taken, so that `1.30.` is not read as `1`. Where
several templates fit, only what they agree on is told. A call that none fits tells nothing; nothing is guessed.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from harness import transcript
from harness.messages import ToolCall
from harness.task import Script

Known: TypeAlias = Callable[[str], Iterable[str]]
"""Values that a fact may have been written with."""

_PLACEHOLDER = re.compile(r"\$(?:\$|\{(\w+)\}|([A-Za-z_]\w*))")


class _Piece(NamedTuple):
    """A fixed text and the placeholder behind it (empty = the text ends here)."""

    fixed: str
    fact: str


_Arguments: TypeAlias = tuple[tuple[_Piece, ...], ...]
_Shape: TypeAlias = tuple[str, tuple[str, ...]]
"""Tool and sorted names of the arguments."""


class Uses:
    """The calls of a script, ready to be recognised."""

    def __init__(self, script: Script) -> None:
        """Take the templates apart."""
        self._by_shape: dict[_Shape, dict[tuple[int, ...], dict[tuple[str, ...], list[_Arguments]]]] = {}
        calls = (call for step in script.steps for call in (*step.calls, *(c for repair in step.repairs for c in repair.calls)))
        for call in dict.fromkeys(calls):
            arguments = tuple(_pieces(text) for _, text in sorted(call.arguments))
            shape = call.tool, tuple(sorted(name for name, _ in call.arguments))
            begins = tuple(pieces[0].fixed for pieces in arguments)
            by_lengths = self._by_shape.setdefault(shape, {}).setdefault(tuple(map(len, begins)), {})
            by_lengths.setdefault(begins, []).append(arguments)

    def read(self, call: ToolCall, known: Known) -> Mapping[str, str]:
        """The facts that a call was written with, by name; empty if no template fits."""
        given = sorted(transcript.parse_arguments(call).items())
        texts = [value for _, value in given if isinstance(value, str)]
        fitting: list[dict[str, str]] = []
        if len(texts) == len(given):
            for arguments in self._candidates((call.name, tuple(name for name, _ in given)), texts):
                found: dict[str, str] = {}
                if all(_fits(text, pieces, found, known) for text, pieces in zip(texts, arguments, strict=True)):
                    fitting.append(found)
        if not fitting:
            return {}
        return {name: value for name, value in fitting[0].items() if all(other.get(name) == value for other in fitting)}

    def _candidates(self, shape: _Shape, texts: Sequence[str]) -> Iterator[_Arguments]:
        """Templates whose texts begin as these do; looked up, since a script may have thousands."""
        for lengths, by_begins in self._by_shape.get(shape, {}).items():
            yield from by_begins.get(tuple([text[:length] for text, length in zip(texts, lengths, strict=True)]), ())


def _pieces(text: str) -> tuple[_Piece, ...]:
    pieces, fixed, end = [], "", 0
    for match in _PLACEHOLDER.finditer(text):
        fixed += text[end : match.start()]
        end = match.end()
        if match[0] == "$$":
            fixed += "$"
        else:
            pieces.append(_Piece(fixed, match[1] or match[2]))
            fixed = ""
    return (*pieces, _Piece(fixed + text[end:], ""))


def _fits(text: str, pieces: Sequence[_Piece], found: dict[str, str], known: Known) -> bool:
    """Whether a text is what the pieces make with some values; these are added to `found`."""
    at = 0
    for piece, following in zip(pieces, (*pieces[1:], None), strict=True):
        if not text.startswith(piece.fixed, at):
            return False
        at += len(piece.fixed)
        if following is None:
            return at == len(text)
        value = _value(text, at, piece.fact, following, found, known)
        if value is None:
            return False
        found[piece.fact] = value
        at += len(value)
    return False


def _value(text: str, at: int, fact: str, following: _Piece, found: Mapping[str, str], known: Known) -> str | None:
    """What stands in the place of a placeholder."""
    if fact in found:
        return found[fact] if text.startswith(found[fact], at) else None
    ends = at + len(following.fixed)

    def goes_on(value: str) -> bool:
        behind = at + len(value)
        return text.startswith(following.fixed, behind) and (bool(following.fact) or ends + len(value) == len(text))

    fitting = [value for value in known(fact) if text.startswith(value, at) and goes_on(value)]
    if fitting:
        return max(fitting, key=len)
    line = text[at:end] if (end := text.find("\n", at)) >= 0 else text[at:]
    if not following.fixed:
        return None if following.fact else line
    stop = text.find(following.fixed, at)
    return text[at:stop] if at <= stop <= at + len(line) else None
