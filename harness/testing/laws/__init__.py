"""The laws of a scripted simulation, as functions that say what is wrong with a task: which step, which fact, which check.

They are what makes a result mean something: nothing leaks past the context, forgetting costs what it costs, and the bounds
bound. `harness task check` runs them on any task, and the tests run them on every task of the suite.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from harness.testing.laws import baseline, bounds, leaks, model_requests, reruns, scripts, templates, workspace
from harness.testing.laws.findings import Finding as Finding
from harness.testing.laws.findings import Law as Law
from harness.testing.laws.session_cache import GEOMETRY_PRESETS as GEOMETRY_PRESETS
from harness.testing.laws.session_cache import POLICIES as POLICIES
from harness.testing.laws.session_cache import PRESETS as PRESETS
from harness.testing.laws.session_cache import SessionCache as SessionCache

LAWS: tuple[Law, ...] = (
    Law(
        name="template",
        stage=0,
        title="the template makes the same task for a seed again, in another process too",
        find=templates.check_template,
    ),
    Law(
        name="names",
        stage=1,
        title="names and placeholders are declared, patterns have one group",
        find=scripts.check_names,
    ),
    Law(name="values", stage=2, title="script and facts hold no value, and no prior is one", find=templates.check_values),
    Law(
        name="patterns", stage=2, title="patterns read each value where it is told, and nothing else", find=scripts.check_patterns
    ),
    Law(name="fits", stage=2, title="the first request leaves room in the window", find=scripts.check_first_request),
    Law(name="files", stage=2, title="the files of the workspace can be laid", find=workspace.check_files),
    Law(name="succeeds", stage=3, title="who forgets nothing passes every check", find=baseline.check_success),
    Law(name="sight", stage=3, title="no step takes a value that it cannot see", find=baseline.check_sight),
    Law(name="readings", stage=3, title="patterns read no other value in the whole session", find=baseline.check_readings),
    Law(name="evidence", stage=3, title="each step is shown done by what it leaves", find=baseline.check_evidence),
    Law(name="recovery", stage=3, title="what can be got again is shown by its recovering call", find=workspace.check_recovery),
    Law(
        name="idle",
        stage=3,
        title="who does nothing passes no check, even in an empty workspace",
        find=baseline.check_idle,
    ),
    Law(name="repeats", stage=3, title="the session repeats, files and verdicts too", find=reruns.check_repeat),
    Law(name="law-1", stage=4, title="in a large window no policy changes anything", find=bounds.check_law_1, by_preset=True),
    Law(name="law-2", stage=4, title="without compaction a small window overflows when it must", find=bounds.check_law_2),
    Law(name="law-3", stage=4, title="oracle summaries lose nothing", find=bounds.check_law_3, by_preset=True),
    Law(name="law-4", stage=4, title="empty summaries lose what only the prompt said", find=bounds.check_law_4, by_preset=True),
    Law(name="law-5-told", stage=4, title="what is made follows what is told", find=leaks.check_outputs_follow_facts),
    Law(name="law-5-blank", stage=4, title="what is told to nobody becomes the prior", find=leaks.check_blanks_become_priors),
    Law(
        name="law-6-answers",
        stage=4,
        title="the model is a function of what it sees",
        find=model_requests.check_same_answer,
        by_preset=True,
    ),
    Law(name="law-6-bytes", stage=4, title="a compacted session repeats", find=reruns.check_compacted_repeat, by_preset=True),
    Law(
        name="law-7", stage=4, title="every request fits the window and is legal", find=model_requests.check_law_7, by_preset=True
    ),
    Law(name="law-9", stage=4, title="a session from the action cache equals one in a real sandbox", find=reruns.check_law_9),
    Law(name="law-10", stage=4, title="a fresh process for every call answers as the session did", find=reruns.check_law_10),
)
"""In the order in which they make sense; those of a later stage rely on those of the earlier ones."""


class LawResult(NamedTuple):
    """What one law says of a task."""

    law: Law
    findings: tuple[Finding, ...] | None
    """Empty = it holds; None = not tried, since an earlier stage broke."""


def check_laws(sessions: SessionCache, seeds: Sequence[int], presets: Iterable[str] = ("extractive",)) -> Iterator[LawResult]:
    """Every law on a template, one after the other; each finding is told once.

    Args:
        sessions: of the template.
        seeds: under which laws are tried.
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
