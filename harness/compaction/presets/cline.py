"""Cline, new and classic: summaries, digests that no model writes, and dropping half of the messages."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from harness import transcript
from harness.compaction.cuts import Snap, find_fitting_start
from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Preset, Rule, Share, SummarizingPreset, join_plans
from harness.compaction.stages import (
    Reducer,
    Summarize,
    apply_plan,
    group_results,
    is_from_user,
    replace_results,
    with_output,
)
from harness.compaction.summary_formats import READ_TOOLS, WRITE_TOOLS, Brief, CapTexts
from harness.compaction.triggers import (
    UNKNOWN_BUDGET,
    Always,
    Amount,
    Full,
    ShareOfAvailable,
    make_budget,
)
from harness.compaction.wrappers import OnFailure
from harness.events import Insert, Patch, Replace
from harness.messages import Text, ToolCall, ToolResult, user
from harness.plan import Plan, SummaryProcedure
from harness.tokens import Budget, Counter, JsonCharacters, QuarterOfCharacters, Window, count_characters
from harness.view import Item, View, apply_patch


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeTarget:
    """How much a view may hold after a compaction, as shares of the trigger and of the longest input."""

    input_share: float
    """Longest input, as a share of the window."""
    trigger_share: float
    long_share: float
    """Of the longest input, in its place once there are `long_answers`."""
    long_answers: int

    def compute_tokens(self, view: View, budget: Budget) -> int:
        """The target in tokens."""
        answers = sum(item.message.role == "assistant" for item in view.items)
        if answers >= self.long_answers:
            return int(self.long_share * self.input_share * budget.window_tokens)
        return int(self.trigger_share * (budget.threshold_tokens or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeNewest:
    """What lies before the newest tokens, and before the last message of the user unless that is the first message of all.

    The newest tokens are no more than what the target leaves beside the system message. It ends at an answer or at a message
    of the user.
    """

    most_tokens: int
    target: SizeTarget

    def select_items(self, view: View, budget: Budget) -> tuple[Item, ...]:
        """See `harness.compaction.stages.Span`."""
        items = view.items
        keep = min(self.most_tokens, self.target.compute_tokens(view, budget) - items[0].tokens)
        held, cut = 0, len(items)
        while cut > 1 and held < keep:
            cut -= 1
            held += items[cut].tokens
        typed = next((index for index in range(len(items) - 1, 0, -1) if is_from_user(view, index)), 1)
        if typed > 1:
            cut = min(cut, typed)
        return items[1 : Snap(legal="user-or-assistant").find_legal_index(items, min(cut, len(items) - 1))]

    def state_kept(self, budget: Budget) -> Amount | None:
        """See `harness.compaction.stages.Span`."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowTable:
    """Act at what a table allows for a window; where it has no row, at the larger of a share and of the window less a reserve."""

    thresholds: tuple[tuple[int, int], ...]
    """Pairs of window and threshold, both in tokens."""
    share: float
    reserve_tokens: int

    def compute_budget(self, window: Window) -> Budget:
        """See `Division`."""
        if window.tokens == 0:
            return UNKNOWN_BUDGET
        other = max(window.tokens - self.reserve_tokens, int(self.share * window.tokens))
        threshold = dict(self.thresholds).get(window.tokens, other)
        return make_budget(window, threshold, f"{threshold} tokens are allowed in a window of {window.tokens}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unless:
    """Does something more unless the first has saved enough of the view's characters."""

    first: Reducer
    then: Reducer
    enough_share: float
    counter: Counter
    """Of the policy, for the view that the first leaves."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        plan = self.first.reduce(view, budget, reason)
        if plan.is_empty:
            return self.then.reduce(view, budget, reason)
        before = sum(count_characters(item.message) for item in view.items)
        left = apply_patch(view.items, Patch(forget=plan.forget, replace=plan.replace), 0, self.counter)
        saved = before - sum(count_characters(item.message) for item in left)
        if saved >= self.enough_share * before:
            return plan
        return join_plans(plan, self.then.reduce(apply_plan(view, plan, self.counter), budget, reason))


NOTICE_HEADING = "[Older messages were left out. What was done in them:]"


COMMAND_TOOLS = frozenset({"execute_command"})


LABELS = {**dict.fromkeys(READ_TOOLS, "read"), **dict.fromkeys(WRITE_TOOLS, "edited"), **dict.fromkeys(COMMAND_TOOLS, "ran")}


SAID_PREFIX = "said: "


COMMAND_CHARACTERS = 100


SAID_CHARACTERS = 500
"""Of one text in the notice; the source gives none, ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """Keeps every message of the user, the last plain answer to each but the last, and the newest messages that fit a target."""

    target: SizeTarget
    texts: int
    """Answers that the notice repeats, newest ones."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        request_indexes = [index for index in range(1, len(view.items)) if is_from_user(view, index)]
        survivors = {
            0,
            *request_indexes,
            *(index for index in range(1, len(view.items)) if view.items[index].item_id in view.summaries),
        }
        for start, end in pairwise(request_indexes):
            survivors |= set(_find_last_plain_answer(view.items, start, end))
        room = self.target.compute_tokens(view, budget) - sum(view.items[index].tokens for index in survivors)
        turn = (request_indexes or [0])[-1] + 1
        fitting = turn + find_fitting_start([item.tokens for item in view.items[turn:]], room)
        begin = Snap(direction="forward", legal="assistant").find_legal_index(view.items, fitting)
        gone = [item for index, item in enumerate(view.items) if index not in survivors and index < begin]
        if not gone:
            return Plan(reason=f"{reason}, but everything that may go fits the target")
        anchor = view.items[request_indexes[-1] if request_indexes else max(survivors)]
        change = () if anchor is view.items[0] else (self._add_notice(anchor, gone),)
        return Plan(reason=reason, forget=tuple(item.item_id for item in gone), replace=change)

    def _add_notice(self, anchor: Item, gone: Sequence[Item]) -> Replace:
        """The message with its notice, a former one brought up to date."""
        body, _, former = anchor.message.text.partition(f"\n\n{NOTICE_HEADING}\n")
        lines = [*former.splitlines(), *_format_notice_lines(gone)]
        answers = [line for line in lines if line.startswith(SAID_PREFIX)]
        action_lines = dict.fromkeys(line for line in lines if not line.startswith(SAID_PREFIX))
        text = "\n".join((f"{body}\n\n{NOTICE_HEADING}", *action_lines, *answers[-self.texts :]))
        others = tuple(part for part in anchor.message.parts if not isinstance(part, Text))
        return Replace(item=anchor.item_id, message=replace(anchor.message, parts=(Text(text=text), *others)))


def _find_last_plain_answer(items: Sequence[Item], start: int, end: int) -> tuple[int, ...]:
    """Index of the last answer without calls between two places, if there is one."""
    plain = [index for index in range(start, end) if items[index].message.role == "assistant" and not items[index].message.calls]
    return tuple(plain[-1:])


def _format_notice_lines(gone: Iterable[Item]) -> Iterable[str]:
    """What a notice says of messages: files and commands by their calls, texts by their first line."""
    for item in gone:
        for call in item.message.calls:
            if label := LABELS.get(call.name):
                yield f"{label}: {_describe_call(call)}"
        if item.message.role == "assistant" and (text := " ".join(item.message.text.split())):
            yield f"{SAID_PREFIX}{text[:SAID_CHARACTERS]}"


def _describe_call(call: ToolCall) -> str:
    """The path, with the lines if the call names them, or the beginning of the command."""
    key, given = transcript.find_key_argument(call), transcript.parse_arguments(call)
    if call.name in COMMAND_TOOLS:
        return key[:COMMAND_CHARACTERS]
    first, last = given.get("start_line"), given.get("end_line")
    return f"{key}:{first}-{last}" if isinstance(first, int) and isinstance(last, int) else key


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetHalf:
    """A share of the messages behind the first ones goes, an even number of them; a notice says so."""

    share: float
    keep_first: int
    """Messages behind the system message that stay."""
    excluded_messages: int
    """Messages that the share is not taken of."""
    notice: str
    """`{count}` in it becomes the number of messages that went."""
    place: Literal["behind", "in-answer"]
    """Whether the notice is a message of the user behind the first ones, or stands in the first answer, once."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        notices = {item.item_id for item in view.items if self._is_notice(item)}
        units = group_results([item for item in view.items[1:] if item.item_id not in notices])
        count = int(self.share * max(0, len(units) - self.excluded_messages)) // 2 * 2
        first = self.keep_first
        while first < len(units) and units[first][0].message.role == "tool":
            first += 1
        gone = [item for unit in units[first : first + count] for item in unit]
        rest = [item for unit in units[first + count :] for item in unit]
        while rest and rest[0].message.role == "tool":
            gone.append(rest.pop(0))
        if not gone:
            return Plan(reason=f"{reason}, but {len(units)} messages are too few to be halved")
        ids = {item.item_id for item in gone} | (notices if self.place == "behind" else set())
        forget = tuple(item.item_id for item in view.items if item.item_id in ids)
        return self._add_notice(Plan(reason=reason, forget=forget), view, units, len(gone))

    def _add_notice(self, plan: Plan, view: View, units: Sequence[Sequence[Item]], count: int) -> Plan:
        text = self.notice.replace("{count}", str(count))
        if self.place == "behind":
            last = max((item for unit in units[: self.keep_first] for item in unit), default=view.items[0])
            return replace(plan, insert=(Insert(message=user(text), after=last.item_id),))
        first = next((item for item in view.items if item.message.role == "assistant"), None)
        if first is None or first.item_id in plan.forget or self.notice in first.message.text:
            return plan
        message = replace(first.message, parts=(Text(text=text), *first.message.parts))
        return replace(plan, replace=(Replace(item=first.item_id, message=message),))

    def _is_notice(self, item: Item) -> bool:
        if self.place != "behind" or item.message.role != "user":
            return False
        before, _, behind = self.notice.partition("{count}")
        return item.message.text.startswith(before) and item.message.text.endswith(behind)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteRereads:
    """Of a file that was read several times only the newest reading stays; a note stands for the others."""

    note: str

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        paths = {
            call.call_id: transcript.find_key_argument(call)
            for item in view.items
            for call in item.message.calls
            if call.name in READ_TOOLS
        }
        read_paths: set[str] = set()
        changes: list[Replace] = []
        for item in reversed(view.items):
            read = {paths[result.call_id] for result in item.message.results if result.call_id in paths}
            if read and read <= read_paths and any(result.output != self.note for result in item.message.results):
                changes.append(replace_results(item, lambda result: self._replace_by_note(result, paths)))
            read_paths |= read
        nothing = f"{reason}, but no file was read twice"
        return Plan(reason=f"{reason}; {len(changes)} files read again" if changes else nothing, replace=tuple(changes[::-1]))

    def _replace_by_note(self, result: ToolResult, paths: dict[str, str]) -> ToolResult:
        return with_output(result, self.note) if result.call_id in paths else result


JSON_COUNTER = JsonCharacters(characters_of_token=3)


NOTICE_TEXTS = 3


INSTRUCTION = """\
Create a summary of the session above, from which the work can be continued. Use these sections:

## Goal
## State
### Done
### In progress
### Blocked
## Highlights
## Next
## Files
### Read
### Edited"""


MERGE = "Fold the new messages into the previous summary."


SUMMARY_HEADING = "Context summary of the earlier conversation:"


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClineSdk(Preset):
    """What both modes of Cline share: trigger and target."""

    threshold: Share = 0.9
    """Share of the longest input at which the view is compacted, above 0 and at most 1."""
    input_share: Share = 0.9
    """Longest input as a share of the window, where nothing else is known of the model."""
    target_share: Share = 0.7
    """What a view may hold afterwards, as a share of the threshold in tokens."""
    long_target_share: Share = 0.5
    """The same once there are `long_answers`, as a share of the longest input."""
    long_answers: Positive = 5

    def _build_target(self) -> SizeTarget:
        return SizeTarget(
            input_share=self.input_share,
            trigger_share=self.target_share,
            long_share=self.long_target_share,
            long_answers=self.long_answers,
        )

    def _build_division(self) -> ShareOfAvailable:
        return ShareOfAvailable(share=self.threshold * self.input_share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cline(_ClineSdk, SummarizingPreset):
    """At 81 % of the window, what lies before the newest 20K tokens becomes a summary that is updated from round to round.

    Source: cline 21cb8d25, `sdk/packages/core/src/extensions/context`, mode `agentic`; PEERS 2.8. The cut never lies behind the
    user's last message, unless that is the first of all. When the summary fails, and after an overflow, the messages go without
    one, and the digest of `cline-basic` tells of them. An empty summary changes nothing. Tool schemas do not count, since a
    policy does not see them. The lists of files are not left to the summarizer.

    Attributes:
        keep_recent_tokens: Newest ones that stay at least, but no more than the target leaves. Default: `20_000`.
        result_characters: Of each tool result that the summarizer is shown. Default: `2_000`.
        summarizer: Name of the model that writes summaries; `same` = the agent's own. Default: `'same'`.
        summary_max_tokens: Default: `4_096`.
    """

    keep_recent_tokens: Positive = 20_000
    result_characters: Positive = 2_000
    kind: Literal["cline"] = "cline"

    @property
    def pipeline(self) -> Pipeline:
        """One rule before a step, and one after an overflow."""
        target = self._build_target()
        summarize = Summarize(
            middle=BeforeNewest(most_tokens=self.keep_recent_tokens, target=target),
            format=Brief(instruction=INSTRUCTION, merge=MERGE, heading=SUMMARY_HEADING, files=True),
            max_tokens=self.summary_max_tokens,
            excerpt=CapTexts(result_characters=self.result_characters),
            procedure=SummaryProcedure(skips_empty=True),
        )
        digest = Digest(target=target, texts=NOTICE_TEXTS)
        rules = (Rule(Full(), OnFailure(first=summarize, then=digest)), Rule(Always(), digest, moment="overflow"))
        return Pipeline(self._build_division(), rules, counter=JSON_COUNTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClineBasic(_ClineSdk):
    """At 81 % of the window, a notice with files, commands and last words stands for old messages; nobody is asked.

    Source: cline 21cb8d25, mode `basic`; PEERS 2.8. All messages of the user stay, of older turns the last plain answer too, of
    the last turn the newest messages that fit the target. The notice stands below the user's last message and is updated.
    """

    kind: Literal["cline-basic"] = "cline-basic"

    @property
    def pipeline(self) -> Pipeline:
        """The same rule before a step and after an overflow."""
        digest = Digest(target=self._build_target(), texts=NOTICE_TEXTS)
        rules = (Rule(Full(), digest), Rule(Always(), digest, moment="overflow"))
        return Pipeline(self._build_division(), rules, counter=JSON_COUNTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClineClassic(Preset):
    """When the last call reached what its table allows for the window, half of the messages go, without a summary.

    Source: cline 01cfde0d and 031561ea, `src/core/context/context-management`; PEERS 2.8. First a note takes the place of every
    reading of a file but its newest; if that saves 30 % of the characters, nothing else is done. The first exchange stays, with
    a notice in its answer. The original counts from behind that answer, whose results would go; here they stay with it, and one
    message more at the end goes in their place. That three quarters go where half would still be too much can only be after a
    change of the model, which a session here has not.

    Attributes:
        enough_share: Of the view's characters: if the notes save so much, no message goes. Default: `0.3`.
        half_share: Of the messages behind the first exchange that go. Default: `0.5`.
        spare_tokens: Kept free of a window that is not in the table, unless a fifth of it is less. Default: `40_000`.
        spare_share: Default: `0.8`.
        clip_characters: A longer tool output is cut before it is logged (S0.9). Default: `10_000`.
    """

    enough_share: Share = 0.3
    half_share: Share = 0.5
    spare_tokens: NonNegative = 40_000
    spare_share: Share = 0.8
    kind: Literal["cline-classic"] = "cline-classic"

    @property
    def pipeline(self) -> Pipeline:
        """One rule: notes, and if they save too little, half."""
        half = ForgetHalf(
            share=self.half_share,
            keep_first=3,
            excluded_messages=2,
            notice="[Some of the conversation after this was removed to fit the context window; the first exchange stays.]",
            place="in-answer",
        )
        notes = NoteRereads(note="[This reading was removed to save room; the newest reading of the file stands further below.]")
        table = ((64_000, 37_000), (128_000, 98_000), (200_000, 160_000))
        division = WindowTable(thresholds=table, share=self.spare_share, reserve_tokens=self.spare_tokens)
        reducer = Unless(first=notes, then=half, enough_share=self.enough_share, counter=QuarterOfCharacters())
        return Pipeline(division, (Rule(Full(measure="reported"), reducer),))
