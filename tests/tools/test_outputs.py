"""Search and paging in saved outputs (S3.22)."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.conversation.messages import ToolCall, ToolResult
from harness.store.log import MemoryOutputs
from harness.tools.outputs import LINE_CHARACTERS, make_output_tools

TEXT = "\n".join(f"row {number} {'needle' if number % 100 == 0 else 'hay'}" for number in range(1, 1_001))


def use(store: MemoryOutputs, name: str, **arguments: object) -> ToolResult:
    tools = {tool.spec.name: tool for tool in make_output_tools(store)}
    return tools[name].run(ToolCall(call_id="c", name=name, arguments_json=json.dumps(arguments)))


def saved(text: str = TEXT) -> tuple[MemoryOutputs, str]:
    store = MemoryOutputs()
    return store, store.save(text)


def test_a_page_has_numbered_lines_and_says_where_to_go_on() -> None:
    store, name = saved()
    page = use(store, "read_output", output=name, from_line=100, lines=2).output
    assert page == "100: row 100 needle\n101: row 101 hay\n[lines 100 to 101 of 1000; go on with from_line=102]"
    assert use(store, "read_output", output=name, from_line=999).output.endswith("[lines 999 to 1000 of 1000]")


def test_a_page_of_a_saved_output_never_exceeds_its_limits() -> None:
    store, name = saved()
    assert use(store, "read_output", output=name, lines=10**9).output.count("\n") == 200
    wide, wide_name = saved("\n".join(["w" * 400] * 500))
    assert len(use(wide, "read_output", output=wide_name).output) < 8_100


@settings(max_examples=30)
@given(text=st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=2_000), copies=st.integers(1, 40))
def test_paging_from_the_first_line_to_the_last_shows_the_whole_output(text: str, copies: int) -> None:
    whole = "\n".join([text, "short"] * copies)
    store, name = saved(whole)
    shown, first = list[str](), 1
    while True:
        *page, last = use(store, "read_output", output=name, from_line=first).output.split("\n")
        shown += [line.split(": ", 1)[1] for line in page]
        onwards = re.search(r"from_line=(\d+)", last)
        if onwards is None:
            break
        first = int(onwards[1])
    assert "".join(shown) == whole.replace("\n", "")
    assert all(len(line) <= LINE_CHARACTERS for line in shown)


def test_a_search_finds_every_line_that_holds_the_text_page_by_page() -> None:
    store, name = saved()
    lines = use(store, "search_output", output=name, text="NEEDLE").output.split("\n")
    assert lines[0] == "100: row 100 needle"
    assert lines[-1] == "[10 of 10 lines that hold it]"
    some = use(store, "search_output", output=name, text="hay").output.split("\n")
    assert len(some) == 51
    assert some[-1] == "[50 of 990 lines that hold it; go on with from_line=51]"
    rest = use(store, "search_output", output=name, text="hay", from_line=998).output
    assert rest == "998: row 998 hay\n999: row 999 hay\n[2 of 990 lines that hold it]"
    assert use(store, "search_output", output=name, text="nothing like it").output == "[0 of 0 lines that hold it]"


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("read_output", {"output": "output-none"}, "output-none"),
        ("read_output", {}, "output: a text is needed"),
        ("read_output", {"output": "HERE", "from_line": 0}, "from_line: a whole number from 1"),
        ("read_output", {"output": "HERE", "from_line": True}, "from_line: a whole number from 1"),
        ("read_output", {"output": "HERE", "from_line": 5_000}, "the output has 1000 lines"),
        ("search_output", {"output": "HERE"}, "text: a text is needed"),
    ],
)
def test_invalid_arguments_are_an_error_for_the_model(tool: str, arguments: dict[str, object], words: str) -> None:
    store, name = saved()
    given_name = {key: name if value == "HERE" else value for key, value in arguments.items()}
    result = use(store, tool, **given_name)
    assert result.status == "error"
    assert words in result.output
