"""Scripted summarizers receive the prompt of a real summarizer, and the better ones keep more of its lines."""

import re

import bm25s
import bm25s.stopwords
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.compaction.summary_formats import SixSections
from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, tool, user
from harness.conversation.plan import SummaryRequest
from harness.models.factory import build_summarize
from harness.models.scripted.profiles import look_up_profile
from harness.models.scripted.summarizers import (
    EMPTY_SUMMARY,
    ScriptedSummarizer,
    Summarize,
    build_lossy_summarize,
    build_oracle_summarize,
    score_lines,
    split_words,
    summarize_extractively,
)
from harness.models.scripted.summary_prompts import NO_LINES
from harness.models.tokenizer import count_text_tokens
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
    model = ScriptedSummarizer(name="s", summarize=summarize, profile=look_up_profile("attentive"), window_tokens=32_768)
    prompt = SixSections().build_prompt(request)
    return model.reply(Request(messages=prompt, max_output_tokens=limit)).message.text


def list_kept(text: str) -> list[str]:
    """Return the lines of a summary that come from the prompt."""
    return [line for line in text.splitlines() if line != NO_LINES and not line.startswith("### ")]


def test_the_oracle_keeps_each_line_with_a_fact_or_evidence_and_no_other() -> None:
    assert list_kept(summary(build_oracle_summarize(FACTS, SCRIPT))) == [
        "Build it. The port must be 4711.",
        "[list_directory] docs -> ok",
        "[write_file] app.py -> ok",
        "The table is called decks.",
    ]


@pytest.mark.parametrize("summarize", [build_oracle_summarize(FACTS, SCRIPT), summarize_extractively])
def test_a_revision_of_the_task_follows_the_task_in_the_summary(summarize: Summarize) -> None:
    revision = "From now on, and whatever was said before, the port must be 9999."
    task = "Build the whole of it as told. The port must be 4711."
    opening = (user(task), *step(1, "list_directory", "docs", "file  db.md  120"), user(revision))
    first = summary(summarize, SummaryRequest(to_summarize=opening, previous_summary="", task=task, round=1))
    second = summary(summarize, SummaryRequest(to_summarize=(), previous_summary=first, task=task, round=2))
    for text in (first, second):
        assert re.findall(r"port must be (\d+)", text)[-2:] == ["4711", "9999"]


def test_the_oracle_carries_a_former_summary_on() -> None:
    former = SummaryRequest(to_summarize=(), previous_summary="The table is called decks.", task="", round=2)
    assert list_kept(summary(build_oracle_summarize(FACTS, SCRIPT), former)) == ["The table is called decks."]


def test_the_extractive_summarizer_keeps_whole_lines_within_its_limit() -> None:
    long = tuple(
        message
        for number in range(60)
        for message in step(number, "read_file", f"docs/{number}.md", f"Line {number} tells of the scheduler.\n" * 3)
    )
    request = SummaryRequest(to_summarize=long, previous_summary="", task="Build the scheduler.", round=1)
    prompt_lines = {line.strip() for line in SixSections().build_prompt(request)[0].text.splitlines()}
    text = summary(summarize_extractively, request, limit=240)
    assert 120 < count_text_tokens(text) <= 240
    assert set(list_kept(text)) <= prompt_lines
    assert text == summary(summarize_extractively, request, limit=240)


def test_the_empty_summarizer_says_nothing_but_is_no_failure() -> None:
    assert summary(build_summarize("scripted/empty", None, 0)) == EMPTY_SUMMARY
    assert EMPTY_SUMMARY.strip()


LONG = SummaryRequest(
    to_summarize=tuple(
        message
        for number in range(40)
        for message in step(number, "read_file", f"docs/{number}.md", f"Rule {number} of the scheduler is that cards come back.")
    ),
    previous_summary="",
    task="Build the scheduler, so that cards come back by the rules.",
    round=1,
)
KEPT = list_kept(summary(summarize_extractively, LONG))
SHARES = st.floats(0, 1)


def kept(share: float, seed: int = 0, request: SummaryRequest = LONG) -> list[str]:
    text = summary(build_lossy_summarize(share, seed), request)
    return [] if text == EMPTY_SUMMARY else list_kept(text)


@given(seed=st.integers(0, 99))
def test_without_loss_the_lossy_summarizer_is_the_extractive_one_and_with_full_loss_the_empty_one(seed: int) -> None:
    assert len(KEPT) > 20
    assert kept(0.0, seed) == KEPT
    assert summary(build_lossy_summarize(1.0, seed), LONG) == summary(build_summarize("scripted/empty", None, 0), LONG)


@given(one=SHARES, other=SHARES, seed=st.integers(0, 9))
def test_more_loss_keeps_some_of_the_same_lines_in_their_order(one: float, other: float, seed: int) -> None:
    more, less = kept(max(one, other), seed), kept(min(one, other), seed)
    assert more == [line for line in less if line in more]
    assert less == [line for line in KEPT if line in less]
    assert less == kept(min(one, other), seed), "the same seed and prompt lose the same lines"


def test_a_line_is_lost_with_the_probability_of_the_name_whatever_seed_and_prompt() -> None:
    shares = [len(kept(0.3, seed)) / len(KEPT) for seed in range(60)]
    assert abs(sum(shares) / len(shares) - 0.7) < 0.04
    assert len({tuple(kept(0.3, seed)) for seed in range(60)}) > 50


def test_the_seed_of_the_summarizer_draws_other_lines_and_its_default_changes_nothing() -> None:
    plain = build_lossy_summarize(0.5, 7)
    texts = [summary(build_lossy_summarize(0.5, 7, summarizer_seed), LONG) for summarizer_seed in range(4)]
    assert texts[0] == summary(plain, LONG)
    assert len(set(texts)) == 4


def test_a_line_lost_in_one_summary_may_be_kept_in_another() -> None:
    """The draws depend on the prompt, so a line that is in two prompts may be dropped from one summary and kept in the other."""
    later = SummaryRequest(to_summarize=LONG.to_summarize, previous_summary="Before.", task=LONG.task, round=2)
    both = set(kept(0.0)) & set(kept(0.0, request=later))
    assert len(both) > 20
    assert set(kept(0.5)) & both != set(kept(0.5, request=later)) & both


LINES = st.lists(st.text("ab c.\n\tÄßIİ_1'", max_size=12) | st.text(max_size=20), max_size=12)
WORDS = st.lists(st.sampled_from(["deck", "card", "due", "ease", "port"]), max_size=6).map(tuple)


def known_words(lines: list[tuple[str, ...]]) -> list[str]:
    return sorted({word for line in lines for word in line})


@given(LINES)
@example([" ".join(bm25s.stopwords.STOPWORDS_EN), "The port will be 4711 in_the end."])
def test_a_line_has_the_words_that_the_library_finds(lines: list[str]) -> None:
    words = bm25s.tokenize(lines, stopwords="en", return_ids=False, show_progress=False)
    assert [list(split_words(line)) for line in lines] == words


@given(st.lists(WORDS, min_size=1, max_size=30), st.data())
@example([("deck", "deck", "card"), (), ("card",), ("deck", "due") * 3], None)
def test_scores_are_those_of_the_library_to_the_last_bit(lines: list[tuple[str, ...]], data: st.DataObject | None) -> None:
    known = known_words(lines)
    if not known:
        return
    asked = data.draw(st.lists(st.sampled_from(known), min_size=1, unique=True)) if data else known
    index = bm25s.BM25()
    index.index([list(line) for line in lines], show_progress=False)
    assert score_lines(lines, asked) == index.get_scores(sorted(asked)).tolist()
