"""The laws of a scripted simulation, as functions that say what is wrong with a task: which step, which fact, which check.

They are what makes a result mean something: nothing leaks past the context, forgetting costs what it costs, and the bounds
bound. `harness task check` runs them on any task, and the tests run them on every task of the suite.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from harness.testing.laws import baseline, bounds, definitions, reruns
from harness.testing.laws.findings import Finding
from harness.testing.laws.simulation import SessionCache


class Law(NamedTuple):
    """One thing that holds for every good task."""

    name: str
    """Name as in a test's id, e.g. `law-3`."""
    stage: int
    """Laws of a later stage say nothing about a task that breaks one of an earlier stage."""
    title: str
    """What holds, as a sentence."""
    find: Callable[[SessionCache, int, str], Iterable[Finding]]
    """Function from the sessions of a template, a task seed and the name of a preset to what is wrong."""
    by_preset: bool = False
    """Whether it depends on the policy."""


LAWS: tuple[Law, ...] = (
    Law("template", 0, "the template makes the same task for a seed again, in another process too", definitions.check_template),
    Law("names", 1, "names and placeholders are declared, patterns have one group", definitions.check_names),
    Law("values", 2, "script and facts hold no value, and no prior is one", definitions.check_values),
    Law("patterns", 2, "patterns read each value where it is told, and nothing else", definitions.check_patterns),
    Law("fits", 2, "the first request leaves room in the window", definitions.check_first_request),
    Law("files", 2, "the files of the workspace can be laid", baseline.check_files),
    Law("succeeds", 3, "who forgets nothing passes every check", baseline.check_success),
    Law("sight", 3, "no step takes a value that it cannot see", baseline.check_sight),
    Law("readings", 3, "patterns read no other value in the whole session", baseline.check_readings),
    Law("evidence", 3, "each step is shown done by what it leaves", baseline.check_evidence),
    Law("recovery", 3, "what can be got again is shown by its recovering call", baseline.check_recovery),
    Law("idle", 3, "who does nothing passes no check, even in an empty workspace", baseline.check_idle),
    Law("repeats", 3, "the session repeats, files and verdicts too", reruns.check_repeat),
    Law("law-1", 4, "in a large window no policy changes anything", bounds.check_law_1, by_preset=True),
    Law("law-2", 4, "without compaction a small window overflows when it must", bounds.check_law_2),
    Law("law-3", 4, "oracle summaries lose nothing", bounds.check_law_3, by_preset=True),
    Law("law-4", 4, "empty summaries lose what only the prompt said", bounds.check_law_4, by_preset=True),
    Law("law-5-told", 4, "what is made follows what is told", bounds.check_outputs_follow_facts),
    Law("law-5-blank", 4, "what is told to nobody becomes the prior", bounds.check_blanks_become_priors),
    Law("law-6-answers", 4, "the model is a function of what it sees", reruns.check_same_answer, by_preset=True),
    Law("law-6-bytes", 4, "a compacted session repeats", reruns.check_compacted_repeat, by_preset=True),
    Law("law-7", 4, "every request fits the window and is legal", bounds.check_law_7, by_preset=True),
    Law("law-9", 4, "a session from the action cache equals one in a real sandbox", reruns.check_law_9),
    Law("law-10", 4, "a fresh process for every call answers as the session did", reruns.check_law_10),
)
"""In the order in which they make sense; those of a later stage rely on those of the earlier ones."""


class LawResult(NamedTuple):
    """What one law says of a task."""

    law: Law
    findings: tuple[Finding, ...] | None
    """Empty = it holds; None = not tried, since an earlier stage broke."""


def check_laws(sessions: SessionCache, seeds: Sequence[int], presets: Iterable[str] = ("extractive",)) -> Iterator[LawResult]:
    """Try every law on a template, one after the other; each finding is reported once.

    Args:
        sessions: sessions of the template.
        seeds: seeds of the tasks on which laws are tried.
        presets: policies under which those laws are tried that depend on one.
    """
    broken: int | None = None
    chosen = tuple(presets)
    for law in LAWS:
        if broken is not None and law.stage > broken:
            yield LawResult(law, None)
            continue
        under = chosen if law.by_preset else ("extractive",)
        found = tuple(dict.fromkeys(one for seed in seeds for preset in under for one in law.find(sessions, seed, preset)))
        if found and broken is None:
            broken = law.stage
        yield LawResult(law, found)
