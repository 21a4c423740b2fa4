"""Law 5: what is produced follows what is told, and what is told to nobody becomes the prior."""

from collections.abc import Iterator, Sequence

from harness.compaction.presets.none import NoCompaction
from harness.messages import ToolCall
from harness.metrics.template_matcher import TemplateMatcher
from harness.task import Fact, Task
from harness.testing.laws.findings import Finding, read_values
from harness.testing.laws.session_cache import SessionCache
from harness.testing.laws.simulation import HUGE_WINDOW_TOKENS, Run, rewrite_facts

MAX_OTHER_SEEDS = 50


def check_outputs_follow_facts(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that another value in prompt or files changes what is made, and that a check that rests on the fact fails.

    Facts are changed together as far as each keeps a check of its own; one that nobody notices is changed once more alone.
    """
    task = sessions.make_task(seed)
    others = {
        fact.name: other for fact in find_stated_facts(task) if (other := _find_other_value(sessions, seed, fact)) is not None
    }
    for group in _group_facts(task, list(others)):
        changed = _run_with_values(sessions, task, {name: others[name] for name in group})
        for name in group:
            if changed.failed_checks & _find_witness_checks(task, name, group):
                continue
            alone = changed if len(group) == 1 else _run_with_values(sessions, task, {name: others[name]})
            yield from _report_unnoticed(task, sessions.run_uncompacted(seed), alone, name, others[name])


def _report_unnoticed(task: Task, plain: Run, alone: Run, name: str, other: str) -> Iterator[Finding]:
    resting = _find_witness_checks(task, name, [name])
    if alone.failed_checks & resting:
        return
    if alone.files == plain.files and alone.calls == plain.calls:
        words = f"told as {other!r} it changes nothing: what the agent makes does not depend on it"
    else:
        words = f"told as {other!r} it changes what is made, and none of the checks that rest on it notices ({sorted(resting)})"
    yield Finding(message=words, fact=name)


def check_blanks_become_priors(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that facts that are told to nobody are replaced by their priors, which the checks notice, and no value leaks."""
    task = sessions.make_task(seed)
    facts = find_stated_facts(task)
    blank = _run_with_values(sessions, task, dict.fromkeys(fact.name for fact in facts))
    if blank.outcome.reason != "replied":
        yield Finding(message=f"with all told facts blank the session ends by {blank.outcome.reason}", seed=seed)
    silent = set(rewrite_facts(task, dict.fromkeys(fact.name for fact in facts)).workspace)
    written_text = "\n".join([text for path, text in blank.files.items() if (path, text) not in silent])
    done = "\n".join(written for _, written in blank.calls)
    used = _find_used_values(task, blank)
    for fact in facts:
        if others := sorted(used.get(fact.name, set()) - {fact.prior}):
            words = f"told to nobody, it is written as {others[0]!r} and not as its prior {fact.prior!r}: it is got elsewhere"
            yield Finding(message=words, fact=fact.name, seed=seed)
        elif fact.name not in used and fact.prior not in written_text and fact.prior not in done:
            words = f"told to nobody, its prior {fact.prior!r} appears nowhere: it is got or held in another way"
            yield Finding(message=words, fact=fact.name, seed=seed)
        if task.values[fact.name] in read_values(written_text, fact):
            words = f"its value {task.values[fact.name]!r} is made although nobody told it"
            yield Finding(message=words, fact=fact.name, seed=seed)
    for check in task.checks:
        resting = sorted({fact.name for fact in facts} & set(check.required_facts))
        if resting and check.name not in blank.failed_checks:
            yield Finding(message="the check passes on the prior", fact=resting[0], check=check.name, seed=seed)


def _find_used_values(task: Task, run: Run) -> dict[str, set[str]]:
    """Return by fact what stands in the calls of a session where the script has a placeholder, if the call is recognised."""
    uses, priors = TemplateMatcher(task.script), {fact.name: fact.prior for fact in task.facts}
    found: dict[str, set[str]] = {}
    for name, arguments in run.calls:
        call = ToolCall(call_id="", name=name, arguments_json=arguments)
        for fact, value in uses.match_call(call, lambda fact: (priors[fact], task.values[fact])).items():
            found.setdefault(fact, set()).add(value)
    return found


def find_stated_facts(task: Task) -> list[Fact]:
    """Return the facts that patterns read in messages or files, and that can so be told otherwise."""
    laid = "\n".join([task.prompt, *(late.text for late in task.later_messages), *(text for _, text in task.workspace)])
    return [fact for fact in task.facts if task.values[fact.name] in read_values(laid, fact)]


def _run_with_values(sessions: SessionCache, task: Task, values: dict[str, str | None] | dict[str, str]) -> Run:
    return sessions.run_uncached(rewrite_facts(task, dict(values)), NoCompaction(), HUGE_WINDOW_TOKENS)


def _find_other_value(sessions: SessionCache, seed: int, fact: Fact) -> str | None:
    own = sessions.make_task(seed).values[fact.name]
    for other in range(seed + 1, seed + MAX_OTHER_SEEDS):
        value = sessions.make_task(other).values[fact.name]
        if value != own:
            return value
    return None


def _find_witness_checks(task: Task, name: str, group: Sequence[str]) -> set[str]:
    """Return the checks that rest on a fact and on no other of the group."""
    return {check.name for check in task.checks if set(check.required_facts) & set(group) == {name}}


def _group_facts(task: Task, names: list[str]) -> list[list[str]]:
    """Split the facts into few groups, in each of which every fact has a check that rests on no other fact of the group."""
    groups: list[list[str]] = []
    for name in names:
        fitting = (group for group in groups if all(_find_witness_checks(task, one, [*group, name]) for one in [*group, name]))
        home = next(fitting, None)
        if home is None:
            groups.append([name])
        else:
            home.append(name)
    return groups
