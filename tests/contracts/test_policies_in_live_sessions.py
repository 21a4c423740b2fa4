"""Policies of the design documents in live sessions: their numbers, as the logs and the requests for summaries show them."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.ratio import Ratio, SimplifiedGeminiCli, SimplifiedOpenCode
from harness.compaction.presets.reserve import ReserveRecent
from harness.compaction.presets.three_tiers import ThreeTiers
from harness.compaction.summary_formats import extract_paths
from harness.conversation.events import Compaction, Entry, MessageAdded, StepFinished, TextDelta
from harness.conversation.messages import Message, Text
from harness.conversation.tokens import count_json_characters
from harness.conversation.view import View, fold_all
from harness.models.endpoint.server import make_model_finder, serve_endpoint
from harness.protocols import Model, Policy, Reply, Request, ignore
from harness.session.live_session import LiveSession
from harness.store.journal import Journal
from harness.task import Evidence, Task
from tests.experiment.tiny_task import ROUNDS, make_tiny_task, step
from tests.session.test_execution import session

pytestmark = pytest.mark.slow

SECONDS = 300
SENTENCE = "The server reads its settings from a file and listens on the port."
CLEARED = "[Old tool result content cleared]"
LONG = SimplifiedOpenCode(clip_characters=100_000, summarizer="scripted/extractive")


class Sent(NamedTuple):
    """A model call of a session: the view before the policy was asked, its compaction, and the view that was sent."""

    before: View
    compaction: Compaction | None
    after: View
    prompt_tokens: int
    """Number of tokens of the prompt as the model reported it."""


def make_counting_task(command: str, rounds: int) -> Task:
    """Return a task that runs a command a number of times, then writes the port down."""
    task: Task = make_tiny_task(0, command)
    steps = [
        replace(
            step(f"round {number}", "execute_command", command=f"{command} && echo round-{number}-"),
            done=Evidence(receipts=(("execute_command", f"round-{number}-"),)),
        )
        for number in range(rounds)
    ]
    return replace(task, script=replace(task.script, steps=(*steps, task.script.steps[-1])))


def run(task: Task, policy: Policy, window_tokens: int, journal: Path) -> tuple[Entry, ...]:
    """Return the log of a live session that works on a task to its end."""
    live = LiveSession(session(task=task, request=task.prompt, policy=policy, window_tokens=window_tokens, journal=journal))
    live.start()
    try:
        assert live.wait(SECONDS) == "idle", live.failure
        assert live.view == fold_all(live.entries, policy.counter)
    finally:
        ended = live.close()
    assert (ended.outcome.status, [check.passed for check in ended.checks]) == ("completed", [True, True])
    return live.entries


def list_sent(entries: Sequence[Entry], policy: Policy) -> Iterator[Sent]:
    """Yield the model calls of a session in order."""
    finished = {entry.event.step: entry.event for entry in entries if isinstance(entry.event, StepFinished)}
    done = {entry.event.step: at for at, entry in enumerate(entries) if isinstance(entry.event, Compaction)}
    for at, (_, event) in enumerate(entries):
        if isinstance(event, MessageAdded) and event.message.role == "assistant":
            compacted_at = done.get(event.step)
            compaction = None if compacted_at is None else entries[compacted_at].event
            assert compaction is None or isinstance(compaction, Compaction)
            after = fold_all(entries[:at], policy.counter)
            before = after if compacted_at is None else fold_all(entries[:compacted_at], policy.counter)
            assert finished[event.step].view_tokens == after.tokens
            yield Sent(before, compaction, after, finished[event.step].usage.prompt_tokens)


def read_texts(message: Message) -> Iterator[str]:
    """Yield the texts of a message that count."""
    yield from (part.text for part in message.parts if isinstance(part, Text))
    for call in message.calls:
        yield from (call.name, call.arguments_json)
    yield from (result.output for result in message.results)


def list_outputs(view: View) -> list[str]:
    return [result.output for message in view.messages for result in message.results]


@pytest.mark.parametrize(("window_tokens", "summarizes"), [(51_000, False), (44_000, True)])
def test_opencode_clears_outside_the_newest_40000_tokens_and_then_summarizes(
    window_tokens: int, summarizes: bool, tmp_path: Path
) -> None:
    """S1.7: prune old tool outputs (keep the last 40K tokens) and an LLM summary; tokens are length / 4."""
    task = make_counting_task(f"yes '{SENTENCE}' | head -c 7000", 30)
    sent = list(list_sent(run(task, LONG, window_tokens, tmp_path / "j.sqlite"), LONG))
    for one in sent:
        lengths = [sum(map(len, read_texts(message))) for message in one.after.messages]
        assert one.after.tokens == sum(math.ceil(length / 4) for length in lengths)
    [first, *_] = [number for number, one in enumerate(sent) if one.compaction]
    assert [one.prompt_tokens >= 0.8 * window_tokens for one in sent[:first]] == [False] * (first - 1) + [True]
    before, compaction, after, _ = sent[first]
    assert compaction is not None
    outputs, held, expected = list_outputs(before), 0, list[str]()
    for output in reversed(outputs):
        held += math.ceil(len(output) / 4)
        expected.insert(0, output if held <= 40_000 else CLEARED)
    assert 1 <= expected.count(CLEARED) < len(outputs) - 20
    if not summarizes:
        assert list_outputs(after) == expected
        assert not any(one.compaction.summary for one in sent if one.compaction)
        return
    kept = int(len(before.items) * 0.7)
    while before.items[kept].message.role == "tool":
        kept -= 1
    assert len(after.items) == 2 + len(before.items) - kept, "system message, summary and the last 30 % of the messages"
    assert after.messages[1].role == "system"
    assert after.messages[1].text == compaction.summary
    assert compaction.summary.startswith("Previous context summary:\n")
    assert list_outputs(after) == expected[len(expected) - len(list_outputs(after)) :]


@pytest.mark.parametrize("words", ["The port is not 80.", "番号は８０ではありません。 The port."])
def test_gemini_summarizes_at_half_of_the_window_and_keeps_the_last_30_percent(words: str, tmp_path: Path) -> None:
    """S1.7: 50 % threshold, last 30 % preserved, ASCII 0.25 and all else 1.3 tokens a character."""
    policy = SimplifiedGeminiCli(summarizer="scripted/oracle")
    task = make_counting_task(f"yes '{words}' | head -n {45 if words.isascii() else 12}", 40)
    sent = list(list_sent(run(task, policy, 10_000, tmp_path / "j.sqlite"), policy))
    for one in sent:
        for item in (*one.before.items, *one.after.items):
            text = "".join(read_texts(item.message))
            ascii_count = sum(character < "\x80" for character in text)
            assert item.tokens == math.ceil(round(0.25 * ascii_count + 1.3 * (len(text) - ascii_count), 6))
        assert (one.compaction is not None) == (one.before.tokens >= 5_000)
    compacted = [one for one in sent if one.compaction]
    assert len(compacted) >= 2
    for before, compaction, after, _ in compacted:
        assert compaction is not None
        assert compaction.status == "applied"
        sizes = [count_json_characters(message) for message in before.messages]
        kept = len(after.items) - 2  # without the system message and the summary
        kept_share, cut = sum(sizes[len(sizes) - kept :]) / sum(sizes), len(sizes) - kept
        assert kept_share <= 0.3
        at = cut - 1
        while before.items[at].message.role == "tool":
            at -= 1
        assert sum(sizes[at:]) / sum(sizes) > 0.3, "one message more, with its results, would be more than 30 %"
        assert after.messages[1].role == "user"
        assert after.messages[1].text.startswith("Previous context summary:\n")
        assert after.messages[2:] == before.messages[cut:]


FILES = tuple(f"f{number}.txt" for number in range(ROUNDS))


def make_reading_task() -> Task:
    """Return a task that reads eight files of 2,000 tokens each, then writes the port down."""
    task: Task = make_tiny_task(0, "true")
    reads = [
        replace(step(f"read {name}", "read_file", path=name), done=Evidence(receipts=(("read_file", name.replace(".", r"\.")),)))
        for name in FILES
    ]
    files = tuple((name, f"begin of {name}\n{(SENTENCE + chr(10)) * 120}"[:8_000]) for name in FILES)
    script = replace(task.script, steps=(*reads, task.script.steps[-1]))
    return replace(task, workspace=(*task.workspace, *files), script=script, later_messages=())


class Recorder:
    """Summarizer that passes requests on to another one and keeps them with the answers."""

    def __init__(self, model: Model) -> None:
        self.name, self.window, self._model = model.name, model.window, model
        self.asked: list[tuple[str, str]] = []

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        reply = self._model.reply(request, listen)
        self.asked.append(("\n".join(message.text for message in request.messages), reply.message.text))
        return reply


@pytest.mark.slow  # litellm takes seconds to import
def test_each_round_merges_the_former_summary_with_the_new_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S2.5: the former summary goes into the prompt as it is in view, and the new one takes its place."""
    policy = ReserveRecent(reserve_tokens=15_000, keep_recent_tokens=1_000, summarizer="hosted_vllm/scripted/oracle")
    task = make_reading_task()
    summarizer = Recorder(make_model_finder([task], window_tokens=100_000)("scripted/oracle"))
    with serve_endpoint(lambda _: summarizer) as endpoint:
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", endpoint.address)
        entries = run(task, policy, 20_000, tmp_path / "j.sqlite")
    rounds = [one for one in list_sent(entries, policy) if one.compaction]
    assert len(rounds) == len(summarizer.asked) >= 3, "two rounds with a former summary at least"
    files = list[str]()
    for number, (one, (prompt, answer)) in enumerate(zip(rounds, summarizer.asked, strict=True)):
        former = one.before.messages[1].text
        assert (f"PREVIOUS SUMMARY:\n{former}\n\nMESSAGES TO SUMMARIZE:" in prompt) == (number > 0)
        assert ("Merge the previous summary with the new messages into one document" in prompt) == (number > 0)
        newly_told = [name for name in FILES if f"begin of {name}\n{SENTENCE}" in prompt]
        assert newly_told, "each round summarizes new messages"
        files += newly_told
        summary = one.after.messages[1]
        assert summary.role == "user"
        assert summary.text.startswith(answer.strip())
        assert [message.role for message in one.after.messages[:3]] == ["system", "user", "assistant"], "one summary is in view"
        assert extract_paths("read-files", summary.text) == files
        assert "The port is 4000." in summary.text
        for name in files:
            assert f"[read_file] {name} -> ok" in summary.text, "what the former summary said was merged"
    assert files == list(FILES[: len(files)]), "every message is summarized once"


def test_without_compaction_a_session_goes_on_until_the_provider_refuses_its_prompt(tmp_path: Path) -> None:
    """S2.9: nothing is compacted above the threshold of 3,616 tokens, and the turn ends by the error of the provider."""
    policy, window_tokens = ReserveRecent(enabled=False), 20_000
    task = make_counting_task(f"yes '{SENTENCE}' | head -c 7000", 30)
    live = LiveSession(
        session(task=task, request=task.prompt, policy=policy, window_tokens=window_tokens, journal=tmp_path / "j.sqlite")
    )
    live.start()
    try:
        assert live.wait(SECONDS) == "idle", live.failure
    finally:
        ended = live.close()
    assert (ended.outcome.status, ended.outcome.reason) == ("failed", "overflow")
    assert ended.outcome.detail.startswith("prompt too long for 'scripted/tiny:attentive': ")
    assert f" tokens, window {window_tokens}; " in ended.outcome.detail
    assert not any(isinstance(entry.event, Compaction) for entry in live.entries)
    prompts = [entry.event.usage.prompt_tokens for entry in live.entries if isinstance(entry.event, StepFinished)]
    assert prompts == sorted(prompts)
    assert window_tokens - 16_384 < prompts[-1] <= window_tokens, "it ran on above the threshold"
    assert window_tokens < prompts[-1] + 2_500, "and to the end of the window"
    enabled = run(
        task, replace(policy, enabled=True, keep_recent_tokens=2_000, summarizer="scripted/oracle"), 30_000, tmp_path / "k"
    )
    assert any(isinstance(entry.event, Compaction) for entry in enabled), "with compaction it comes to the end of the task"


def test_the_time_at_which_an_output_was_cleared_is_stored_with_its_call(tmp_path: Path) -> None:
    """S3.2: call, arguments and times stay; of the outputs in view, only the cleared ones have the time of their compaction."""
    policy = ThreeTiers(prune_at="step", protect_tokens=5_000, prune_minimum_tokens=2_000, summarizer="scripted/oracle")
    task = make_counting_task(f"yes '{SENTENCE}' | head -c 7000", 20)
    entries = run(task, policy, 100_000, tmp_path / "j.sqlite")
    with Journal.open(tmp_path / "j.sqlite", read_only=True) as journal:
        times = {entry_row["seq"]: entry_row["at_ms"] for entry_row in journal.query("SELECT seq, at_ms FROM event")}
        rows = journal.query("SELECT call_id, state, data_json FROM parts WHERE type = 'tool' ORDER BY id")
    cleared_at = {
        result.call_id: times[seq]
        for seq, event in entries
        if isinstance(event, Compaction)
        for change in event.patch.replace
        for result in change.message.results
    }
    assert len(set(cleared_at.values())) >= 3
    calls = [call.call_id for _, event in entries if isinstance(event, MessageAdded) for call in event.message.calls]
    assert [row["call_id"] for row in rows] == calls
    for row in rows:
        time = json.loads(row["data_json"])["time"]
        assert time["compacted"] == cleared_at.get(row["call_id"])
        assert row["state"] == ("compacted" if row["call_id"] in cleared_at else "completed")
        assert time["start"] <= time["end"] <= (time["compacted"] or time["end"])


def test_keep_last_compacts_at_80_percent_of_what_is_left_of_the_window_and_keeps_ten_messages(tmp_path: Path) -> None:
    """S0.4, S0.5, S0.6: (20,000 − 2,000 − 4,000 − 5,000) × 0.8 = 7,200 estimated tokens of the whole message array."""
    policy = KeepLast(measure="estimate", summarizer="scripted/oracle")
    task = make_counting_task(f"yes '{SENTENCE}' | head -c 2400", 30)
    sent = list(list_sent(run(task, policy, 20_000, tmp_path / "j.sqlite"), policy))
    for one in sent:
        lengths = [sum(map(len, read_texts(message))) for message in one.before.messages]
        assert one.before.tokens == sum(math.ceil(length / 4) for length in lengths)
        assert (one.compaction is not None) == (one.before.tokens >= 7_200)
    rounds = [one for one in sent if one.compaction]
    assert len(rounds) >= 2
    for number, (before, compaction, after, _) in enumerate(rounds, 1):
        assert compaction is not None
        kept = len(before.items) - 10
        while before.items[kept].message.role == "tool":
            kept -= 1
        assert after.items[2:] == before.items[kept:]
        assert [message.role for message in after.messages[:2]] == ["system", "assistant"]
        assert after.messages[1].text.startswith(f"## Session Summary (Compaction Round {number})\n\n")
        assert ("This summary incorporates context from " in after.messages[1].text) == (number > 1)


def test_ratio_compacts_at_80_percent_of_the_window_by_the_last_report_and_keeps_30_percent(tmp_path: Path) -> None:
    """S1.2, S1.6: the prompt of the last call counts, neither the estimate nor the sum over the calls."""
    policy, window_tokens = Ratio(measure="prompt", summarizer="scripted/oracle"), 10_000
    task = make_counting_task(f"yes '{SENTENCE}' | head -c 2400", 30)
    sent = list(list_sent(run(task, policy, window_tokens, tmp_path / "j.sqlite"), policy))
    due = [one.prompt_tokens >= 0.8 * window_tokens for one in sent]
    assert [one.compaction is not None for one in sent] == [False, *due[:-1]]
    assert due.count(True) >= 2
    assert sum(one.prompt_tokens for one in sent[: due.index(True)]) > 2 * window_tokens, "the sum was over the threshold before"
    for before, compaction, after, _ in sent:
        if compaction is None:
            continue
        kept = int(len(before.items) * 0.7)
        while before.items[kept].message.role == "tool":
            kept -= 1
        assert after.items[2:] == before.items[kept:]
        assert after.messages[1].role == "system"
        assert after.messages[1].text.startswith("Previous context summary:\n")
