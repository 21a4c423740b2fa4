"""A tool made of a function: parses the arguments of a call, turns errors into results and shortens long outputs.

A tool never raises for what happens in the workspace: a failing command, a missing file or a refused path is a result that
the model reads. Outputs are cut here, before they are logged (S0.9).
"""

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.errors import ToolError
from harness.messages import ToolCall, ToolResult
from harness.protocols import OutputStore, ToolSpec
from harness.truncation import Truncation, describe_location, format_preview, preview_output


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """A tool as a description and the function that does its work."""

    spec: ToolSpec
    act: Callable[[Mapping[str, Any]], str]
    """Returns the output for the arguments of a call; raises ToolError for the model to read."""
    string_fields: tuple[str, ...] = ()
    """Arguments that must be strings."""
    limits: Truncation = field(default_factory=Truncation)
    outputs: OutputStore | None = None
    """Store of outputs that exceed the limits, if these are saved; None = no store."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Shared by the tools of one sandbox, which serves one caller at a time."""

    def run(self, call: ToolCall) -> ToolResult:
        """See `harness.protocols.Tool`."""
        try:
            arguments = self._parse_arguments(call)
            with self.lock:
                output, status = self.act(arguments), "completed"
        except ToolError as error:
            output, status = f"error: {error}", "error"
        kept, cut = self._shorten(output)
        return ToolResult(call_id=call.call_id, name=call.name, output=kept, status=status, clipped_characters=cut)  # type: ignore[arg-type]

    def _shorten(self, output: str) -> tuple[str, int]:
        """An output within its limits, and how many of its characters went."""
        preview = preview_output(output, self.limits)
        if preview.cut_bytes:
            return format_preview(preview, self.limits, self._save_output(output)), preview.cut_characters
        most = self.limits.max_characters
        if most is None or len(output) <= most:
            return output, 0
        name = self._save_output(output)
        where = f"\n\n{describe_location(name)}" if name else ""
        shown, cut = clip(output, max(0, most - len(where)), ends=self.limits.keep == "ends")
        return shown + where, cut

    def _save_output(self, output: str) -> str:
        """The name of an output that is kept whole; empty where none is."""
        if self.outputs is None or not self.limits.saved:
            return ""
        with self.lock:
            return self.outputs.save(output)

    def _parse_arguments(self, call: ToolCall) -> Mapping[str, Any]:
        try:
            given: Any = json.loads(call.arguments_json)
        except (ValueError, RecursionError) as error:
            raise ToolError(f"the arguments are not valid JSON: {error}") from None
        if not isinstance(given, dict) or not all(isinstance(given.get(name), str) for name in self.string_fields):
            wanted = f" with the string fields: {', '.join(self.string_fields)}" if self.string_fields else ""
            raise ToolError(f"{self.spec.name} takes an object{wanted}")
        return given


def clip(text: str, most_characters: int, *, ends: bool = False) -> tuple[str, int]:
    """The text, cut to at most that many characters with a line that says how many went; and that number.

    With `ends` that line stands between the first and the last characters, half of them each.
    """
    if len(text) <= most_characters:
        return text, 0
    room = max(0, most_characters - 60)
    cut, tail = len(text) - room, room // 2 if ends else 0
    last = f"\n{text[len(text) - tail :]}" if tail else ""
    return f"{text[: room - tail]}\n[{cut} of {len(text)} characters cut]{last}"[:most_characters], cut


def build_spec(name: str, description: str, properties: Mapping[str, object], required: Iterable[str]) -> ToolSpec:
    """Return the description of a tool whose arguments are an object with these properties."""
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return ToolSpec(name=name, description=description, parameters_json=json.dumps(schema))
