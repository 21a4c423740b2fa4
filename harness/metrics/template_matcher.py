"""Recognition of the facts of a task that the agent used in a tool call, by comparison with templates.

The task's script has a template for each call, with placeholders such as `${port}` for facts. A call matches a template if it
calls the same tool and contains all fixed text of the template. The text at a placeholder, up to the end of the line, is the
value of the fact. If several known values fit there, the longest is taken, so that `1.30.` is not read as `1`. If several
templates match, only the values on which they agree are returned.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from harness.conversation import transcript
from harness.conversation.messages import ToolCall
from harness.models.scripted.patterns import MAX_CACHED_TASKS
from harness.task import Script

CandidateLookup: TypeAlias = Callable[[str], Iterable[str]]
"""Function that takes the name of a fact and returns all known values of the fact."""

_PLACEHOLDER = re.compile(r"\$(?:\$|\{(\w+)\}|([A-Za-z_]\w*))")


class _TemplatePiece(NamedTuple):
    """Fixed text of a call template and the placeholder after it, such as `${port}`; the last piece has none."""

    fixed_text: str
    fact_name: str


_ArgumentPieces: TypeAlias = tuple[tuple[_TemplatePiece, ...], ...]
_CallShape: TypeAlias = tuple[str, tuple[str, ...]]
"""Name of the called tool, and the sorted names of its arguments."""


@lru_cache(maxsize=MAX_CACHED_TASKS)
def build_template_matcher(script: Script) -> "TemplateMatcher":
    """Return the matcher for a task's script; equal scripts share one object in a process."""
    return TemplateMatcher(script)


class TemplateMatcher:
    """Matcher that recognizes which facts of a task (such as a port number) the agent used in a tool call.

    The call is compared with the templates of the task's script, which contain placeholders for the facts.
    """

    def __init__(self, script: Script) -> None:
        # templates are grouped by tool, argument names and beginnings up to the first `$`, so that a call is compared with few of
        # them; only those are split into pieces, since a script has thousands of templates and a short session calls few tools
        self._by_shape: dict[_CallShape, dict[tuple[int, ...], dict[tuple[str, ...], list[tuple[str, ...]]]]] = {}
        self._pieces: dict[str, tuple[_TemplatePiece, ...]] = {}
        first_prefixes: dict[_CallShape, set[str]] = {}
        calls = (call for step in script.steps for call in (*step.calls, *(c for repair in step.repairs for c in repair.calls)))
        for tool, arguments in dict.fromkeys([(call.tool, call.arguments) for call in calls]):
            ordered = sorted(arguments)
            texts = tuple([text for _, text in ordered])
            shape = tool, tuple([name for name, _ in ordered])
            prefixes = tuple([text.partition("$")[0] for text in texts])
            first_prefixes.setdefault(shape, set()).update(prefixes[:1] or ("",))
            by_lengths = self._by_shape.setdefault(shape, {}).setdefault(tuple(map(len, prefixes)), {})
            by_lengths.setdefault(prefixes, []).append(texts)
        self._first_prefixes = {shape: tuple(prefixes) for shape, prefixes in first_prefixes.items()}
        """Fixed beginnings of the first argument of all templates, of which each matching call has one."""

    def match_call(self, call: ToolCall, list_candidates: CandidateLookup) -> Mapping[str, str]:
        """Return the facts of the task (such as a port) that a tool call uses, with the used values, by name.

        The result is empty if no template fits.

        Args:
            call: Tool call to match.
            list_candidates: Function that returns the known values of a fact by its name.
        """
        arguments = sorted(transcript.parse_arguments(call).items())
        texts = [value for _, value in arguments if isinstance(value, str)]
        matches: list[dict[str, str]] = []
        if len(texts) == len(arguments):
            for template in self._find_templates((call.name, tuple(name for name, _ in arguments)), texts):
                values: dict[str, str] = {}
                pairs = zip(texts, template, strict=True)
                if all(_matches_pieces(text, pieces, values, list_candidates) for text, pieces in pairs):
                    matches.append(values)
        if not matches:
            return {}
        return {name: value for name, value in matches[0].items() if all(other.get(name) == value for other in matches)}

    def _find_templates(self, shape: _CallShape, texts: Sequence[str]) -> Iterator[_ArgumentPieces]:
        """Yield the call templates whose arguments begin with the same fixed text as the given arguments."""
        if texts and not texts[0].startswith(self._first_prefixes.get(shape, ())):
            return
        for lengths, by_prefixes in self._by_shape.get(shape, {}).items():
            for template in by_prefixes.get(tuple([text[:length] for text, length in zip(texts, lengths, strict=True)]), ()):
                yield tuple([self._split(text) for text in template])

    def _split(self, text: str) -> tuple[_TemplatePiece, ...]:
        pieces = self._pieces.get(text)
        if pieces is None:
            pieces = self._pieces[text] = _split_template(text)
        return pieces


def _split_template(text: str) -> tuple[_TemplatePiece, ...]:
    if "$" not in text:
        return (_TemplatePiece(text, ""),)
    pieces, fixed, end = [], "", 0
    for match in _PLACEHOLDER.finditer(text):
        fixed += text[end : match.start()]
        end = match.end()
        if match[0] == "$$":
            fixed += "$"
        else:
            pieces.append(_TemplatePiece(fixed, match[1] or match[2]))
            fixed = ""
    return (*pieces, _TemplatePiece(fixed + text[end:], ""))


def _matches_pieces(
    text: str, pieces: Sequence[_TemplatePiece], values: dict[str, str], list_candidates: CandidateLookup
) -> bool:
    """Return whether an argument of a tool call fits a template; store the value of each placeholder in `values`."""
    position = 0
    for piece, following in zip(pieces, (*pieces[1:], None), strict=True):
        if not text.startswith(piece.fixed_text, position):
            return False
        position += len(piece.fixed_text)
        if following is None:
            return position == len(text)
        value = _match_placeholder(text, position, piece.fact_name, following, values, list_candidates)
        if value is None:
            return False
        values[piece.fact_name] = value
        position += len(value)
    return False


def _match_placeholder(
    text: str, position: int, fact: str, following: _TemplatePiece, values: Mapping[str, str], list_candidates: CandidateLookup
) -> str | None:
    """Return the text that an argument has in place of a placeholder such as `${port}`; None if no text fits."""
    if fact in values:
        return values[fact] if text.startswith(values[fact], position) else None

    def is_followed(value: str) -> bool:
        value_end = position + len(value)
        is_last_placeholder = not following.fact_name
        reaches_end = value_end + len(following.fixed_text) == len(text)
        return text.startswith(following.fixed_text, value_end) and (reaches_end or not is_last_placeholder)

    matching_values = [value for value in list_candidates(fact) if text.startswith(value, position) and is_followed(value)]
    if matching_values:
        return max(matching_values, key=len)
    line = text[position:end] if (end := text.find("\n", position)) >= 0 else text[position:]
    if not following.fixed_text:
        return None if following.fact_name else line
    stop = text.find(following.fixed_text, position)
    return text[position:stop] if position <= stop <= position + len(line) else None
