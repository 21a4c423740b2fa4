"""Reducer that shows the agent again, behind a summary, what the session knows of its files and of rules that tools loaded.

The contents come from the messages that the agent sees, never from the disk, so a plan stays a function of the view. A file
that a shell command changed is therefore shown as the agent last wrote or read it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from harness.compaction.stages import DEFAULT_COUNTER, Reducer, compile_patterns
from harness.compaction.summary_formats import READ_TOOLS, WRITE_TOOLS
from harness.conversation import transcript
from harness.conversation.messages import Message, ToolCall, ToolResult, user
from harness.conversation.plan import CompactionPlan
from harness.conversation.tokens import Budget, Counter
from harness.conversation.view import View

HEADING = "Contents from before the summary, shown again:"
_BLOCK = re.compile(r"^(FILE|LOADED BY A TOOL) (.*), (\d+) characters:\n", re.MULTILINE)
"""First line of a block of contents, whose length makes it readable whatever the contents are."""
CHARACTERS_OF_TOKEN = 4
"""Number of characters to which a limit in tokens is converted when the text of a tool is cut."""


class _Contents(NamedTuple):
    files: dict[str, str]
    """Content of each file that the agent modified, by its path, the most recently modified one last."""
    loaded: dict[str, str]
    """Text of each result of a tool that loads rules, by the call's main argument, the newest one last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReInject:
    """Part of a policy that shortens the conversation, and repeats contents of files and loaded rules behind the summary.

    A modified file is one that a tool call wrote. Its content is what the agent wrote last, or read after that. Contents that an
    earlier compaction showed again are carried on.
    """

    reducer: Reducer
    """Way to shorten the conversation; nothing is repeated if its plan has no summary."""
    most_files: int = 5
    """Maximum number of files, the most recently modified first; 0 repeats no file."""
    file_tokens: int = 5_000
    """Maximum number of tokens of one file; of a larger file, only the path is shown."""
    files_tokens: int = 25_000
    """Maximum number of tokens of all repeated files together; of a file that exceeds it, only the path is shown."""
    tools: tuple[str, ...] = ()
    """Shell patterns of the names of tools that load rules, such as `skill`, whose results are repeated."""
    result_tokens: int = 5_000
    """Maximum number of tokens of one repeated result; of a longer one, the beginning is shown."""
    results_tokens: int = 25_000
    """Maximum number of tokens of all repeated results together; older results that exceed it are left out."""
    counter: Counter = DEFAULT_COUNTER
    """Token counter with which the limits are measured."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return the plan of the reducer and, if it has a summary, a message with the repeated contents behind the summary."""
        plan = self.reducer.reduce(view, budget, reason)
        if not plan.slots:
            return plan
        contents = self._collect(view)
        blocks = [*self._select_files(contents.files), *self._select_results(contents.loaded)]
        if not blocks:
            return plan
        last = plan.slots[-1]
        ending = replace(last, behind=(*last.behind, user("\n\n".join((HEADING, *blocks)))))
        return replace(plan, slots=(*plan.slots[:-1], ending))

    def _collect(self, view: View) -> _Contents:
        contents, calls = _Contents({}, {}), dict[str, ToolCall]()
        for item in view.items[1:]:
            message = item.message
            if message.role == "user" and message.text.startswith(HEADING):
                _read_blocks(message, contents)
            calls.update((call.call_id, call) for call in message.calls)
            for result in message.results:
                if (call := calls.get(result.call_id)) is not None and result.status == "completed":
                    self._note_result(call, result, contents)
        return contents

    def _note_result(self, call: ToolCall, result: ToolResult, contents: _Contents) -> None:
        arguments: Mapping[str, object] = transcript.parse_arguments(call)
        path, written = arguments.get("path"), arguments.get("content")
        if call.name in WRITE_TOOLS and isinstance(path, str) and isinstance(written, str):
            contents.files.pop(path, None)
            contents.files[path] = written
        elif call.name in READ_TOOLS and isinstance(path, str) and contents.files.get(path):
            contents.files[path] = result.output
        elif any(matches(call.name) for _, matches in compile_patterns(self.tools)):
            key = transcript.find_key_argument(call)
            contents.loaded.pop(key, None)
            contents.loaded[key] = result.output

    def _select_files(self, files: Mapping[str, str]) -> Iterator[str]:
        room = self.files_tokens
        for path in list(files)[::-1][: self.most_files]:
            tokens = self.counter.count(user(files[path]))
            if files[path] and tokens <= min(self.file_tokens, room):
                room -= tokens
                yield _format_block("FILE", path, files[path])
            else:
                yield _format_block("FILE", path, "")

    def _select_results(self, loaded: Mapping[str, str]) -> Iterator[str]:
        room = self.results_tokens
        for key in list(loaded)[::-1]:
            text = loaded[key][: self.result_tokens * CHARACTERS_OF_TOKEN]  # without a mark, so that a second cut changes nothing
            room -= self.counter.count(user(text))
            if room < 0:
                return
            yield _format_block("LOADED BY A TOOL", key, text)


def _format_block(kind: str, name: str, text: str) -> str:
    """Return a block of contents; without a text, the block is a line with the name alone."""
    name = " ".join(name.split())
    return f"{kind} {name}, {len(text)} characters:\n{text}" if text else f"{kind} {name}, not shown: read it if you need it"


def _read_blocks(message: Message, contents: _Contents) -> None:
    """Add the contents that an earlier compaction showed again, in a message whose first block is the newest."""
    text, start = message.text, 0
    blocks: list[tuple[str, str, str]] = []
    while match := _BLOCK.search(text, start):
        start = match.end() + int(match[3])
        blocks.append((match[1], match[2], text[match.end() : start]))
    for kind, name, content in reversed(blocks):
        target = contents.files if kind == "FILE" else contents.loaded
        target.pop(name, None)
        target[name] = content
