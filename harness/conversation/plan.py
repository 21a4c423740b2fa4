"""Plan of a compaction: the changes that a policy proposes for the view.

A plan may contain *slots*, which are places for summaries that are not written yet. Making a plan has no side effects.
`harness.session.compactor` fills the slots, checks the result and logs it.
"""

from dataclasses import dataclass, replace
from typing import Literal, Protocol, runtime_checkable

from harness.conversation.events import Insert, ItemId, Replace
from harness.conversation.messages import Message, Text
from harness.conversation.truncation import name_output
from harness.conversation.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRequest:
    """Messages and texts from which the prompt for a summarizer (a model that writes summaries) is built."""

    to_summarize: tuple[Message, ...]
    """Messages to summarize, in the order of the view; earlier summaries are not among them."""
    previous_summary: str
    """Text of the earlier summary that the new summary must include; empty if there is none."""
    task: str
    """First message of the user in the log, verbatim, even if that message is no longer in view."""
    round: int
    """Number of the compaction, from 1 within the session, for which the summary is written."""
    system: Message | None = None
    """System message of the session, for prompts that repeat the session's own messages; None if the view has none."""


@runtime_checkable
class SummaryFormat(Protocol):
    """Format of the prompt for the summarizer, and of the summary that the agent's model reads.

    The methods are pure.
    """

    def build_prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """Return the messages that ask the summarizer for a summary."""
        ...

    def render(self, text: str, request: SummaryRequest) -> str:
        """Return the summary as the agent's model will read it, given the summarizer's answer `text`."""
        ...


class Excerpt(Protocol):
    """Rule that selects which of the messages to summarize the summarizer (a model) actually reads. Pure."""

    def select(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return those of the messages to summarize that the summarizer reads, in order; long messages may be cut."""
        ...


class PromptShortener(Protocol):
    """Method by which the summarizer's prompt is shortened for another attempt after a failed request. Pure."""

    def shorten(self, messages: tuple[Message, ...], attempt: int) -> tuple[Message, ...]:
        """Return a shorter prompt for the next attempt, given its number from 1; an empty tuple gives up."""
        ...


class Review(Protocol):
    """Second request to the summarizer, which asks it to review its own draft of the summary. Pure."""

    def build_prompt(self, prompt: tuple[Message, ...], draft: Message) -> tuple[Message, ...]:
        """Return the prompt that asks the summarizer to review its draft; a non-empty answer replaces the draft."""
        ...


class StandIn(Protocol):
    """Writer of a text that replaces a summary which the summarizer failed to write.

    It uses no model, and is pure.
    """

    def write_summary(self, request: SummaryRequest) -> str:
        """Return a text that replaces the failed summary, in the form in which a summarizer would have answered."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryProcedure:
    """Rules for requesting a summary: when to retry or review it, and how to replace a failed one."""

    shorter: PromptShortener | None = None
    """Method to shorten the summarizer's prompt after a failed request; None means that the summary fails instead."""
    shorter_for: Literal["overflow", "failed"] = "overflow"
    """When the summarizer gets a shorter prompt: only after a prompt that was too long (`overflow`), or after every failed
    request (`failed`)."""
    retry_text: str = ""
    """Text appended to the prompt for one retry if the summarizer's answer is empty; an empty text disables the retry."""
    review: Review | None = None
    """Second request, in which the summarizer reviews its draft of the summary; None disables the review."""
    stand_in: StandIn | None = None
    """Writer of a text that replaces a failed summary, whose failure is still logged; None disables the replacement."""
    empty_text: str | None = None
    """Text used instead of an empty answer of the summarizer, which is still logged as a failure; the text may be empty, too.
    None treats an empty answer like a failed request."""
    fits_window: bool = False
    """Whether the prompt is shortened, the oldest messages first, to what the summarizer's window holds beside the summary."""
    required_lines: tuple[str, ...] = ()
    """Lines, such as headings, of which an answer must have at least one. An answer without any gets the retry of an empty
    answer, and then counts as a failed request. No line is required if there are none."""
    skips_empty: bool = False
    """Whether the compaction is skipped if the summarizer answers without text. All messages then stay, and the plan's
    `fallback` is not used."""

    def is_complete(self, text: str) -> bool:
        """Return whether an answer of the summarizer has text and, if lines are required, at least one of them."""
        if not self.required_lines:
            return bool(text.strip())
        return any(line.strip() in self.required_lines for line in text.splitlines())


PLAIN_PROCEDURE = SummaryProcedure()
"""Procedure that asks the summarizer once, without retries, review or replacement text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Summary still to be written, with the messages that it replaces and its place in the conversation."""

    after: ItemId
    """Id of the message behind which the summary is inserted."""
    role: Literal["system", "user", "assistant"]
    """Role of the message that contains the summary."""
    stands_for: tuple[ItemId, ...]
    """Ids of the messages to summarize, in order.

    Earlier summaries among them are merged into the new summary. Messages that the model no longer sees can be summarized if they
    were set aside for a later summary.
    """
    format: SummaryFormat
    """Format that builds the summarizer's prompt and renders its answer as the inserted text."""
    max_tokens: int
    """Maximum number of output tokens that the summarizer may use for the summary."""
    max_input_tokens: int | None = None
    """Maximum length of the summarizer's prompt in tokens; of a longer prompt, the oldest messages are left out.

    The summarizer counts the tokens itself if it can. None applies only the summarizer's own limit
    (`harness.protocols.LimitedInputModel`).
    """
    token_ratio: float = 1.0
    """Number of the summarizer's tokens for each estimated token, for a summarizer that cannot count tokens itself."""
    former: Literal["apart", "among"] = "apart"
    """Where the summarizer's prompt has earlier summaries: in a place of their own (`apart`) or among the messages (`among`)."""
    continues: bool = False
    """Whether the summary is appended to the message with the plan's previous summary, instead of becoming a separate message."""
    before: tuple[Message, ...] = ()
    """Messages inserted directly before the summary, such as the question that the summary answers."""
    behind: tuple[Message, ...] = ()
    """Messages inserted directly behind the summary, such as a request to continue."""
    excerpt: Excerpt | None = None
    """Rule that selects the messages that the summarizer reads; None lets it read all messages that the summary will replace."""
    text_if_empty: str = ""
    """Summary that is inserted, without asking the summarizer, if no message is selected for it to read."""
    procedure: SummaryProcedure = PLAIN_PROCEDURE
    """Rules for requesting the summary: retries, a review of the summary, and a replacement text for a failed one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """Changes that a compaction policy proposes for the conversation.

    It says which messages to evict, to replace and to summarize. An empty plan means that the policy was triggered but found
    nothing to change.
    """

    reason: str
    """Reason for the compaction in words and numbers, as it is logged."""
    forget: tuple[ItemId, ...] = ()
    """Ids of the messages to evict from the view."""
    replace: tuple[Replace, ...] = ()
    """Replacements of messages in view. If a message is both replaced and evicted, the summarizer reads the replacement; else it
    reads the original."""
    slots: tuple[Slot, ...] = ()
    """Summaries to request from the summarizer, each with the place at which it is inserted into the conversation."""
    insert: tuple[Insert, ...] = ()
    """Messages to insert that are known already and need no summarizer, such as a note that old messages were removed."""
    set_aside: tuple[ItemId, ...] = ()
    """Ids of all messages that the model will not see but a later summary will cover, including those evicted earlier."""
    texts_to_save: tuple[str, ...] = ()
    """Texts that are saved before the plan is applied, such as evicted tool outputs. The agent's tools can then read them by
    name (see `harness.conversation.truncation.name_output`)."""
    timing: Literal["now", "background", "swap"] = "now"
    """Time at which the plan is carried out.

    * `now`: the changes are applied at once.
    * `background`: the summaries are requested now, and the changes are kept for later (`View.staged`).
    * `swap`: the changes that were kept earlier are applied; the plan itself has none.
    """
    fallback: "CompactionPlan | None" = None
    """Plan applied instead if the summarizer fails or its summary saves no tokens; None leaves the conversation unchanged."""

    @property
    def is_empty(self) -> bool:
        """Whether the plan would change nothing in the view."""
        return not (self.forget or self.replace or self.slots or self.insert or self.timing == "swap")


def build_summary_request(slot: Slot, view: View) -> SummaryRequest:
    """Collect the messages and texts for the prompt that asks for one summary of a plan.

    Raises:
        KeyError: The summary refers to a message that is neither in the view nor set aside for a later summary.
    """
    messages_by_id = {item.item_id: item.message for item in (*view.set_aside, *view.items)}
    former = set(view.summaries) if slot.former == "apart" else set()
    previous = [messages_by_id[item].text for item in slot.stands_for if item in former]
    messages = tuple(messages_by_id[item] for item in slot.stands_for if item not in former)
    return SummaryRequest(
        to_summarize=slot.excerpt.select(messages) if slot.excerpt else messages,
        previous_summary="\n\n".join(previous),
        task=view.task.text if view.task else "",
        round=view.rounds + 1,
        system=next((item.message for item in view.items[:1] if item.message.role == "system"), None),
    )


def exclude_items(plan: CompactionPlan, items: frozenset[ItemId]) -> CompactionPlan:
    """Return a copy of a plan without its changes to the given messages.

    A summary of only these messages is left out.
    """
    slots = (replace(slot, stands_for=tuple(item for item in slot.stands_for if item not in items)) for slot in plan.slots)
    changes = tuple(change for change in plan.replace if change.item not in items)
    texts = "\n".join(result.output for change in changes for result in change.message.results)
    return replace(
        plan,
        forget=tuple(item for item in plan.forget if item not in items),
        replace=changes,
        slots=tuple(slot for slot in slots if slot.stands_for),
        set_aside=tuple(item for item in plan.set_aside if item not in items),
        texts_to_save=tuple(text for text in plan.texts_to_save if name_output(text) in texts),
        fallback=None if plan.fallback is None else exclude_items(plan.fallback, items),
    )


def keep_pending_messages(plan: CompactionPlan, view: View) -> CompactionPlan:
    """Return the plan without changes that remove or shorten a message of the user that no finished request has contained yet.

    The summarizer does not read such a message, and a copy of it that the policy inserts is left out. A replacement that contains
    the whole message, for example with a notice below it, is carried out.
    """
    if not view.pending or plan.timing == "swap":  # kept changes concern messages that were sent before
        return plan
    originals = {item.item_id: item.message for item in view.pending}
    left = exclude_items(replace(plan, fallback=None), frozenset(originals))
    texts = {message.text for message in originals.values()} - {""}
    slots = (
        replace(slot, before=_without_copies(slot.before, texts), behind=_without_copies(slot.behind, texts))
        for slot in left.slots
    )
    fallback = None if plan.fallback is None else keep_pending_messages(plan.fallback, view)
    left = replace(
        left,
        replace=tuple(change for change in plan.replace if _contains(change.message, originals.get(change.item))),
        slots=tuple(slots),
        insert=tuple(insert for insert in left.insert if _without_copies((insert.message,), texts)),
        texts_to_save=plan.texts_to_save,
        fallback=None if fallback is None or fallback.is_empty else fallback,
    )
    if left == plan:
        return plan
    if not (left.forget or left.replace or left.slots):
        return CompactionPlan(reason=f"{plan.reason}, but only messages of the user that no request has contained yet could go")
    return replace(left, reason=f"{plan.reason}; messages of the user that no request has contained yet stay")


def _contains(message: Message, original: Message | None) -> bool:
    """Return whether a replacement contains all of an original message; there is nothing to contain if that is None."""
    if original is None:
        return True
    others = [part for part in original.parts if not isinstance(part, Text)]
    return message.role == original.role and original.text in message.text and all(part in message.parts for part in others)


def _without_copies(messages: tuple[Message, ...], texts: set[str]) -> tuple[Message, ...]:
    return tuple(message for message in messages if message.role != "user" or message.text not in texts)
