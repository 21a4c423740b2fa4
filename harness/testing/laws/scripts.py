"""Laws of what is written down: names that exist, placeholders that are declared, patterns that read one value."""

import re
from collections import Counter
from collections.abc import Iterator
from string import Template
from typing import cast

from harness.protocols import Sandbox
from harness.session.preflight import count_first_request_tokens
from harness.task import CallTemplate, Fact, Step
from harness.testing.laws.findings import Finding, collect_needs, find_first_needing_step, read_values
from harness.testing.laws.session_cache import SessionCache
from harness.testing.laws.simulation import WINDOW_TOKENS
from harness.tools import make_standard_tools

_TOOLS = frozenset(tool.spec.name for tool in make_standard_tools(cast("Sandbox", None)))  # a description needs no sandbox


def check_names(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that names are given once, and that every name that is used is given."""
    task = sessions.make_task(seed)
    facts = {fact.name for fact in task.facts}
    names_by_kind = {
        "step": [step.name for step in task.script.steps],
        "fact": [fact.name for fact in task.facts],
        "check": [check.name for check in task.checks],
    }
    for kind, names in names_by_kind.items():
        for name, times in Counter(names).items():
            if times > 1:
                yield Finding(message=f"{times} {kind}s have the name {name!r}")
    for step in task.script.steps:
        yield from _check_placeholders(step, facts)
    for check in task.checks:
        for name in sorted(set(check.required_facts) - facts):
            yield Finding(message=f"rests on {name!r}, which is no fact", fact=name, check=check.name)
    for fact in task.facts:
        yield from _check_pattern_syntax(fact)
        yield from _check_recovering_call(fact)
        if not any(fact.name in check.required_facts for check in task.checks):
            words = "no check rests on it, so nobody notices when it is forgotten"
            yield Finding(message=words, step=find_first_needing_step(task, fact.name), fact=fact.name)
        if not any(fact.name in collect_needs(step) for step in task.script.steps):
            yield Finding(message="no step needs it", fact=fact.name)


def _check_placeholders(step: Step, facts: set[str]) -> Iterator[Finding]:
    deeds = [(step.text, step.calls, step.required_facts), *((fix.text, fix.calls, fix.required_facts) for fix in step.repairs)]
    for says, calls, needs in deeds:
        texts = [says, *(text for call in calls for _, text in call.arguments)]
        if not all(Template(text).is_valid() for text in texts):
            yield Finding(message="a text holds a `$` that begins no placeholder; write `$$`", step=step.name)
            continue
        used = {name for text in texts for name in Template(text).get_identifiers()}
        for name in sorted(used - set(needs)):
            yield Finding(message="the placeholder is not declared in `required_facts`", step=step.name, fact=name)
        for name in sorted(set(needs) - facts):
            yield Finding(message="it needs this, which is no fact", step=step.name, fact=name)
        for call in calls:
            if call.tool not in _TOOLS:
                yield Finding(message=_describe_unknown_tool(call), step=step.name)
    if not step.calls:
        yield Finding(message="it calls no tool, so the session would end with it", step=step.name)
    for pattern in (
        [text for _, text in step.done.receipts] + [step.done.summary_pattern] + [fix.error_pattern for fix in step.repairs]
    ):
        if (wrong := _find_syntax_error(pattern)) is not None:
            yield Finding(message=wrong, step=step.name)
    if step.done.count_pattern and (wrong := _find_group_error(step.done.count_pattern)) is not None:
        yield Finding(message=wrong, step=step.name)


def _describe_unknown_tool(call: CallTemplate) -> str:
    return f"there is no tool {call.tool!r}; there are {', '.join(sorted(_TOOLS))}"


def _check_recovering_call(fact: Fact) -> Iterator[Finding]:
    """Check the call that shows a fact again: it holds no value and no placeholder, since nothing is in view."""
    if fact.recover is None:
        return
    if fact.recover.tool not in _TOOLS:
        yield Finding(message=f"its recovering call: {_describe_unknown_tool(fact.recover)}", fact=fact.name)
    for _, text in fact.recover.arguments:
        if not Template(text).is_valid() or Template(text).get_identifiers():
            yield Finding(message=f"its recovering call holds a placeholder, {text!r}, or a `$`; write `$$`", fact=fact.name)


def _check_pattern_syntax(fact: Fact) -> Iterator[Finding]:
    for pattern in (*fact.patterns, *fact.former_patterns):
        if (wrong := _find_group_error(pattern)) is not None:
            yield Finding(message=wrong, fact=fact.name)


def _find_group_error(pattern: str) -> str | None:
    """Return what is wrong with a pattern that reads a value."""
    if (wrong := _find_syntax_error(pattern)) is not None:
        return wrong
    groups = re.compile(pattern).groups
    return None if groups == 1 else f"the pattern {pattern!r} has {groups} groups; exactly one reads the value"


def _find_syntax_error(pattern: str) -> str | None:
    try:
        re.compile(pattern)
    except re.error as error:
        return f"the pattern {pattern!r} is no regular expression: {error}"
    return None


def check_patterns(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that the patterns of a fact read its value where it is told, and nothing else anywhere."""
    task = sessions.make_task(seed)
    messages = [("the prompt", task.prompt), *((f"the message of step {late.step}", late.text) for late in task.later_messages)]
    places = {"prompt": messages, "file": list(task.workspace)}
    for fact in task.facts:
        value = task.values.get(fact.name)
        if not value:  # what the law `values` tells of
            continue
        is_stated = False
        for kind, texts in places.items():
            for where, text in texts:
                found = set(read_values(text, fact))
                is_stated |= kind == fact.said_in and value in found
                for other in sorted(found - {value}):
                    if not fact.is_superseded:
                        words = f"its patterns read {other!r} out of {where}, and its value is {value!r}"
                        yield Finding(message=words, step=find_first_needing_step(task, fact.name), fact=fact.name, seed=seed)
        if not is_stated and fact.said_in in places:
            where = "the prompt" if fact.said_in == "prompt" else "any file of the workspace"
            words = f"its patterns match nothing in {where}, so nobody tells it"
            yield Finding(message=words, step=find_first_needing_step(task, fact.name), fact=fact.name, seed=seed)


def check_first_request(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that the first request leaves room in the window."""
    task = sessions.make_task(seed)
    tokens = count_first_request_tokens(task.prompt, task.runtime)
    if tokens > WINDOW_TOKENS // 2:
        words = f"the first request has {tokens:,} tokens, more than half of a window of {WINDOW_TOKENS:,}; shorten the prompt"
        yield Finding(message=words, seed=seed)
