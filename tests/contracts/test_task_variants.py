"""The variants of `changing-requirements`: images, rules that a tool loads late, and an errand of a sub-agent."""

from functools import cache

import pytest

from harness.compaction.presets.claude_code import ClaudeCode
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.compaction.presets.three_tiers import ThreeTiers
from harness.conversation.drawings import parse_drawing
from harness.conversation.events import MessageAdded, SubAgentEnded
from harness.conversation.messages import Image, count_image_tokens
from harness.errors import UsageError
from harness.experiment.preflight import check_trials
from harness.experiment.trial import Trial
from harness.protocols import Policy
from harness.revisions import REVISIONS
from harness.task import Task
from harness.task_checks.laws import LAWS, Law
from harness.task_checks.simulation import HUGE_WINDOW_TOKENS, Run, SessionCache
from harness.tasks import ADDED_TOOLS, SUITE, TASKS, VARIANTS
from tests.laws.suite import open_action_cache, simulate_with_cache

IMAGES, SKILL, DELEGATION = (f"changing-requirements-{name}" for name in ("images", "skill", "delegation"))
SEEDS = range(20)
RULES = {"seal", "register", "imprint"}
ANSWER = {"assessment_number", "speed_limit", "axle_load"}


@cache
def make(name: str, seed: int = 1) -> Task:
    return TASKS[name](seed)


@cache
def run(name: str, policy: Policy, window_tokens: int = 32_768) -> Run:
    return simulate_with_cache(make(name), policy, window_tokens=window_tokens)


@pytest.mark.parametrize("name", sorted(VARIANTS))
@pytest.mark.parametrize("seed", SEEDS)
def test_a_variant_has_the_work_and_the_values_of_the_task(name: str, seed: int):
    own, task = make("changing-requirements", seed), make(name, seed)
    assert task.prompt.startswith(own.prompt)
    assert own.values.items() <= task.values.items()
    assert [step.name for step in task.script.steps if step.name not in {"assess", "road", "load-skill"}] == [
        step.name for step in own.script.steps
    ]
    assert [check for check in task.checks if check in own.checks] == list(own.checks)
    assert not own.tools


def test_variants_are_no_part_of_the_suite_and_have_revisions_and_tools():
    assert not VARIANTS.keys() & SUITE.keys()
    for name in VARIANTS:
        assert f"task {name}" in REVISIONS
        tools = make(name).tools
        assert tuple(tool for tool in tools if tool != "explore") == ADDED_TOOLS.get(name, ())
        assert all(f"tool {tool}" in Trial(task=name, policy="none", explore=True).revisions for tool in tools)


@pytest.mark.parametrize("seed", SEEDS)
def test_only_photos_show_the_bays(seed: int):
    task = make(IMAGES, seed)
    bays = [fact for fact in task.facts if fact.name.startswith("bay_")]
    assert bays
    files = dict(task.workspace)
    for fact in bays:
        sentence = f"from bay {task.values[fact.name]} and no other."
        assert fact.source.startswith("photos/")
        [line] = [text for text in parse_drawing(files[fact.source]).texts if "bay" in text]
        assert line.endswith(sentence)
    assert not [path for path, text in files.items() if "leave from bay" in text and not path.startswith("photos/")]
    assert {parse_drawing(text).tokens for path, text in files.items() if path.startswith("photos/")} == {1_605}


def test_a_trial_that_cannot_send_sub_agents_is_refused_before_it_starts():
    trial = Trial(task=DELEGATION, policy="none")
    with pytest.raises(UsageError, match=f"explore: the task '{DELEGATION}' needs sub-agents, so it must be true"):
        check_trials([trial])
    check_trials([Trial(task=DELEGATION, policy="none", explore=True)])


@pytest.mark.slow
@pytest.mark.bubblewrap
@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_an_agent_with_a_complete_context_succeeds_and_one_with_empty_summaries_fails_what_is_added(name: str):
    assert not run(name, NoCompaction(), HUGE_WINDOW_TOKENS).failed_checks
    lost = run(name, KeepLast(summarizer="scripted/empty"))
    assert lost.compactions
    if name == SKILL:
        assert lost.failed_checks >= RULES - {"seal"}
    elif name == DELEGATION:
        assert lost.failed_checks >= ANSWER
    else:
        assert len(list_looks(lost)) > len(list_looks(run(name, NoCompaction(), HUGE_WINDOW_TOKENS)))


@cache
def open_sessions(name: str) -> SessionCache:
    return SessionCache(TASKS[name], name=name, action_cache=open_action_cache())


CONTRACT = ("names", "patterns", "succeeds", "sight", "recovery", "hidden", "idle", "law-3", "law-4", "law-7", "law-13", "law-14")
"""Laws that say most about what a variant adds; `harness task check` tries all of them."""


@pytest.mark.slow
@pytest.mark.bubblewrap
@pytest.mark.parametrize("name", sorted(VARIANTS))
@pytest.mark.parametrize("law", [law for law in LAWS if law.name in CONTRACT], ids=lambda law: law.name)
def test_a_variant_obeys_the_contract_of_tasks(name: str, law: Law):
    assert [str(finding) for finding in law.find(open_sessions(name), 1, "extractive")] == []


def list_looks(session: Run) -> list[str]:
    return [path for tool, path in session.call_keys if tool == "view_image"]


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_each_photo_is_an_image_part_that_the_view_and_the_model_count():
    session = run(IMAGES, NoCompaction(), HUGE_WINDOW_TOKENS)
    images = [part for event in session.list_events(MessageAdded) for part in event.message.parts if isinstance(part, Image)]
    assert len(images) == len(list_looks(session)) >= 18
    last, reply = session.requests[-1]
    image_tokens = sum(map(count_image_tokens, last.messages))
    assert image_tokens == 1_605 * len(images)
    assert reply.usage.prompt_tokens > image_tokens
    assert session.steps[-1].view_tokens > image_tokens


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_policy_that_shows_rules_again_keeps_them_and_one_that_does_not_loses_them():
    again, never = (run(SKILL, ClaudeCode(summarizer="scripted/empty", skill_tools=tools)) for tools in (("skill",), ()))
    assert again.compactions
    assert not RULES & again.failed_checks
    assert never.failed_checks >= RULES - {"seal"}


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_the_errand_is_done_by_one_sub_agent_whose_answer_is_one_result():
    session = run(DELEGATION, NoCompaction(), HUGE_WINDOW_TOKENS)
    [ended] = session.list_events(SubAgentEnded)
    assert ended.steps == 2
    [answer] = [
        result.output
        for event in session.list_events(MessageAdded)
        for result in event.message.results
        if result.name == "explore"
    ]
    assert all(make(DELEGATION).values[name] in answer for name in ANSWER)


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_policy_that_exempts_answers_of_sub_agents_keeps_this_one():
    kept, cleared = (
        run(
            DELEGATION,
            ThreeTiers(
                prune_at="step",
                auto=False,
                protect_tokens=4_000,
                prune_minimum_tokens=2_000,
                preserve_explorations=keeps,
            ),
            HUGE_WINDOW_TOKENS,
        )
        for keeps in (True, False)
    )
    assert (ANSWER & kept.failed_checks, ANSWER & cleared.failed_checks) == (set(), ANSWER)
