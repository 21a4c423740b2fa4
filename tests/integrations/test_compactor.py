"""The compactor for loops: what it logs can be opened everywhere, and its work grows with what is new."""

import asyncio
import sys
from typing import Any

import pytest

import harness
from harness.conversation.events import StepFinished
from harness.conversation.view import fold_all
from harness.errors import UsageError
from harness.integrations import Compactor
from tests.integrations.test_compaction import FULL

SETTINGS: dict[str, Any] = {"window_tokens": 32_000, "summarizer": "scripted/extractive"}


def run_loop(compactor: Compactor, steps: int) -> list[int]:
    history = list(FULL[:2])
    sizes = []
    for number in range(steps):
        sizes.append(len(compactor.compact(history, usage=None).messages))
        history.append({"role": "assistant", "content": f"{number} " + "x" * 4_000})
    compactor.compact(history)
    return sizes


def test_a_loop_that_keeps_its_whole_history_sends_short_requests():
    compactor = Compactor("keep-last", **SETTINGS)
    sizes = run_loop(compactor, 60)
    assert max(sizes) < 30
    assert compactor.view.rounds > 2
    assert fold_all(compactor.entries, compactor.policy.counter) == compactor.view


def test_the_journal_of_a_loop_opens_in_widgets_and_tables(tmp_path):
    path = tmp_path / "loop.sqlite"
    with Compactor("keep-last", journal=path, session_id="mine", model="elsewhere", **SETTINGS) as compactor:
        run_loop(compactor, 40)
        rounds = compactor.view.rounds
    results = harness.load(path)
    assert results.trials["model"].tolist() == ["elsewhere"]
    assert results.trials["compactions"].tolist() == [rounds]
    assert harness.SessionInspector(path).step_count == 40
    assert harness.CompactionExplorer(path).step_count == 40
    inspection = harness.inspect_session(harness.find_session("mine", [path]).read_entries())
    assert inspection.totals.steps == 40


def test_the_usage_of_the_newest_answer_is_logged_with_its_step():
    compactor = Compactor("none", window_tokens=32_000)
    compactor.compact(FULL[:2])
    usage = {"input_tokens": 5, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 5, "output_tokens": 7}
    compactor.compact(FULL[:3], usage)
    compactor.compact(FULL[:4], {"prompt_tokens": 200, "prompt_tokens_details": {"cached_tokens": 150}, "completion_tokens": 1})
    reports = [event.usage for _, event in compactor.entries if isinstance(event, StepFinished)]
    counts = [(report.prompt_tokens, report.cache_read_tokens, report.output_tokens) for report in reports]
    assert counts == [(100, 90, 7), (200, 150, 1)]


def test_a_refused_list_changes_nothing():
    compactor = Compactor("none", window_tokens=32_000)
    compactor.compact(FULL[:2])
    before = compactor.entries
    with pytest.raises(UsageError, match=r"messages\[2\]: is the result of call 'a'"):
        compactor.compact([*FULL[:2], {"role": "tool", "tool_call_id": "a", "content": "x"}])
    assert compactor.entries == before
    assert compactor.compact(FULL[:3]).messages == FULL[:3]


def test_calls_may_wait_for_their_results_at_the_end_of_the_list():
    call = {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    asked = [*FULL[:2], {"role": "assistant", "content": None, "tool_calls": [call]}]
    compactor = Compactor("none", window_tokens=32_000)
    compactor.compact(asked)
    assert compactor.view.steps == 0
    compactor.compact([*asked, {"role": "tool", "tool_call_id": "a", "content": "x"}], {"prompt_tokens": 9})
    assert compactor.view.steps == 1
    assert compactor.view.items[-1].message.results[0].name == "read"


def test_the_asynchronous_call_writes_to_the_same_journal(tmp_path):
    async def run() -> int:
        with Compactor("keep-last", journal=tmp_path / "loop.sqlite", **SETTINGS) as compactor:
            for end in range(2, len(FULL) + 1):
                await compactor.acompact(FULL[:end])
            return compactor.view.rounds

    assert asyncio.run(run()) > 0


def test_the_work_of_a_call_does_not_grow_with_the_history():
    def count_python_calls(length: int) -> int:
        compactor = Compactor("none", window_tokens=10**9)
        history = [*FULL[:2], *({"role": "assistant", "content": "x"} for _ in range(length))]
        compactor.compact(history)
        history = [*history, {"role": "assistant", "content": "new"}]
        calls = 0

        def count(frame, event, argument):
            nonlocal calls
            calls += event == "call"

        sys.setprofile(count)
        try:
            compactor.compact(history)
        finally:
            sys.setprofile(None)
        return calls

    assert count_python_calls(2_000) <= count_python_calls(20) * 1.1
