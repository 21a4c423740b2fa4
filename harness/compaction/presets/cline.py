"""Policies of the agent Cline, which summarize messages, replace them by a list of old work, or evict half of them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Literal

from harness.compaction.cuts import Snap, find_fitting_start
from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Preset, Rule, Share, SummarizingPreset, join_plans
from harness.compaction.stages import (
    Reducer,
    Summarize,
    apply_plan,
    find_user_messages,
    group_results,
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
from harness.conversation import transcript
from harness.conversation.events import Insert, Patch, Replace
from harness.conversation.messages import Text, ToolCall, user
from harness.conversation.plan import CompactionPlan, SummaryProcedure
from harness.conversation.tokens import Budget, Counter, JsonCharacters, QuarterOfCharacters, Window, count_characters
from harness.conversation.view import Item, View, apply_patch


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeTarget:
    """Rule for the maximum number of tokens that the conversation may have after a compaction.

    While the conversation has few answers of the model, the maximum is a share of the threshold that triggers compaction. With
    many answers, it is a share of the longest input of the model.
    """

    input_share: float
    """Length of the longest input of the model, as a share of the window."""
    trigger_share: float
    """Maximum size of the conversation after a compaction, as a share of the trigger threshold, while few answers are in view."""
    long_share: float
    """Maximum size of the conversation after a compaction, as a share of the longest input, once many answers are in view."""
    long_answers: int
    """Number of the model's answers; with so many or more in view, `long_share` applies instead of `trigger_share`."""

    def compute_tokens(self, view: View, budget: Budget) -> int:
        """Return how many tokens the view may have after a compaction."""
        answers = sum(item.message.role == "assistant" for item in view.items)
        if answers >= self.long_answers:
            return int(self.long_share * self.input_share * budget.window_tokens)
        return int(self.trigger_share * (budget.threshold_tokens or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeNewest:
    """Rule that selects the messages to replace; the newest tokens and everything from the user's last message on stay.

    The user's only message does not protect what follows it. Fewer tokens are kept if `target` requires it. The first message
    that is kept is an answer or a message of the user. A former summary is replaced only together with newer messages.
    """

    most_tokens: int
    """Number of newest tokens to retain at the end of the conversation; fewer if `target` allows fewer."""
    target: SizeTarget
    """Maximum size of the conversation after a compaction."""

    def select_items(self, view: View, budget: Budget) -> Sequence[Item]:
        """Return the messages to replace, up to a user message or answer; none if there is only a former summary."""
        items = view.items
        keep = min(self.most_tokens, self.target.compute_tokens(view, budget) - items[0].tokens)
        kept_tokens, cut = 0, len(items)
        while cut > 1 and kept_tokens < keep:
            cut -= 1
            kept_tokens += items[cut].tokens
        typed = max(find_user_messages(view), default=1)
        if typed > 1:
            cut = min(cut, typed)
        old_items = items[1 : Snap(legal="user-or-assistant").find_legal_index(items, min(cut, len(items) - 1))]
        return old_items if any(item.item_id not in view.summaries for item in old_items) else ()

    def compute_kept_amount(self, budget: Budget) -> Amount | None:
        """Return None, since the number of retained messages depends on the conversation."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowTable:
    """Rule that looks up the number of tokens that triggers compaction in a table, by the size of the context window.

    For other window sizes, the threshold is a share of the window, or the window less a reserve, whichever is larger.
    """

    thresholds: tuple[tuple[int, int], ...]
    """Pairs of a context window's size and the number of tokens that triggers compaction in it."""
    share: float
    """Share of the window below which compaction is never triggered if the window's size is not in the table."""
    reserve_tokens: int
    """Number of tokens kept free in a window whose size is not in the table, unless `share` triggers compaction later."""

    def compute_budget(self, window: Window) -> Budget:
        """Return the budget with the threshold from the table, or a computed threshold for other window sizes."""
        if window.tokens == 0:
            return UNKNOWN_BUDGET
        other = max(window.tokens - self.reserve_tokens, int(self.share * window.tokens))
        threshold = dict(self.thresholds).get(window.tokens, other)
        return make_budget(window, threshold, f"{threshold:,} tokens are allowed in a window of {window.tokens:,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unless:
    """Part of a policy that shortens the conversation in one way, and in a second way as well if that saves too little."""

    first: Reducer
    """First way to shorten the conversation (a reducer), whose plan is always carried out."""
    then: Reducer
    """Second way to shorten the conversation (a reducer), used in addition if the first one saves too few characters."""
    enough_share: float
    """Share of all characters; if the first way to shorten the conversation saves less, the second one is used too."""
    counter: Counter
    """Token counter with which the conversation is measured after the first reducer's plan."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return the plan of the first way, joined with that of the second way if the first saves too few characters."""
        plan = self.first.reduce(view, budget, reason)
        if plan.is_empty:
            return self.then.reduce(view, budget, reason)
        before = sum(count_characters(item.message) for item in view.items)
        remaining_items = apply_patch(view.items, Patch(forget=plan.forget, replace=plan.replace), 0, self.counter)
        saved_characters = before - sum(count_characters(item.message) for item in remaining_items)
        if saved_characters >= self.enough_share * before:
            return plan
        return join_plans(plan, self.then.reduce(apply_plan(view, plan, self.counter), budget, reason))


NOTICE_HEADING = "[Older messages were left out. What was done in them:]"
"""First line of the notice that replaces evicted messages."""


COMMAND_TOOLS = frozenset({"execute_command"})


LABELS = {**dict.fromkeys(READ_TOOLS, "read"), **dict.fromkeys(WRITE_TOOLS, "edited"), **dict.fromkeys(COMMAND_TOOLS, "ran")}


SAID_PREFIX = "said: "


COMMAND_CHARACTERS = 100
"""Maximum length in characters of a command that the notice about evicted messages lists."""


SAID_CHARACTERS = 500
"""Maximum length in characters of an answer that the notice about evicted messages repeats.

This limit is the choice of this project, since the source sets none.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """Part of a policy that replaces old messages by a list of their files, commands and last answers, without a model.

    The list is called the notice. Three kinds of messages are retained:

    - every message of the user;
    - of each older turn, the last answer without tool calls;
    - of the last turn, the newest messages that fit the target size.
    """

    target: SizeTarget
    """Maximum size of the conversation after a compaction."""
    texts: int
    """Number of newest answers that the notice about evicted messages repeats."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that evicts old messages and lists their files, commands and answers below the last user message."""
        items = tuple(view.items)  # single items of a tuple are read in a quarter of the time
        request_indexes = find_user_messages(view)
        survivors = {
            0,
            *request_indexes,
            *(index for index, item in enumerate(items) if index and item.item_id in view.summaries),
        }
        for start, end in pairwise(request_indexes):
            answers = (index for index in range(end - 1, start - 1, -1) if items[index].message.role == "assistant")
            survivors |= set(islice((index for index in answers if not items[index].message.calls), 1))
        room = self.target.compute_tokens(view, budget) - sum([items[index].tokens for index in survivors])
        turn = (request_indexes or [0])[-1] + 1
        fitting = turn + find_fitting_start([item.tokens for item in items[turn:]], room)
        begin = Snap(direction="forward", legal="assistant").find_legal_index(view.items, fitting)
        removed_items = [item for index, item in enumerate(items[:begin]) if index not in survivors]
        if not removed_items:
            return CompactionPlan(reason=f"{reason}, but everything that may be evicted fits the target")
        anchor = items[request_indexes[-1] if request_indexes else max(survivors)]
        change = () if anchor is items[0] else (self._add_notice(anchor, removed_items),)
        return CompactionPlan(reason=reason, forget=tuple(item.item_id for item in removed_items), replace=change)

    def _add_notice(self, anchor: Item, removed_items: Sequence[Item]) -> Replace:
        """Return the user message with the notice about evicted messages, which replaces a former notice."""
        body, _, former = anchor.message.text.partition(f"\n\n{NOTICE_HEADING}\n")
        lines = [*former.splitlines(), *_format_notice_lines(removed_items)]
        answers = [line for line in lines if line.startswith(SAID_PREFIX)]
        action_lines = dict.fromkeys(line for line in lines if not line.startswith(SAID_PREFIX))
        text = "\n".join((f"{body}\n\n{NOTICE_HEADING}", *action_lines, *answers[-self.texts :]))
        others = tuple(part for part in anchor.message.parts if not isinstance(part, Text))
        return Replace(item=anchor.item_id, message=replace(anchor.message, parts=(Text(text=text), *others)))


def _format_notice_lines(items: Iterable[Item]) -> Iterable[str]:
    for item in items:
        for call in item.message.calls:
            if label := LABELS.get(call.name):
                yield f"{label}: {_describe_call(call)}"
        if item.message.role == "assistant" and (text := " ".join(item.message.text.split())):
            yield f"{SAID_PREFIX}{text[:SAID_CHARACTERS]}"


def _describe_call(call: ToolCall) -> str:
    """Return the file path of a tool call with its range of lines, or the beginning of its command."""
    key, arguments = transcript.find_key_argument(call), transcript.parse_arguments(call)
    if call.name in COMMAND_TOOLS:
        return key[:COMMAND_CHARACTERS]
    first, last = arguments.get("start_line"), arguments.get("end_line")
    return f"{key}:{first}-{last}" if isinstance(first, int) and isinstance(last, int) else key


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetHalf:
    """Part of a policy that evicts a share of the messages after the first ones, and inserts a notice that says so."""

    share: float
    """Share of the messages to evict, counted after the first messages, which are always retained."""
    keep_first: int
    """Number of messages behind the system message that are always retained."""
    excluded_messages: int
    """Number of messages subtracted from all messages before the share to evict is computed."""
    notice: str
    """Text of the notice about the eviction; `{count}` is replaced by the number of evicted messages."""
    place: Literal["behind", "in-answer"]
    """Place of the notice: a message behind the first ones (`behind`), or the beginning of the first answer (`in-answer`).

    The message is one of the user, and each eviction adds one. In the answer, the notice is inserted only once.
    """

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that keeps the first messages, evicts a share of the messages after them, and inserts a notice."""
        notices = [item for item in view.items if self._is_notice(item)]
        units = group_results([item for item in view.items[1:] if item not in notices])
        # whole pairs of a user's and an assistant's message, as in the original
        count = int(self.share * max(0, len(units) - self.excluded_messages)) // 2 * 2
        first = self.keep_first
        while first < len(units) and units[first][0].message.role == "tool":
            first += 1
        removed_items = [item for unit in units[first : first + count] for item in unit]
        rest = [item for unit in units[first + count :] for item in unit]
        while rest and rest[0].message.role == "tool":
            removed_items.append(rest.pop(0))
        if not removed_items:
            return CompactionPlan(reason=f"{reason}, but {len(units)} messages are too few to be halved")
        plan = CompactionPlan(reason=reason, forget=tuple(item.item_id for item in removed_items))
        kept_items = [view.items[0], *(item for unit in units[:first] for item in unit), *notices]
        return self._add_notice(plan, view, kept_items[-1], len(removed_items))

    def _add_notice(self, plan: CompactionPlan, view: View, last_kept: Item, count: int) -> CompactionPlan:
        text = self.notice.replace("{count}", str(count))
        if self.place == "behind":
            return replace(plan, insert=(Insert(message=user(text), after=last_kept.item_id),))
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
    """Part of a policy that replaces all but the newest reading of each file by a note."""

    note: str
    """Text that replaces an older reading of a file."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that replaces older readings of a file by a note; empty if no file was read twice."""
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
                changes.append(
                    replace_results(item, lambda result: with_output(result, self.note) if result.call_id in paths else result)
                )
            read_paths |= read
        no_change_reason = f"{reason}, but no file was read twice"
        return CompactionPlan(
            reason=f"{reason}; {len(changes)} files read again" if changes else no_change_reason, replace=tuple(changes[::-1])
        )


JSON_COUNTER = JsonCharacters(characters_of_token=3)


NOTICE_TEXTS = 3
"""Number of newest answers that the notice about evicted messages repeats."""


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


DEFAULT_INPUT_TOKENS = 128_000
"""Longest input in tokens that the policies assume for a model whose context window is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClineSdk(Preset):
    """Common fields of Cline's two current policies, which set when compaction begins and how much it leaves.

    Attributes:
        threshold: Share of the model's longest input that triggers compaction, above 0 and at most 1. Default: `0.9`.
        input_share: Length of the model's longest input, as a share of the window. Default: `0.9`.
        target_share: Maximum size of the conversation after a compaction, as a share of the threshold. Default: `0.7`.
        long_target_share: Maximum size of the conversation after a compaction, as a share of the longest input, if the
            conversation has `long_answers` or more answers. Default: `0.5`.
        long_answers: Number of the model's answers in the conversation; with so many or more, `long_target_share` replaces
            `target_share`. Default: `5`.
    """

    threshold: Share = 0.9
    input_share: Share = 0.9
    target_share: Share = 0.7
    long_target_share: Share = 0.5
    long_answers: Positive = 5

    @property
    def _assumed_window_tokens(self) -> int:
        return math.ceil(DEFAULT_INPUT_TOKENS / self.input_share)

    def _build_target(self) -> SizeTarget:
        return SizeTarget(
            input_share=self.input_share,
            trigger_share=self.target_share,
            long_share=self.long_target_share,
            long_answers=self.long_answers,
        )

    def _build_pipeline(self, summarize: Summarize | None = None) -> Pipeline:
        """Return rules that summarize at the threshold, or list the old work if `summarize` is None.

        After a failed summary and after an overflow, the old work is listed too.
        """
        digest = Digest(target=self._build_target(), texts=NOTICE_TEXTS)
        reducer = OnFailure(first=summarize, then=digest) if summarize else digest
        rules = (Rule(Full(), reducer), Rule(Always(), digest, hook="overflow"))
        return Pipeline(ShareOfAvailable(share=self.threshold * self.input_share), rules, counter=JSON_COUNTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cline(_ClineSdk, SummarizingPreset):
    """Policy that, at 81 % of the window, summarizes all but the newest 20K tokens; each summary updates the former one.

    Choose it when you compare Cline's current behaviour, or want a rolling summary with a fallback that needs no model.

    Source: Cline 21cb8d25, `sdk/packages/core/src/extensions/context`, mode `agentic`.

    The user's last message is always retained, unless it is the first message of all. The lists of files in a summary are
    compiled from the tool calls; the summarizer does not write them.

    If the summary fails, and after an overflow, the notice of `cline-basic` replaces the messages. An empty summary leaves the
    conversation unchanged. Without newer messages to summarize, a former summary is not summarized again, and the conversation
    stays unchanged too.

    If the window of the model is unknown, the model's longest input is assumed to be 128,000 tokens.

    Differences from the original:

    - Tool schemas do not count towards the threshold, because a policy does not see them.
    - A message of the user that no request has contained yet stays; the original may summarize it.

    Attributes:
        keep_recent_tokens: Number of tokens to retain at the end of the conversation; fewer if its maximum size after a
            compaction (`target_share`) requires it. Default: `20_000`.
        result_characters: Maximum length in characters of a tool result that the summarizer reads. Default: `2_000`.

    Example:
        Compact earlier and retain fewer tokens, for a window of 32,768 tokens:

        >>> from harness.policies import Cline
        >>> from harness.conversation.tokens import Window
        >>> policy = Cline(threshold=0.8, keep_recent_tokens=4_000)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        23592
    """

    keep_recent_tokens: Positive = 20_000
    result_characters: Positive = 2_000
    kind: Literal["cline"] = "cline"

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy changed since version 0.1.

        The changes, the first two as in the original:

        - A former summary is not summarized again without newer messages.
        - If the window of the model is unknown, an input of 128,000 tokens is assumed; before, the policy did not act.
        - A message of the user that no request has contained yet now stays in view.
        """
        return 3

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which summarize when the threshold is reached, and write a notice after an overflow."""
        summarize = Summarize(
            middle=BeforeNewest(most_tokens=self.keep_recent_tokens, target=self._build_target()),
            format=Brief(instruction=INSTRUCTION, merge=MERGE, heading=SUMMARY_HEADING, files=True),
            max_tokens=self.summary_max_tokens,
            excerpt=CapTexts(result_characters=self.result_characters),
            procedure=SummaryProcedure(skips_empty=True),
        )
        return self._build_pipeline(summarize)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClineBasic(_ClineSdk):
    """Policy that, at 81 % of the window, replaces old messages by a list of their files, commands and answers, without a model.

    Choose it when summaries by a model are too slow or too expensive, but evicted work should still be listed in view.

    Source: Cline 21cb8d25, `sdk/packages/core/src/extensions/context`, mode `basic`.

    All messages of the user are retained. From older turns, the last answer without tool calls is retained too; from the last
    turn, the newest messages that fit the target size. The list, called the notice, is appended to the user's last message and
    updated at each compaction.

    If the window of the model is unknown, the model's longest input is assumed to be 128,000 tokens.

    Differences from the original:

    - In the original, no later compaction evicts what one has retained. In a session with a single request, later compactions
      therefore evict all new steps, without a notice. Here the oldest messages are evicted each time.
    - All evicted work is listed below the user's last message; in the original, below the message that it follows.
    - Answers of older turns are always retained; in the original, only those that fit the target size.

    Example:
        Compare the notice with the summary that a model writes, on three seeds of a task:

        >>> from harness import Experiment, Trial
        >>> from harness.policies import ClineBasic
        >>> base = Trial(task="flashcards", policy=ClineBasic(), window_tokens=32_768)
        >>> experiment = Experiment(name="notice", base=base, axes={"policy": ["cline", "cline-basic"], "seed": [0, 1, 2]})
        >>> len(experiment.grid)
        6
    """

    kind: Literal["cline-basic"] = "cline-basic"

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy changed since version 0.1.

        The only change: if the window of the model is unknown, an input of 128,000 tokens is assumed, as in the original; before,
        the policy did not act.
        """
        return 1

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which replace old messages by a notice when the threshold is reached, and after an overflow."""
        return self._build_pipeline()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClineClassic(Preset):
    """Policy that evicts half of the messages, without a summary, when the last call used e.g. 98K tokens of a 128K window.

    Choose it to compare with versions of Cline before its SDK, or as a cheap baseline that halves the conversation without a
    summarizer.

    Source: Cline 01cfde0d and 031561ea, `src/core/context/context-management`.

    First, a note replaces all but the newest reading of each file. If that saves 30 % of the characters, nothing else is done.
    Otherwise half of the messages after the first request and answer are evicted, and a notice in that answer says so.

    Differences from the original:

    - Results of the first answer stay with their calls, so the evicted part begins and ends one message later.
    - The original evicts three quarters after a change of the model if half is not enough. Here a session never changes its
      model.

    Attributes:
        enough_share: Share of the conversation's characters that must be saved by replacing repeated readings of a file; if less
            is saved, messages are evicted. Default: `0.3`.
        half_share: Share of the messages after the first request and answer that is evicted. Default: `0.5`.
        spare_tokens: Number of tokens kept free in a window for which the source lists no threshold; fewer are free if
            `spare_share` triggers compaction later. Default: `40_000`.
        spare_share: Share of the window below which compaction is never triggered, for windows for which the source lists no
            threshold. Default: `0.8`.

    Example:
        Keep only 4,000 tokens free in a window of 32,768 tokens:

        >>> from harness.policies import ClineClassic
        >>> from harness.conversation.tokens import Window
        >>> policy = ClineClassic(spare_tokens=4_000)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        28768
    """

    enough_share: Share = 0.3
    half_share: Share = 0.5
    spare_tokens: NonNegative = 40_000
    spare_share: Share = 0.8
    kind: Literal["cline-classic"] = "cline-classic"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's only rule, which replaces repeated readings by notes and, if that saves too little, evicts half."""
        half = ForgetHalf(
            share=self.half_share,
            keep_first=3,
            excluded_messages=2,
            notice="[Some of the conversation after this was removed to fit the context window; the first exchange stays.]",
            place="in-answer",
        )
        notes = NoteRereads(note="[This reading was removed to save room; the newest reading of the file stands further below.]")
        table = ((64_000, 37_000), (128_000, 98_000), (200_000, 160_000))
        budget_rule = WindowTable(thresholds=table, share=self.spare_share, reserve_tokens=self.spare_tokens)
        reducer = Unless(first=notes, then=half, enough_share=self.enough_share, counter=QuarterOfCharacters())
        return Pipeline(budget_rule, (Rule(Full(measure="reported"), reducer),))
