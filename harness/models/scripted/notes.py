"""Notes of the scripted agent: a file into which it writes what it was told, as agents with a memory tool do.

The agent reads the file whenever no message shows that it has, i.e. at the start of the session and after a compaction. It then
appends the line of each fact that it sees and has not noted, before it goes on with its work. So every fact that a request has
contained is in the file. A fact that the agent no longer sees is first looked up there.

The agent keeps nothing between calls: the visible calls on the file and their results show what it has noted.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from harness.conversation import transcript
from harness.conversation.messages import Message
from harness.models.scripted.patterns import APPEND_NOTES, FactPatterns, is_notes_call
from harness.models.scripted.visible_state import VisibleState, extract_searchable_text
from harness.task import CallTemplate

MAX_LINE_CHARACTERS = 1_000
"""Maximum length of a noted line in characters; of a longer line, the part from the fact on is noted."""
_DELIMITER = "END_OF_NOTES"


def build_append_call(lines: Sequence[str]) -> CallTemplate:
    """Return the tool call that appends lines to the notes."""
    command = "\n".join([f"{APPEND_NOTES}<<'{_DELIMITER}'", *lines, _DELIMITER])
    return CallTemplate(tool="execute_command", arguments=(("command", command.replace("$", "$$")),))  # no placeholders


def find_unnoted_lines(messages: Sequence[Message], visible: VisibleState, facts: FactPatterns) -> list[str]:
    """Return the line that states each visible fact which the visible notes do not contain, without repetition."""
    texts = list(_iter_notes(messages))
    noted = {match.name: match.value for text in texts for match in facts.find_newest(text)}
    new = {name: visible.fact_offsets[name] for name, value in visible.facts.items() if noted.get(name) != value}
    lines = _find_lines(messages, new)
    readable = {name for name, line in lines.items() if name in {match.name for match in facts.find_newest(line)}}
    due = (line for name, line in lines.items() if name in readable or not any(line in text for text in texts))
    return list(dict.fromkeys(due))  # a line that cannot be read back is noted once


def _iter_notes(messages: Sequence[Message]) -> Iterator[str]:
    """Yield each visible text of the notes: what the agent has appended, and what it has read."""
    call_ids = set[str]()
    for message in messages:
        for call in message.calls:
            if is_notes_call(call.name, transcript.find_key_argument(call)):
                call_ids.add(call.call_id)
                yield extract_searchable_text(message)
        if message.role == "tool" and message.results[0].call_id in call_ids:
            yield message.results[0].output


def _find_lines(messages: Sequence[Message], offsets: Mapping[str, int]) -> dict[str, str]:
    """Return the line of the conversation at each offset in characters, by the same keys."""
    if not offsets:
        return {}
    texts = [extract_searchable_text(message) for message in messages]
    starts = [0, *accumulate(map(len, texts))]
    lines: dict[str, str] = {}
    for name, offset in offsets.items():
        index = bisect_right(starts, offset, hi=len(texts)) - 1
        text, position = texts[index], offset - starts[index]
        begin, end = text.rfind("\n", 0, position) + 1, text.find("\n", position)
        line = text[begin : end if end >= 0 else len(text)]
        lines[name] = line if len(line) <= MAX_LINE_CHARACTERS else text[position : position + MAX_LINE_CHARACTERS].split("\n")[0]
    return lines
