"""Scripted summarizers get the prompt that a real one gets, and lie in order from everything to nothing."""

from harness.compaction.formats import SixSections
from harness.messages import Message, ToolCall, ToolResult, assistant, tool
from harness.models.scripted.profiles import profile
from harness.models.scripted.summarizers import (
    NOTHING,
    ScriptedSummarizer,
    Summarize,
    empty,
    extractive,
    material,
    oracle,
)
from harness.models.tokenizer import text_tokens
from harness.plan import SummaryRequest
from harness.protocols import Request
from tests.models.scripted.test_agent import FACTS, SCRIPT


def step(number: int, name: str, key: str, output: str) -> tuple[Message, Message]:
    call = ToolCall(call_id=f"c{number}", name=name, arguments_json=f'{{"path": "{key}"}}')
    return assistant(f"Step {number}", call), tool(ToolResult(call_id=f"c{number}", name=name, output=output))


MESSAGES = (
    *step(1, "list_directory", "docs", "file  db.md  120"),
    *step(2, "read_file", "docs/db.md", "Some words about it.\nThe table is called decks.\nMore words, of no use to anyone."),
    *step(3, "write_file", "app.py", "wrote 30 bytes to app.py"),
    *step(4, "write_file", "unrelated.py", "wrote 3 bytes to unrelated.py"),
)
REQUEST = SummaryRequest(to_summarize=MESSAGES, previous_summary="", task="Build it. The port must be 4711.", round=1)


def summary(summarize: Summarize, request: SummaryRequest = REQUEST, limit: int = 800) -> str:
    model = ScriptedSummarizer(name="s", summarize=summarize, profile=profile("attentive"), window_tokens=32_768)
    prompt = SixSections().prompt(request)
    return model.reply(Request(messages=prompt, max_output_tokens=limit)).message.text


def test_the_oracle_keeps_each_line_with_a_fact_or_evidence_and_no_other() -> None:
    assert summary(oracle(FACTS, SCRIPT)).splitlines() == [
        "[list_directory] docs -> ok",
        "The table is called decks.",
        "[write_file] app.py -> ok",
        "Build it. The port must be 4711.",
    ]


def test_the_oracle_carries_a_former_summary_on() -> None:
    former = SummaryRequest(to_summarize=(), previous_summary="The table is called decks.", task="", round=2)
    assert summary(oracle(FACTS, SCRIPT), former) == "The table is called decks."


def test_the_extractive_summarizer_keeps_whole_lines_within_its_limit() -> None:
    long = tuple(
        message
        for number in range(60)
        for message in step(number, "read_file", f"docs/{number}.md", f"Line {number} tells of the scheduler.\n" * 3)
    )
    request = SummaryRequest(to_summarize=long, previous_summary="", task="Build the scheduler.", round=1)
    prompt_lines = {line.strip() for line in SixSections().prompt(request)[0].text.splitlines()}
    text = summary(extractive, request, limit=200)
    assert 100 < text_tokens(text) <= 200
    assert set(text.splitlines()) <= prompt_lines
    assert text == summary(extractive, request, limit=200)


def test_instructions_are_not_material() -> None:
    sections = material(SixSections().prompt(REQUEST)[0].text)
    lines = [line for found in sections.values() for line in found]
    assert sections["ORIGINAL USER TASK:"][0] == REQUEST.task
    assert "Build it. The port must be 4711." in lines
    assert not [line for line in lines if "You are summarizing" in line or "Original Task - preserve" in line]


def test_the_empty_summarizer_says_nothing_but_is_no_failure() -> None:
    assert summary(empty) == NOTHING
    assert NOTHING.strip()


def test_material_without_headings_is_summarized_as_a_whole() -> None:
    assert material("one line\nanother line") == {"": ["one line", "another line"]}
