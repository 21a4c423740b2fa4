"""Tools built from Python functions; they parse arguments, report errors to the model as results, and shorten long outputs.

A tool raises no exception for events in the workspace. A failing command, a missing file or a refused path becomes a result that
the model reads. Outputs are shortened before they are logged.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from harness.conversation.messages import ToolCall, ToolResult
from harness.conversation.overhead import OverheadClock
from harness.conversation.truncation import (
    NOTHING_ESSENTIAL,
    Cut,
    Essentials,
    Truncation,
    build_mark,
    format_preview,
    measure_cut,
    preview_output,
)
from harness.errors import ToolError
from harness.protocols import OutputStore, ToolSpec


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """Tool of an agent: a description for the model, and a Python function that carries out the calls."""

    spec: ToolSpec
    """Name, description and parameters of the tool, which are sent to the model."""
    act: Callable[[Mapping[str, Any]], str]
    """Function that carries out a tool call and returns the output; it raises ToolError with a text for the model if it fails."""
    string_fields: tuple[str, ...] = ()
    """Names of the arguments that every call of the tool must contain as strings."""
    limits: Truncation = field(default_factory=Truncation)
    """Limits on the length of the tool's output; a longer output is shortened before the model reads it."""
    outputs: OutputStore | None = None
    """Store that keeps the complete text of an output which was shortened; None discards the part beyond the limits."""
    find_essentials: Callable[[str], Essentials] = field(default=lambda _output: NOTHING_ESSENTIAL)
    """Function that returns the parts of an output that must be kept when it is shortened; used if `limits` asks for that."""
    measure: Callable[[], AbstractContextManager[None]] = nullcontext
    """Function that returns a context manager for the duration of one tool call, e.g. to measure how long the call takes."""
    overhead: OverheadClock | None = None
    """Clock to which the time of shortening outputs is added; None measures nothing."""

    def run(self, call: ToolCall) -> ToolResult:
        """Carry out a tool call and return its result, whose output is shortened to the limits of the tool.

        Invalid arguments and a ToolError of the function become a result with the status `error`.
        """
        try:
            arguments = self._parse_arguments(call)
            with self.measure():
                output, status = self.act(arguments), "completed"
        except ToolError as error:
            output, status = f"error: {error}", "error"
        start_seconds = perf_counter()
        kept, cut = self._shorten(output)
        if self.overhead is not None:
            self.overhead.add("truncation", perf_counter() - start_seconds)
        return ToolResult(
            call_id=call.call_id,
            name=call.name,
            output=kept,
            status=status,  # type: ignore[arg-type]
            clipped_characters=cut.characters,
            clipped_bytes=cut.size_bytes,
        )

    def _shorten(self, output: str) -> tuple[str, Cut]:
        """Return the output, shortened to the limits of the tool, and the size of what was cut."""
        essentials = self.find_essentials(output) if self.limits.keep_essentials else NOTHING_ESSENTIAL
        preview = preview_output(output, self.limits, essentials)
        if preview.cut_bytes:
            mark = build_mark(self._save_output(output), self.limits)
            return format_preview(preview, self.limits, mark), measure_cut(output, preview.text, preview.essential)
        max_characters = self.limits.max_characters
        if max_characters is None or len(output) <= max_characters:
            return output, Cut(0, 0)
        mark = build_mark(self._save_output(output), self.limits)
        ending = f"\n\n{mark}" if mark else ""
        shown_text, cut = clip(
            output, max(0, max_characters - len(ending)), ends=self.limits.keep == "ends", essentials=essentials
        )
        return shown_text + ending, cut

    def _save_output(self, output: str) -> str:
        if self.outputs is None or not self.limits.saved:
            return ""
        return self.outputs.save(output)

    def _parse_arguments(self, call: ToolCall) -> Mapping[str, Any]:
        try:
            arguments: Any = json.loads(call.arguments_json)
        except (ValueError, RecursionError) as error:
            raise ToolError(f"the arguments are not valid JSON: {error}") from None
        if not isinstance(arguments, dict) or not all(isinstance(arguments.get(name), str) for name in self.string_fields):
            field_text = f" with the string fields: {', '.join(self.string_fields)}" if self.string_fields else ""
            raise ToolError(f"{self.spec.name} takes an object{field_text}")
        return arguments


def clip(text: str, most_characters: int, *, ends: bool = False, essentials: Essentials = NOTHING_ESSENTIAL) -> tuple[str, Cut]:
    """Shorten a text, and return it with the size of what was cut.

    Args:
        text: Text to shorten.
        most_characters: Maximum length of the result in characters, including a line with the number of characters removed.
        ends: Whether to keep the beginning and the end of the text, half of the characters each, rather than the beginning only.
        essentials: Beginning and end of the text that are kept in either case; the end takes at most half of the characters.
    """
    if len(text) <= most_characters:
        return text, Cut(0, 0)
    room = max(0, most_characters - 60)
    tail = room // 2 if ends else min(len(essentials.ending), room // 2)
    head = max(room - tail, len(essentials.opening))
    beginning, end = text[:head], text[len(text) - tail :]
    cut = measure_cut(text, beginning, end)
    last = f"\n{end}" if tail else ""
    return f"{beginning}\n[{cut.characters} of {len(text)} characters cut]{last}"[:most_characters], cut


def build_spec(name: str, description: str, properties: Mapping[str, object], required: Iterable[str]) -> ToolSpec:
    """Return the description of a tool that a model reads.

    `properties` contains the JSON schema of each argument, by name.
    """
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return ToolSpec(name=name, description=description, parameters_json=json.dumps(schema))
