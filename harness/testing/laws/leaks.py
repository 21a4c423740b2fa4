"""Law 5: what is produced follows what is told, and what is told to nobody becomes the prior."""

from collections.abc import Iterator, Sequence

from harness.compaction.presets.none import NoCompaction
from harness.messages import ToolCall
from harness.metrics.uses import Uses
from harness.task import Fact, Task
from harness.testing.laws.findings import Finding
from harness.testing.laws.scripts import values_in
from harness.testing.laws.session_cache import Sessions
from harness.testing.laws.simulation import HUGE, Run, retold

OTHER_SEEDS = 50


def follows_what_is_told(sessions: Sessions, seed: int, _: str) -> Iterator[Finding]:
    """Another value in prompt or files changes what is made, and a check that rests on the fact fails.

    Facts are changed together as far as each keeps a check of its own; one that nobody notices is changed once more alone.
    """
    task = sessions.task(seed)
    others = {fact.name: other for fact in told(task) if (other := _other_value(sessions, seed, fact)) is not None}
    for group in _groups(task, list(others)):
        changed = _session(sessions, task, {name: others[name] for name in group})
        for name in group:
            if changed.failed & _witnesses(task, name, group):
                continue
            alone = changed if len(group) == 1 else _session(sessions, task, {name: others[name]})
            yield from _unnoticed(task, sessions.uncompacted(seed), alone, name, others[name])


def _unnoticed(task: Task, plain: Run, alone: Run, name: str, other: str) -> Iterator[Finding]:
    resting = _witnesses(task, name, [name])
    if alone.failed & resting:
        return
    if alone.files == plain.files and alone.calls == plain.calls:
        words = f"told as {other!r} it changes nothing: what the agent makes does not depend on it"
    else:
        words = f"told as {other!r} it changes what is made, and none of the checks that rest on it notices ({sorted(resting)})"
    yield Finding(words=words, fact=name)


def a_blank_becomes_the_prior(sessions: Sessions, seed: int, _: str) -> Iterator[Finding]:
    """Facts that are told to nobody are replaced by their priors, which the checks notice; no value leaks."""
    task = sessions.task(seed)
    facts = told(task)
    blank = _session(sessions, task, dict.fromkeys(fact.name for fact in facts))
    if blank.outcome.reason != "replied":
        yield Finding(words=f"with all told facts blank the session ends by {blank.outcome.reason}", seed=seed)
    silent = set(retold(task, dict.fromkeys(fact.name for fact in facts)).workspace)
    made = "\n".join([text for path, text in blank.files.items() if (path, text) not in silent])
    done = "\n".join(written for _, written in blank.calls)
    used = _used(task, blank)
    for fact in facts:
        if others := sorted(used.get(fact.name, set()) - {fact.prior}):
            words = f"told to nobody, it is written as {others[0]!r} and not as its prior {fact.prior!r}: it is got elsewhere"
            yield Finding(words=words, fact=fact.name, seed=seed)
        elif fact.name not in used and fact.prior not in made and fact.prior not in done:
            words = f"told to nobody, its prior {fact.prior!r} appears nowhere: it is got or held in another way"
            yield Finding(words=words, fact=fact.name, seed=seed)
        if task.values[fact.name] in values_in(made, fact):
            words = f"its value {task.values[fact.name]!r} is made although nobody told it"
            yield Finding(words=words, fact=fact.name, seed=seed)
    for check in task.checks:
        resting = sorted({fact.name for fact in facts} & set(check.rests_on))
        if resting and check.name not in blank.failed:
            yield Finding(words="the check passes on the prior", fact=resting[0], check=check.name, seed=seed)


def _used(task: Task, run: Run) -> dict[str, set[str]]:
    """What stands in the calls of a session where the script has a placeholder, by fact; only of calls that are recognised."""
    uses, priors = Uses(task.script), {fact.name: fact.prior for fact in task.facts}
    found: dict[str, set[str]] = {}
    for name, arguments in run.calls:
        call = ToolCall(call_id="", name=name, arguments_json=arguments)
        for fact, value in uses.read(call, lambda fact: (priors[fact], task.values[fact])).items():
            found.setdefault(fact, set()).add(value)
    return found


def told(task: Task) -> list[Fact]:
    """The facts that patterns read in messages or files, and that can so be told otherwise, whatever shows them to the agent."""
    laid = "\n".join([task.prompt, *(late.text for late in task.later), *(text for _, text in task.workspace)])
    return [fact for fact in task.facts if task.values[fact.name] in values_in(laid, fact)]


def _session(sessions: Sessions, task: Task, values: dict[str, str | None] | dict[str, str]) -> Run:
    return sessions.again(retold(task, dict(values)), NoCompaction(), HUGE)


def _other_value(sessions: Sessions, seed: int, fact: Fact) -> str | None:
    own = sessions.task(seed).values[fact.name]
    for other in range(seed + 1, seed + OTHER_SEEDS):
        value = sessions.task(other).values[fact.name]
        if value != own:
            return value
    return None


def _witnesses(task: Task, name: str, group: Sequence[str]) -> set[str]:
    """Checks that rest on a fact and on no other of the group."""
    return {check.name for check in task.checks if set(check.rests_on) & set(group) == {name}}


def _groups(task: Task, names: list[str]) -> list[list[str]]:
    """The facts in few groups, in each of which every fact has a check that rests on no other one."""
    groups: list[list[str]] = []
    for name in names:
        fitting = (group for group in groups if all(_witnesses(task, one, [*group, name]) for one in [*group, name]))
        home = next(fitting, None)
        if home is None:
            groups.append([name])
        else:
            home.append(name)
    return groups
