"""Tests of the checks before a start: their numbers agree with the first request of a session."""

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.agent.prompts import SYSTEM_PROMPT, build_session_context
from harness.compaction.presets.cline import Cline
from harness.compaction.presets.inspect_ai import InspectTrim
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.langchain import AnthropicClear
from harness.compaction.presets.none import NoCompaction
from harness.compaction.presets.opencode import OpenCode
from harness.compaction.presets.reserve import ReserveRecent
from harness.compaction.presets.three_tiers import ThreeTiers
from harness.compaction.presets.window import MessageWindow
from harness.conversation.messages import system, user
from harness.errors import ContextOverflow, MissingKey, UnknownName, UsageError, WindowTooSmall
from harness.experiment.preflight import MAX_SUITE_REQUEST_TOKENS, FirstTokens, check_trials, collect_warnings
from harness.experiment.trial import Trial
from harness.models.factory import open_model
from harness.models.registry import look_up_window
from harness.models.scripted.agent import count_tool_tokens
from harness.policies import PRESETS
from harness.protocols import Request, Sandbox, ToolSpec
from harness.sandboxes import open_sandbox
from harness.session.assembly import SessionResources, assemble_session
from harness.session.preflight import (
    bound_tool_tokens,
    check_first_request,
    check_session,
    count_first_request_tokens,
    find_advisories,
)
from harness.session.spec import SessionSpec
from harness.store.log import MemoryLog, MemoryOutputs
from harness.task import DIFFICULTIES, World
from harness.tasks import SUITE, load_task, make_task
from harness.tools import make_standard_tools
from harness.tools.outputs import make_output_tools

TASK = load_task("flashcards")(0)
FIRST_MESSAGE = system(SYSTEM_PROMPT, build_session_context(TASK.runtime))
TINY_TASK = Path(__file__).parents[1] / "experiment" / "tiny_task.py"


def first_reply(window_tokens):
    """Return the scripted model's answer to the first request, with the standard tools."""
    sandbox = open_sandbox("local", session_id="unstarted", runtime=TASK.runtime, unsafe_local=True)
    tools = tuple(tool.spec for tool in make_standard_tools(sandbox))
    model = open_model("scripted", task=TASK, seed=0, window_tokens=window_tokens)
    return model.reply(Request(messages=(FIRST_MESSAGE, user(TASK.prompt)), tools=tools))


def test_the_least_window_that_is_let_through_is_the_least_that_the_model_takes():
    least = first_reply(100_000).usage.prompt_tokens
    check_first_request(TASK.name, count_first_request_tokens(TASK.prompt, TASK.runtime), least)
    first_reply(least)
    with pytest.raises(WindowTooSmall, match=f"has {least} tokens"):
        check_first_request(TASK.name, count_first_request_tokens(TASK.prompt, TASK.runtime), least - 1)
    with pytest.raises(ContextOverflow):
        first_reply(least - 1)


def test_trials_are_checked_likewise():
    least = count_first_request_tokens(TASK.prompt, TASK.runtime)
    trial = Trial(task="flashcards", policy=NoCompaction(), window_tokens=least)
    check_trials([trial])
    with pytest.raises(WindowTooSmall):
        check_trials([replace(trial, window_tokens=least - 1)])


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (KeepLast(), ["policy 'keep-last' never compacts: the context window of model 'hosted_vllm/x' is unknown"]),
        (Cline(), ["policy 'cline' assumes a window of 142,223 tokens: the context window of model 'hosted_vllm/x' is unknown"]),
        (InspectTrim(), ["policy 'inspect-trim' assumes a window of 128,000 tokens"]),
        (InspectTrim(context_window=30_000), []),
        (NoCompaction(), []),
    ],
)
def test_an_unknown_window_is_warned_of_with_its_effect_on_the_policy(policy, expected):
    spec = SessionSpec(request="Build it.", model="hosted_vllm/x", policy=policy)
    warnings = list(map(str, find_advisories(spec, look_up_window("hosted_vllm/x"))))
    assert len(warnings) == len(expected)
    assert all(
        warning.startswith(start) and warning.endswith("set window_tokens")
        for warning, start in zip(warnings, expected, strict=True)
    )


def test_the_policy_is_checked_as_it_will_run():
    trial = Trial(task="flashcards", policy=KeepLast(summarizer="scripted/empty"), window_tokens=8_000)
    with pytest.raises(UsageError, match="reserves of 11,000 tokens leave nothing of the window of 8,000"):
        check_trials([trial])
    check_trials([replace(trial, nominal_window_tokens=32_000)])
    with pytest.raises(UsageError, match="reserves of 11,000 tokens leave nothing"):
        check_trials([replace(trial, nominal_window_tokens=32_000), replace(trial, nominal_window_tokens=8_000)])


def test_a_policy_that_keeps_more_than_its_threshold_leaves_is_refused_before_it_starts():
    trial = Trial(task="flashcards", policy=ReserveRecent(summarizer="scripted/empty"), window_tokens=32_768)
    with pytest.raises(UsageError, match=r"retains 20,000 tokens \(keep_recent_tokens\) and is triggered at 16,384"):
        check_trials([trial])
    check_trials([replace(trial, nominal_window_tokens=131_072)])
    check_trials([replace(trial, window_tokens=65_536)])


def test_a_window_that_is_not_known_refuses_nothing():
    check_first_request(TASK.name, count_first_request_tokens(TASK.prompt, TASK.runtime), 0)


def test_a_warning_about_a_policy_appears_once_for_any_number_of_trials():
    odd = MessageWindow(max_messages=10, preserve_last_n=12)
    trials = [
        Trial(task="flashcards", policy=policy, seed=seed) for policy in (odd, MessageWindow(), NoCompaction()) for seed in (0, 1)
    ]
    (warning,) = collect_warnings(trials)
    assert warning.startswith("policy 'message-window': preserve_first_n=1 and preserve_last_n=12 keep 13 messages")


def test_a_threshold_below_the_first_request_is_reported_with_its_arithmetic():
    policy = KeepLast(summarizer="scripted/extractive")
    trial = Trial(task="flashcards", policy=policy, window_tokens=32_768)
    assert collect_warnings([trial]) == ()
    tools = tuple(tool.spec for tool in make_standard_tools(cast("Sandbox", None)))
    first = int(sum(policy.counter.count(one) for one in (FIRST_MESSAGE, user(TASK.prompt))))
    first += count_tool_tokens(tools)  # the provider, whose reports the policy uses, counts them
    tight = replace(policy, trigger_tokens=first + policy.summary_max_tokens)
    (warning,) = collect_warnings([replace(trial, policy=tight), replace(trial, policy=tight, replicate=1)])
    assert f"due at {first + 800:,} tokens" in warning
    assert (
        f"has {first:,} tokens with the system prompt and the tool definitions, which leaves 800 tokens for a summary of up to "
        "800" in warning
    )
    assert collect_warnings([replace(trial, policy=replace(tight, trigger_tokens=first + 801))]) == ()


def test_a_policy_that_estimates_tokens_is_not_warned_of_because_of_tool_definitions():
    policy = KeepLast(summarizer="scripted/extractive", measure="estimate")
    first = sum(policy.counter.count(one) for one in (FIRST_MESSAGE, user(TASK.prompt)))
    tight = Trial(task="flashcards", policy=replace(policy, trigger_tokens=first + 800), window_tokens=32_768)
    (warning,) = collect_warnings([tight])
    assert f"has {first:,} tokens with the system prompt, which leaves 800 tokens" in warning
    assert collect_warnings([replace(tight, policy=replace(policy, trigger_tokens=first + 801))]) == ()


def test_a_policy_due_before_its_first_request_is_reported_with_a_remedy_and_the_number_of_tasks():
    trials = [
        Trial(task=task, policy=OpenCode(summarizer="scripted/empty"), window_tokens=32_768)
        for task in ("flashcards", "bug-hunt")
    ]
    (warning,) = collect_warnings(trials)
    assert "is due at 768 tokens (32,768 − 32,000 for the answer" in warning
    assert "compacts at nearly every step, because the first request of task 'flashcards' has" in warning
    assert (
        "leaves 0 tokens for a summary of up to 4,096 tokens (likewise for 1 other task); raise window_tokens, lower " in warning
    )
    assert warning.endswith(
        "max_output_tokens, or set nominal_window_tokens to the window that the policy's constants were made for"
    )
    remedies = (
        {"window_tokens": 65_536},
        {"policy": OpenCode(max_output_tokens=8_000, buffer_tokens=8_000)},
        {"nominal_window_tokens": 200_000},
    )
    for remedy in remedies:
        assert collect_warnings([replace(trials[0], **remedy)]) == ()


def test_retained_tokens_count_towards_the_tokens_that_the_threshold_must_leave():
    (warning,) = collect_warnings(
        [Trial(task="flashcards", policy=ReserveRecent(keep_recent_tokens=9_000), window_tokens=40_000)]
    )
    assert "compacts again and again, because" in warning
    assert (
        "tokens for a summary of up to 13,107 tokens and 9,000 retained tokens; raise window_tokens, lower reserve_tokens"
        in warning
    )


def test_a_window_that_the_reserves_nearly_fill_is_warned_of():
    narrow = Trial(task="flashcards", policy=KeepLast(summarizer="scripted/extractive"), window_tokens=12_500)
    (warning,) = collect_warnings([narrow])
    assert "raise window_tokens" in warning
    assert collect_warnings([replace(narrow, policy=NoCompaction())]) == ()


@pytest.mark.parametrize(
    ("policy", "window_tokens", "warning"),
    [
        (KeepLast(context_window=200_000), None, "context_window=200000 is larger than the model's window of 128,000 tokens"),
        (KeepLast(), 200_000, "window_tokens=200000 is larger than the model's window of 128,000 tokens"),
        (KeepLast(context_window=128_000), None, ""),
        (KeepLast(), 128_000, ""),
    ],
)
def test_an_explicit_window_above_that_of_the_registry_is_warned_of(policy, window_tokens, warning):
    """S2.8: the configuration comes first, and the provider refuses what does not fit."""
    spec = SessionSpec(request="x", policy=policy, model="openai/gpt-4o", window_tokens=window_tokens)
    warnings = tuple(map(str, find_advisories(spec, look_up_window(spec.model, window_tokens))))
    assert [text.partition("; ")[0] for text in warnings] == ([f"policy 'keep-last': {warning}"] if warning else [])


def test_a_policy_that_is_scaled_to_a_small_window_is_looked_at_as_scaled():
    trial = Trial(task="flashcards", policy=KeepLast(summarizer="scripted/extractive"), window_tokens=9_000)
    assert collect_warnings([replace(trial, nominal_window_tokens=36_000)]) == ()
    with pytest.raises(UsageError, match="reserves of 11,000 tokens leave nothing"):
        collect_warnings([trial])


def test_a_policy_that_cannot_be_due_in_the_window_of_its_trials_is_warned_of():
    trial = Trial(task="flashcards", policy=AnthropicClear(), window_tokens=32_768)
    (warning,) = collect_warnings(
        [trial, replace(trial, seed=1), replace(trial, nominal_window_tokens=200_000), replace(trial, window_tokens=None)]
    )
    assert warning.startswith(
        "policy 'anthropic-clear-tool-uses': it acts at 100,000 tokens at the earliest, and the window has 32,768"
    )


def test_the_tools_over_saved_outputs_count_too():
    least = count_first_request_tokens(TASK.prompt, TASK.runtime)
    policy = ThreeTiers(prune=False, auto=False, summarizer="scripted/empty")
    trial = Trial(task="flashcards", policy=policy, window_tokens=least)
    with pytest.raises(WindowTooSmall):
        check_trials([trial])
    more = count_tool_tokens(tuple(tool.spec for tool in make_output_tools(MemoryOutputs())))
    check_trials([replace(trial, window_tokens=least + more)])
    with pytest.raises(WindowTooSmall):
        check_trials([replace(trial, window_tokens=least + more - 1)])
    check_trials([replace(trial, policy=replace(policy, truncate=False))])


@pytest.mark.slow
@given(st.sampled_from(sorted(SUITE)), st.integers(0, 2**40), st.sampled_from(DIFFICULTIES))
def test_first_requests_of_the_suite_are_at_most_half_as_long_as_the_check_assumes(name, seed, difficulty):
    task = make_task(name, seed, World(difficulty=difficulty))
    assert count_first_request_tokens(task.prompt, task.runtime) <= MAX_SUITE_REQUEST_TOKENS / 2


@given(st.text(), st.text())
def test_tools_have_at_most_as_many_tokens_as_the_bound_says(name, description):
    tools = (ToolSpec(name=name, description=description, parameters_json="{}"),)
    assert count_tool_tokens(tools) <= bound_tool_tokens(tools)


def count_checked_requests(trial, seeds=3):
    """Return the number of first requests that are counted to check a trial with several seeds."""
    first_tokens = FirstTokens()
    check_trials([replace(trial, seed=seed) for seed in range(seeds)], first_tokens=first_tokens)
    return len(first_tokens)


def test_tasks_of_further_seeds_are_made_only_if_their_requests_might_be_too_long():
    trial = Trial(task="flashcards", policy=NoCompaction(), window_tokens=16_384)
    assert count_checked_requests(trial) == 0
    assert count_checked_requests(replace(trial, window_tokens=None)) == 0
    assert count_checked_requests(replace(trial, world=World(difficulty="hard"))) == 0
    assert count_checked_requests(replace(trial, window_tokens=MAX_SUITE_REQUEST_TOKENS)) == 3
    assert count_checked_requests(replace(trial, world=World(redundancy=2))) == 3
    assert count_checked_requests(replace(trial, task=f"{TINY_TASK}:tiny")) == 3


@pytest.mark.slow
@given(st.sets(st.integers(0, 30), min_size=1, max_size=3), st.integers(-2, 2))
def test_a_grid_is_refused_for_the_longest_first_request_of_its_seeds(seeds, spare_tokens):
    prompts = [load_task("flashcards")(seed).prompt for seed in seeds]
    longest = max(count_first_request_tokens(prompt, TASK.runtime) for prompt in prompts)
    window_tokens = longest + spare_tokens
    trial = Trial(task="flashcards", policy=NoCompaction(), window_tokens=window_tokens)
    trials = [replace(trial, seed=seed) for seed in sorted(seeds)]
    error = str(WindowTooSmall("flashcards", longest, window_tokens))
    expected = f"WindowTooSmall: {error}" if spare_tokens < 0 else ""
    assert find_refusal(check_trials, trials) == expected


@pytest.mark.parametrize(
    ("explore_model", "error", "message"),
    [
        ("scripted:nobody", UnknownName, "profile of the scripted model 'nobody'"),
        ("scripted/rename-sweep", UnknownName, "scripted model 'scripted/rename-sweep'"),
        ("scripted/extractive", UsageError, "writes summaries and cannot be the agent"),
        ("no-such-model", UnknownName, "no-such-model"),
        ("openai/gpt-4o", MissingKey, "OPENAI_API_KEY"),
    ],
)
def test_the_model_of_sub_agents_is_checked_before_it_starts(explore_model, error, message, monkeypatch):
    """S3.20."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    trial = Trial(task="flashcards", policy=NoCompaction(), explore=True)
    check_trials([trial])
    with pytest.raises(error, match=message):
        check_trials([trial, replace(trial, explore_model=explore_model)])


def test_the_policy_is_checked_in_the_window_of_the_sub_agents(monkeypatch):
    """S3.20: a window that is too narrow for the policy is told before a sub-agent is sent."""
    monkeypatch.setenv("OPENAI_API_KEY", "planted")
    policy = ReserveRecent(summarizer="scripted/empty", keep_recent_tokens=5_000)
    trial = Trial(task="flashcards", policy=policy, window_tokens=65_536, explore=True)
    check_trials([trial])
    with pytest.raises(UsageError, match=r"sub-agents with model 'openai/gpt-4': "):
        check_trials([replace(trial, explore_model="openai/gpt-4")])


def test_the_tool_counts_towards_the_first_request():
    """S3.20."""
    least = count_first_request_tokens(TASK.prompt, TASK.runtime)
    trial = Trial(task="flashcards", policy=NoCompaction(), window_tokens=least)
    check_trials([trial])
    with pytest.raises(WindowTooSmall):
        check_trials([replace(trial, explore=True)])


def find_refusal(function: Callable[..., object], *arguments: object) -> str:
    """Return the message of the error that a call raises; empty if there is none."""
    try:
        function(*arguments)
    except UsageError as error:
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("sub_agents", [{}, {"explore": True, "explore_model": "scripted:typical"}])
def test_a_check_refuses_what_the_assembly_of_the_session_would_refuse_in_the_same_words(sub_agents):
    refusals = set()
    for preset, window_tokens, nominal_window_tokens in product(PRESETS.values(), (6_000, 40_000), (None, 500_000)):
        spec = SessionSpec(
            request=TASK.prompt,
            task=TASK,
            policy=preset(),
            window_tokens=window_tokens,
            nominal_window_tokens=nominal_window_tokens,
            **sub_agents,
        )
        resources = SessionResources(session_id="s", log=MemoryLog(), clock=time.monotonic)
        refusal = find_refusal(check_session, spec, TASK.name, 0)
        assert refusal == find_refusal(assemble_session, spec, resources)
        refusals.add(refusal)
    assert len(refusals) > 3
