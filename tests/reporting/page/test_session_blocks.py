"""Sessions in the page: nothing is lost in a block, and a large experiment has a sample that says what it is."""

import base64
import json
import zlib

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.presets.keep_last import KeepLast
from harness.conversation.messages import assistant
from harness.errors import UsageError
from harness.inspection.recorded_session import RecordedSession
from harness.inspection.sample_run import run_on_sample
from harness.inspection.session_steps import SessionSteps, format_full_text
from harness.inspection.timeline import LogReader, RequestHistory, inspect_session, reconstruct_request
from harness.reporting.page import session_blocks
from harness.reporting.page.session_blocks import (
    KnownMessages,
    build_blocks,
    choose_sessions,
    compress,
    encode_session,
    extend_ranges,
)
from tests.inspection.test_counterfactual import small_log


@pytest.fixture(scope="module")
def session():
    return RecordedSession(name="compacted", entries=run_on_sample(KeepLast(), 30_000).entries)


def decode(block):
    return json.loads(zlib.decompress(base64.b64decode(block)))


@pytest.mark.slow
def test_all_requests_in_one_pass_equal_the_requests_one_by_one(session):
    history = RequestHistory(session.entries)
    reader = LogReader.from_log(session.entries)
    requests = list(history.reconstruct_all(reader))
    assert reader.build_inspection() == inspect_session(session.entries)
    assert any(request.compactions for request in requests)
    for request in requests:
        assert request == RequestHistory(session.entries).reconstruct(request.step)
        assert request.matches_log == reconstruct_request(session.entries, request.step).matches_log


@pytest.mark.slow
def test_a_block_has_every_message_of_every_step(session):
    plain = json.loads(json.dumps(encode_session(session)))
    steps = SessionSteps(session)
    assert len(plain["steps"]) == len(steps.inspection.timeline)
    requests = [steps.history.reconstruct(step) for step in plain["session"]["steps"]]
    for number, (step, sent) in enumerate(zip(plain["steps"], requests, strict=True), 1):
        indices = [first + place for first, length in step["sent"] for place in range(length)]
        assert [plain["messages"][index][2] for index in indices] == [format_full_text(message) for message in sent.messages]
        assert plain["messages"][step["answer"]][2] == format_full_text(sent.answer)
        assert [plain["messages"][index][2] for index in step["results"]] == [format_full_text(result) for result in sent.results]
        assert [tuple(row) for row in step["facts"]] == steps.describe_step(number, sent)
        assert len(step["compactions"]) == len(sent.compactions)
    assert len(plain["messages"]) == len({tuple(row) for row in plain["messages"]})


def test_a_block_is_base64_of_compressed_json(session):
    blocks = build_blocks(["s"], lambda *_: session.entries)
    plain = decode(blocks["s"])
    assert plain["session"]["name"] == "s"


@pytest.mark.slow
def test_a_message_of_an_earlier_block_is_a_reference_to_it(session):
    shorter = session.entries[: len(session.entries) // 2]
    blocks = build_blocks(["whole", "again", "half"], lambda name, _: shorter if name == "half" else session.entries)
    whole, again, half = map(decode, blocks.values())
    assert all(len(row) == 3 for row in whole["messages"])
    assert again["steps"] == whole["steps"]
    for other in (again, half):
        assert all(len(row) == 2 for row in other["messages"])
        alone = encode_session(RecordedSession(name="alone", entries=shorter if other is half else session.entries))
        messages = [decode(list(blocks.values())[block])["messages"][index] for block, index in other["messages"]]
        assert alone is not None
        assert messages == [list(row) for row in alone["messages"]]


def test_messages_of_a_session_that_is_left_out_are_not_referred_to(session):
    broken = ["empty", "broken"]

    def read(name, _):
        if name == "broken":
            yield from session.entries[:-4]
            raise UsageError("broken")
        yield from small_log() if name == "empty" else session.entries

    blocks = build_blocks([*broken, "whole"], read)
    assert list(blocks) == ["whole"]
    assert all(len(row) == 3 for row in decode(blocks["whole"])["messages"])


@pytest.mark.parametrize("most", [10**9, 3_000])
def test_messages_that_are_known_from_another_session_change_nothing(session, most, monkeypatch):
    monkeypatch.setattr(session_blocks, "MAX_KNOWN_CHARACTERS", most)
    known = KnownMessages()
    assert encode_session(session, known) == encode_session(session, known) == encode_session(session)
    assert known.characters <= most or len(known.rows) == 1


def test_a_known_message_is_formatted_once():
    known, message = KnownMessages(), assistant("hello")
    assert known.format(message) is known.format(message)


def test_a_lone_surrogate_does_not_prevent_a_block():
    assert json.loads(zlib.decompress(compress({"text": "a\ud800b"}))) == {"text": "a?b"}


def test_sessions_without_a_step_or_with_a_broken_log_are_left_out(session):
    def read(name, _):
        if name == "broken":
            raise UsageError("broken")
        return session.entries if name == "whole" else small_log()

    assert list(build_blocks(["empty", "broken", "whole"], read)) == ["whole"]


@pytest.mark.slow
def test_blocks_end_at_the_size_limit(session):
    names = [str(place) for place in range(5)]
    sizes = list(map(len, build_blocks(names, lambda *_: session.entries).values()))
    blocks = build_blocks(names, lambda *_: session.entries, max_bytes=sum(sizes[:3]) + sizes[3] // 2)
    assert list(blocks) == ["0", "1", "2"]


@given(st.lists(st.integers(0, 9)), st.lists(st.integers(0, 9)))
def test_ranges_stand_for_their_indices(first, second):
    ranges = extend_ranges(extend_ranges([], first), second)
    assert [start + place for start, length in ranges for place in range(length)] == first + second
    assert all(length > 0 for _, length in ranges)


def make_trials(arms=5, per_arm=40):
    places = [(arm, place) for arm in range(arms) for place in range(per_arm)]
    rows = [(f"arm {arm}", f"{arm}-{place}", f"s{arm}-{place}", (place * 7 % per_arm) / per_arm) for arm, place in places]
    return pd.DataFrame(rows, columns=["arm", "trial_id", "session_id", "score"])


def test_a_small_experiment_has_all_its_sessions():
    trials = make_trials(2, 5)
    assert choose_sessions(trials, 10) == trials["session_id"].tolist()
    trials.loc[0, "session_id"] = ""
    assert len(choose_sessions(trials, 10)) == 9


def test_a_sample_begins_with_lowest_highest_and_median_of_each_arm_and_is_repeatable():
    trials = make_trials()
    chosen = choose_sessions(trials, 30)
    assert len(chosen) == len(set(chosen)) == 30
    assert chosen == choose_sessions(trials.copy(), 30)
    scores = trials.set_index("session_id")["score"]
    by_arm = trials.groupby("arm", sort=False)["score"]
    assert [scores[one] for one in chosen[:5]] == by_arm.min().tolist()
    assert [scores[one] for one in chosen[5:10]] == by_arm.max().tolist()
    assert [scores[one] for one in chosen[10:15]] == [0.5] * 5


def test_a_sample_has_the_trials_with_a_failed_check_before_those_that_passed():
    trials = make_trials(2, 40)
    trials["score"] = [1.0 if place % 4 else 0.5 for place in range(80)]
    failed = set(trials.loc[trials["score"] < 1, "session_id"])
    assert failed <= set(choose_sessions(trials, 26))
    assert not failed <= set(choose_sessions(trials, 26, by_score=False)), "the choice must not show outcomes"
