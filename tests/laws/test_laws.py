"""The laws of a scripted simulation (1 to 8), over all tasks of the suite and several seeds.

They are what makes a result mean something: nothing leaks past the context, forgetting costs what it costs, and the bounds
bound. A law that fails is a finding about the task or about the model, never a reason to bend the law.
"""

import functools
import re
from dataclasses import replace

import pytest

from harness.codec import message_digest
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.messages import Message
from harness.models.names import open_model
from harness.models.scripted.agent import tool_tokens
from harness.models.tokenizer import message_tokens
from harness.task import Fact, Task
from harness.tasks import SUITE
from harness.view import fold_all, violation
from tests.laws.simulation import HUGE, WINDOW, Run, retold, simulate

pytestmark = [pytest.mark.laws, pytest.mark.bubblewrap]

SEEDS = (1, 2)
TASKS = sorted(SUITE)
RELATIVE: tuple[KeepLast, ...] = (
    KeepLast(summarizer="scripted/oracle"),
    KeepLast(threshold=0.5, keep_last=4, summarizer="scripted/empty"),
    KeepLast(threshold=0.95, keep_last=20, summarizer="scripted/extractive"),
)
"""Every policy whose trigger is relative to the window."""


@functools.cache
def task(name: str, seed: int) -> Task:
    return SUITE[name](seed)


@functools.cache
def run(name: str, seed: int, policy: KeepLast | NoCompaction, window_tokens: int = WINDOW) -> Run:
    return simulate(task(name, seed), policy, window_tokens=window_tokens)


def uncompacted(name: str, seed: int) -> Run:
    return run(name, seed, NoCompaction(), HUGE)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", TASKS)
def test_law_1_in_a_window_larger_than_the_session_every_policy_does_the_same_and_succeeds(name: str, seed: int) -> None:
    plain = uncompacted(name, seed)
    assert (plain.outcome.reason, plain.failed) == ("replied", set())
    for policy in RELATIVE:
        other = run(name, seed, policy, HUGE)
        assert other.compactions == []
        assert other.calls == plain.calls
        assert other.files == plain.files
        assert other.failed == set()


@pytest.mark.parametrize("name", TASKS)
def test_law_2_without_compaction_a_small_window_overflows_at_the_predicted_step(name: str) -> None:
    plain = uncompacted(name, 1)
    sizes = [step.usage.prompt_tokens for step in plain.steps]
    predicted = next(step for step, size in enumerate(sizes, start=1) if size > WINDOW)
    small = run(name, 1, NoCompaction())
    assert (small.outcome.status, small.outcome.reason, small.outcome.steps) == ("failed", "overflow", predicted - 1)
    assert [step.usage.prompt_tokens for step in small.steps] == sizes[: predicted - 1]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", TASKS)
def test_law_3_oracle_summaries_succeed_without_a_read_that_the_script_does_not_have(name: str, seed: int) -> None:
    plain, oracle = uncompacted(name, seed), run(name, seed, KeepLast(summarizer="scripted/oracle"))
    assert 2 <= len(oracle.compactions) <= 6, "the default policy compacts 2 to 6 times at a 32K window"
    assert oracle.failed == set()
    assert oracle.acts == plain.acts


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", TASKS)
def test_law_4_after_empty_summaries_the_checks_that_rest_on_prompt_only_facts_fail(name: str, seed: int) -> None:
    empty = run(name, seed, KeepLast(summarizer="scripted/empty"))
    first = empty.compactions[0].step
    told = {fact.name for fact in task(name, seed).facts if fact.said_in == "prompt"}
    plain = uncompacted(name, seed)
    early = {fact for fact in told if used_by(plain, task(name, seed), fact) < first}
    late = told - early
    assert late, "some facts of the prompt are needed after the first compaction"
    for judged in empty.judged:
        if set(judged.check.rests_on) & late:
            assert not judged.passed, f"{judged.check.name} passed although {judged.check.rests_on} was forgotten"


def used_by(plain: Run, task: Task, fact: str) -> int:
    """The last step of an uncompacted session at which a fact is first written somewhere."""
    names = [index for index, step in enumerate(task.script.steps) if fact in step.needs]
    says = [re.escape(task.script.steps[index].says.split("$")[0]) for index in names]
    steps = [
        number
        for number, (_, reply) in enumerate(plain.requests, start=1)
        if any(re.search(said, reply.message.text) for said in says)
    ]
    return max(steps, default=0)


@pytest.mark.parametrize("name", TASKS)
def test_law_5_what_is_produced_follows_what_is_told(name: str) -> None:
    """A told value shows in the files; a value that is not told is replaced by the prior."""
    plain, values = uncompacted(name, 1), task(name, 1).values
    other = task(name, 2).values
    for fact in (fact for fact in task(name, 1).facts if fact.said_in in {"prompt", "file"}):
        if other[fact.name] == values[fact.name]:
            continue
        changed = simulate(retold(task(name, 1), fact.name, other[fact.name]), NoCompaction(), window_tokens=HUGE)
        assert changed.files != plain.files, f"{fact.name} does not matter"
        resting = {check.name for check in task(name, 1).checks if fact.name in check.rests_on}
        assert changed.failed & resting, f"the checks {resting} do not notice {fact.name}={other[fact.name]}"


@pytest.mark.parametrize("name", TASKS)
def test_law_5_a_blank_fact_becomes_the_prior(name: str) -> None:
    silent = task(name, 1)
    told = [fact for fact in silent.facts if fact.said_in in {"prompt", "file"}]
    for fact in told:
        silent = retold(silent, fact.name, None)
    blank = simulate(silent, NoCompaction(), window_tokens=HUGE)
    made = "\n".join(text for path, text in blank.files.items() if (path, text) not in silent.workspace)
    assert blank.outcome.status == "completed"
    for fact in told:
        assert fact.prior in made, f"nothing was made with the prior {fact.prior!r} of {fact.name}"
        assert silent.values[fact.name] not in told_lines(made, fact), f"{fact.name} leaked"
    for check in silent.checks:
        if {fact.name for fact in told} & set(check.rests_on):
            assert check.name in blank.failed, f"{check.name} passes on the prior"


def told_lines(text: str, fact: Fact) -> set[str]:
    """Values of a fact that a text states in the words of its patterns."""
    return {found for pattern in fact.patterns for found in re.findall(pattern, text, re.MULTILINE)}


@pytest.mark.parametrize("name", TASKS)
def test_law_6_the_model_is_a_function_of_what_is_visible(name: str) -> None:
    """Every request of a compacted session, asked of a new model in another order, gets the same answer."""
    done = run(name, 1, KeepLast(summarizer="scripted/extractive"))
    for request, reply in reversed(done.requests[::7]):
        fresh = open_model("scripted", task=task(name, 1), seed=1, window_tokens=WINDOW)
        assert fresh.reply(request).message == reply.message


@pytest.mark.parametrize("name", TASKS)
def test_law_6_a_session_repeats_to_the_byte(name: str) -> None:
    policy = KeepLast(summarizer="scripted/extractive")
    again, first = simulate(task(name, 1), policy), run(name, 1, policy)
    assert again.calls == first.calls
    assert again.files == first.files
    assert [step.request_digest for step in again.steps] == [step.request_digest for step in first.steps]


@pytest.mark.parametrize("policy", [*RELATIVE, KeepLast(summarizer="scripted/empty")], ids=repr)
@pytest.mark.parametrize("name", TASKS)
def test_law_7_every_request_fits_the_window_and_is_legal(name: str, policy: KeepLast) -> None:
    done = run(name, 1, policy)
    for (request, reply), step in zip(done.requests, done.steps, strict=True):
        counted = sum(map(message_tokens, request.messages)) + tool_tokens(request.tools)
        assert counted == reply.usage.prompt_tokens == step.usage.prompt_tokens <= WINDOW
        assert violation(request.messages) is None
        assert chained(request.messages) == step.request_digest
    assert fold_all(done.entries).rounds == len(done.compactions)


def chained(messages: tuple[Message, ...]) -> str:
    return functools.reduce(lambda before, message: message_digest(message, before), messages, b"").hex()


@pytest.mark.parametrize("name", TASKS)
def test_script_and_patterns_are_the_same_for_every_seed_and_hold_no_value(name: str) -> None:
    first, second = task(name, 1), task(name, 2)
    assert (first.script, first.facts) == (second.script, second.facts)
    for fact in first.facts:
        assert fact.prior not in {task(name, seed).values[fact.name] for seed in range(50)}


@pytest.mark.parametrize("name", TASKS)
def test_every_fact_is_read_out_of_what_is_told_and_out_of_nothing_else(name: str) -> None:
    for seed in SEEDS:
        here = task(name, seed)
        texts = {"prompt": [here.prompt], "file": [text for _, text in here.workspace]}
        for fact in here.facts:
            found = [
                match
                for text in texts.get(fact.said_in, [])
                for pattern in fact.patterns
                for match in re.findall(pattern, text, re.MULTILINE)
            ]
            assert set(found) <= {here.values[fact.name]}
            assert found or fact.said_in in {"output", "own"}, f"nobody tells {fact.name}"


@pytest.mark.parametrize("name", TASKS)
def test_nothing_done_passes_no_check(name: str) -> None:
    here = task(name, 1)
    idle = simulate(replace(here, script=replace(here.script, steps=())), NoCompaction(), window_tokens=HUGE)
    assert idle.score == 0
