"""Recordings of real sessions, if a folder with them is given: their counts agree with the table in that folder.

Their text is never printed, because it contains names of people and folders.
"""

import contextlib
import csv
import json
import os
from pathlib import Path

import pytest

from harness.conversation.view import find_violation, fold_all
from harness.recordings.reading import read_recordings, select_main_sessions
from harness.recordings.session_log import build_entries

PLACE = Path(os.environ.get("HARNESS_TRAJECTORIES", Path(__file__).parents[3] / "shared" / "data" / "trajectories"))
TABLE = PLACE / "PROVENANCE.tsv"

pytestmark = pytest.mark.skipif(not TABLE.is_file(), reason="no recorded sessions: set HARNESS_TRAJECTORIES to their folder")

STEPS_MORE = {"pi_pi-mono/root-session.jsonl": 5}
"""Answers that the table leaves out: four with reasoning only, and one on a line with two rows."""
TYPED_MESSAGES = {"claude-code_entireio-cli/d016_0.jsonl": 2, "claude-code_entireio-cli/d599_0.jsonl": 1}
"""Messages that the user typed while the agent worked, which the table leaves out."""
MESSAGES_LESS = {"gemini-cli/trajectory.json": 1}
"""Result without a call, which the reader drops."""
JOINED_ROWS = {"pi_pi-mono/root-compact.jsonl"}
"""File with an answer and a compaction on one line, which the table counts in another way."""


def table():
    if not TABLE.is_file():
        return []
    with TABLE.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def rows(wanted):
    return pytest.mark.parametrize("row", [row for row in table() if wanted(row)], ids=lambda row: row["file"])


every = rows(lambda row: True)
without_summaries = rows(lambda row: row["format"] != "claude-code-jsonl" or row["native_compactions"] == "0")
with_both_costs = rows(lambda row: row["format"] == "mini-swe-agent")


@rows(lambda row: row["file"] not in JOINED_ROWS)
def test_counts_agree_with_the_table(row):
    recordings = select_main_sessions(read_recordings(PLACE / row["file"]))
    events = [event for recording in recordings for event in recording.compactions]
    summaries = [event for event in events if event.kind == "compaction"]
    own = [recorded for recording in recordings for recorded in recording.messages if not recorded.synthetic]
    # The table counts a Claude summary as a message, and knows only what a format says about compactions.
    told_apart = len(summaries) if row["format"] == "claude-code-jsonl" else 0
    more, other = STEPS_MORE.get(row["file"], 0), TYPED_MESSAGES.get(row["file"], 0) - MESSAGES_LESS.get(row["file"], 0)
    assert len(recordings) == int(row["trajectories"])
    assert sum(recording.steps for recording in recordings) == int(row["n_steps"]) + more
    assert len(own) + told_apart == int(row["messages"]) + more + other
    assert len(summaries) == int(row["native_compactions"] or 0)
    assert sum(event.kind == "microcompaction" for event in events) == int(row["native_microcompactions"] or 0)


@every
def test_the_largest_recorded_prompt_agrees_with_the_table(row):
    used = [
        recorded.usage.prompt_tokens
        for recording in read_recordings(PLACE / row["file"])
        for recorded in recording.messages
        if recorded.usage is not None
    ]
    assert max(used, default=0) == int(row["max_recorded_ctx"] or 0)


@every
def test_usage_stands_once_on_each_answer_and_every_log_folds_legally(row):
    for recording in read_recordings(PLACE / row["file"]):
        steps = [recorded.step for recorded in recording.messages if recorded.message.role == "assistant"]
        assert [step for step in steps if step is not None] == list(range(1, recording.steps + 1))
        assert all(recorded.usage is None or recorded.message.role == "assistant" for recorded in recording.messages)
        assert find_violation(fold_all(build_entries(recording)).messages) is None


@without_summaries
def test_characters_agree_with_the_table(row):
    tokens = sum(fold_all(build_entries(recording)).tokens for recording in read_recordings(PLACE / row["file"]))
    assert tokens == pytest.approx(int(row["est_tokens"]), rel=0.03)


@with_both_costs
def test_a_cost_of_the_file_is_the_sum_of_its_calls_where_both_are_recorded(row):
    (recording,) = read_recordings(PLACE / row["file"])
    assert recording.cost_usd == pytest.approx(sum(recorded.cost_usd or 0 for recorded in recording.messages))


# Independent counts, from the raw JSON and without the code of the importers.


def read_raw(name):
    for line in (PLACE / name).read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(ValueError):  # two rows on a line, or a line that was cut
            yield json.loads(line)


def count_claude_code(name):
    """Return prompt tokens, output tokens and tool calls of the main session and its sub-agents, each answer once."""
    answers: dict[str, tuple[int, int]] = {}
    calls: set[str] = set()
    seen: set[str | None] = set()
    for line in read_raw(name):
        is_report = line.get("type") == "progress" and line["data"].get("type") == "agent_progress"
        row = line["data"]["message"] if is_report else line
        if row.get("type") != "assistant" or row["message"]["model"] == "<synthetic>" or row.get("uuid") in seen:
            continue
        seen.add(row.get("uuid"))
        usage, key = row["message"]["usage"], row["message"]["id"]
        prompt = usage["input_tokens"] + usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"]
        before = answers.get(key, (0, 0))
        answers[key] = (prompt, usage["output_tokens"]) if usage["output_tokens"] >= before[1] else before
        calls |= {block["id"] for block in row["message"]["content"] if block["type"] == "tool_use"}
    return sum(prompt for prompt, _ in answers.values()), sum(output for _, output in answers.values()), len(calls)


def count_codex(name):
    rows = [row["payload"] for row in read_raw(name)]
    totals = [row["info"]["total_token_usage"] for row in rows if row.get("type") == "token_count" and row["info"]]
    return totals[-1]["input_tokens"], totals[-1]["output_tokens"], sum(row.get("type") == "function_call" for row in rows)


COUNTS = {"claude-code-jsonl": count_claude_code, "codex-jsonl": count_codex}


def find_count(row):
    is_sdk = row["file"].startswith("claude-sdk")
    kind = "codex-jsonl" if row["file"].startswith("codex") else row["format"]
    return None if is_sdk else COUNTS.get(kind)


@rows(lambda row: find_count(row) is not None)
def test_usage_and_calls_agree_with_an_independent_count(row):
    recordings = read_recordings(PLACE / row["file"])
    usages = [item.usage for recording in recordings for item in recording.messages if item.usage is not None]
    usages += [call.usage for recording in recordings for call in recording.left_out_calls if call.usage is not None]
    calls = sum(len(item.message.calls) for recording in recordings for item in recording.messages)
    counted = (sum(usage.prompt_tokens for usage in usages), sum(usage.output_tokens for usage in usages), calls)
    assert counted == find_count(row)(row["file"])


@rows(lambda row: row["file"].startswith("claude-sdk"))
def test_the_cost_of_a_log_is_the_sum_over_its_results(row):
    costs = [raw["total_cost_usd"] if "total_cost_usd" in raw else raw["message"]["total_cost_usd"]
             for raw in read_raw(row["file"]) if raw.get("type") == "result"]  # fmt: skip
    (recording,) = select_main_sessions(read_recordings(PLACE / row["file"]))
    assert recording.cost_usd == pytest.approx(sum(costs))
