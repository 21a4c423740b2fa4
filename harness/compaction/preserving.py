"""Messages that a summarizing policy leaves verbatim, and what its summarizer is asked to attend to.

Both are settings of an agent and not of a policy: which tools load rules, and which facts matter, depends on what the agent does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from harness.compaction.stages import Block, group_blocks, is_from_user, refuse_invalid_patterns
from harness.conversation import transcript
from harness.conversation.events import ItemId
from harness.conversation.messages import Message, Text, user
from harness.conversation.plan import CompactionPlan, SummaryFormat, SummaryRequest, exclude_items
from harness.conversation.view import View
from harness.errors import UsageError

KIND_PREFIX = "kind:"
"""Beginning of a pattern that names a kind of message instead of a tool."""
KINDS = ("user", "failure")
"""Kinds of messages that patterns can name: messages of the user, and calls that failed."""
FOCUS_HEADING = "Attend in particular to:"


def check_patterns(patterns: Sequence[str]) -> None:
    """Refuse patterns of preserved messages that can match nothing.

    Raises:
        UsageError: A pattern is invalid or names an unknown kind; the message says what is allowed.
    """
    kinds = ", ".join(f"{KIND_PREFIX}{name}" for name in KINDS)
    refuse_invalid_patterns("preserve", patterns, f" of tool names, or one of {kinds}")
    for place, pattern in enumerate(patterns):
        if pattern.startswith(KIND_PREFIX) and pattern.removeprefix(KIND_PREFIX) not in KINDS:
            raise UsageError(
                f"preserve[{place}]: must be a shell pattern such as 'skill*' of tool names, or one of {kinds} (got {pattern!r})"
            )


def find_preserved(view: View, patterns: Sequence[str], most_tokens: int) -> frozenset[ItemId]:
    """Return the ids of the messages that patterns name, the newest first, up to a number of tokens.

    A tool call and the results of all calls of the same answer are preserved together.

    Args:
        view: Messages that the model sees next.
        patterns: Shell patterns of tool names, and kinds of messages such as `kind:user`.
        most_tokens: Maximum number of estimated tokens in the preserved messages; older ones that exceed it are left out.
    """
    ids = set[ItemId]()
    room = most_tokens
    for block in reversed(group_blocks(view.items[1:])):
        if _is_named(view, block, patterns):
            room -= block.tokens
            if room < 0:
                break
            ids.update(item.item_id for item in block.items)
    return frozenset(ids)


def _is_named(view: View, block: Block, patterns: Sequence[str]) -> bool:
    first = block.items[0]
    names = {call.name for call in first.message.calls}
    outcomes = {transcript.read_outcome(result) for item in block.items for result in item.message.results}
    for pattern in patterns:
        if pattern == "kind:user" and is_from_user(view, first):
            return True
        if pattern == "kind:failure" and outcomes - {"ok", "exit code 0"}:
            return True
        if any(fnmatchcase(name, pattern) for name in names):
            return True
    return False


def preserve_items(plan: CompactionPlan, items: frozenset[ItemId]) -> CompactionPlan:
    """Return a plan without its changes to preserved messages, which the summarizer does not read either."""
    if not items or plan.is_empty or plan.timing == "swap":
        return plan
    left = exclude_items(plan, items)
    if left.forget or left.replace or left.slots:
        return left
    return CompactionPlan(reason=f"{plan.reason}, but only preserved messages could go")


@dataclass(frozen=True, slots=True, kw_only=True)
class Focused:
    """Summary format whose prompt ends with a sentence on what to attend to."""

    format: SummaryFormat
    """Format of the prompt without that sentence, and of the summary."""
    focus: str
    """Matters that the summarizer is asked to attend to."""

    def build_prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """Return the prompt with the focus below the text of its last message of the user."""
        *before, last = self.format.build_prompt(request)
        text = f"{FOCUS_HEADING} {self.focus}"
        if last.role != "user":
            return (*before, last, user(text))
        return (*before, replace(last, parts=(*last.parts[:-1], Text(text=f"{last.text}\n\n{text}"))))

    def render(self, text: str, request: SummaryRequest) -> str:
        """Return the summary as the format without the focus does."""
        return self.format.render(text, request)


def focus_plan(plan: CompactionPlan, focus: str) -> CompactionPlan:
    """Return a plan whose summaries are requested with a focus; the same plan if the focus is empty."""
    if not focus or not plan.slots:
        return plan
    slots = tuple(replace(slot, format=Focused(format=slot.format, focus=focus)) for slot in plan.slots)
    return replace(plan, slots=slots)
