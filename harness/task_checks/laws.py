"""Validity checks of tasks, called laws, which a task must pass before results measured on it can be trusted.

The laws check that information reaches the model only through its context, that losing information has the intended cost, and
that policies behave as expected in limiting cases, e.g. in a huge context window. Each finding (reported violation) names the
step, the fact or the check at fault. `harness task check` runs the laws on any task; the tests of this project run the laws on
every task of the suite.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from harness.task_checks import baseline, bounds, definitions, distribution, near_misses, recovery, reruns, verdicts
from harness.task_checks.findings import Finding, LawSkippedError
from harness.task_checks.simulation import SessionCache


class Law(NamedTuple):
    """Validity check of a task, e.g. that the agent knows a fact only from visible messages.

    Args:
        name: Name of the check as in the id of a test, e.g. `law-3`.
        stage: Number of the group of laws to which the law belongs. Laws of later groups are not tried on a task that fails a law
            of an earlier group.
        title: Sentence that states the property that a valid task has.
        find: Function that yields the violations. It takes the cached sessions of a task template, a seed and a policy name.
        by_preset: Whether the check depends on the compaction policy and so is tried under several policies. Default: `False`.

    Example:
        List the laws that depend on the compaction policy:

        >>> from harness.task_checks.laws import LAWS
        >>> [law.name for law in LAWS if law.by_preset]
        ['law-1', 'law-3', 'law-4', 'law-6-answers', 'law-6-bytes', 'law-7', 'law-13', 'law-14']
    """

    name: str
    stage: int
    title: str
    find: Callable[[SessionCache, int, str], Iterable[Finding]]
    by_preset: bool = False


LAWS: tuple[Law, ...] = (
    Law(
        "template",
        0,
        "the template makes equal tasks for equal seeds, also elsewhere and on another day",
        definitions.check_template,
    ),
    Law("names", 1, "names and placeholders are declared, and patterns have one group", definitions.check_names),
    Law("values", 2, "script and facts contain no value, and no prior can be a value", definitions.check_values),
    Law("patterns", 2, "patterns read each value where it is stated, and nothing else", definitions.check_patterns),
    Law("fits", 2, "the first request leaves room in the window", definitions.check_first_request),
    Law("files", 2, "the files of the workspace can be written", baseline.check_files),
    Law("succeeds", 3, "an agent with a complete context passes every check", baseline.check_success),
    Law("sight", 3, "no step uses a value that is not visible", baseline.check_sight),
    Law("readings", 3, "patterns read no other value from the whole session", baseline.check_readings),
    Law("evidence", 3, "the evidence of each step shows it done", baseline.check_evidence),
    Law("recovery", 3, "recovering calls show their facts when a step needs them", recovery.check_recovery),
    Law("hidden", 3, "no file states a fact that cannot be recovered", recovery.check_hidden),
    Law("idle", 3, "an agent that does nothing passes no check, even in an empty workspace", baseline.check_idle),
    Law("other-work", 3, "work that is right for other values fails", verdicts.check_other_work),
    Law("crashes", 3, "the judge gives verdicts on unfinished work", near_misses.check_crashes),
    Law("duplicates", 3, "no two checks decide the same thing", near_misses.check_duplicates),
    Law("near-misses", 3, "work with a value that is nearly right fails", near_misses.check_near_misses),
    Law("claims", 3, "no check passes because a file claims that the work is done", verdicts.check_claims),
    Law("regrading", 3, "the same files get the same verdicts each time", verdicts.check_regrading),
    Law("repeats", 3, "a repeated session is identical, files and verdicts included", reruns.check_repeat),
    Law("distribution", 4, "many seeds give different tasks and values without a rule", distribution.check_distribution),
    Law("relations", 4, "no fact can be derived from another one", distribution.check_relations),
    Law("other-day", 4, "a session on another day is identical, files and verdicts included", reruns.check_other_day),
    Law("law-1", 4, "no policy changes a session in a large window", bounds.check_law_1, by_preset=True),
    Law("law-2", 4, "without compaction a small window overflows at the expected request", bounds.check_law_2),
    Law("law-3", 4, "oracle summaries lose nothing", bounds.check_law_3, by_preset=True),
    Law(
        "law-3-presets",
        4,
        "oracle summaries lose nothing under any policy whose summarizer reads all that is removed",
        bounds.check_law_3_presets,
    ),
    Law("law-4", 4, "empty summaries lose facts that only the prompt states", bounds.check_law_4, by_preset=True),
    Law("law-5-told", 4, "the result follows the stated facts", bounds.check_outputs_follow_facts),
    Law("law-5-blank", 4, "facts that are stated nowhere become their priors", bounds.check_blanks_become_priors),
    Law("outputs", 4, "no tool output states a fact that only the request may state", recovery.check_outputs),
    Law("law-6-answers", 4, "the model's answer depends on the request alone", reruns.check_same_answer, by_preset=True),
    Law("law-6-bytes", 4, "a repeated compacted session is identical", reruns.check_compacted_repeat, by_preset=True),
    Law("law-7", 4, "every request fits the window and is legal for providers", bounds.check_law_7, by_preset=True),
    Law("law-13", 4, "no message of the user leaves the view before a request", bounds.check_law_13, by_preset=True),
    Law("law-14", 4, "no session uses up its steps with work that was done", bounds.check_law_14, by_preset=True),
    Law("law-9", 4, "a session with an action cache equals a session in a real sandbox", reruns.check_law_9),
    Law("law-10", 4, "a new process for each call answers as the session did", reruns.check_law_10),
)
"""All laws (validity checks of a task) in the order in which they are tried.

A law may rely on what the laws of earlier stages have checked.
"""


class LawResult(NamedTuple):
    """Result of trying one validity check (law) on a task template, the function that makes a task from a seed.

    Args:
        law: Validity check that was tried.
        findings: Violations that the check found. An empty tuple means that the task passes; None means that the check was not
            tried.
        skip_reason: Reason why the check was not tried; empty if it was. Default: `""`.

    Example:
        Print the laws that a task fails:

        >>> from harness.tasks import load_task
        >>> from harness.testing import SessionCache, check_laws
        >>> sessions = SessionCache(load_task("flashcards"), name="flashcards")
        >>> for result in check_laws(sessions, seeds=[1]):  # doctest: +SKIP
        ...     if result.findings:
        ...         print(f"{result.law.title}: {result.findings[0]}")
    """

    law: Law
    findings: tuple[Finding, ...] | None
    skip_reason: str


def check_laws(sessions: SessionCache, seeds: Sequence[int], presets: Iterable[str] = ("extractive",)) -> Iterator[LawResult]:
    """Try every validity check (law) on a task template, and yield the results in the order of `LAWS`.

    Equal violations, e.g. under several policies, are reported once.

    Args:
        sessions: Cache of the sessions of the task template.
        seeds: Seeds of the tasks on which each law is tried.
        presets: Names of the policies under which the policy-dependent laws are tried. Default: `("extractive",)`.

    Example:
        >>> from harness.tasks import load_task
        >>> from harness.testing import SessionCache, check_laws
        >>> sessions = SessionCache(load_task("flashcards"), name="flashcards")
        >>> for result in check_laws(sessions, seeds=[1]):  # doctest: +SKIP
        ...     print(result.law.name, result.findings)
    """
    broken: int | None = None
    chosen = tuple(presets)
    for law in LAWS:
        if broken is not None and law.stage > broken:
            yield LawResult(law, None, "a check above that it depends on failed")
            continue
        under = chosen if law.by_preset else ("extractive",)
        try:
            findings = tuple(
                dict.fromkeys(finding for seed in seeds for preset in under for finding in law.find(sessions, seed, preset))
            )
        except LawSkippedError as reason:
            yield LawResult(law, None, str(reason))
            continue
        if findings and broken is None:
            broken = law.stage
        yield LawResult(law, findings, "")
