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
from harness.inspection.recording_folder import load_sessions
from harness.recordings.reading import read_recordings, select_main_sessions
from harness.recordings.session_log import build_entries
from tests.recordings.raw_counts import count_raw, count_recordings

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


def list_blocks(content):
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def count_pi(name):
    rows = [value for line in (PLACE / name).read_text(encoding="utf-8").splitlines() for value in split_values(line)]
    messages = [row["message"] for row in rows if row["type"] == "message"]
    usages = [message["usage"] for message in messages if message["role"] == "assistant"]
    prompt = sum(usage["input"] + usage["cacheRead"] + usage["cacheWrite"] for usage in usages)
    blocks = [block for message in messages for block in list_blocks(message.get("content"))]
    return prompt, sum(usage["output"] for usage in usages), sum(block.get("type") == "toolCall" for block in blocks)


def split_values(line):
    """Yield the JSON values on a line."""
    place = 0
    while place < len(line):
        value, place = json.JSONDecoder().raw_decode(line, place)
        yield value
        place += len(line[place:]) - len(line[place:].lstrip())


def count_mini_swe_agent(name):
    whole = json.loads((PLACE / name).read_text(encoding="utf-8"))
    answers = [message for message in whole["messages"] if message["role"] == "assistant"]
    usages = [message["extra"]["response"]["usage"] for message in answers]
    calls = sum(len(message.get("tool_calls") or []) for message in answers)
    return sum(usage["prompt_tokens"] for usage in usages), sum(usage["completion_tokens"] for usage in usages), calls


def count_gemini_session(name):
    messages = json.loads((PLACE / name).read_text(encoding="utf-8"))["messages"]
    answers = {message["id"]: message for message in messages if message["type"] == "gemini"}.values()
    tokens = [message["tokens"] for message in answers if message.get("tokens")]
    calls = sum(len(message.get("toolCalls") or []) for message in answers)
    output = sum(count["output"] + count["thoughts"] for count in tokens)
    return sum(count["input"] + count["tool"] for count in tokens), output, calls


def count_cline(name):
    messages = json.loads((PLACE / name).read_text(encoding="utf-8"))["messages"]
    metrics = [message["metrics"] for message in messages if message.get("metrics")]
    blocks = [block for message in messages for block in list_blocks(message["content"])]
    prompt = sum(each["inputTokens"] for each in metrics)
    return prompt, sum(each["outputTokens"] for each in metrics), sum(block.get("type") == "tool_use" for block in blocks)


def count_sdk(name):
    answers, calls = dict[str, tuple[int, int]](), set()
    for row in read_raw(name):
        if row.get("type") != "assistant":
            continue
        usage, key = row["message"]["usage"], row["message"]["id"]
        prompt = usage["input_tokens"] + usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"]
        answers[key] = max(answers.get(key, (0, 0)), (prompt, usage["output_tokens"]), key=lambda counts: counts[1])
        calls |= {block["id"] for block in row["message"]["content"] if block["type"] == "tool_use"}
    return sum(prompt for prompt, _ in answers.values()), sum(output for _, output in answers.values()), len(calls)


def count_moatless(name):
    """Return the counts with the calls outside the conversation, whose results no request shows."""
    nodes = json.loads((PLACE / name).read_text(encoding="utf-8"))["nodes"]
    completions = [completion for node in nodes for completion in (node.get("completions") or {}).values()]
    usages = [completion["response"]["usage"] for completion in completions]
    read = "cache_read_input_tokens"
    prompt = sum(
        usage["input_tokens"] + (usage.get(read) or 0) + (usage.get("cache_creation_input_tokens") or 0) for usage in usages
    )
    answers = [node["completions"]["build_action"]["response"]["content"] for node in nodes if node.get("completions")]
    calls = sum(block["type"] == "tool_use" for content in answers for block in content)
    return prompt, sum(usage["output_tokens"] for usage in usages), calls


def count_openhands(name):
    text = (PLACE / name).read_text(encoding="utf-8")
    values = [json.loads(text)] if name.endswith(".json") else [json.loads(line) for line in text.splitlines()]
    answers, calls = dict[str, tuple[int, int]](), set()
    for history in values if isinstance(values[0], list) else [value["history"] for value in values]:
        for about in [event["tool_call_metadata"] for event in history if event.get("tool_call_metadata")]:
            response = about["model_response"]
            answers[response["id"]] = response["usage"]["prompt_tokens"], response["usage"]["completion_tokens"]
            calls |= {(response["id"], call["id"]) for call in response["choices"][0]["message"]["tool_calls"]}
    return sum(prompt for prompt, _ in answers.values()), sum(output for _, output in answers.values()), len(calls)


COUNTS = {
    "claude-code-jsonl": count_claude_code,
    "codex-jsonl": count_codex,
    "pi-jsonl": count_pi,
    "mini-swe-agent": count_mini_swe_agent,
    "gemini-session": count_gemini_session,
    "cline-messages": count_cline,
    "moatless-tree": count_moatless,
    "openhands-events": count_openhands,
}
"""Functions that count; the other formats record no usage."""


def find_count(row):
    kind = "codex-jsonl" if row["file"].startswith("codex") else row["format"]
    return count_sdk if row["file"].startswith("claude-sdk") else COUNTS.get(kind)


@rows(lambda row: find_count(row) is not None)
def test_usage_and_calls_agree_with_an_independent_count(row):
    recordings = read_recordings(PLACE / row["file"])
    usages = [item.usage for recording in recordings for item in recording.messages if item.usage is not None]
    usages += [call.usage for recording in recordings for call in recording.left_out_calls if call.usage is not None]
    calls = sum(len(item.message.calls) for recording in recordings for item in recording.messages)
    counted = (sum(usage.prompt_tokens for usage in usages), sum(usage.output_tokens for usage in usages), calls)
    assert counted == find_count(row)(row["file"])


@rows(lambda row: row["format"] == "pi-jsonl")
def test_costs_and_compactions_agree_with_an_independent_count(row):
    lines = (PLACE / row["file"]).read_text(encoding="utf-8").splitlines()
    values = [value for line in lines for value in split_values(line)]
    costs = [
        value["message"]["usage"]["cost"]["total"] for value in values if value.get("message", {}).get("role") == "assistant"
    ]
    (recording,) = read_recordings(PLACE / row["file"])
    assert recording.cost_usd == pytest.approx(sum(costs))
    native = [event for event in recording.compactions if not event.inferred]
    assert len(native) == sum(value["type"] == "compaction" for value in values)


def count_results(value):
    """Return the ids of tool results anywhere in a JSON value, in the forms of Anthropic, OpenAI, Google and pi."""
    if isinstance(value, list):
        return [call_id for item in value for call_id in count_results(item)]
    if not isinstance(value, dict):
        return []
    inner = [call_id for name, item in value.items() if name != "toolUseResult" for call_id in count_results(item)]
    if value.get("type") == "tool_result" and "tool_use_id" in value:
        return [value["tool_use_id"], *inner]
    if value.get("type") == "function_call_output":
        return [value["call_id"], *inner]
    if value.get("role") == "toolResult":
        return [value["toolCallId"], *inner]
    if value.get("role") == "tool" and "tool_call_id" in value:
        return [value["tool_call_id"], *inner]
    return inner


RESULT_FORMATS = ("claude-code-jsonl", "codex-rollout-jsonl", "mini-swe-agent", "pi-jsonl")


@rows(lambda row: row["format"] in RESULT_FORMATS)
def test_results_and_their_calls_agree_with_an_independent_count(row):
    text = (PLACE / row["file"]).read_text(encoding="utf-8")
    try:
        values = [json.loads(text)]
    except ValueError:
        values = [value for line in text.splitlines() for value in split_values(line)]
    raw = set(count_results(values))
    recordings = read_recordings(PLACE / row["file"])
    read = [
        item.message.results[0].call_id
        for each in recordings
        for item in each.messages
        if item.message.results and not item.synthetic
    ]
    assert (len(read), len(set(read))) == (len(raw), len(raw))


@rows(lambda row: row["format"] == "moatless-tree")
def test_the_cost_of_a_tree_is_the_sum_over_all_its_calls(row):
    nodes = json.loads((PLACE / row["file"]).read_text(encoding="utf-8"))["nodes"]
    costs = [call["usage"]["completion_cost"] for node in nodes for call in (node.get("completions") or {}).values()]
    (recording,) = read_recordings(PLACE / row["file"])
    assert recording.cost_usd == pytest.approx(sum(costs))


@rows(lambda row: row["file"].startswith("claude-sdk"))
def test_the_cost_of_a_log_is_the_sum_over_its_results(row):
    costs = [raw["total_cost_usd"] if "total_cost_usd" in raw else raw["message"]["total_cost_usd"]
             for raw in read_raw(row["file"]) if raw.get("type") == "result"]  # fmt: skip
    (recording,) = select_main_sessions(read_recordings(PLACE / row["file"]))
    assert recording.cost_usd == pytest.approx(sum(costs))


@pytest.mark.parametrize("row", table(), ids=lambda row: row["file"])
def test_messages_characters_and_sub_agents_agree_with_an_independent_count(row):
    assert count_recordings(read_recordings(PLACE / row["file"])) == count_raw(PLACE / row["file"], row["file"])


def test_the_bill_of_a_session_of_codex_is_that_by_hand(tmp_path):
    """GPT-5-Codex: USD 1.25 for a million tokens of input, 0.125 from the cache, and 10 of output.

    The last total in the file is 7,494,343 tokens of input, 7,290,112 of them from the cache, and 99,678 of output:
    204,231 x 1.25 + 7,290,112 x 0.125 + 99,678 x 10 = 255,288.75 + 911,264 + 996,780 = 2,163,332.75 millionths of a dollar.
    """
    (session,) = load_sessions(PLACE / "codex_agentcmd", workers=1, cache_folder=tmp_path).sessions.to_dict("records")
    assert (session["cost_usd"], session["cost_source"]) == (pytest.approx(2.16333275, abs=1e-9), "priced")


def test_the_bill_of_a_session_of_claude_code_is_that_by_hand(tmp_path):
    """Claude Opus 4.5: USD 5 for a million tokens of input, 0.5 from the cache, 6.25 written to it, and 25 of output.

    The 66 answers, each counted once, have 70 tokens of input, 2,995,725 from the cache, 99,805 written, and 12,098 of output:
    70 x 5 + 2,995,725 x 0.5 + 99,805 x 6.25 + 12,098 x 25 = 350 + 1,497,862.5 + 623,781.25 + 302,450 = 2,424,443.75.
    """
    file = PLACE / "claude-code_entireio-cli" / "9fd2_0.jsonl"
    (session,) = load_sessions(file, workers=1, cache_folder=tmp_path).sessions.to_dict("records")
    assert (session["cost_usd"], session["cost_source"]) == (pytest.approx(2.42444375, abs=1e-9), "priced")


def test_a_cost_of_zero_for_many_tokens_is_no_cost(tmp_path):
    file = PLACE / "openhands_v0" / "multi_swe_bench_examples_output.jsonl"
    recordings = load_sessions(file, workers=1, cache_folder=tmp_path)
    assert set(recordings.sessions["cost_source"]) == {"unknown"}
    assert set(recordings.sessions["unpriced_models"]) == {("meta-llama/llama-4-maverick",)}
    assert any("a cost of 0 for all calls with tokens" in text for text in recordings.caveats["text"])
