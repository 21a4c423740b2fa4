"""Compaction boundaries of recorded sessions at which a model can be asked: where each setting would have compacted.

A policy runs on each stretch of a session as in the replay. A boundary is a model call right before which the policy compacted.
Its full view holds all messages of the stretch so far, its compacted view those that the policy leaves. Where the policy asks for
a summary, the view needs one that a model wrote, and each later summary builds on it, so the first such boundary of a stretch is
the last one that can be used.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from harness.compaction.description import reads_time
from harness.compaction.presets.none import NoCompaction
from harness.conversation.events import Compaction, MessageAdded, StepTimed
from harness.conversation.messages import Message
from harness.conversation.view import CompletePairs
from harness.errors import HarnessError
from harness.inspection.calibration import fit_calibration, is_recording, list_prompts
from harness.inspection.counterfactual import CounterfactualRun, CounterfactualSpec, SessionTrace
from harness.inspection.recorded_session import RecordedSession
from harness.models.registry import look_up_window
from harness.protocols import Model
from harness.replay.fold import QuietBound, StretchSizes
from harness.replay.probe_requests import SessionTools, list_tools
from harness.replay.session_files import read_sessions
from harness.replay.session_replay import LoggedSession
from harness.replay.sessions import Replay
from harness.replay.settings import UNKNOWN_WINDOW_TOKENS, ReplaySetting
from harness.replay.stretches import Stretch, split_stretches


class Place(NamedTuple):
    """Model call of a recorded session.

    Args:
        file: File of the session.
        session_id: Id of the session.
        step: Number of the step, as the recording counts it.
    """

    file: str
    session_id: str
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """Model call right before which a setting would have compacted."""

    place: Place
    group: str
    """Project of the session."""
    setting: ReplaySetting
    messages: tuple[Message, ...]
    """Full view: all messages of the stretch before the call."""
    view: tuple[Message, ...]
    """Compacted view, in which meaningless text stands for a summary."""
    evicted_tokens: int
    asks_summary: bool
    """Whether the compaction asks a model for a summary."""
    recorded: Message | None
    """Answer that was recorded; None if the recording has none."""
    tools: SessionTools
    stretch: "ProbedStretch"
    index: int
    """Index of the call in its stretch."""

    def compact(self, summarizer: Model) -> "CompactedView":
        """Return the compacted view with a summary that a model writes."""
        run = self.stretch.make_run(self.setting, summarizer)
        run.advance(lambda: run.steps > self.index)
        earlier = run.count_attempts(self.index - 1)
        events = [entry.event for entry in run.attempts[earlier:] if isinstance(entry.event, Compaction)]
        is_applied = any(event.status == "applied" for event in events)
        failure = next((event.failure for event in events if event.failure), "")
        return CompactedView(run.find_state(self.index).view.messages if is_applied else None, failure)


class CompactedView(NamedTuple):
    """Compacted view with the summary of a model.

    Args:
        messages: Messages of the view; None if the compaction failed.
        failure: Reason why the summary failed; the policy then used what it provides for that, if anything. Empty if it did not.
    """

    messages: tuple[Message, ...] | None
    failure: str


class ProbedStretch:
    """Stretch of a session on which policies run, with the sizes that the replay counts."""

    def __init__(self, session: LoggedSession, stretch: Stretch, model: str) -> None:
        calibration = fit_calibration(list_prompts(session.entries)) if is_recording(session.entries) else None
        sizes = StretchSizes(stretch, calibration)
        self.steps = [step.step for step in stretch.steps]
        self.trace, self._sizes, self._model = sizes.trace, sizes, model

    def make_run(self, setting: ReplaySetting, summarizer: Model | None = None) -> CounterfactualRun:
        """Return a run of a setting's policy on the stretch.

        Raises:
            UsageError: The policy does not work in the window.
        """
        policy, trace = setting.build_policy(), self.trace
        entries = self._sizes.stretch.entries
        if reads_time(policy):
            trace = SessionTrace(entries, self._sizes.stretch.times_ms)
            trace.calibration = self.trace.calibration
        else:
            entries = tuple([entry for entry in entries if not isinstance(entry.event, StepTimed)])
        spec = CounterfactualSpec(policy=policy, window_tokens=self._find_window(setting))
        return CounterfactualRun(RecordedSession(name="replay", entries=entries), trace, spec, summarizer)

    def find_bound(self, setting: ReplaySetting) -> QuietBound | None:
        """Return the sizes at which a setting's policy acts; None for a policy that reads the time, which is asked in each step.

        Raises:
            UsageError: The policy does not work in the window.
        """
        policy = setting.build_policy()
        return None if reads_time(policy) else self._sizes.find_bound(policy, self._find_window(setting))

    def _find_window(self, setting: ReplaySetting) -> int:
        return setting.window_tokens or look_up_window(self._model).tokens or UNKNOWN_WINDOW_TOKENS


@dataclass(slots=True, kw_only=True)
class BoundaryCounts:
    """Numbers of the boundaries of one setting."""

    found: int = 0
    """Boundaries at which the model could be asked if all views fitted."""
    too_long: int = 0
    """Boundaries whose full view does not fit the model's window."""
    incomplete: int = 0
    """Boundaries whose full view has a tool call without its result, or a result without its call, which providers refuse."""
    drawn: int = 0


@dataclass(slots=True, kw_only=True)
class Draw:
    """Boundaries drawn from all sessions, and how many there were."""

    boundaries: list[Boundary] = field(default_factory=list)
    """Drawn boundaries, in the order in which they are asked: the first of each setting, then the second ones."""
    counts: dict[str, BoundaryCounts] = field(default_factory=dict)
    """Numbers of boundaries by setting."""
    sessions: int = 0
    """Sessions that were read."""
    known_tools: int = 0
    """Sessions among them whose tools are known."""
    unknown_openings: int = 0
    """Stretches left out because the recording does not say with which messages they began."""


class _Ranked(NamedTuple):
    rank: int
    digest: str
    boundary: Boundary


def draw_boundaries(
    replay: Replay,
    settings: Sequence[ReplaySetting],
    count: int,
    seed: int,
    fits: Callable[[Boundary], bool],
    on_progress: Callable[[int, int], None] | None = None,
) -> Draw:
    """Return boundaries drawn at random from the sessions of a replay.

    The first boundaries come from as many sessions as possible. Equal arguments give equal draws, in whatever order the sessions
    are read. A setting that never compacts is a control: it gets the boundaries drawn for the others, with the full view.

    Args:
        replay: Replay whose files are read again.
        settings: Settings whose compactions are boundaries.
        count: Maximum number of boundaries for each setting.
        seed: Seed of the draw.
        fits: Function that returns whether a boundary's full view fits the window of the model that will be asked.
        on_progress: Function that is called with the number of files done and of all files.

    Raises:
        OSError: A file cannot be read any more.
    """
    draw = Draw(counts={setting.name: BoundaryCounts() for setting in settings})
    kept: dict[str, list[_Ranked]] = {setting.name: [] for setting in settings}
    rows = replay.sessions[~replay.sessions["has_copied_calls"]]
    files = list(dict.fromkeys(rows["file"]))
    for done, file in enumerate(files, 1):
        known = {str(row.session_id): row for row in rows[rows["file"] == file].itertuples()}
        for session in read_sessions(Path(file)):
            row = known.get(session.session_id)
            if row is None:
                continue
            found = _find_all(session, Path(file), str(row.model), str(row.group), settings, draw)
            for name, boundaries in found.items():
                ranked = _rank([one for one in boundaries if _is_askable(one, fits, draw.counts[name])], seed)
                kept[name] = sorted([*kept[name], *ranked], key=lambda one: one[:2])[:count]
        if on_progress is not None:
            on_progress(done, len(files))
    for control in [setting for setting in settings if _never_compacts(setting)]:
        kept[control.name] = _copy_for_control(control, kept, count, seed)
        draw.counts[control.name].found = len(kept[control.name])
    for name, chosen in kept.items():
        draw.counts[name].drawn = len(chosen)
    turns = [(place, name) for name, chosen in kept.items() for place in range(len(chosen))]
    order = {setting.name: number for number, setting in enumerate(settings)}
    draw.boundaries = [kept[name][place].boundary for place, name in sorted(turns, key=lambda turn: (turn[0], order[turn[1]]))]
    return draw


def _find_all(
    session: LoggedSession, file: Path, model: str, group: str, settings: Sequence[ReplaySetting], draw: Draw
) -> Mapping[str, list[Boundary]]:
    """Return the boundaries of all settings in a session, by the name of the setting."""
    stretches = split_stretches(session.entries, session.times_ms)
    messages = [entry.event.message for entry in session.entries if isinstance(entry.event, MessageAdded)]
    tools = list_tools(messages, is_own=session.agent == "harness")
    draw.sessions += 1
    draw.known_tools += tools.are_known
    found: dict[str, list[Boundary]] = {}
    for stretch in stretches:
        if not stretch.is_known:
            draw.unknown_openings += 1
            continue
        probed = ProbedStretch(session, stretch, model)
        for setting in settings:
            if not _never_compacts(setting):
                boundaries = _find(setting, probed, Place(str(file), session.session_id, 0), group, tools)
                found.setdefault(setting.name, []).extend(boundaries)
    return found


def _never_compacts(setting: ReplaySetting) -> bool:
    return isinstance(setting.build_policy(), NoCompaction)


def _find(setting: ReplaySetting, probed: ProbedStretch, place: Place, group: str, tools: SessionTools) -> Iterator[Boundary]:
    """Yield the boundaries of a setting in a stretch, up to the first that asks for a summary.

    A setting that does not work on the stretch has none; the replay counts these.
    """
    try:
        run, bound = probed.make_run(setting), probed.find_bound(setting)
        while True:
            if bound is not None:
                bound.skip_quiet_steps(run)
            if run.is_done:
                return
            index, attempts = run.steps, len(run.attempts)
            run.advance(lambda: True)
            events = [entry.event for entry in run.attempts[attempts:] if isinstance(entry.event, Compaction)]
            applied = [event for event in events if event.status == "applied"]
            asks_summary = any(event.summarizer_usage is not None for event in events)
            if applied and index:
                step = run.trace.steps[index]
                messages = run.trace.messages
                yield Boundary(
                    place=place._replace(step=probed.steps[index]),
                    group=group,
                    setting=setting,
                    messages=messages[: step.messages_at_request],
                    view=run.sent_view.messages,
                    evicted_tokens=max(0, sum(event.tokens_before - event.tokens_after for event in applied)),
                    asks_summary=asks_summary,
                    recorded=next(iter(messages[step.messages_at_request : step.messages_at_end]), None),
                    tools=tools,
                    stretch=probed,
                    index=index,
                )
            if asks_summary:
                return
    except HarnessError:
        return


def _is_askable(boundary: Boundary, fits: Callable[[Boundary], bool], counts: BoundaryCounts) -> bool:
    counts.found += 1
    if CompletePairs().find_violation(boundary.messages) is not None:
        counts.incomplete += 1
        return False
    if not fits(boundary):
        counts.too_long += 1
        return False
    return True


def _rank(boundaries: Sequence[Boundary], seed: int) -> list[_Ranked]:
    """Return the boundaries of one session in random order, each with its place in that order."""

    def compute_digest(boundary: Boundary) -> str:
        place = boundary.place
        return hashlib.sha256(f"{seed} {Path(place.file).name} {place.session_id} {place.step}".encode()).hexdigest()

    digests = sorted(((compute_digest(one), one) for one in boundaries), key=lambda pair: pair[0])
    return [_Ranked(rank, digest, one) for rank, (digest, one) in enumerate(digests)]


def _copy_for_control(control: ReplaySetting, kept: Mapping[str, Sequence[_Ranked]], count: int, seed: int) -> list[_Ranked]:
    """Return boundaries drawn for other settings, each place once, with the full view in place of the compacted one."""
    by_session: dict[tuple[str, str], dict[Place, Boundary]] = {}
    for ranked in (one for chosen in kept.values() for one in chosen):
        one = ranked.boundary
        copied = replace(one, setting=control, view=one.messages, evicted_tokens=0, asks_summary=False)
        by_session.setdefault(one.place[:2], {})[one.place] = copied
    again = [ranked for places in by_session.values() for ranked in _rank(list(places.values()), seed)]
    return sorted(again, key=lambda one: one[:2])[:count]
