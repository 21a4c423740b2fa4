"""The readable sample session: its facts agree with each other, early ones are needed late, and compactions lose some of them."""

import json
import tomllib
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from harness.conversation.events import Compaction, MessageAdded, SessionEnded
from harness.conversation.transcript import parse_arguments
from harness.inspection.open_session import open_recorded_session
from harness.inspection.sample_story import NEEDS_PATH, find_last_use, load_story
from harness.widgets.explorer.exploration import Exploration


class Step(NamedTuple):
    """Message of the agent, its tool call, and the output of the tool."""

    says: str
    arguments: Mapping[str, Any]
    output: str


def list_steps() -> list[Step]:
    """Return all steps of the sample session that call a tool."""
    messages = [entry.event.message for entry in load_story() if isinstance(entry.event, MessageAdded)]
    answers = [message for message in messages if message.calls]
    outputs = [message.results[0].output for message in messages if message.results]
    return [Step(answer.text, parse_arguments(answer.calls[0]), output) for answer, output in zip(answers, outputs, strict=True)]


STEPS = list_steps()
NEEDS = {int(number): path for number, path in json.loads(NEEDS_PATH.read_text(encoding="utf-8")).items()}
REPORT = "docs/incident.md"
HARBOURS = [tomllib.loads(step.output)["harbour"] for step in STEPS if "config/harbours/" in step.arguments.get("path", "")]


@pytest.fixture(scope="module")
def session():
    return open_recorded_session("sample")


def test_the_sample_is_the_story_from_the_request_to_the_answer(session):
    answers = [entry.event.message for entry in session.entries if isinstance(entry.event, MessageAdded)]
    assert answers[1].text.startswith("The service tidewatch/ warns twelve harbours of high water.")
    assert answers[-1].text.startswith("The alerts are on time again. The cause was a retry loop")
    assert len(HARBOURS) == 12
    assert [entry.event.reason for entry in session.entries if isinstance(entry.event, SessionEnded)] == ["replied"]
    assert session.entries == open_recorded_session("sample").entries


def test_every_output_that_is_needed_later_comes_before_the_step_that_needs_it():
    assert len(NEEDS) > 25
    for number, path in NEEDS.items():
        last = find_last_use(number)
        assert last is not None, number
        assert STEPS[last - 1].arguments["path"] == path
    assert find_last_use(len(STEPS) + 1) is None


@pytest.mark.parametrize("harbour", HARBOURS, ids=lambda harbour: harbour["name"])
def test_the_threshold_of_a_harbour_is_read_early_and_used_in_its_test(harbour):
    read = next(number for number, step in enumerate(STEPS, 1) if f"harbours/{harbour['name']}.toml" in str(step.arguments))
    test = STEPS[(find_last_use(read) or 0) - 1]
    assert f"threshold_cm = {harbour['threshold_cm']}" in STEPS[read - 1].output
    assert f"level_cm={harbour['threshold_cm']}" in test.arguments["content"]
    assert (find_last_use(read) or 0) - read > 30


def test_the_number_of_the_report_is_counted_once_and_an_error_and_a_revised_decision_come_between():
    texts = [f"{step.says}\n{step.arguments}\n{step.output}" for step in STEPS]
    counted = next(place for place, text in enumerate(texts) if "late alerts (over 2 minutes) 41" in text)
    failed = next(place for place, step in enumerate(STEPS) if step.output.startswith("exit code 1"))
    revised = next(place for place, text in enumerate(texts) if "I revise my decision" in text)
    report = next(place for place, step in enumerate(STEPS) if step.arguments.get("path") == REPORT)
    assert counted < failed < revised < report
    assert "41 of 212" in texts[report]
    assert not any("41 of 212" in text for text in texts[:report])
    assert "TypeError" in STEPS[failed].output


def test_the_default_policy_compacts_it_several_times(session):
    explored = Exploration(session, None, None)
    applied = [entry for entry in explored.run.attempts if isinstance(entry.event, Compaction)]
    assert explored.settings.nominal_window_tokens is None
    assert 3 <= len(applied) <= 8
    assert session.oracle is not None
