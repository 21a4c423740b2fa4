"""Exports in formats of other programs: read back, they have all that the table of losses in the guide does not name."""

import json
import re
from dataclasses import replace
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest

from harness.conversation.messages import Reasoning, Text, ToolCall, ToolResult
from harness.conversation.tokens import Measured, Usage
from harness.errors import UsageError
from harness.inspection.exchange.exported_session import build_exported_session
from harness.inspection.exchange.redaction import redact_text
from harness.inspection.exchange.spans import PROVIDERS, UNKNOWN_PROVIDER, name_provider
from harness.inspection.exchange.writing import WRITERS, write_session
from harness.recordings.reading import read_recordings
from harness.recordings.session_log import SYNTHETIC_SYSTEM
from tests.inspection.exchange.sessions import NAMES, build_log, count_compactions, read_fixture
from tests.recordings.outline import outline

SECRETS = ("Dig a well", "Soft soil", "three metres", "the well is dug", "/well", "depth")


def describe(recording):
    """Return what a round trip must keep: roles, texts, calls, results with their status, and usage."""
    rows = []
    for item in recording.messages:
        if item.message == SYNTHETIC_SYSTEM:
            continue
        parts = [part for part in item.message.parts if not (isinstance(part, Text) and not part.text)]
        texts = "\n".join(part.text for part in parts if isinstance(part, Text))
        thoughts = "\n".join(part.text for part in parts if isinstance(part, Reasoning))
        calls = [(part.name, json.loads(part.arguments_json)) for part in parts if isinstance(part, ToolCall)]
        results = [(part.name, part.output, part.status != "completed") for part in parts if isinstance(part, ToolResult)]
        usage = item.usage if item.usage is not None and item.usage.prompt_tokens + item.usage.output_tokens else None
        rows.append((item.message.role, texts, thoughts, calls, results, usage))
    return rows


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target", ["atif", "inspect"])
def test_a_session_that_is_exported_and_read_back_is_the_same(name, target, tmp_path):
    log = build_log(name)
    write_session(log, tmp_path / "export", target)
    [read] = read_recordings(tmp_path / "export")
    expected = read_fixture(name)
    assert describe(read) == describe(expected)
    assert read.session_id == expected.session_id
    kept = [event for event in read.compactions if event.kind == "compaction"]
    assert len(kept) == count_compactions(log)
    if target == "inspect":
        before_calls = [event for event in kept if any(m.message.role == "assistant" for m in read.messages[event.position :])]
        assert not before_calls or any(event.view for event in before_calls), "the next call says what was in the context"
    assert [item.at_ms for item in read.messages if item.message.role == "assistant" and item.usage] == [
        item.at_ms for item in expected.messages if item.message.role == "assistant" and item.usage
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_trace_has_the_usage_of_each_call_and_equal_beginnings_of_prompts(name, tmp_path):
    log = build_log(name)
    write_session(log, tmp_path / "trace.json", "weka")
    [read] = read_recordings(tmp_path / "trace.json")
    reported = [
        (item.usage.prompt_tokens, item.usage.output_tokens)
        for item in read_fixture(name).messages
        if item.usage is not None and item.usage.prompt_tokens > 0
    ]
    assert [(item.usage.prompt_tokens, item.usage.output_tokens) for item in read.messages if item.usage] == reported
    requests = json.loads((tmp_path / "trace.json").read_text())["requests"]
    prompts = [call.request for call in build_exported_session(log).calls if call.usage is not None and call.usage.prompt_tokens]
    for (earlier, later), (first, second) in zip(pairwise(requests), pairwise(prompts), strict=True):
        if list(second[: len(first)]) == list(first):
            assert later["hash_ids"][: len(earlier["hash_ids"])] == earlier["hash_ids"]


def test_a_trace_has_the_time_at_which_each_request_was_sent(tmp_path):
    """In the session, three answers end at 0, 2 and 10 s; the calls take 1, 1 and 3 s."""
    write_session(build_log("qwen-code.jsonl"), tmp_path / "trace.json", "weka")
    requests = json.loads((tmp_path / "trace.json").read_text())["requests"]
    assert [(request["t"], request["api_time"]) for request in requests[:3]] == [(0, 1), (2, 1), (8, 3)]


def read_attributes(span):
    return {item["key"]: next(iter(item["value"].values())) for item in span["attributes"]}


@pytest.mark.parametrize("name", NAMES)
def test_spans_have_each_call_and_mark_the_first_after_a_compaction(name, tmp_path):
    log = build_log(name)
    write_session(log, tmp_path / "spans.json", "otel")
    [resource] = json.loads((tmp_path / "spans.json").read_text())["resourceSpans"]
    root, *spans = resource["scopeSpans"][0]["spans"]
    session = build_exported_session(log)
    calls = list(session.calls)
    chats = [read_attributes(span) for span in spans if span["name"].startswith("chat")]
    tools = [span for span in spans if span["name"].startswith("execute_tool")]
    assert (len(chats), len(tools)) == (len(calls), sum(len(call.answer.calls) for call in calls))
    assert all(span["parentSpanId"] == root["spanId"] and span["traceId"] == root["traceId"] for span in spans)
    used = [int(chat.get("gen_ai.usage.input_tokens", 0)) for chat in chats]
    assert used == [call.usage.prompt_tokens if call.usage else 0 for call in calls]
    after = [number for number, call in enumerate(calls) if follows_compaction(session.items, call)]
    assert [number for number, chat in enumerate(chats) if chat.get("gen_ai.conversation.compacted")] == after


CONVENTION = import_module("yaml").safe_load(Path(__file__).with_name("gen_ai.yaml").read_text(encoding="utf-8"))
"""Names, types and required attributes of the conventions, at the revisions that the file names."""
KINDS = {"internal": 1, "client": 3}
TYPES = {"string": {"stringValue"}, "int": {"intValue"}, "boolean": {"boolValue"}, "string[]": {"arrayValue"}}


@pytest.mark.parametrize("name", NAMES)
def test_spans_have_names_types_and_required_attributes_of_the_conventions(name, tmp_path):
    write_session(build_log(name), tmp_path / "spans.json", "otel")
    [resource] = json.loads((tmp_path / "spans.json").read_text())["resourceSpans"]
    for span in resource["scopeSpans"][0]["spans"]:
        attributes = {item["key"]: item["value"] for item in span["attributes"]}
        values = read_attributes(span)
        rule = CONVENTION["spans"][values["gen_ai.operation.name"]]
        assert span["kind"] == KINDS[rule["kind"]]
        wanted = rule["name"]
        for key in re.findall(r"\{([\w.]+)\}", wanted):
            wanted = wanted.replace(f"{{{key}}}", values.get(key, ""))
        assert span["name"] == wanted.strip()
        assert set(rule["required"]) <= attributes.keys()
        for key, value in attributes.items():
            kind = "string" if key == "error.type" else CONVENTION["attributes"][key]
            assert value.keys() <= TYPES.get(kind, {"stringValue"}), key
        assert values.get("gen_ai.conversation.compacted", True) is True, "the convention never sets it to false"
        total = int(values.get("gen_ai.usage.input_tokens", 0))
        parts = [int(values.get(f"gen_ai.usage.cache_{part}.input_tokens", 0)) for part in ("read", "write")]
        assert sum(parts) <= total, "the total includes cached tokens"
        for key in ("gen_ai.input.messages", "gen_ai.output.messages"):
            for message in json.loads(values.get(key, "[]")):
                assert message["role"] in CONVENTION["roles"]
                assert all(set(CONVENTION["parts"][part["type"]]) <= part.keys() for part in message["parts"])
                assert ("finish_reason" in message) == (key == "gen_ai.output.messages")


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("claude-opus-4-5-20251101", "anthropic"),
        ("gpt-4.1-mini", "openai"),
        ("gemini-2.5-flash", "gcp.vertex_ai"),
        ("gemini/gemini-2.5-flash", "gcp.gemini"),
        ("mistral/mistral-large-latest", "mistral_ai"),
        ("anthropic/claude-of-tomorrow", "anthropic"),
        ("of-nobody", UNKNOWN_PROVIDER),
        ("", UNKNOWN_PROVIDER),
    ],
)
def test_the_provider_of_a_model_has_its_name_in_the_conventions(model, provider):
    assert name_provider(model) == provider
    assert provider in {*CONVENTION["providers"], UNKNOWN_PROVIDER}


def test_all_names_of_providers_are_in_the_conventions():
    assert set(PROVIDERS.values()) <= set(CONVENTION["providers"])


def follows_compaction(items, call):
    place = next(index for index, item in enumerate(items) if item is call)
    before = [type(item).__name__ for item in items[:place]]
    last_call = max((index for index, kind in enumerate(before) if kind == "ModelCall"), default=-1)
    return "AppliedCompaction" in before[last_call + 1 :]


@pytest.mark.parametrize("target", sorted(WRITERS))
def test_a_redacted_export_has_the_numbers_and_no_text(target, tmp_path):
    log = build_log("qwen-code.jsonl")
    write_session(log, tmp_path / "plain", target)
    write_session(log, tmp_path / "redacted", target, redacted=True)
    data = (tmp_path / "redacted").read_bytes()
    if target == "otel":
        tokens = [
            [
                read_attributes(span).get("gen_ai.usage.input_tokens")
                for span in json.loads(text)["resourceSpans"][0]["scopeSpans"][0]["spans"]
            ]
            for text in ((tmp_path / "plain").read_text(), data)
        ]
        assert tokens[0] == tokens[1]
    else:
        plain, redacted = (read_recordings(tmp_path / name)[0] for name in ("plain", "redacted"))
        assert [item.usage for item in redacted.messages] == [item.usage for item in plain.messages]
        assert [len(item.message.calls) for item in redacted.messages] == [len(item.message.calls) for item in plain.messages]
        data = "\n".join(outline(redacted)).encode() + redacted.session_id.encode()
    for secret in (*SECRETS, "session-well"):
        assert secret.encode() not in data, secret


def test_texts_of_one_shape_have_one_digest_that_hides_them():
    assert redact_text("key-123 of Anna") == redact_text("fob-987 of Otto")
    assert redact_text("key-123 of Anna") != redact_text("key-123 of Ann")
    assert redact_text("a\nb").startswith("[3 characters, 2 lines, shape ")


def test_an_existing_file_is_kept(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="exists; choose another file"):
        write_session(build_log("pi.jsonl"), tmp_path / "file", "atif")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("target", "name", "reason"),
    [
        ("weka", "copilot-cli.jsonl", "no model call of the session has reported usage"),
        ("otel", "swe-agent-text.traj", "the session has no times"),
    ],
)
def test_a_session_without_what_the_format_needs_is_refused_and_no_file_is_left(target, name, reason, tmp_path):
    with pytest.raises(UsageError, match=reason):
        write_session(build_log(name), tmp_path / "export", target)
    assert list(tmp_path.iterdir()) == []


def test_a_call_whose_usage_is_not_known_has_none():
    log = build_log("pi.jsonl")
    assert len(list(build_exported_session(log).calls)) == read_fixture("pi.jsonl").steps
    usage = Usage(input_tokens=Measured(0), output_tokens=Measured(0))
    unknown = [
        timed._replace(entry=timed.entry._replace(event=replace(timed.entry.event, usage=usage)))
        if timed.entry.event.kind == "step-finished"
        else timed
        for timed in log
    ]
    assert all(call.usage is None for call in build_exported_session(unknown).calls), "a usage of 0 tokens is none"
