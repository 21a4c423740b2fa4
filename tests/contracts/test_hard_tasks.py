"""Tasks whose hard instances outgrow the default window of 128,000 tokens, so that compaction decides how they end."""

import pytest

from harness.conversation.events import Compaction, Entry, SessionStarted
from harness.policies import KeepLast
from harness.session.execution import SessionResult, execute_session
from harness.session.spec import SessionSpec
from harness.task import DIFFICULTIES, Difficulty, Task, World
from harness.tasks import make_task

pytestmark = pytest.mark.slow

LONG = ("log-forensics", "long-march")
THRESHOLD_TOKENS = 93_600
"""Tokens from which the default policy compacts in a window of 128,000 tokens."""


def work(task: Task, policy: KeepLast) -> tuple[SessionResult, list[Entry]]:
    """Run a session with the default window and step limit; return its result and its log."""
    log: list[Entry] = []
    spec = SessionSpec(request=task.prompt, policy=policy, task=task, snapshots=False)
    return execute_session(spec, "hard", on_event=lambda item: log.append(item) if isinstance(item, Entry) else None), log


@pytest.mark.bubblewrap
@pytest.mark.parametrize("name", LONG)
def test_a_hard_instance_passes_the_default_threshold_and_goes_on_after_compacting(name: str) -> None:
    task = make_task(name, 0, World(difficulty="hard"))
    sessions = [work(task, policy) for policy in (KeepLast(), KeepLast(summarizer="scripted/oracle"))]
    for result, log in sessions:
        assert [event.threshold_tokens for _, event in log if isinstance(event, SessionStarted)] == [THRESHOLD_TOKENS]
        assert [event.status for _, event in log if isinstance(event, Compaction)] == ["applied"]
        assert result.outcome.reason == "replied"
    assert all(check.passed for check in sessions[1][0].checks), "a summary that keeps the facts is enough"


@pytest.mark.parametrize("name", LONG)
def test_hard_instances_need_more_steps_than_any_other(name: str) -> None:
    def count_steps(difficulty: Difficulty) -> list[int]:
        return [len(make_task(name, seed, World(difficulty=difficulty)).script.steps) for seed in range(3)]

    easy, standard, hard = map(count_steps, DIFFICULTIES)
    assert max(easy) < max(standard) < min(hard)
