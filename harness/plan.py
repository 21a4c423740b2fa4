"""Plan of a compaction: the change of the view that a policy proposes, before any summary is written.

A plan is a patch whose inserted messages may still be empty *slots* for summaries. Making a plan is pure.
`harness.compaction.compactor` fills the slots, checks the result and logs it.
"""

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from harness.events import Insert, ItemId, Replace
from harness.messages import Message
from harness.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRequest:
    """Material from which a summary format builds the prompt for the summarizer."""

    to_summarize: tuple[Message, ...]
    """Messages to summarize, in view order, without former summaries."""
    previous_summary: str
    """Text of the former summary; empty in the first compaction round."""
    task: str
    """First message of the user in the log, verbatim, even if that message is no longer in view."""
    round: int
    """Number of the compaction round to which the new summary belongs."""
    system: Message | None = None
    """System message of the session, for summarizers that receive the session's own messages."""


@runtime_checkable
class SummaryFormat(Protocol):
    """Form of the prompt for a summary and of the text that is inserted into the view. Pure."""

    def build_prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """Return the messages that are sent to the summarizer."""
        ...

    def render(self, text: str, request: SummaryRequest) -> str:
        """Return the text that is inserted into the view."""
        ...


class Excerpt(Protocol):
    """Selection of the messages that the summarizer reads, where it does not read all of them. Pure."""

    def select(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the messages that the summarizer reads, in order; each message is whole or cut."""
        ...


class PromptShortener(Protocol):
    """Shortening of a prompt that is too long for the summarizer. Pure."""

    def shorten(self, messages: tuple[Message, ...], attempt: int) -> tuple[Message, ...]:
        """Return the messages for the next attempt, numbered from 1; an empty tuple ends the attempts."""
        ...


class Review(Protocol):
    """Second request to the summarizer, about its own draft. Pure."""

    def build_prompt(self, prompt: tuple[Message, ...], draft: Message) -> tuple[Message, ...]:
        """Return the prompt of the review; a non-empty answer replaces the draft."""
        ...


class StandIn(Protocol):
    """Text that replaces a failed summary. Pure."""

    def write_summary(self, request: SummaryRequest) -> str:
        """Return the replacement text in the form in which a summarizer would answer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryProcedure:
    """Steps around the request for a summary, such as retries, a review or a replacement text."""

    shorter: PromptShortener | None = None
    """Shortening of the prompt after a failed request; None makes the summary fail instead."""
    shorter_for: Literal["overflow", "failed"] = "overflow"
    """Failures after which the prompt is shortened: only a prompt that is too long, or every failed request."""
    retry_text: str = ""
    """Message appended to the prompt for one retry after an empty answer; an empty text disables the retry."""
    review: Review | None = None
    """Second request to the summarizer about its draft; None disables the review."""
    stand_in: StandIn | None = None
    """Text that replaces a failed summary, while the event still records the failure; None disables the replacement."""
    stand_in_for: Literal["empty", "failed"] = "failed"
    """Failures that `stand_in` replaces: only an empty answer, or every failure."""
    skips_empty: bool = False
    """Whether an empty answer leaves the view unchanged even if the plan has a fallback."""


PLAIN_PROCEDURE = SummaryProcedure()
"""Procedure of a single request without retries or replacement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Place in the view for a summary that is not written yet."""

    after: ItemId
    """Id of the item behind which the summary is inserted."""
    role: Literal["system", "user", "assistant"]
    """Role of the summary message."""
    stands_for: tuple[ItemId, ...]
    """Ids of the summarized items, in view order; former summaries among them are merged into the new summary."""
    format: SummaryFormat
    """Format of the prompt and of the summary."""
    max_tokens: int
    """Maximum number of output tokens of the summarizer."""
    max_input_tokens: int | None = None
    """Maximum length of the summarizer's prompt in tokens, by the summarizer's own count if it offers one; the oldest messages of
    a longer prompt are left out. None applies only the limit of the summarizer itself (`harness.protocols.LimitedInputModel`)."""
    former: Literal["apart", "among"] = "apart"
    """Whether former summaries are passed to the summarizer separately (`apart`) or as messages like all others (`among`)."""
    continues: bool = False
    """Whether the summary is appended to the summary of the slot before, instead of becoming a message of its own."""
    before: tuple[Message, ...] = ()
    """Messages inserted directly before the summary, such as the question that the summary answers."""
    behind: tuple[Message, ...] = ()
    """Messages inserted directly behind the summary, such as a request to continue."""
    excerpt: Excerpt | None = None
    """Selection of the messages that the summarizer reads; None passes all of them."""
    text_if_empty: str = ""
    """Summary to insert, without asking the summarizer, where `excerpt` selects no message."""
    procedure: SummaryProcedure = PLAIN_PROCEDURE
    """Retries, review and replacement text for the summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Proposed change of a view: items to evict, items to replace, and summaries to insert.

    An empty plan means that the policy was triggered but found nothing to change.
    """

    reason: str
    """Trigger in words and numbers, for the log."""
    forget: tuple[ItemId, ...] = ()
    """Ids of the items to evict."""
    replace: tuple[Replace, ...] = ()
    """Items to replace; if a replaced item is also evicted, the summarizer reads the replacement."""
    slots: tuple[Slot, ...] = ()
    """Summaries to request and insert."""
    insert: tuple[Insert, ...] = ()
    """Messages to insert that need no summarizer."""
    texts_to_save: tuple[str, ...] = ()
    """Texts to save before the plan is applied, so that the tools for saved outputs find the names in the new messages (see
    `harness.truncation.name_output`)."""
    fallback: "Plan | None" = None
    """Plan to apply instead if a summary fails or saves nothing; None leaves the view unchanged."""

    @property
    def is_empty(self) -> bool:
        """Whether the plan changes nothing."""
        return not (self.forget or self.replace or self.slots or self.insert)


def build_summary_request(slot: Slot, view: View) -> SummaryRequest:
    """Return the material for the summarizer of a slot.

    Raises:
        KeyError: the slot refers to an item that is not in the view.
    """
    messages_by_id = {item.item_id: item.message for item in view.items}
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
