"""Tools that only some tasks need: one shows an image of the workspace, one loads the rules of a skill.

A task names the tools that it needs (`Task.tools`). A skill is a folder `skills/NAME` with instructions for one kind of work.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.conversation.drawings import make_image, parse_drawing
from harness.conversation.messages import Image, ToolCall, ToolResult
from harness.conversation.truncation import Truncation
from harness.errors import ToolError, UsageError
from harness.protocols import Sandbox, Tool, ToolSpec
from harness.tools.function_tool import FunctionTool, build_spec
from harness.tools.standard import DEFAULT_LIMITS

VIEW_IMAGE_SPEC = build_spec(
    "view_image",
    "Look at an image of the workspace (SVG)",
    {"path": {"type": "string", "description": "Path relative to /workspace"}},
    ["path"],
)
SKILL_SPEC = build_spec(
    "skill",
    "Load the instructions of a skill, which hold from then on",
    {"name": {"type": "string", "description": "Name of a folder in /workspace/skills"}},
    ["name"],
)
_SKILL_NAME = re.compile(r"[\w-]{1,80}")


@dataclass(slots=True, kw_only=True)
class ViewImage:
    """Tool `view_image`, which shows an SVG file. The result says which file it is; the image is a part of its own.

    Thread-safe.
    """

    sandbox: Sandbox
    """Started sandbox with the files."""
    spec: ToolSpec = VIEW_IMAGE_SPEC
    _images: dict[str, Image] = field(default_factory=dict)
    """Image of each call that has run, by call id, until it is collected."""

    def run(self, call: ToolCall) -> ToolResult:
        """Show the file that a call names, and keep the image until `collect_images` takes it."""

        def show(arguments: Mapping[str, str]) -> str:
            path = arguments["path"]
            svg = self.sandbox.read(path).decode(errors="replace")
            try:
                drawing = parse_drawing(svg)
            except UsageError as error:
                raise ToolError(f"{path} cannot be shown: {error}") from None
            self._images[call.call_id] = make_image(path, svg)
            return f"{path}, {drawing.width} x {drawing.height} pixels"

        return FunctionTool(self.spec, show, ("path",)).run(call)

    def collect_images(self, call_id: str) -> tuple[Image, ...]:
        """Return the image that a call has shown, and forget it; empty if the call has shown none."""
        image = self._images.pop(call_id, None)
        return () if image is None else (image,)


def make_task_tools(names: Iterable[str], sandbox: Sandbox, limits: Truncation = DEFAULT_LIMITS) -> tuple[Tool, ...]:
    """Return those tools of a task that a session has besides the standard ones; `explore` is a setting of the session.

    Args:
        names: Names of the tools, as in `Task.tools`.
        sandbox: Started sandbox in which the tools run; the caller closes it.
        limits: Limits on the length of a tool output.
    """

    def load(arguments: Mapping[str, str]) -> str:
        name = arguments["name"]
        if not _SKILL_NAME.fullmatch(name):
            raise ToolError(f"the name of a skill consists of letters, digits, `-` and `_` (got {name!r:.80})")
        return sandbox.read(f"skills/{name}/SKILL.md").decode(errors="replace")

    tools: dict[str, Tool] = {
        "view_image": ViewImage(sandbox=sandbox),
        "skill": FunctionTool(SKILL_SPEC, load, ("name",), limits),
    }
    return tuple(tools[name] for name in names if name in tools)


def list_task_tool_specs(names: Iterable[str]) -> tuple[ToolSpec, ...]:
    """Return the descriptions of the tools that `make_task_tools` makes."""
    return tuple(spec for spec in (VIEW_IMAGE_SPEC, SKILL_SPEC) if spec.name in set(names))


if TYPE_CHECKING:
    _: type[Tool] = ViewImage
