"""Facts of `flashcards` are read from visible text alone and never equal their priors."""

import re
from collections import Counter

import pytest

from harness.conversation.messages import Message, ToolCall, extract_part_text
from harness.conversation.transcript import parse_arguments
from harness.tasks.flashcards import make_flashcards
from harness.tasks.flashcards.program import PROGRAM
from harness.tasks.kit.agreements import ANSWERS_PATH
from harness.tasks.kit.sheets import ORDER_PATH, PRINTED_PATH

SEEDS = range(200)
BY_NAME = {fact.name: fact for seed in range(10) for fact in make_flashcards(seed).facts}
FACTS = tuple(BY_NAME.values())


def visible(message: Message) -> str:
    """Return a message as a reader of facts sees it."""
    return "\n".join(
        "\n".join(map(str, parse_arguments(part).values())) if isinstance(part, ToolCall) else extract_part_text(part)
        for part in message.parts
    )


def find_values(name: str, text: str) -> list[str]:
    return [match[1] for pattern in BY_NAME[name].patterns for match in re.finditer(pattern, text, re.MULTILINE)]


@pytest.mark.slow
def test_no_prior_is_right_under_any_seed():
    assert [(seed, fact.name) for seed in SEEDS for fact in FACTS if PROGRAM.draw_values(seed)[fact.name] == fact.prior] == []


@pytest.mark.slow
def test_no_seed_has_a_fact_that_the_first_seeds_lack():
    assert {fact.name for seed in SEEDS for fact in make_flashcards(seed).facts} == {*BY_NAME}


@pytest.mark.slow
def test_every_fact_has_at_least_three_values_over_all_seeds():
    seen = {fact.name: {PROGRAM.draw_values(seed)[fact.name] for seed in SEEDS} for fact in FACTS}
    assert [name for name, values in seen.items() if len(values) < 3] == []


def test_the_same_seed_gives_the_same_task():
    assert make_flashcards(5) == make_flashcards(5)
    assert make_flashcards(5).prompt != make_flashcards(6).prompt


@pytest.mark.parametrize("seed", range(20))
def test_a_fact_of_the_prompt_is_stated_once_there_and_at_most_on_the_page_that_repeats_it(seed):
    task = make_flashcards(seed)
    for fact in task.facts:
        if fact.said_in == "prompt":
            value = task.values[fact.name]
            values_by_page = {path: values for path, text in task.workspace if (values := find_values(fact.name, text))}
            assert find_values(fact.name, task.prompt) == [value]
            assert values_by_page == ({ORDER_PATH: [value]} if fact.source == ORDER_PATH else {})


@pytest.mark.parametrize("seed", range(20))
def test_a_fact_of_a_page_is_stated_once_there_and_nowhere_else(seed):
    task = make_flashcards(seed)
    for fact in task.facts:
        values_by_page = {path: find_values(fact.name, text) for path, text in task.workspace if find_values(fact.name, text)}
        if fact.said_in == "file" or fact.source == ANSWERS_PATH:
            assert values_by_page == {fact.source: [task.values[fact.name]]}
        elif fact.said_in == "output":
            assert values_by_page == {}, "only the command may say it"
        assert fact.said_in == "prompt" or find_values(fact.name, task.prompt) == []


@pytest.mark.slow
def test_whatever_a_reader_finds_in_a_whole_session_is_the_value(reference):
    values = make_flashcards(1).values
    seen: Counter[str] = Counter()
    for message in reference.messages:
        for fact in make_flashcards(1).facts:
            for value in find_values(fact.name, visible(message)):
                assert value == values[fact.name], f"{fact.name} is misread in {visible(message)[:300]}"
                seen[fact.name] += 1
    assert set(seen) == set(values)


def test_a_bullet_or_a_quotation_of_a_statement_is_read_as_well():
    task = make_flashcards(3)
    for fact in task.facts:
        if fact.said_in == "prompt":
            (line,) = [line for line in task.prompt.splitlines() if find_values(fact.name, line)]
            for retold in (f"* {line}", f"> {line}", f"3. {line.strip('- ')}", f"Constraints: {line}"):
                assert find_values(fact.name, retold) == [task.values[fact.name]]


def test_recovering_calls_show_their_facts(reference):
    """Recovering calls occur in the script, except for files that repeat what was said, and their results contain the value."""
    outputs: dict[tuple[str, str], str] = {}
    calls = {call.call_id: call for message in reference.messages for call in message.calls}
    for message in reference.messages:
        for result in message.results:
            call = calls[result.call_id]
            outputs[call.name, next(iter(map(str, parse_arguments(call).values())))] = result.output
    task = make_flashcards(1)
    for fact in task.facts:
        if fact.recover and fact.source not in {ORDER_PATH, PRINTED_PATH}:
            assert find_values(fact.name, outputs[fact.recover.tool, fact.recover.arguments[0][1]]) == [task.values[fact.name]]
            assert fact.source in dict(task.workspace)


def test_the_prompt_of_a_hard_task_alone_knows_most_constraints_and_some_outputs_cannot_be_had_again():
    facts = make_flashcards(1, difficulty="hard").facts
    lost = {fact.name for fact in facts if fact.recover is None}
    assert {fact.name for fact in facts if fact.said_in == "prompt"} < lost
    assert lost & {"release_id", "ingest_token"} == {"release_id", "ingest_token"}


@pytest.mark.parametrize(("difficulty", "counts"), [("easy", {1, 2, 3}), ("standard", {1, 2, 10})])
def test_the_prompt_of_another_task_alone_knows_few_constraints_or_many(difficulty, counts):
    tasks = [make_flashcards(seed, difficulty=difficulty) for seed in range(20)]
    assert {sum(fact.recover is None for fact in task.facts) for task in tasks} == counts
