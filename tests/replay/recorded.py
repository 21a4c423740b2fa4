"""Recorded sessions of Claude Code that tests write: each call adds a file that was read, and reports its usage."""

import json
from collections.abc import Sequence
from pathlib import Path

FIXED_TOKENS = 12_000
"""Tokens of instructions and reminders, which the file does not hold."""
INSTRUCTIONS_TOKENS = 8_000
"""Tokens of system prompt and tools, the part of them that is in the cache after a compaction."""
SUMMARY = "The user wants all files read. " * 40


def write_recording(
    path: Path,
    calls: int,
    *,
    characters: int = 16_000,
    pauses: Sequence[int] = (),
    turns: Sequence[int] = (),
    answer_seconds: int = 0,
    compactions: Sequence[int] = (),
    model: str = "claude-sonnet-4-5",
    has_usage: bool = True,
    reports_cache: bool = True,
    name: str = "",
) -> None:
    """Write a session in which each call reads one file.

    Args:
        path: File to write.
        calls: Number of calls.
        characters: Length of each file that is read, at four characters a token.
        pauses: Numbers of the calls, from 1, before which an hour passes.
        turns: Numbers of the calls before which the user writes.
        answer_seconds: Duration of an answer in seconds.
        compactions: Numbers of the calls before which the agent replaced everything by a summary.
        model: Model of the calls.
        has_usage: Whether the calls have usage.
        reports_cache: Whether their usage has tokens that the cache held.
        name: Id of the session. Default: the name of the file.
    """
    session, seconds = name or path.stem, 0
    rows: list[dict[str, object]] = []

    def add(role: str, content: object, **more: object) -> None:
        time = f"2026-01-{5 + seconds // 86_400:02}T{seconds // 3_600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z"
        message = {"role": role, "content": content, **more}
        request = {"requestId": f"{session}-{len(rows)}"} if role == "assistant" else {}
        row = {"type": role, "uuid": f"{session}-{len(rows)}", "timestamp": time, "sessionId": session, "isSidechain": False}
        rows.append({**row, **request, "message": message})

    add("user", "Read all files of the project, one after the other.")
    prompt = FIXED_TOKENS + 12
    held = 0
    for call in range(1, calls + 1):
        if call in turns:
            add("user", f"Go on with part {call}.")
        if call in compactions:
            about = {"trigger": "auto", "preTokens": prompt}
            boundary = {"type": "system", "subtype": "compact_boundary", "sessionId": session, "compactMetadata": about}
            rows.append({**boundary, "uuid": f"{session}-{len(rows)}", "timestamp": rows[-1]["timestamp"]})
            add("user", SUMMARY)
            rows[-1]["isCompactSummary"] = True
            prompt, held = FIXED_TOKENS + len(SUMMARY) // 4, INSTRUCTIONS_TOKENS
        is_cold = call in pauses
        seconds += 3_600 if is_cold else 5
        rows[-1]["timestamp"] = (
            f"2026-01-{5 + seconds // 86_400:02}T{seconds // 3_600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z"
        )
        read = 0 if is_cold else held
        usage = {
            "input_tokens": 0 if reports_cache else prompt,
            "cache_read_input_tokens": read if reports_cache else 0,
            "cache_creation_input_tokens": prompt - read if reports_cache else 0,
            "output_tokens": 100,
        }
        held = prompt
        use = {"type": "tool_use", "id": f"t{call}", "name": "Read", "input": {"file_path": f"src/part_{call}.py"}}
        seconds += answer_seconds
        add("assistant", [use], id=f"{session}-a{call}", model=model, **({"usage": usage} if has_usage else {}))
        text = (f"value_{call} = {call * 1_234}\n" * (characters // 16 + 1))[:characters]
        add("user", [{"type": "tool_result", "tool_use_id": f"t{call}", "content": text}])
        prompt += characters // 4 + 20
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
