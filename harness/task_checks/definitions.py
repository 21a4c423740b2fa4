"""Validity checks of how a task is defined: its template, script, facts, text patterns and first request."""

import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from string import Template
from typing import cast, get_args

from harness.errors import UsageError
from harness.protocols import Sandbox
from harness.session.preflight import count_first_request_tokens
from harness.task import CallTemplate, Fact, Repair, Step, Task, TaskTool
from harness.task_checks.findings import Finding, collect_needs, find_first_needing_step, read_values
from harness.task_checks.fresh_process import CIRCUMSTANCES, Circumstance, Digests, digest_in_fresh_process, digest_parts
from harness.task_checks.simulation import WINDOW_TOKENS, SessionCache
from harness.tools import make_standard_tools

SEEDS = range(50)
"""Seeds from which a template makes tasks that are compared with each other."""


def check_template(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that the template makes a task from every seed, and the same task whenever the seed is the same.

    The tasks are made again in this process, and in a new process with another date, other hashes, another working directory,
    another user and another time zone. The template must not read the clock, even if the clock makes no difference.
    """
    seeds = sorted({seed, *SEEDS})
    tasks = (_make_task(sessions.make_task, seed) for seed in seeds)
    wrong = next((task for task in tasks if isinstance(task, Finding)), None)
    second_task = wrong or _make_task(sessions.template, seed)
    if isinstance(second_task, Finding):
        yield second_task
        return
    findings = list(
        _compare_digests(
            digest_parts(sessions.make_task(seed)), digest_parts(second_task), seed, "when the template is called again"
        )
    )
    yield from findings or _compare_in_fresh_process(sessions, seeds)


def _make_task(make: Callable[[int], object], seed: int) -> Task | Finding:
    try:
        task = make(seed)
    except (Exception, SystemExit) as error:  # noqa: BLE001  (foreign code is run here)
        return Finding(f"the template raises {_format_error(error)}", seed=seed)
    return (
        task if isinstance(task, Task) else Finding(f"the template returns {type(task).__name__!r}, expected a Task", seed=seed)
    )


def _compare_in_fresh_process(sessions: SessionCache, seeds: Sequence[int]) -> Iterable[Finding]:
    """Report if a seed gives another task in a new process, or if a template reads, e.g., the clock."""
    if not sessions.name:
        return
    try:
        digests = sessions.digest_in_fresh_process(seeds)
        different = next((seed for seed in seeds if digest_parts(sessions.make_task(seed)) != digests[seed]), None)
        if different is not None:
            yield from _attribute_difference(sessions, different)
        for action, target in sessions.observe_in_fresh_process().hidden_inputs:
            yield Finding(f"the template {action} {target}; derive everything from the seed alone")
    except UsageError as error:
        yield Finding(str(error))


def _attribute_difference(sessions: SessionCache, seed: int) -> Iterator[Finding]:
    """Report why a task differs in a new process, e.g. because of the date."""

    def digest_with(*differing: Circumstance) -> Digests:
        return digest_in_fresh_process(sessions.name, [seed], differing, difficulty=sessions.difficulty)[seed]

    first = digest_with()
    if findings := list(_compare_digests(first, digest_with(), seed, "in another process")):
        yield from findings
        return
    for circumstance, phrase in CIRCUMSTANCES.items():
        findings += _compare_digests(first, digest_with(circumstance), seed, f"in another process, {phrase}")
    own, other = digest_parts(sessions.make_task(seed)), sessions.digest_in_fresh_process([seed])[seed]
    yield from findings or _compare_digests(own, other, seed, "in another process")


def _compare_digests(first: Digests, other_digests: Digests, seed: int, when: str) -> Iterator[Finding]:
    for part in dict.fromkeys((*first, *other_digests)):
        if first.get(part) == other_digests.get(part):
            continue
        words = f"differs {when}; derive it from the seed alone"
        subject = {"value": "its value ", "field": f"`{part.name}` "}.get(part.kind, "")
        fact = part.name if part.kind in {"value", "fact"} else ""
        yield Finding(subject + words, step=part.name if part.kind == "step" else "", fact=fact, seed=seed)


def _format_error(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    location = f" (line {frames[-1].lineno} of {frames[-1].filename.rpartition('/')[2]})" if frames else ""
    return f"{type(error).__name__}: {error}{location}"


def check_values(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that the seed changes only the values of a task, and that no default guess (prior) is right.

    Tasks with the same structure must have the same script and the same facts, but different values. If the structure also
    differs, each fact must still have the same patterns and the same default guess.
    """
    first, other = sessions.make_task(seed), sessions.make_variant(seed, seed + 1)
    yield from list(_compare_scripts(first, other, seed)) or _compare_facts(first, map(sessions.make_task, SEEDS), seed)
    tasks = {other_seed: sessions.make_variant(seed, other_seed) for other_seed in SEEDS}
    for fact in first.facts:
        values = {other_seed: task.values.get(fact.name) for other_seed, task in tasks.items()}
        missing = [other_seed for other_seed, value in values.items() if not value]
        if missing:
            yield Finding("the fact has no value in `values`", fact=fact.name, seed=missing[0])
            continue
        equal = [other_seed for other_seed, value in values.items() if value == fact.prior]
        if equal:
            words = f"its prior {fact.prior!r} equals its value, so a guess is right; choose another prior or exclude that value"
            yield Finding(words, fact=fact.name, seed=equal[0])
        elif len(set(values.values())) == 1:
            yield _report_constant(first, fact.name, str(values[0]))
        else:
            yield from _report_drawable_prior(sessions, fact)


def _compare_facts(first: Task, tasks: Iterable[Task], seed: int) -> Iterator[Finding]:
    readings = {fact.name: (fact.patterns, fact.former_patterns, fact.prior) for fact in first.facts}
    changed = {
        fact.name
        for task in tasks
        for fact in task.facts
        if fact.name in readings and (fact.patterns, fact.former_patterns, fact.prior) != readings[fact.name]
    }
    for name in sorted(changed):
        yield Finding("its patterns or its prior differ between seeds; they must be the same for all", fact=name, seed=seed)


def _report_drawable_prior(sessions: SessionCache, fact: Fact) -> Iterator[Finding]:
    for name, place, seed in sessions.observe_in_fresh_process().drawable_priors if sessions.name else ():
        if name == fact.name:
            cause = (
                f"{place} can draw its prior {fact.prior!r} as its value" if place else f"its prior {fact.prior!r} is its value"
            )
            yield Finding(
                f"{cause}, so a guess can be right; draw by `draw_values`, which excludes the prior", fact=name, seed=seed
            )


def _report_constant(task: Task, name: str, value: str) -> Finding:
    step_names = [step.name for step in task.script.steps if value in str((step.text, step.calls))]
    words = f"its value is {value!r} for every seed, so the script could contain it; derive it from the seed"
    return Finding(words, fact=name, step=step_names[0] if step_names else "")


def _compare_scripts(first: Task, other: Task, seed: int) -> Iterator[Finding]:
    words = f"differs between the seeds {seed} and {seed + 1}, so it may contain a value; write `${{fact}}` instead of the value"
    for step, other_step in zip(first.script.steps, other.script.steps, strict=False):
        if step != other_step:
            yield Finding(words, step=step.name)
    for fact, other_fact in zip(first.facts, other.facts, strict=False):
        if fact != other_fact:
            yield Finding(words, fact=fact.name)
    if len(first.script.steps) != len(other.script.steps) or len(first.facts) != len(other.facts):
        yield Finding(f"the seeds {seed} and {seed + 1} have different numbers of steps or facts")
    if first.script.final_text != other.script.final_text:
        yield Finding(f"the final text {words}")


_TOOLS = frozenset(tool.spec.name for tool in make_standard_tools(cast("Sandbox", None)))  # a description needs no sandbox


def check_names(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that names in a task are unique and declared, and that text patterns are valid.

    The names are those of facts, steps and checks. Each fact must also be required by a check and needed by a step.
    """
    task = sessions.make_task(seed)
    facts = {fact.name for fact in task.facts}
    names = [("step", step.name) for step in task.script.steps] + [("fact", fact.name) for fact in task.facts]
    for (kind, name), times in Counter([*names, *(("check", check.name) for check in task.checks)]).items():
        if times > 1:
            yield Finding(f"{times} {kind}s have the name {name!r}")
    for step in task.script.steps:
        yield from _check_placeholders(step, facts, _TOOLS | set(task.tools))
    for check in task.checks:
        for name in sorted(set(check.required_facts) - facts):
            yield Finding(f"requires {name!r}, which is not a fact", fact=name, check=check.name)
    for fact in task.facts:
        for pattern in (*fact.patterns, *fact.former_patterns):
            if (wrong := _find_group_error(pattern)) is not None:
                yield Finding(wrong, fact=fact.name)
        yield from _check_recovering_call(fact, _TOOLS | set(task.tools))
        if not any(fact.name in check.required_facts for check in task.checks):
            words = "no check requires the fact, so its loss has no effect"
            yield Finding(words, step=find_first_needing_step(task, fact.name), fact=fact.name)
        if not any(fact.name in collect_needs(step) for step in task.script.steps):
            yield Finding("no step needs the fact", fact=fact.name)


def _check_placeholders(step: Step, facts: set[str], tools: frozenset[str]) -> Iterator[Finding]:
    actions: tuple[Step | Repair, ...] = (step, *step.repairs)
    for action in actions:
        texts = [action.text, *(text for call in action.calls for _, text in call.arguments)]
        if not all(Template(text).is_valid() for text in texts):
            yield Finding("a text contains a `$` that begins no placeholder; write `$$`", step=step.name)
            continue
        used = {name for text in texts for name in Template(text).get_identifiers()}
        for name in sorted(used - set(action.required_facts)):
            yield Finding("the placeholder is not declared in `required_facts`", step=step.name, fact=name)
        for name in sorted(set(action.required_facts) - facts):
            yield Finding("the step requires a name that is not a fact", step=step.name, fact=name)
        for call in action.calls:
            if call.tool not in tools:
                yield Finding(_describe_unknown_tool(call, tools), step=step.name)
    if not step.calls:
        yield Finding("the step calls no tool, so the session would end with it", step=step.name)
    receipts, errors = (text for _, text in step.done.receipts), (repair.error_pattern for repair in step.repairs)
    for pattern in (*receipts, step.done.summary_pattern, *errors):
        if (wrong := _find_syntax_error(pattern)) is not None:
            yield Finding(wrong, step=step.name)
    if step.done.count_pattern and (wrong := _find_group_error(step.done.count_pattern)) is not None:
        yield Finding(wrong, step=step.name)


def _describe_unknown_tool(call: CallTemplate, tools: frozenset[str]) -> str:
    more = ", ".join(sorted(set(get_args(TaskTool)) - tools))
    advice = f"; a task that needs one of {more} names it in `tools`" if more else ""
    return f"there is no tool {call.tool!r}; available: {', '.join(sorted(tools))}{advice}"


def _check_recovering_call(fact: Fact, tools: frozenset[str]) -> Iterator[Finding]:
    """Check that the calls that look up a lost fact use a known tool and contain no placeholder.

    The call of a sub-agent uses a standard tool.
    """
    for name, call, known in (("recovering", fact.recover, tools), ("delegated", fact.delegated, _TOOLS)):
        if call is None:
            continue
        if call.tool not in known:
            yield Finding(f"its {name} call: {_describe_unknown_tool(call, known)}", fact=fact.name)
        for _, text in call.arguments:
            if not Template(text).is_valid() or Template(text).get_identifiers():
                yield Finding(f"its {name} call contains a placeholder or a single `$`: {text!r}; write `$$`", fact=fact.name)


def _find_group_error(pattern: str) -> str | None:
    if (wrong := _find_syntax_error(pattern)) is not None:
        return wrong
    groups = re.compile(pattern).groups
    return None if groups == 1 else f"the pattern {pattern!r} has {groups} groups; exactly one group must read the value"


def _find_syntax_error(pattern: str) -> str | None:
    try:
        re.compile(pattern)
    except re.error as error:
        return f"the pattern {pattern!r} is not a regular expression: {error}"
    return None


def check_patterns(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that the text patterns of a fact find its value, and no other, where the task states the fact.

    The patterns are regular expressions. The places are the user's messages and the files of the initial workspace.
    """
    task = sessions.make_task(seed)
    messages = [
        ("the prompt", task.prompt),
        *((f"the message of step {later.step}", later.text) for later in task.later_messages),
    ]
    places = {"prompt": messages, "file": list(task.workspace)}
    for fact in task.facts:
        value = task.values.get(fact.name)
        if not value:  # reported by the law `values`
            continue
        is_stated = False
        for kind, texts in places.items():
            for location, text in texts:
                values = set(read_values(text, fact))
                is_stated |= kind == fact.said_in and value in values
                for other in sorted(values - {value}):
                    if not fact.is_superseded:
                        words = f"its patterns read {other!r} from {location}, but its value is {value!r}"
                        yield Finding(words, step=find_first_needing_step(task, fact.name), fact=fact.name, seed=seed)
        if not is_stated and fact.said_in in places:
            location = "the prompt" if fact.said_in == "prompt" else "any file of the workspace"
            words = f"its patterns do not read the value from {location}, so it is stated nowhere"
            yield Finding(words, step=find_first_needing_step(task, fact.name), fact=fact.name, seed=seed)


def check_first_request(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that the first request of a task fills at most half of the context window."""
    task = sessions.make_task(seed)
    tokens = count_first_request_tokens(task.prompt, task.runtime)
    if tokens > WINDOW_TOKENS // 2:
        words = f"the first request has {tokens:,} tokens, more than half of a window of {WINDOW_TOKENS:,}; shorten the prompt"
        yield Finding(words, seed=seed)
