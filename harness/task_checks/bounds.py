"""Validity checks 1 to 5, 7, 13 and 14: how the context window, the summaries and the stated facts affect a session."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from harness.compaction.presets.none import NoCompaction
from harness.conversation.codec import digest_message
from harness.conversation.events import MessageAdded, ModelCallFailed, StepFinished
from harness.conversation.messages import Message, ToolCall
from harness.conversation.transcript import find_key_argument, read_outcome
from harness.conversation.view import find_violation, fold_all
from harness.metrics.template_matcher import TemplateMatcher
from harness.models.scripted.agent import count_tool_tokens
from harness.models.scripted.patterns import build_call_key
from harness.models.scripted.visible_state import SUCCESS_OUTCOMES
from harness.models.tokenizer import count_message_tokens
from harness.task import Fact, Task
from harness.task_checks.findings import Finding, make_check_finding, read_values, trace
from harness.task_checks.simulation import (
    HUGE_WINDOW_TOKENS,
    PRESETS,
    SUMMARIZING_POLICIES,
    Run,
    SessionCache,
    find_stated_facts,
    look_up_policy,
    rewrite_facts,
)

PARTIAL_SUMMARIES: Mapping[str, str] = MappingProxyType(
    {
        "default/cline": "the summarizer reads only the beginning of a long tool result",
        "default/dexto": "old tool results are cleared before the summary is written",
        "default/gemini-cli": "nothing is compacted in a session with a single message of the user",
        "default/hermes-lean": "the summarizer reads only the newest part of what is removed",
        "default/langchain-summary": "the summarizer reads only the newest part of what is removed",
        "default/message-window": "messages are evicted without a summary",
        "default/opencode@v1": "the summarizer reads only the beginning of a long tool result",
        "default/opencode@v2": "the newest messages have only the beginning of a long tool result",
        "default/openhands": "the summarizer reads only the beginning of each event",
        "default/openhands-v0": "the summarizer reads only the beginning of each event",
        "default/pi": "the summarizer reads only the beginning of a long tool result",
        "default/pydantic-summary": "the summarizer reads only the beginning of a long tool result",
        "default/seed-opencode": "old tool results are cleared before the summary is written",
        "default/verbatim-lines": "a scripted summarizer names no lines, so the oldest ones are removed",
    }
)
"""Policies whose summaries cannot contain everything that leaves the view, by name in `POLICIES`, each with the reason.

Law 3 does not hold for them on every task: what the summarizer does not read is lost even in a perfect summary.
"""


def check_law_1(sessions: SessionCache, seed: int, preset: str) -> Iterator[Finding]:
    """Check that a policy never compacts in a context window that the session cannot fill.

    The law holds for policies whose threshold is a share of the window. The tool calls, the files and the verdicts must equal
    those of a session without compaction.
    """
    plain, other = sessions.run(seed), sessions.run(seed, look_up_policy(preset))
    if other.compactions:
        yield Finding(f"compacted {len(other.compactions)} times in a window of {HUGE_WINDOW_TOKENS:,} tokens", seed=seed)
    if plain.calls != other.calls:
        yield Finding("the agent made other calls although nothing was compacted", seed=seed)
    elif plain.files != other.files:
        yield Finding("the final files differ although nothing was compacted", seed=seed)
    for name in sorted(other.failed_checks - plain.failed_checks):
        yield Finding(f"fails under a policy ({preset}) that never acted", check=name, seed=seed)


def check_law_2(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that a session without compaction ends at the first request that is longer than the context window."""
    window_tokens = sessions.choose_small_window(seed).window_tokens
    sizes = [step.usage.prompt_tokens for step in sessions.run(seed).steps]
    overflow_step = next((number for number, size in enumerate(sizes, start=1) if size > window_tokens), None)
    if overflow_step is None:
        words = f"the session never fills a window: its longest request has {max(sizes):,} tokens; make it read or print more"
        yield Finding(words, seed=seed)
        return
    small = sessions.run(seed, NoCompaction(), window_tokens, is_graded=False)
    if (small.outcome.reason, small.outcome.steps) != ("overflow", overflow_step - 1):
        words = (
            f"a window of {window_tokens:,} tokens without compaction should overflow at request {overflow_step}; the session "
            f"ended by {small.outcome.reason} after {small.outcome.steps}"
        )
        yield Finding(words, seed=seed)


def check_law_3(sessions: SessionCache, seed: int, preset: str) -> Iterator[Finding]:
    """Check that perfect summaries cost nothing: the agent makes the same calls and passes all checks.

    The calls are compared with a session without compaction, except for the calls that show how far the work is. The scripted
    summarizer `oracle` writes the summaries, which keep every line with a fact. A policy that is not in `PRESETS` may never act
    in a short session, or retain more than the window holds; then nothing is compared.
    """
    plain, oracle = sessions.run(seed), sessions.run_compacted(seed, preset, "scripted/oracle")
    if preset not in PRESETS and (not oracle.compactions or oracle.outcome.reason == "overflow"):
        return
    if not oracle.compactions:
        yield Finding(f"the session is never compacted ({preset}); make it read or print more", seed=seed)
    for judged in oracle.check_results:
        if not judged.passed:
            words = f"fails although summaries keep every line with a fact: {judged.detail}"
            yield make_check_finding(sessions.make_task(seed), judged.check, words, seed)
    yield from _find_extra_call(sessions.make_task(seed), plain, oracle, seed)


def _find_extra_call(task: Task, plain: Run, oracle: Run, seed: int) -> Iterator[Finding]:
    """Report the first call that an agent makes only with, or only without, perfect summaries; status calls do not count."""
    status_keys = {build_call_key(call, task.values) for call in task.script.status_calls}
    plain_keys = [key for key in plain.call_keys if key not in status_keys]
    oracle_calls = [  # each call with the name of the step that made it
        (key, move.step)
        for move, (_, reply) in zip(trace(task, oracle.requests), oracle.requests, strict=True)
        for call in reply.message.calls
        if (key := (call.name, find_key_argument(call))) not in status_keys
    ]
    calls = zip([*plain_keys, None], [*(key for key, _ in oracle_calls), None], strict=False)
    first = next((number for number, (plain_key, key) in enumerate(calls) if plain_key != key), None)
    if first is None:
        return
    step = oracle_calls[first][1] if first < len(oracle_calls) else ""
    actual, expected = (
        f"{keys[first][0]} {keys[first][1]!r:.100}" if first < len(keys) else "nothing more"
        for keys in ([key for key, _ in oracle_calls], plain_keys)
    )
    words = (
        f"although summaries keep every line with a fact or a receipt, the agent makes the call {actual} instead of {expected}: "
        "a value or the evidence of a step is in no line that a pattern matches"
    )
    yield Finding(words, step=step, seed=seed)


def check_law_3_presets(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check law 3 under every summarizing policy but those in `PARTIAL_SUMMARIES`."""
    for name in SUMMARIZING_POLICIES:
        if name not in PARTIAL_SUMMARIES:
            for finding in check_law_3(sessions, seed, name):
                yield replace(finding, message=f"under the policy {name.removeprefix('default/')!r}: {finding.message}")


def check_law_4(sessions: SessionCache, seed: int, preset: str) -> Iterator[Finding]:
    """Check that an agent with empty summaries fails the checks on facts that only the prompt states.

    Only facts that the agent first uses after a compaction are considered. A policy may compact
    so late that there are none. This is a defect of the task only if the default policy also compacts too late, even for facts
    that the user states in later messages. With some settings of a task (see `World`), the prompt contains only facts that are
    used early.
    """
    empty, task = sessions.run_compacted(seed, preset, "scripted/empty"), sessions.make_task(seed)
    if not empty.compactions:
        yield Finding(f"the session is never compacted ({preset}); make it read or print more", seed=seed)
        return
    prompt_facts = find_prompt_only_facts(task)
    late_facts = _find_late_facts(sessions, seed, prompt_facts, empty)
    if (
        prompt_facts
        and not late_facts
        and not _find_late_facts(
            sessions, seed, _find_user_facts(task), sessions.run_compacted(seed, summarizer="scripted/empty")
        )
    ):
        words = "every fact that the user states is used before the first compaction, so evicting it costs nothing"
        yield Finding(words, fact=min(prompt_facts), seed=seed)
    for judged in empty.check_results:
        forgotten_facts = sorted(set(judged.check.required_facts) & late_facts)
        if forgotten_facts and judged.passed:
            words = "the fact was evicted before it was first needed, but the check passes"
            yield Finding(words, fact=forgotten_facts[0], check=judged.check.name, seed=seed)


def _find_late_facts(sessions: SessionCache, seed: int, facts: set[str], run: Run) -> set[str]:
    """Return those of the given facts that the agent first needs after the first compaction of a session."""
    return {name for name in facts if run.compactions and _find_first_use(sessions, seed, name) >= run.compactions[0].step}


def find_prompt_only_facts(task: Task) -> set[str]:
    """Return the names of the facts that only the prompt states.

    Neither later messages nor tool calls show these facts again.
    """
    later_text = "\n".join(message.text for message in task.later_messages)
    user_facts = _find_user_facts(task)
    return {fact.name for fact in task.facts if fact.name in user_facts and not read_values(later_text, fact)}


def _find_user_facts(task: Task) -> set[str]:
    """Return the names of the facts that only the user states and that no tool call can show."""
    return {fact.name for fact in task.facts if fact.said_in == "prompt" and fact.recover is None}


def _find_first_use(sessions: SessionCache, seed: int, fact: str) -> int:
    """Return the number of the first request that needs a fact, without compaction; 0 if no request does."""
    step_names = {step.name for step in sessions.make_task(seed).script.steps if fact in step.required_facts}
    return min((move.number for move in sessions.trace_moves(seed) if move.step in step_names), default=0)


def check_law_7(sessions: SessionCache, seed: int, preset: str) -> Iterator[Finding]:
    """Check that every request has a correct token count, fits the window and has a form that providers accept.

    The policies in `PRESETS` must also avoid requests that the model refuses as too long. Other policies need not, because their
    token reserves may not suit the window.
    """
    run = sessions.run_compacted(seed, preset, is_graded=False)
    window_tokens = sessions.choose_small_window(seed).window_tokens
    for number, ((request, reply), step) in enumerate(zip(run.requests, run.steps, strict=True), start=1):
        request_tokens = sum(map(count_message_tokens, request.messages)) + count_tool_tokens(request.tools)
        if not request_tokens == reply.usage.prompt_tokens == step.usage.prompt_tokens <= window_tokens:
            yield Finding(f"request {number} has {request_tokens} tokens: its usage differs, or the window is smaller", seed=seed)
        if (wrong := find_violation(request.messages)) is not None:
            yield Finding(f"request {number} is not legal: {wrong}", seed=seed)
        if _digest_messages(request.messages) != step.request_digest:
            yield Finding(f"request {number} differs from the logged request", seed=seed)
    refused_steps = [event.step for event in run.list_events(ModelCallFailed) if event.is_overflow] if preset in PRESETS else []
    for step_number in dict.fromkeys(refused_steps):
        yield Finding(f"overflow at request {step_number} in a window of {window_tokens:,} tokens ({preset})", seed=seed)
    if fold_all(run.entries).rounds != len(run.compactions):
        yield Finding("the view folded from the log has another number of rounds than the applied compactions", seed=seed)


def check_law_13(sessions: SessionCache, seed: int, preset: str) -> Iterator[Finding]:
    """Check that the first request behind each message of the user contains the whole message."""
    run = sessions.run_compacted(seed, preset, is_graded=False)
    requests = iter(run.requests)
    new: list[str] = []
    for _, event in run.entries:
        if isinstance(event, MessageAdded) and event.message.role == "user":
            new.append(event.message.text)
        elif isinstance(event, StepFinished):
            request, _ = next(requests)
            user_texts = [message.text for message in request.messages if message.role == "user"]
            for text in new:
                if not any(text in user_text for user_text in user_texts):
                    words = f"request {event.step} does not contain the message of the user before it, {text!r:.100} ({preset})"
                    yield Finding(words, seed=seed)
            new.clear()


def check_law_14(sessions: SessionCache, seed: int, preset: str) -> Iterator[Finding]:
    """Check that no session uses up its steps with work that was already done.

    A step repeats earlier work if an earlier step made the same calls with the same arguments and succeeded. A session fails the
    check if it ends at its maximum number of steps and more than half of its steps repeat earlier work.
    """
    run = sessions.run_compacted(seed, preset, is_graded=False)
    if run.outcome.reason != "max_steps":
        return
    succeeded_ids = {
        result.call_id
        for event in run.list_events(MessageAdded)
        for result in event.message.results
        if read_outcome(result) in SUCCESS_OUTCOMES
    }
    done: set[tuple[tuple[str, str], ...]] = set()
    repeated_steps = 0
    for _, reply in run.requests:
        calls = tuple((call.name, call.arguments_json) for call in reply.message.calls)
        repeated_steps += calls in done
        if succeeded_ids.issuperset(call.call_id for call in reply.message.calls):
            done.add(calls)
    if repeated_steps > len(run.requests) / 2:
        words = f"{repeated_steps} of {len(run.requests)} steps repeat work that was done, until the session ended ({preset})"
        yield Finding(words, seed=seed)


def _digest_messages(messages: Sequence[Message]) -> str:
    return functools.reduce(lambda before, message: digest_message(message, before), messages, b"").hex()


MAX_OTHER_SEEDS = 50
"""Maximum number of seeds that are tried to find another value of a fact, which then replaces the true value."""


def check_outputs_follow_facts(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that the agent's work depends on each fact: another value makes a check fail.

    The values are changed in the prompt and in files. To save time, one session changes several facts, as long as each has a
    check that requires no other changed fact. If none of a fact's checks fails, the fact is changed once more, alone.
    """
    task = sessions.make_task(seed)
    other_values = {fact.name: _find_other_value(sessions, seed, fact) for fact in find_stated_facts(task)}
    known_values = {name: value for name, value in other_values.items() if value is not None}
    for group in group_facts(task, list(known_values)):
        changed_run = _run_with_values(sessions, task, {name: known_values[name] for name in group})
        for name in group:
            if changed_run.failed_checks & find_witness_checks(task, name, group):
                continue
            alone = changed_run if len(group) == 1 else _run_with_values(sessions, task, {name: known_values[name]})
            yield from _report_unnoticed(task, sessions.run(seed), alone, name, known_values[name])


def _report_unnoticed(task: Task, plain: Run, alone: Run, name: str, other: str) -> Iterator[Finding]:
    checks = find_witness_checks(task, name, [name])
    if alone.failed_checks & checks:
        return
    if alone.files == plain.files and alone.calls == plain.calls:
        words = f"stated as {other!r} the fact changes nothing: the result does not depend on it"
    else:
        words = f"stated as {other!r} the fact changes the result, but no check that requires it fails ({sorted(checks)})"
    yield Finding(words, fact=name)


def check_blanks_become_priors(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that an agent without the facts uses its default guesses and fails the checks.

    The values of all stated facts are deleted from messages and files. None of these values may appear in the files that the
    agent writes. The default guess for a fact is called its prior.
    """
    task = sessions.make_task(seed)
    facts = find_stated_facts(task)
    blank = sessions.run_blank(seed)
    if blank.outcome.reason != "replied":
        yield Finding(f"with all stated facts deleted the session ends by {blank.outcome.reason}", seed=seed)
    silent = set(rewrite_facts(task, dict.fromkeys(fact.name for fact in facts)).workspace)
    written_text = "\n".join([text for path, text in blank.files.items() if (path, text) not in silent])
    call_text = "\n".join(arguments for _, arguments in blank.calls)
    used_values = _find_used_values(task, blank)
    for fact in facts:
        if others := sorted(used_values.get(fact.name, set()) - {fact.prior}):
            words = f"stated nowhere, the fact becomes {others[0]!r}, not its prior {fact.prior!r}: it has another source"
            yield Finding(words, fact=fact.name, seed=seed)
        elif fact.name not in used_values and fact.prior not in written_text and fact.prior not in call_text:
            words = f"stated nowhere, the prior {fact.prior!r} is not used either: the fact has another source"
            yield Finding(words, fact=fact.name, seed=seed)
        if task.values[fact.name] in read_values(written_text, fact):
            words = f"its value {task.values[fact.name]!r} is written although it is stated nowhere"
            yield Finding(words, fact=fact.name, seed=seed)
    for check in task.checks:
        resting = sorted({fact.name for fact in facts} & set(check.required_facts))
        if resting and check.name not in blank.failed_checks:
            yield Finding("the check passes with the prior", fact=resting[0], check=check.name, seed=seed)


def _find_used_values(task: Task, run: Run) -> dict[str, set[str]]:
    uses, priors = TemplateMatcher(task.script), {fact.name: fact.prior for fact in task.facts}
    repeated: dict[str, set[str]] = {}
    for name, arguments in run.calls:
        call = ToolCall(call_id="", name=name, arguments_json=arguments)
        for fact, value in uses.match_call(call, lambda fact: (priors[fact], task.values[fact])).items():
            repeated.setdefault(fact, set()).add(value)
    return repeated


def _run_with_values(sessions: SessionCache, task: Task, values: dict[str, str | None] | dict[str, str]) -> Run:
    return sessions.run_uncached(rewrite_facts(task, dict(values)))


def _find_other_value(sessions: SessionCache, seed: int, fact: Fact) -> str | None:
    own_value = sessions.make_task(seed).values[fact.name]
    values = (sessions.make_variant(seed, other).values[fact.name] for other in range(seed + 1, seed + MAX_OTHER_SEEDS))
    return next((value for value in values if value != own_value), None)


def find_witness_checks(task: Task, name: str, group: Sequence[str]) -> set[str]:
    """Return the checks that require the named fact, but no other fact of the group."""
    return {check.name for check in task.checks if set(check.required_facts) & set(group) == {name}}


def group_facts(task: Task, names: list[str]) -> list[list[str]]:
    """Split facts into few groups in which each fact has a check that requires no other fact of its group."""
    groups: list[list[str]] = []
    for name in names:
        fitting = (
            group for group in groups if all(find_witness_checks(task, member, [*group, name]) for member in [*group, name])
        )
        if (home := next(fitting, None)) is None:
            groups.append(home := [])
        home.append(name)
    return groups
