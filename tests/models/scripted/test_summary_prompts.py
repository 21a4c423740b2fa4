"""Tests of reading prompts for a summary, and of the sections of scripted summaries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.presets.goose import INSTRUCTION as GOOSE
from harness.compaction.presets.openhands import SECTIONS as OPENHANDS
from harness.compaction.presets.openhands import EventList
from harness.compaction.presets.roo_code import INSTRUCTION as ROO_CODE
from harness.compaction.summary_formats import Brief, Notes, Sections, SixSections
from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, tool, user
from harness.conversation.plan import SummaryFormat, SummaryRequest
from harness.models.scripted.summarizers import render_prompt, summarize_extractively
from harness.models.scripted.summary_prompts import NO_LINES, SummaryPrompt, arrange_summary, read_summary_prompt
from harness.models.tokenizer import count_text_tokens
from harness.policies import PRESETS

SIX = ("Original Task", "Completed Work", "Key Technical Decisions", "Current State", "Pending Work", "Errors & Resolutions")
TAGS = "Create a summary as a snapshot:\n\n<overall_goal></overall_goal>\n<task_state></task_state>"
FORMATS: dict[str, tuple[SummaryFormat, tuple[str, ...]]] = {
    "six sections": (SixSections(), tuple(f"### {title}" for title in SIX)),
    "titles above the messages": (Sections(titles=("Goal", "State"), opening="Summary"), ("## Goal", "## State")),
    "the state above the notes": (
        Sections(titles=("Current State", "Decisions"), opening="Summary"),
        ("## Current State", "## Decisions"),
    ),
    "Markdown headings below": (Brief(instruction=GOOSE), ("## Goal", "## Constraints", "## Progress", "## Decisions")),
    "headings in a system message": (Brief(instruction=GOOSE, layout="system"), ("## Goal", "## Constraints")),
    "headings behind the session": (Brief(instruction=GOOSE, layout="session"), ("## Goal", "## Constraints")),
    "a numbered list": (Brief(instruction=ROO_CODE), ("### What the user asked for and why", "### Technical concepts")),
    "tags": (Brief(instruction=TAGS), ("<overall_goal>", "<task_state>")),
    "titles in capitals": (EventList(titles=OPENHANDS, characters=None), ("USER_CONTEXT:", "TASK_TRACKING:")),
    "no sections": (Notes(instruction="Write notes.", heading="Notes:"), ()),
}
FORMER = "The table has been called decks since the first day."
QUOTED = "## Usage\nLIMITS AND RATES:\nThe port of the second server has to be 4712."


def step(number: int, tool_name: str, path: str, output: str) -> tuple[Message, ...]:
    call = ToolCall(call_id=f"c{number}", name=tool_name, arguments_json=f'{{"path": "{path}"}}')
    return assistant("I go on.", call), tool(ToolResult(call_id=call.call_id, name=tool_name, output=output))


def build_request(*messages: Message, former: str = "", task: str = "Build it as told.") -> SummaryRequest:
    return SummaryRequest(to_summarize=messages, previous_summary=former, task=task, round=2 if former else 1)


def read(summary_format: SummaryFormat, request: SummaryRequest) -> SummaryPrompt:
    return read_summary_prompt(render_prompt(summary_format.build_prompt(request)))


@pytest.mark.parametrize("name", FORMATS)
def test_the_sections_that_a_prompt_asks_for_are_found_in_each_form(name: str) -> None:
    summary_format, titles = FORMATS[name]
    prompt = read(summary_format, build_request(*step(1, "read_file", "a.md", QUOTED)))
    assert prompt.titles[: len(titles)] == titles
    assert len(prompt.titles) >= len(titles) > 0 or prompt.titles == titles


@pytest.mark.parametrize("name", FORMATS)
def test_the_former_summary_and_everything_that_files_say_is_to_be_summarized_and_no_instruction(name: str) -> None:
    summary_format, _ = FORMATS[name]
    prompt = read(summary_format, build_request(*step(1, "read_file", "a.md", f"Before the heading.\n{QUOTED}"), former=FORMER))
    text = "\n".join(prompt.lines)
    assert all(words in text for words in (FORMER, "Before the heading.", *QUOTED.splitlines()))
    instructions = render_prompt(summary_format.build_prompt(build_request(task=""))).splitlines()
    asked = [line for line in instructions if line.startswith(("Create", "Write", "You ", "##", "1."))]
    assert asked
    assert not set(asked) & set(prompt.lines) - set(QUOTED.splitlines())


def test_lines_stand_in_the_section_where_a_reader_looks_for_them() -> None:
    messages = (
        *step(1, "read_file", "docs/a.md", "The table is called decks and not cards."),
        *step(2, "write_file", "app.py", "wrote 30 bytes to app.py"),
        *step(3, "write_file", "gone/app.py", "error: the folder is gone"),
        *step(4, "read_file", "docs/b.md", "Cards come back by the rules of the school."),
    )
    failed = ToolResult(call_id="c3", name="write_file", output="error: the folder is gone", status="error")
    messages = (*messages[:5], tool(failed), *messages[6:])
    text = summarize_extractively(render_prompt(SixSections().build_prompt(build_request(*messages))), 800)
    sections = {part.splitlines()[0]: part.splitlines()[1:] for part in text.split("### ")[1:]}
    assert tuple(sections) == SIX
    assert sections["Completed Work"] == ["[write_file] app.py -> ok"]
    assert sections["Errors & Resolutions"] == ["[write_file] gone/app.py -> error"]
    assert sections["Key Technical Decisions"] == ["The table is called decks and not cards."]
    assert sections["Current State"] == ["Cards come back by the rules of the school."]
    assert sections["Pending Work"] == [NO_LINES]


@pytest.mark.parametrize("name", FORMATS)
@given(picks=st.sets(st.integers(0, 19)))
def test_statements_keep_their_order_whatever_the_sections_are(name: str, picks: set[int]) -> None:
    """The newest value of a fact must stay the last one in a summary."""
    statements = [f"Rule {number} of the school says so." for number in range(20)]
    messages = (user("\n".join(statements[:10])), *step(1, "read_file", "a.md", "\n".join(statements[10:])))
    prompt = read(FORMATS[name][0], build_request(*messages, task=statements[0]))
    chosen = [statements[number] for number in sorted(picks)]
    text = arrange_summary(prompt, chosen)
    assert [line for line in text.splitlines() if line in chosen] == chosen
    assert bool(text) == bool(chosen)


WORDS = st.lists(st.sampled_from(("scheduler", "card", "größer", "0x7f3a", "deck_id", "日本語", "e.g.", "--resume")), min_size=6)
LINES = st.lists(WORDS.map(" ".join), min_size=1, max_size=60)


@given(lines=LINES, request=LINES, limit_tokens=st.integers(150, 900))
def test_a_summary_is_within_its_limit_by_the_tokenizer_and_by_the_estimate_of_the_session(
    lines: list[str], request: list[str], limit_tokens: int
) -> None:
    summary_format = SixSections(max_tokens=limit_tokens)
    asked = build_request(*step(1, "read_file", "a.md", "\n".join(lines)), task="\n".join(request))
    text = summary_format.render(summarize_extractively(render_prompt(summary_format.build_prompt(asked)), limit_tokens), asked)
    assert count_text_tokens(text) <= limit_tokens
    assert PRESETS["keep-last"]().counter.count(assistant(text)) <= limit_tokens


@given(request=LINES)
def test_the_users_request_takes_at_most_a_third_of_a_summary(request: list[str]) -> None:
    asked = build_request(*step(1, "read_file", "a.md", "\n".join(request * 2)), task="\n".join(request))
    text = summarize_extractively(render_prompt(SixSections().build_prompt(asked)), 800)
    task_lines = text.partition("### Completed Work")[0].splitlines()[1:]
    assert sum(count_text_tokens(line) + 1 for line in task_lines if line != NO_LINES) <= 800 / 3
