"""Tests of contents that come back behind a summary: which files and rules, within which limits, and over several compactions."""

import json

from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.presets.claude_code import SUMMARY_HEADING, ClaudeCode
from harness.compaction.reinjection import HEADING
from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, tool, user
from harness.conversation.tokens import QuarterOfCharacters
from tests.compaction.conversations import Room, grown, report, view_of

FULL = report(9_000)
PADDING = "o" * 40_000
"""Output that makes a compaction worthwhile, whatever comes back."""


def use(number: int, name: str, output: str = "done", **arguments: str) -> list[Message]:
    call = ToolCall(call_id=f"c{number}", name=name, arguments_json=json.dumps(arguments))
    return [assistant("", call), tool(ToolResult(call_id=call.call_id, name=name, output=output))]


def compact(policy: ClaudeCode, *messages: Message, more: tuple[Message, ...] = ()) -> list[str]:
    """Return the texts behind the system message after one compaction, or after two with more messages between them."""
    room = Room(policy, 10_000, "ONE", "TWO")
    padding = use(9_000, "execute_command", PADDING, command="make")
    view = view_of(user("go"), *messages, *padding, policy=policy)
    after = room.after(view, room.ask(view, FULL))
    if more:
        view = grown(after, policy, *more, *padding)
        after = room.after(view, room.ask(view, FULL), seq=5_000)
    return [item.message.text for item in after.items[1:]]


texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=60) | st.sampled_from(
    ["FILE a, 3 characters:\nxyz", HEADING, "x" * 300, "\n\nFILE b, 9999 characters:\n"]
)


@given(
    first=st.lists(st.tuples(st.sampled_from("abcdefg"), texts), min_size=1, max_size=9),
    second=st.lists(st.tuples(st.sampled_from("abcdefg"), texts), max_size=9),
    file_tokens=st.integers(1, 80),
    files_tokens=st.integers(1, 200),
)
def test_the_files_modified_last_come_back_as_they_were_written_last(
    first: list[tuple[str, str]], second: list[tuple[str, str]], file_tokens: int, files_tokens: int
) -> None:
    """Compared with a direct reading of the writes, over one and two compactions, whatever the files contain."""
    policy = ClaudeCode(most_files=3, file_tokens=file_tokens, files_tokens=files_tokens)
    written = [
        message for number, (path, text) in enumerate(first) for message in use(number, "write_file", path=path, content=text)
    ]
    later = [
        message for number, (path, text) in enumerate(second) for message in use(number, "write_file", path=path, content=text)
    ]

    def select(contents: dict[str, str]) -> dict[str, str]:
        room, shown = files_tokens, dict[str, str]()
        for path in list(contents)[::-1][:3]:
            tokens = QuarterOfCharacters().count(user(contents[path]))
            shown[path] = contents[path] if tokens <= min(file_tokens, room) else ""
            room -= tokens if shown[path] else 0
        return shown

    def spell(shown: dict[str, str]) -> str:
        blocks = [
            f"FILE {path}, {len(text)} characters:\n{text}" if text else f"FILE {path}, not shown: read it if you need it"
            for path, text in shown.items()
        ]
        return "\n\n".join((HEADING, *blocks))

    contents: dict[str, str] = {}
    for path, text in first:
        contents.pop(path, None)
        contents[path] = text
    shown = select(contents)
    assert compact(policy, *written) == [f"{SUMMARY_HEADING}\nONE", spell(shown)]
    if second:
        contents = {path: text for path, text in list(shown.items())[::-1] if text}
        for path, text in second:
            contents.pop(path, None)
            contents[path] = text
        assert compact(policy, *written, more=tuple(later)) == [f"{SUMMARY_HEADING}\nTWO", spell(select(contents))]


def test_a_file_read_after_it_was_written_comes_back_as_read_and_a_file_that_was_only_read_does_not() -> None:
    messages = [
        *use(1, "write_file", path="a.py", content="old"),
        *use(2, "read_file", "new", path="a.py"),
        *use(3, "read_file", "only read", path="b.py"),
    ]
    assert compact(ClaudeCode(), *messages)[1:] == [f"{HEADING}\n\nFILE a.py, 3 characters:\nnew"]


def test_a_failed_write_changes_nothing() -> None:
    call = ToolCall(call_id="w", name="write_file", arguments_json='{"path": "a.py", "content": "x"}')
    failed = [assistant("", call), tool(ToolResult(call_id="w", name="write_file", output="no", status="error"))]
    assert len(compact(ClaudeCode(), *failed)) == 1


def test_rules_that_a_tool_loaded_come_back_newest_first_and_cut_to_their_beginning() -> None:
    policy = ClaudeCode(skill_tokens=10, skills_tokens=25)
    messages = [message for number in range(4) for message in use(number, "skill", f"{number}" * 100, skill=f"s{number}")]
    (repeated,) = compact(policy, *messages)[1:]
    assert [block.split(",")[0] for block in repeated.split("\n\n")[1:]] == ["LOADED BY A TOOL s3", "LOADED BY A TOOL s2"]
    assert "3" * 40 in repeated
    assert "3" * 41 not in repeated
    assert "\n\n".join(compact(policy, *messages, more=(user("on"),))[1:]) == repeated, "and come back again"


def test_nothing_comes_back_without_files_or_with_a_limit_of_none() -> None:
    assert len(compact(ClaudeCode(), user("and then?"))) == 1
    assert len(compact(ClaudeCode(most_files=0), *use(1, "write_file", path="a.py", content="x"))) == 1
