"""A plan: what a policy proposes to do with a view, before anybody has written a summary.

A plan is a patch whose inserts may still be empty *slots*. Making one is pure; filling the slots, checking the result and
logging it is `harness.compaction.apply`.
"""

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from harness.events import Insert, ItemId, Replace
from harness.messages import Message
from harness.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRequest:
    """What a summary format needs to know to write its prompt."""

    to_summarize: tuple[Message, ...]
    """In view order, former summaries left out."""
    previous_summary: str
    """Empty in round 1."""
    task: str
    """The user's request from the log, verbatim, also when it is no longer in view (S0.6)."""
    round: int
    """The number that the new summary will have."""
    system: Message | None = None
    """The session's own system message, for a summarizer that is asked in the session's own name."""


@runtime_checkable
class SummaryFormat(Protocol):
    """How a summary is asked for and how it is put into the view. Pure."""

    def build_prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """The messages that a summarizer gets."""
        ...

    def render(self, text: str, request: SummaryRequest) -> str:
        """The text that goes into the view."""
        ...


class Excerpt(Protocol):
    """What of the messages a summarizer is shown, where that is not all of them. Pure."""

    def select(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The messages that it is shown, in order, whole or cut."""
        ...


class PromptShortener(Protocol):
    """What a summarizer is told instead of what was too long for it. Pure."""

    def shorten(self, messages: tuple[Message, ...], attempt: int) -> tuple[Message, ...]:
        """The messages for another attempt, the first being 1; none = there is nothing more to leave out."""
        ...


class Review(Protocol):
    """A second question to the summarizer about its draft. Pure."""

    def build_prompt(self, prompt: tuple[Message, ...], draft: Message) -> tuple[Message, ...]:
        """The prompt whose answer replaces the draft, unless it is empty."""
        ...


class StandIn(Protocol):
    """A text that is put in the place of a summary that did not come. Pure."""

    def write_summary(self, request: SummaryRequest) -> str:
        """The text, as a summarizer would have given it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryProcedure:
    """What happens around asking for a summary, where that is more than one question and its answer."""

    shorter: PromptShortener | None = None
    """What is told when the prompt is too long for the summarizer; None = then the summary has failed."""
    shorter_for: Literal["overflow", "failed"] = "overflow"
    """Whether that is only for a prompt that is too long, or after every call of the summarizer that failed."""
    retry_text: str = ""
    """Said behind the prompt, once, after an answer without text; empty = the summary has failed then."""
    review: Review | None = None
    stand_in: StandIn | None = None
    """What stands for a summary that did not come; the event still says that it failed. None = nothing does."""
    stand_in_for: Literal["empty", "failed"] = "failed"
    """Whether that is only for an answer without text, or for every failure."""
    skips_empty: bool = False
    """Whether after an answer without text the view stays as it is, whatever the plan's fallback is."""


PLAIN_PROCEDURE = SummaryProcedure()
"""One question, one answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A place for a summary that is still to be written."""

    after: ItemId
    """The item behind which it goes."""
    role: Literal["system", "user", "assistant"]
    stands_for: tuple[ItemId, ...]
    """What it summarizes, in view order; former summaries among them are integrated."""
    format: SummaryFormat
    max_tokens: int
    """Output limit that the summarizer is given."""
    max_input_tokens: int | None = None
    """Longest prompt that the summarizer is given, by its own count if it offers one; of a longer one the oldest messages are
    left out. None = no limit but that of a summarizer which reads little (`harness.protocols.LimitedInputModel`)."""
    former: Literal["apart", "among"] = "apart"
    """Whether former summaries are told apart from what is to be summarized, or are messages like the others."""
    continues: bool = False
    """Whether its text is joined to that of the slot before instead of being a message of its own."""
    before: tuple[Message, ...] = ()
    """Messages that are put right before the summary, e.g. the question that it answers."""
    behind: tuple[Message, ...] = ()
    """Messages that are put right behind it, e.g. the request to go on."""
    excerpt: Excerpt | None = None
    """What of the messages is shown; None = all."""
    text_if_empty: str = ""
    """The summary where an excerpt leaves nothing to be shown: then nobody is asked."""
    procedure: SummaryProcedure = PLAIN_PROCEDURE


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A proposed change: which items go, which are replaced, which summaries come. An empty plan was due but found nothing."""

    reason: str
    """The trigger in words and numbers."""
    forget: tuple[ItemId, ...] = ()
    replace: tuple[Replace, ...] = ()
    """Of what is forgotten too, it is what a summarizer is told instead."""
    slots: tuple[Slot, ...] = ()
    insert: tuple[Insert, ...] = ()
    """Messages that come without anybody being asked."""
    texts_to_save: tuple[str, ...] = ()
    """Texts that its messages name by `harness.truncation.name_output`: saved before it takes effect, so that the tools over
    saved outputs find them."""
    fallback: "Plan | None" = None
    """What is done instead when a summary fails or saves nothing; None = nothing is."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing would change."""
        return not (self.forget or self.replace or self.slots or self.insert)


def build_summary_request(slot: Slot, view: View) -> SummaryRequest:
    """What the summarizer of a slot is told, read off the view.

    Raises:
        KeyError: the slot stands for an item that is not in the view.
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
