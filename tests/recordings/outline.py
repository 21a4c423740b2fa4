"""Short outline of a recording, which the tests of every format compare with the expected lines."""

import os
from pathlib import Path

import pytest

import harness.recordings
from harness.conversation.messages import Part, Reasoning, Text, ToolCall, ToolResult, extract_part_text
from harness.recordings.reading import read_recording
from harness.recordings.recording import NativeCompaction, RecordedMessage, Recording

FORMATS_FOLDER = Path(harness.recordings.__file__).parent / "formats"
FIXTURES = {path.name: path for path in sorted(FORMATS_FOLDER.glob("*/fixtures/*"))}
"""Hand-written files of all formats, by name."""
SMALL_RECORDINGS = Path(os.environ.get("HARNESS_RECORDINGS", Path(__file__).parents[3] / "shared" / "data" / "recordings"))
"""Folder with small recordings and a table of their right values, which is not part of the project."""

needs_small_recordings = pytest.mark.skipif(
    not SMALL_RECORDINGS.is_dir(), reason="no small recordings: set HARNESS_RECORDINGS to their folder"
)


def fixture(name: str) -> Recording:
    """Return the only session of a fixture, without its sub-agents."""
    return read_recording(FIXTURES[name])


def outline(recording: Recording) -> list[str]:
    """Return step, role and parts of every message, with usage as uncached+read+written>output; each part has a line."""
    return [line for recorded in recording.messages for line in _lines(recorded)]


def _lines(recorded: RecordedMessage) -> list[str]:
    usage, step = recorded.usage, "-" if recorded.step is None else recorded.step
    head = f"{step} {recorded.message.role}"
    if usage is not None:
        head += f" {usage.input_tokens}+{usage.cache_read_tokens}+{usage.cache_write_tokens}>{usage.output_tokens}"
    parts = [_part(part) for part in recorded.message.parts]
    head += " made up" if recorded.synthetic else ""
    return [f"{head}: {parts[0]}"] if len(parts) == 1 else [f"{head}:", *(f"  {part}" for part in parts)]


def _part(part: Part) -> str:
    match part:
        case Text():
            return part.text
        case Reasoning():
            return f"~{part.text}"
        case ToolCall():
            return f"{part.call_id} {part.name} {part.arguments_json}"
        case ToolResult():
            mark = "" if part.status == "completed" else f" {part.status}"
            return f"{part.call_id} {part.name}{mark} -> {part.output}"
    return f"{part.kind} {extract_part_text(part)}"


def squeezes(recording: Recording) -> list[tuple[object, ...]]:
    """Return kind, position, trigger, tokens before and summary of every native compaction."""
    return [_squeeze(event) for event in recording.compactions]


def _squeeze(event: NativeCompaction) -> tuple[object, ...]:
    return (event.kind, event.position, event.trigger, event.tokens_before, event.summary)


def join_caveats(recording: Recording) -> str:
    """Return all caveats as one text."""
    return "\n".join(f"{caveat.place}: {caveat.text}" for caveat in recording.caveats)
