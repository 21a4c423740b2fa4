"""Numbers of tokens that a plan gives as quantiles of context lengths, such as `q0.9`.

`"q0.9"` in a plan stands for the number of tokens that nine of ten requests in a run without compaction did not exceed. The
number is computed from the journal of that run when the trials are created; a trial contains the plain number.

The requests of all sessions without compaction that have the task, the world and the model of the trial are pooled, whatever
their seeds and other settings. A long session therefore counts for more than a short one. The length of a request is measured as
the trigger of the trial's own policy measures it: by the provider's reports, or by the estimate of the policy's token counter.

Source: Beyond Token Savings, arXiv 2609.32961, which sets thresholds as quantiles of uncompressed context lengths.
"""

import json
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import NamedTuple

from harness.compaction.description import acts_on_reports
from harness.conversation import codec
from harness.conversation.events import Entry, MessageAdded, StepFinished
from harness.conversation.tokens import Counter, QuarterOfCharacters
from harness.conversation.view import drop_rolled_back
from harness.errors import UsageError, format_count
from harness.experiment.paths import flatten, with_values
from harness.experiment.stored_revisions import describe_raised, find_current_revisions, read_stored_revisions
from harness.experiment.trial import SharedFields, Trial, format_problem, from_plain
from harness.store.journal import Journal
from harness.store.records import EXTERNAL_FAILURE_REASONS, TrialRecord
from harness.store.sessions.lookup import JOURNALS_FOLDER, list_journals
from harness.task import World

QUANTILE_FIELD_SUFFIX = "_tokens"
"""Suffix in the names of the policy fields for which a plan may give a quantile, such as `q0.9`, instead of a number."""
CUT_SHORT_REASONS = frozenset({"overflow", "max_steps"})
"""Stop reasons of sessions that were cut short, so that their later requests are missing."""
DEFAULT_COUNTER = QuarterOfCharacters()
_QUANTILE_PATTERN = re.compile(r"q(0\.[0-9]+)")


class Quantile(NamedTuple):
    """Number of tokens that a quantile in a plan, such as `q0.9`, stands for, and the data behind this number."""

    text: str
    """Quantile as written in the plan, e.g. `q0.9`."""
    tokens: int
    requests: int
    """Number of requests from whose lengths the quantile was computed."""
    sessions: int
    """Number of sessions whose requests were used to compute the quantile."""
    cut_short: int
    """Number of the sessions used for the quantile that ended early, by overflow or at the step limit.

    The later requests of these sessions, usually the longest, are missing from the data.
    """

    def __str__(self) -> str:
        cut = f", {self.cut_short} of them cut short by overflow or max_steps" if self.cut_short else ""
        requests, sessions = format_count(self.requests, "request"), format_count(self.sessions, "uncompacted session")
        return f"{self.tokens:,} tokens, from {requests} of {sessions}{cut}"


class RequestPool(NamedTuple):
    """Lengths in tokens of the requests in several sessions, from which a quantile such as `q0.9` is computed."""

    tokens: tuple[int, ...]
    """Length of each request in tokens, in ascending order; at least one length."""
    sessions: int
    cut_short: int

    def find_quantile(self, text: str, location: str) -> Quantile:
        """Return the number of tokens that a given share of the requests does not exceed.

        Args:
            text: Quantile as written in the plan; `q0.9` means a share of 90 %.
            location: Dotted path of the quantile in the plan, for error messages.

        Raises:
            UsageError: The text is not a quantile above 0 and below 1.
        """
        match = _QUANTILE_PATTERN.fullmatch(text)
        share = Fraction(match[1]) if match else Fraction(0)
        if share <= 0:
            raise UsageError(f"{location}: a quantile must be above 0 and below 1, e.g. q0.5 or q0.95 (got {text!r})")
        tokens = self.tokens[ceil(share * len(self.tokens)) - 1]
        return Quantile(text, tokens, len(self.tokens), self.sessions, self.cut_short)


class ResolvedTrial(NamedTuple):
    """Trial whose quantiles, such as `q0.9`, were replaced by numbers of tokens, together with these quantiles."""

    trial: Trial
    quantiles: Mapping[str, Quantile]
    """Quantiles that the trial's plan gives instead of numbers, by dotted path."""


class UncompactedRun:
    """Finished run without compaction, from whose sessions quantiles of context lengths are computed."""

    def __init__(self, folder: Path) -> None:
        """Read which trials a finished run contains.

        The lengths of their requests are read later, when a quantile is looked up.

        Args:
            folder: Folder of an experiment, or its output folder.

        Raises:
            UsageError: The folder contains no results, its run has not finished, no trial ran without compaction, or these trials
                ran with other revisions of their parts than this version uses.
            StoreError: The journal of the run cannot be read.
        """
        self._folder, self._journal = folder, _find_journal(folder)
        with Journal.open(self._journal, read_only=True) as journal:
            usable = [trial for trial in journal.list_trials() if _is_usable(trial)]
        if not usable:
            raise UsageError(f"{_format_setting(folder)}: it contains no trial with policy 'none'; add one, e.g. as an arm")
        raised = {trial.trial_id: _list_raised(trial) for trial in usable}
        trials = [trial for trial in usable if not raised[trial.trial_id]]
        if not trials:
            parts = "; ".join(dict.fromkeys(part for parts in raised.values() for part in parts))
            raise UsageError(
                f"{_format_setting(folder)}: its trials with policy 'none' ran with other revisions than this version uses "
                f"({parts}); run it again with `harness run {folder}`"
            )
        self._trials_by_problem: dict[str, list[TrialRecord]] = {}
        for trial in trials:
            self._trials_by_problem.setdefault(_describe_problem(json.loads(trial.config_json)), []).append(trial)
        self._pools: dict[tuple[str, Counter, bool], RequestPool] = {}

    def load_pool(self, plain: Mapping[str, object], counter: Counter, *, reported: bool = False) -> RequestPool:
        """Return the lengths in tokens of the requests from which the quantiles of a trial are computed.

        The requests are those of all sessions without compaction that have the same task, task settings and model as the trial.

        Args:
            plain: Configuration of the trial as nested tables, with every default written out.
            counter: Token counter of the trial's compaction policy.
            reported: Whether the provider's reports count instead of the counter's estimates, where there are reports.
                Default: `False`.

        Raises:
            UsageError: There is no such session.
        """
        key = (_describe_problem(plain), counter, reported)
        if key not in self._pools:
            self._pools[key] = self._read_pool(*key)
        return self._pools[key]

    def _read_pool(self, problem: str, counter: Counter, reported: bool) -> RequestPool:
        trials = self._trials_by_problem.get(problem, [])
        with Journal.open(self._journal, read_only=True) as journal:
            contexts = [
                tuple(measure_contexts(journal.read_entries(trial.session_id), counter, reported=reported)) for trial in trials
            ]
        if not any(contexts):
            known = ", ".join(sorted(self._trials_by_problem))
            setting = _format_setting(self._folder)
            raise UsageError(
                f"{setting}: the folder contains no session without compaction of {problem}, only of {known:.400}; "
                "run a trial of it with policy 'none' there"
            )
        cut_short = sum(trial.reason in CUT_SHORT_REASONS for trial in trials)
        return RequestPool(tuple(sorted(tokens for context in contexts for tokens in context)), len(trials), cut_short)


def measure_contexts(entries: Iterator[Entry], counter: Counter, *, reported: bool = False) -> Iterator[int]:
    """Yield the length in tokens of each answered request in a session without compaction.

    With `reported`, the length is the provider's where there is a report; otherwise it is an estimate.
    """
    tokens = request_tokens = 0
    for entry in drop_rolled_back(entries):
        if isinstance(entry.event, MessageAdded):
            if entry.event.message.role == "assistant":
                request_tokens = tokens
                if not reported:
                    yield tokens
            tokens += counter.count(entry.event.message)
        elif reported and isinstance(entry.event, StepFinished):
            usage = entry.event.usage
            yield usage.prompt_tokens if usage.is_reported else request_tokens


def resolve_quantiles(
    plain: Mapping[str, object], uncompacted: UncompactedRun | None, location: str, shared: SharedFields | None = None
) -> ResolvedTrial:
    """Make a trial from nested tables of a plan, with numbers in place of quantiles such as `q0.9`.

    Args:
        plain: Configuration of the trial as nested tables, with every default written out.
        uncompacted: Finished run without compaction in which quantiles are looked up; None if there must be no quantiles.
        location: Dotted path of the trial's tables in the plan, for error messages.
        shared: Field values of other trials that the trial may share; None for a trial of its own.

    Raises:
        UnknownName: A name in the tables is unknown.
        UsageError: A value is invalid, or a quantile cannot be looked up.
    """
    texts = find_quantile_texts(plain)
    if not texts:
        return ResolvedTrial(from_plain(plain, location, shared), {})
    path, text = next(iter(texts.items()))
    if uncompacted is None:
        raise UsageError(
            f"{location}.{path}: {text!r} is a quantile of an uncompacted run; set `uncompacted` under [experiment] to "
            "the folder of that run"
        )
    if plain.get("nominal_window_tokens") is not None:
        raise UsageError(
            f"{location}.{path}: {text!r} is a quantile, which nominal_window_tokens cannot scale to the window; write a number, "
            "or remove nominal_window_tokens"
        )
    # The measure is known only once the policy is made, so the numbers are first looked up with the default counter.
    resolved = _fill_quantiles(plain, texts, uncompacted.load_pool(plain, DEFAULT_COUNTER), location)
    counter, reported = resolved.trial.policy.counter, acts_on_reports(resolved.trial.policy)
    if counter == DEFAULT_COUNTER and not reported:
        return resolved
    return _fill_quantiles(plain, texts, uncompacted.load_pool(plain, counter, reported=reported), location)


def _fill_quantiles(plain: Mapping[str, object], texts: Mapping[str, str], pool: RequestPool, location: str) -> ResolvedTrial:
    quantiles = {path: pool.find_quantile(text, f"{location}.{path}") for path, text in texts.items()}
    tokens = {path: quantile.tokens for path, quantile in quantiles.items()}
    return ResolvedTrial(from_plain(with_values(plain, tokens, location), location), quantiles)


def find_quantile_texts(plain: Mapping[str, object]) -> dict[str, str]:
    """Return the quantiles in a trial's policy, such as `q0.9`, by dotted path of the policy's field."""
    policy = plain.get("policy")
    fields = flatten(policy, "policy.") if isinstance(policy, Mapping) else {}
    return {
        path: value
        for path, value in fields.items()
        if isinstance(value, str) and path.endswith(QUANTILE_FIELD_SUFFIX) and value.startswith("q")
    }


def _describe_problem(plain: Mapping[str, object]) -> str:
    """Return a text that names a trial's task, its settings and the agent's model.

    Sessions with equal texts are pooled.
    """
    world = codec.from_plain(World, plain.get("world", {}), "world")
    return f"{format_problem(str(plain['task']), world)} with {plain['model']}"


def _is_usable(trial: TrialRecord) -> bool:
    is_excluded = trial.status == "crashed" or trial.reason in EXTERNAL_FAILURE_REASONS
    return trial.policy == "none" and bool(trial.session_id) and not is_excluded


def _list_raised(trial: TrialRecord) -> list[str]:
    """Return each part of a stored trial whose revision is another one today, as text with both revisions."""
    stored = read_stored_revisions(trial.trial_id, trial.config_json, trial.provenance_json)
    return describe_raised(stored, find_current_revisions(trial.config_json))


def _find_journal(folder: Path) -> Path:
    if not folder.is_dir():
        raise UsageError(f"{_format_setting(folder)}: the folder does not exist")
    journals = list_journals(folder)
    if not journals:
        raise UsageError(f"{_format_setting(folder)}: the folder contains no results; run `harness run {folder}` first")
    if any(path.parent.name == JOURNALS_FOLDER for path in journals):
        raise UsageError(
            f"{_format_setting(folder)}: its run has not finished, so its numbers may still change; finish the run first"
        )
    return journals[0]


def _format_setting(folder: Path) -> str:
    return f"uncompacted = {str(folder)!r}"
