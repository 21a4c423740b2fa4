"""Recorded answers are replayed unchanged; a missing answer is an error that states how far the recording matches."""

import json
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.agent.conversation import StreamBuffer
from harness.conversation.events import TextDelta
from harness.conversation.messages import assistant, user
from harness.conversation.tokens import Measured, Usage, Window
from harness.errors import ContextOverflow, MalformedRecording, NotRecorded, ProviderFailed, StoreError, UsageError
from harness.models.cassette import HEADER, Cassette, CassetteModel, open_cassette_file
from harness.models.local.model import LocalModel
from harness.protocols import Reply, Request, ToolSpec, ignore
from harness.revisions import REVISIONS
from tests.models.endpoint.test_completions import replies
from tests.models.test_openai_format import messages as conversations
from tests.models.test_openai_format import specs

HELLO = Request(messages=(user("hello"),))
TOOL = ToolSpec(name="t", description="", parameters_json="{}")
MANY = """
import sys
from pathlib import Path
from harness.models.cassette import open_cassette_file
tape = open_cassette_file(Path(sys.argv[1]))
for number in range(200):
    tape.add(f"{sys.argv[2]}-{number}", {"overflow": [number, len(sys.argv[2])]})
"""


@dataclass
class Counting:
    """A model that answers with the number of its calls, or raises the given error."""

    name: str = "counting"
    answer: Reply | Exception | None = None
    asked: list[Request] = field(default_factory=list)

    @property
    def window(self):
        return Window(tokens=100, source="configuration")

    def reply(self, request, listen=ignore):
        self.asked.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        usage = Usage(input_tokens=Measured(5), output_tokens=Measured(2))
        return self.answer or Reply(message=assistant(f"answer {len(self.asked)}"), usage=usage, seconds=1.5, cost_usd=0.25)


def taped(path, mode, model=None, take=0):
    return CassetteModel(model=model or Counting(), cassette=Cassette(path=path, mode=mode), take=take)


def test_the_input_limit_of_a_summarizer_is_kept_by_recording_and_replay(tmp_path):
    for mode in ("record", "replay"):
        path = tmp_path / "c.jsonl"
        assert taped(path, mode, LocalModel(name="local/smollm2-135m", endpoint=None)).max_input_tokens == 4_000
        assert taped(path, mode).max_input_tokens is None


@given(request=st.builds(Request, messages=conversations, tools=st.lists(specs, max_size=2).map(tuple)), reply=replies)
def test_any_answer_comes_back_as_it_was(request, reply, tmp_path_factory):
    path = tmp_path_factory.mktemp("tape") / "c.jsonl"
    assert taped(path, "record", Counting(answer=reply)).reply(request) == reply
    open_cassette_file.cache_clear()
    heard = StreamBuffer()
    model = Counting()
    assert taped(path, "replay", model).reply(request, heard.add) == reply
    assert (heard.reasoning, heard.text) == (reply.message.reasoning, reply.message.text)
    assert model.asked == []


def test_an_answer_that_was_recorded_under_another_rule_for_prices_is_priced_again(tmp_path, monkeypatch):
    request, paid = Request(messages=(user("Hi"),)), list[float]()
    path = tmp_path / "c.jsonl"
    taped(path, "record", Counting(name="local/smollm2-135m")).reply(request)
    replay = replace(taped(path, "replay", Counting(name="local/smollm2-135m")), on_replay=paid.append)
    assert replay.reply(request).cost_usd == 0.25
    for revision, cost_usd in ((99, 0.0), (98, 0.0)):
        monkeypatch.setattr("harness.revisions.REVISIONS", {**REVISIONS, "prices": revision})
        assert replay.reply(request).cost_usd == cost_usd, "local models are free"
    assert paid == [0.25, 0.0, 0.0]
    taped(path, "record", Counting(), take=1).reply(request)
    assert taped(path, "replay", take=1).reply(request).cost_usd == 0.25
    monkeypatch.setattr("harness.revisions.REVISIONS", REVISIONS)
    assert taped(path, "replay", take=1).reply(request).cost_usd is None, "the price of such a model is unknown"


def test_a_recorded_answer_is_not_requested_again_while_recording(tmp_path):
    model = Counting()
    recording = taped(tmp_path / "c.jsonl", "record", model)
    first = recording.reply(HELLO)
    assert recording.reply(HELLO) == first
    assert len(model.asked) == 1


@pytest.mark.parametrize(
    "other",
    [
        Request(messages=(user("hello!"),)),
        replace(HELLO, tools=(TOOL,)),
        replace(HELLO, max_output_tokens=7),
    ],
    ids=["messages", "tools", "limit"],
)
def test_another_request_is_another_answer(tmp_path, other):
    recording = taped(tmp_path / "c.jsonl", "record", Counting())
    assert recording.reply(HELLO) != recording.reply(other)


def test_another_model_or_take_is_another_answer(tmp_path):
    path = tmp_path / "c.jsonl"
    model = Counting()
    taped(path, "record", model).reply(HELLO)
    assert taped(path, "record", model, take=1).reply(HELLO).message.text == "answer 2"
    assert taped(path, "record", replace(model, name="another")).reply(HELLO).message.text == "answer 3"


def test_a_refusal_of_a_long_prompt_is_recorded_and_other_failures_are_not(tmp_path):
    path = tmp_path / "c.jsonl"
    failing = Counting(answer=ProviderFailed("counting", 500, "oops"))
    with pytest.raises(ProviderFailed):
        taped(path, "record", failing).reply(HELLO)
    with pytest.raises(ContextOverflow):
        taped(path, "record", Counting(answer=ContextOverflow("counting", 120, 100))).reply(HELLO)
    with pytest.raises(ContextOverflow) as caught:
        taped(path, "replay").reply(HELLO)
    assert (caught.value.prompt_tokens, caught.value.window_tokens) == (120, 100)


def test_a_miss_says_how_much_of_the_conversation_is_known(tmp_path):
    path = tmp_path / "c.jsonl"
    reply = taped(path, "record").reply(HELLO)
    longer = Request(messages=(*HELLO.messages, reply.message, user("and now?")))
    with pytest.raises(NotRecorded, match="contains the first 1 of the request's 3 messages") as caught:
        taped(path, "replay").reply(longer)
    assert "record again" in str(caught.value)
    with pytest.raises(NotRecorded, match="contains none of its messages"):
        taped(path, "replay").reply(Request(messages=(user("bye"),)))


@pytest.mark.slow
def test_several_processes_record_into_one_file(tmp_path):
    path = tmp_path / "c.jsonl"
    writers = [subprocess.Popen([sys.executable, "-c", MANY, str(path), "w" * n]) for n in (1, 2, 3)]
    assert [writer.wait(300) for writer in writers] == [0, 0, 0]
    lines = path.read_bytes().splitlines(keepends=True)
    assert lines[0] == HEADER
    kept = {json.loads(line)["key"]: json.loads(line)["overflow"] for line in lines[1:]}
    assert kept == {f"{'w' * n}-{number}": [number, n] for n in (1, 2, 3) for number in range(200)}


@dataclass
class Overtaken(Counting):
    """A model that is slower than another process, which records its answer to the same request meanwhile."""

    recorded_first: CassetteModel = field(kw_only=True)

    def reply(self, request, listen=ignore):
        open_cassette_file.cache_clear()  # another process has an object of its own for the file
        with suppress(ContextOverflow):
            self.recorded_first.reply(request)
        listen(TextDelta(text="slower"))
        return super().reply(request, listen)


OVERFLOW = ContextOverflow("counting", 120, 100)
USAGE = Usage(input_tokens=Measured(5), output_tokens=Measured(2))


@pytest.mark.parametrize("slower", [None, OVERFLOW])
@pytest.mark.parametrize(("faster", "booked_usd"), [(None, 0.25), (OVERFLOW, 0.0)])
def test_both_of_two_calls_recorded_at_the_same_time_are_paid(tmp_path, faster, slower, booked_usd):
    """What a trial spends is the cost of its answers less what it reports as not paid."""
    path, unpaid_usd = tmp_path / "c.jsonl", list[float]()
    paid = Reply(message=assistant("slower"), usage=USAGE, seconds=1.0, cost_usd=0.5)
    model = Overtaken(answer=slower or paid, recorded_first=taped(path, "record", Counting(answer=faster)))
    with suppress(ContextOverflow):
        replace(taped(path, "record", model), on_replay=unpaid_usd.append).reply(HELLO)
    assert booked_usd - sum(unpaid_usd) == (0.0 if slower else 0.5)


@pytest.mark.parametrize("slower", [None, OVERFLOW])
def test_two_processes_that_record_the_same_request_both_use_the_first_answer(tmp_path, slower):
    path, heard = tmp_path / "c.jsonl", StreamBuffer()
    first = Reply(message=assistant("faster"), usage=USAGE, seconds=1.0, cost_usd=0.5)
    model = Overtaken(answer=slower, recorded_first=taped(path, "record", Counting(answer=first)))
    assert taped(path, "record", model).reply(HELLO, heard.add) == first
    assert heard.text == "faster"
    assert taped(path, "replay").reply(HELLO) == first
    assert len(path.read_bytes().splitlines()) == 2


def test_an_overflow_that_another_process_recorded_first_is_raised(tmp_path):
    path = tmp_path / "c.jsonl"
    model = Overtaken(recorded_first=taped(path, "record", Counting(answer=OVERFLOW)))
    with pytest.raises(ContextOverflow, match="120 tokens, window 100"):
        taped(path, "record", model).reply(HELLO)


def test_a_line_that_a_killed_process_left_is_written_over(tmp_path):
    path = tmp_path / "c.jsonl"
    taped(path, "record").reply(HELLO)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"key": "abc", "repl')
    open_cassette_file.cache_clear()
    assert taped(path, "replay").reply(HELLO).message.text == "answer 1"
    taped(path, "record").reply(Request(messages=(user("more"),)))
    assert path.read_bytes().startswith(whole + b'{"key":')
    assert all(json.loads(line) for line in path.read_bytes().splitlines())


@pytest.mark.parametrize("written", [b"", HEADER[:1], HEADER[:-1]])
def test_a_file_whose_header_a_killed_process_did_not_finish_gets_it_again(tmp_path, written):
    path = tmp_path / "c.jsonl"
    path.write_bytes(written)
    Cassette(path=path, mode="record").check()
    assert path.read_bytes() == HEADER
    taped(path, "record").reply(HELLO)
    assert taped(path, "replay").reply(HELLO).message.text == "answer 1"


@pytest.mark.parametrize("content", [b'{"only": "copy"}', b"one line", b'{"only":\n "copy"}', b"lines\n"])
def test_a_file_that_is_no_cassette_is_refused_and_stays_as_it_is(tmp_path, content):
    path = tmp_path / "results.json"
    path.write_bytes(content)
    for mode in ("record", "replay"):
        with pytest.raises(MalformedRecording, match="line 1: expected the header of a cassette"):
            Cassette(path=path, mode=mode).check()
    for record in (lambda: open_cassette_file(path).create(), lambda: open_cassette_file(path).add("key", {"overflow": [1, 2]})):
        with pytest.raises(MalformedRecording, match="line 1: expected the header of a cassette"):
            record()
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"SQLite format 3\0\n", "line 1: expected the header of a cassette"),
        (HEADER + b"{no json\n", "line 2: expected an answer with its key"),
        (HEADER + b'{"key": 5, "overflow": [1, 2]}\n', "line 2"),
        (HEADER + b'{"key": "a", "reply": {"message": "x"}}\n', "line 2"),
        (HEADER + b"[]\n", "line 2"),
        (HEADER + b"[" * 100_000 + b"\n", "line 2"),
    ],
)
def test_a_file_that_is_no_cassette_is_refused_with_the_place(tmp_path, content, message):
    path = tmp_path / "c.jsonl"
    path.write_bytes(content)
    for mode in ("record", "replay"):
        open_cassette_file.cache_clear()
        with pytest.raises(MalformedRecording, match=message):
            Cassette(path=path, mode=mode).check()
    assert path.read_bytes() == content


def test_a_cassette_that_is_not_there_or_cannot_be_is_refused(tmp_path):
    with pytest.raises(UsageError, match="record one first"):
        Cassette(path=tmp_path / "c.jsonl", mode="replay").check()
    (tmp_path / "file").touch()
    with pytest.raises(StoreError):
        Cassette(path=tmp_path / "file" / "c.jsonl", mode="record").check()
