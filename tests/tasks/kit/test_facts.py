"""Former patterns match text of the task and read an outdated value."""

import re
from string import Template

import pytest

from harness.tasks import SUITE, load_task

OUTDATED = [(name, fact.name) for name in sorted(SUITE) for fact in load_task(name)(1).facts if fact.former_patterns]


@pytest.mark.parametrize(("name", "fact_name"), OUTDATED)
@pytest.mark.parametrize("seed", [1, 2])
def test_words_that_are_out_of_date_tell_another_value_than_the_one_that_holds(name: str, fact_name: str, seed: int) -> None:
    task = load_task(name)(seed)
    (fact,) = (fact for fact in task.facts if fact.name == fact_name)
    written = [text for step in task.script.steps for call in step.calls for _, text in call.arguments]  # by the agent itself
    texts = [task.prompt, *(text for _, text in task.workspace), *(late.text for late in task.later_messages)]
    texts += [Template(text).safe_substitute(task.values) for text in written]
    values = {value for text in texts for pattern in fact.former_patterns for value in re.findall(pattern, text, re.MULTILINE)}
    assert values - {task.values[fact_name]}


def test_the_facts_that_the_pages_of_a_task_contradict_say_so() -> None:
    assert {name for name, _ in OUTDATED} == {"bug-hunt", "flashcards-bun", "log-forensics", "rename-sweep", "spec-api"}
