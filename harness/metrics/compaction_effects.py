"""Effects of the compactions of a session, computed from its log alone, so that they are known for sessions of any origin.

Nothing here needs a task with known facts. What survives is measured by distinctive texts of several kinds: a path, a command, a
number or an identifier is found by its form, and counts as surviving if the same text is still in a message that the model sees.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from harness.compaction.boundaries import PASSED_OUTCOMES, is_test_run
from harness.compaction.presets.recency import select_older
from harness.conversation.events import (
    Compaction,
    Entry,
    ItemId,
    MessageAdded,
    Patch,
    SessionResumed,
    SessionStarted,
    StepFinished,
)
from harness.conversation.messages import Message
from harness.conversation.tokens import Counter
from harness.conversation.transcript import extract_text, find_key_argument, read_outcome
from harness.conversation.view import View, fold
from harness.metrics.calls import COMMAND_TOOLS, READ_TOOLS, compute_signature
from harness.text import format_percent

TextKind: TypeAlias = Literal["path", "command", "number", "identifier", "decision", "user constraint"]
"""Kind of a distinctive text, which is recognized by its form and its place."""
TEXT_KINDS: Final[tuple[TextKind, ...]] = get_args(TextKind)
STUCK_SHARE = 0.1
"""Share of the tokens in view; a session is stuck at the first compaction that frees less."""


class _Forms(NamedTuple):
    """Patterns of the texts that are recognized by their form."""

    path: re.Pattern[str]
    number: re.Pattern[str]
    identifier: re.Pattern[str]


def _compile_forms(flags: re.RegexFlag = re.NOFLAG) -> _Forms:
    # possessive, so that a plain word, which is no match, is read once
    return _Forms(
        path=re.compile(r"((?<![\w/:.])/?(?:[\w.-]++/)+[\w.-]*[\w-])", flags),
        number=re.compile(r"\d(?<![\w.-]\d)(?:[\d,._]*\d)?(?![\w-])", flags),
        identifier=re.compile(
            r"\b(?=[A-Za-z0-9])(?:[0-9a-f]{7,40}+|[A-Za-z]++(?:[_-][A-Za-z]++)*+[_-]?\d[\w-]*"
            r"|[a-z]++(?:_[a-z0-9]++)++|[a-z]++(?:[A-Z][a-z0-9]++)++)\b",
            flags,
        ),
    )


_FORMS = _compile_forms()
_ASCII_FORMS = _compile_forms(re.ASCII)
"""The same patterns for ASCII text, in which they find the same in two thirds of the time."""
_DECISION = re.compile(r"\b(?:decid|instead of|we (?:will|should)|I (?:will|'ll) use|chose|agreed|settled on)", re.IGNORECASE)
_CONSTRAINT = re.compile(
    r"\b(?:must|never|always|do not|don't|only|at most|at least|without|not allowed|required)\b", re.IGNORECASE
)
_WORD = re.compile(r"[^\W_]+")
_BETWEEN_WORDS: Final = {code: " " for code in range(128) if not chr(code).isalnum()}
"""Translation of ASCII text that leaves only its words, several times as fast as the pattern for long texts."""
_BETWEEN_WORDS_OF_LINES: Final = {code: sign for code, sign in _BETWEEN_WORDS.items() if chr(code) != "\n"}
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
MIN_NUMBER_CHARACTERS = 3
"""Minimum length in characters of a number that counts; a shorter one may occur anywhere by chance."""


class KindSurvival(NamedTuple):
    """Number of distinctive texts of one kind that compactions removed from messages, and how many stayed visible."""

    kind: TextKind
    removed: int
    """Number of texts in the messages that compactions evicted or replaced, each counted once in a compaction."""
    kept: int
    """Number of these texts that a message in view still had right after the compaction, such as its summary."""

    @property
    def share(self) -> float | None:
        """Share of the removed texts that survived; None if no text was removed."""
        return self.kept / self.removed if self.removed else None


class RecencySurvival(NamedTuple):
    """Survival of distinctive texts of one kind, beside their survival in the newest messages of equal tokens."""

    kind: TextKind
    seen: int
    """Number of texts in the messages before a compaction, added up over all compactions."""
    kept: int
    """Number of these texts that were in view right after the compaction."""
    kept_by_recency: int
    """Number that the newest messages with at most as many tokens would have, beside the system message and the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionEffects:
    """Effects of all applied compactions of a session, in order. An empty tuple or None means that nothing was measured."""

    survival: tuple[KindSurvival, ...] = ()
    """Survival of distinctive texts by kind; empty without a compaction that removed any."""
    beside_recency: tuple[RecencySurvival, ...] = ()
    """Survival of all distinctive texts, beside that of a control which keeps the newest messages of equal tokens."""
    freed_shares: tuple[float, ...] = ()
    """Share of the tokens in view that each compaction freed."""
    floors_tokens: tuple[int, ...] = ()
    """Estimated number of tokens in view right after each compaction."""
    trigger_errors: tuple[float, ...] = ()
    """True size of the context when a compaction fired, as the provider counted it, divided by the nominal threshold."""
    prefix_shares: tuple[float, ...] = ()
    """Share of the tokens before each compaction that the next request still began with."""
    resume_steps: tuple[int, ...] = ()
    """Number of steps after each compaction until the agent again changed or ran something new."""
    cuts_in_loop: int = 0
    """Number of compactions inside a loop of edits and tests, that is, while the newest test run had failed."""
    blocking_seconds: float | None = 0.0
    """Seconds for which the session waited for summaries; those written in the background count with their rest only. None if
    another agent made a compaction and did not record how long it took."""
    prefix_breaks: int = 0
    """Number of steps whose request did not begin with the whole previous request."""
    steps: int = 0
    """Number of finished steps."""
    duplicate_calls: int = 0
    """Number of tool calls with the same tool and arguments as an earlier one."""

    @property
    def floor_growth_tokens(self) -> float | None:
        """Mean number of tokens by which the floor grew from one compaction to the next; None with fewer than two."""
        count = len(self.floors_tokens) - 1
        return (self.floors_tokens[-1] - self.floors_tokens[0]) / count if count > 0 else None

    @property
    def cycles_to_stuck(self) -> int | None:
        """Number of compactions before the first that freed less than `STUCK_SHARE`; None if all freed more."""
        return next((number for number, share in enumerate(self.freed_shares) if share < STUCK_SHARE), None)

    @property
    def prefix_breaks_per_100_steps(self) -> float | None:
        """Number of broken prefixes for each 100 requests that follow another; None without such requests."""
        return 100 * self.prefix_breaks / (self.steps - 1) if self.steps > 1 else None


def list_texts(message: Message) -> Mapping[TextKind, set[str]]:
    """Return the distinctive texts in a message by kind.

    Commands are those of tool calls. Decisions are sentences of the agent, and constraints sentences of the user. A text of one
    kind is not counted in another, so the parts of a path are neither numbers nor identifiers.
    """
    text = extract_text(message)
    commands = {find_key_argument(call) for call in message.calls if call.name in COMMAND_TOOLS}
    targets = {find_key_argument(call) for call in message.calls if call.name not in COMMAND_TOOLS}
    # none of these has a space, so each piece between spaces is searched once, and for paths only if it has a slash
    pieces = set(text.split())
    with_slash = [piece for piece in pieces if "/" in piece]
    forms = _ASCII_FORMS if text.isascii() else _FORMS
    split_at_paths = forms.path.split(" ".join(with_slash))
    paths = {*split_at_paths[1::2], *_FORMS.path.findall("\n".join((*commands, *targets)))}
    rest = " ".join((*pieces.difference(with_slash), *split_at_paths[::2]))
    identifiers = set(forms.identifier.findall(rest))
    numbers = {number for number in forms.number.findall(rest) if len(number) >= MIN_NUMBER_CHARACTERS} - identifiers
    sentences = {" ".join(part.split()) for part in _SENTENCE_END.split(text)} if message.role in {"user", "assistant"} else set()
    pattern = _CONSTRAINT if message.role == "user" else _DECISION
    spoken = {sentence for sentence in sentences if 20 <= len(sentence) <= 300 and pattern.search(sentence)}
    return {
        "path": paths,
        "command": commands,
        "number": numbers,
        "identifier": identifiers,
        "decision": spoken if message.role == "assistant" else set(),
        "user constraint": spoken if message.role == "user" else set(),
    }


def measure_survival(before: View, after: View) -> Iterator[KindSurvival]:
    """Yield for each kind how many distinctive texts a compaction removed from messages, and how many are still in view.

    Args:
        before: View before the compaction.
        after: View after it.
    """
    kept_messages = {item.item_id: item.message for item in after.items}
    removed = [item.message for item in before.items if kept_messages.get(item.item_id) is not item.message]
    removed = [message for message in removed if message.role != "system"]
    texts: dict[TextKind, set[str]] = {kind: set() for kind in TEXT_KINDS}
    for message in removed:
        for kind, found_texts in list_texts(message).items():
            texts[kind] |= found_texts
    visible = _join(after.messages)
    for kind in TEXT_KINDS:
        kept = sum(_contains(visible, text) for text in texts[kind])
        yield KindSurvival(kind, len(texts[kind]), kept)


def compare_with_recency(before: View, after: View) -> Iterator[RecencySurvival]:
    """Yield for each kind how many distinctive texts stay in view, beside those in the newest messages of equal tokens.

    The control has at most the tokens that are in view after the compaction, its summary included. It keeps the system message,
    the request of the user if the compaction kept it, and the newest messages, calls together with their results.

    Args:
        before: View before the compaction.
        after: View after it.
    """
    kept_ids = {item.item_id for item in after.items}
    request = next((item for item in before.items if item.message == before.task and item.item_id in kept_ids), None)
    protected = frozenset(item.item_id for item in (*before.items[:1], *([request] if request is not None else [])))
    older = set(select_older(before, after.tokens, protected))
    newest = [item.message for item in before.items if item.item_id not in older]
    texts: dict[TextKind, set[str]] = {kind: set() for kind in TEXT_KINDS}
    for message in before.messages[1:]:
        for kind, named in list_texts(message).items():
            texts[kind] |= named
    visible, visible_newest = _join(after.messages), _join(newest)
    for kind in TEXT_KINDS:
        kept = sum(_contains(visible, text) for text in texts[kind])
        yield RecencySurvival(kind, len(texts[kind]), kept, sum(_contains(visible_newest, text) for text in texts[kind]))


def _join(messages: Sequence[Message]) -> str:
    """Return the texts of messages, each on a line of its own."""
    return "\n".join(map(_put_on_line, messages))


def _put_on_line(message: Message) -> str:
    """Return the text of a message, and the arguments of its calls, on one line."""
    return " ".join(_join_message(message).split())


def _join_message(message: Message) -> str:
    """Return the text of a message, and the arguments of its calls, each beginning on a line of its own."""
    return "\n".join([extract_text(message), *[call.arguments_json for call in message.calls]])


class _VisibleTexts:
    """Texts of the messages in view, indexed by their words, so that a search reads only the messages with the rarest word.

    Messages are numbered. The index holds the words of visible messages only, so it stays small, and look-ups stay fast, in a
    long session whose old messages are replaced by a line each.
    """

    def __init__(self) -> None:
        self._messages: dict[ItemId, _VisibleMessage] = {}
        self._number_by_word: dict[str, int] = {}
        """The only message with a word, for most words."""
        self._numbers_by_word: dict[str, set[int]] = {}
        """The messages with a word that several messages have or had; never empty."""
        self._by_number: dict[int, _VisibleMessage] = {}
        self._added_count = 0

    def catch_up(self, view: View, removed_ids: Collection[ItemId]) -> list[Message]:
        """Add the messages that came behind those that are known, except those that are to be removed, which are returned."""
        removed = list[Message]()
        for item in reversed(view.items):
            if item.item_id in self._messages:
                break
            if item.item_id in removed_ids:
                removed.append(item.message)
            else:
                self.add(item.item_id, item.message)
        return removed

    def add(self, item_id: ItemId, message: Message) -> None:
        """Add a message."""
        number, words = self._added_count, set(_find_words(_join_message(message)))
        self._added_count += 1
        self._messages[item_id] = self._by_number[number] = _VisibleMessage(message, number, words)
        shared_words = words & self._numbers_by_word.keys()
        for word in shared_words:
            self._numbers_by_word[word].add(number)
        again = words & self._number_by_word.keys()
        for word in again:
            self._numbers_by_word[word] = {self._number_by_word.pop(word), number}
        self._number_by_word.update(dict.fromkeys(words.difference(shared_words, again), number))

    def remove(self, item_id: ItemId) -> Message | None:
        """Remove a message and return it; None if there is none."""
        known = self._messages.pop(item_id, None)
        if known is None:
            return None
        del self._by_number[known.number]
        shared_words = known.words & self._numbers_by_word.keys()
        for word in shared_words:
            numbers = self._numbers_by_word[word]
            numbers.remove(known.number)
            if not numbers:
                del self._numbers_by_word[word]
        for word in known.words - shared_words:
            del self._number_by_word[word]
        return known.message

    def count_contained(self, texts: set[str]) -> int:
        """Return how many of some texts a message has as a whole."""
        words = set(filter(str.isalnum, texts))
        phrases = list(texts - words)
        count = len(self._number_by_word.keys() & words) + len(self._numbers_by_word.keys() & words)
        words_of_phrases = _find_words_of_texts(phrases)
        gone = set(chain.from_iterable(words_of_phrases)).difference(self._number_by_word).difference(self._numbers_by_word)
        for text, words_of_text in zip(phrases, words_of_phrases, strict=True):
            # usually, a text has words that only the removed message had
            count += gone.isdisjoint(words_of_text) and self._contains(text, words_of_text)
        return count

    def _contains(self, text: str, words: Sequence[str]) -> bool:
        """Return whether a message has a text as a whole, each of whose words is in a message."""
        numbers: Collection[int] = self._by_number
        for word in words:
            if (number := self._number_by_word.get(word)) is not None:
                numbers = (number,)
                break
        else:
            numbers = min([self._numbers_by_word[word] for word in words], key=len, default=numbers)
        return any(_contains(self._by_number[number].line, text) for number in numbers)


@dataclass(frozen=True)
class _VisibleMessage:
    """Message in view, with its number and its words; it is put on a line when a text is first searched in it."""

    message: Message
    number: int
    words: set[str]

    @cached_property
    def line(self) -> str:
        return _put_on_line(self.message)


def _find_words(text: str) -> list[str]:
    """Return the words of a text, that is, its longest runs of letters and digits."""
    return text.translate(_BETWEEN_WORDS).split() if text.isascii() else _WORD.findall(text)


def _find_words_of_texts(texts: Sequence[str]) -> list[list[str]]:
    """Return the words of each text."""
    joined = "\n".join(texts)
    if not joined.isascii() or joined.count("\n") >= len(texts):
        return list(map(_WORD.findall, texts))
    return list(map(str.split, joined.translate(_BETWEEN_WORDS_OF_LINES).split("\n")))


def _contains(visible: str, text: str) -> bool:
    plain = " ".join(text.split())
    position = visible.find(plain)
    while position >= 0:
        before, after = visible[position - 1 : position], visible[position + len(plain) : position + len(plain) + 1]
        if not (before.isalnum() and plain[:1].isalnum()) and not (after.isalnum() and plain[-1:].isalnum()):
            return True
        position = visible.find(plain, position + 1)
    return False


@dataclass(slots=True)
class EffectsBuilder:
    """Collector of the effects of compactions, which receives the log entries of a session in order."""

    with_recency: bool = True
    """Whether survival is also computed for the newest messages of equal tokens, which takes most of the time."""
    threshold_tokens: int | None = None
    survival: dict[TextKind, tuple[int, int]] = field(default_factory=dict)
    beside_recency: dict[TextKind, tuple[int, int, int]] = field(default_factory=dict)
    freed_shares: list[float] = field(default_factory=list)
    floors: list[int] = field(default_factory=list)
    trigger_errors: list[float] = field(default_factory=list)
    prefix_shares: list[float] = field(default_factory=list)
    resume_steps: list[int] = field(default_factory=list)
    signatures: set[str] = field(default_factory=set)
    last_step: StepFinished | None = None
    cuts_in_loop: int = 0
    blocking_seconds: float = 0.0
    has_unknown_wait: bool = False
    """Whether another agent made a compaction without a recorded duration."""
    prefix_breaks: int = 0
    steps: int = 0
    duplicate_calls: int = 0
    compacted_tokens: int | None = None
    """Tokens in view before a compaction that no request has followed yet; None if there is none."""
    waits_since: int | None = None
    """Number of steps at a compaction after which the agent has not worked on yet; None if there is none."""
    visible: _VisibleTexts = field(default_factory=_VisibleTexts)
    test_runs: set[str] = field(default_factory=set)
    """Ids of the calls that run tests."""
    has_failed_tests: bool = False
    """Whether the newest test run has failed."""

    def add_entry(self, entry: Entry, before: View, after: View) -> None:
        """Add the next log entry, with the messages in view before and after it; both are read for compactions only."""
        event = entry.event
        match event:
            case SessionStarted() | SessionResumed():
                self.threshold_tokens = event.threshold_tokens
            case MessageAdded():
                self._add_calls(event.message)
                self._add_results(event.message)
            case StepFinished():
                self._add_step(event)
            case Compaction():
                self.blocking_seconds += _count_waited(event)
                is_recorded = event.reported_tokens_before is not None or (event.summary and event.summarizer_usage is None)
                self.has_unknown_wait |= bool(is_recorded and not event.summarizer_seconds and event.blocking_seconds is None)
                if event.status == "applied":
                    self._add_compaction(entry.seq, event, before, after)
            case _:
                pass

    def _add_calls(self, message: Message) -> None:
        for call in message.calls:
            signature = compute_signature(call)
            is_new = signature not in self.signatures
            self.duplicate_calls += not is_new
            self.signatures.add(signature)
            if self.waits_since is not None and is_new and call.name not in READ_TOOLS:
                self.resume_steps.append(self.steps - self.waits_since)
                self.waits_since = None

    def _add_results(self, message: Message) -> None:
        self.test_runs |= {call.call_id for call in message.calls if is_test_run(call)}
        for result in message.results:
            if result.call_id in self.test_runs:
                self.has_failed_tests = read_outcome(result) not in PASSED_OUTCOMES

    def _add_step(self, step: StepFinished) -> None:
        if self.last_step is not None:
            self.prefix_breaks += step.kept_prefix_messages < self.last_step.view_messages
        if self.compacted_tokens:
            self.prefix_shares.append(min(1.0, step.kept_prefix_tokens / self.compacted_tokens))
        self.compacted_tokens, self.last_step = None, step
        self.steps += 1

    def _add_compaction(self, seq: int, event: Compaction, before: View, after: View) -> None:
        last = self.last_step
        if self.threshold_tokens and last is not None and last.usage.is_reported and not last.impossible_usage:
            self.trigger_errors.append((last.usage.prompt_tokens + last.usage.output_tokens) / self.threshold_tokens)
        if event.tokens_before:
            self.freed_shares.append(1 - event.tokens_after / event.tokens_before)
        self.floors.append(event.tokens_after)
        self.cuts_in_loop += self.has_failed_tests
        for kind, texts in self._replace_texts(seq, event.patch, before).items():
            removed, kept = self.survival.get(kind, (0, 0))
            self.survival[kind] = removed + len(texts), kept + self.visible.count_contained(texts)
        for pair in compare_with_recency(before, after) if self.with_recency else ():
            seen, kept, recent = self.beside_recency.get(pair.kind, (0, 0, 0))
            self.beside_recency[pair.kind] = seen + pair.seen, kept + pair.kept, recent + pair.kept_by_recency
        self.compacted_tokens, self.waits_since = before.tokens, self.steps

    def _replace_texts(self, seq: int, patch: Patch, before: View) -> Mapping[TextKind, set[str]]:
        """Apply a patch to the visible texts, and return the distinctive texts of the messages that it removed."""
        removed_ids = patch.changed_ids
        removed = self.visible.catch_up(before, removed_ids)
        removed += [message for item_id in removed_ids if (message := self.visible.remove(item_id)) is not None]
        texts: dict[TextKind, set[str]] = {kind: set() for kind in TEXT_KINDS}
        for message in removed:
            if message.role != "system":
                for kind, found_texts in list_texts(message).items():
                    texts[kind] |= found_texts
        for change in patch.replace:
            self.visible.add(change.item, change.message)
        for index, insert in enumerate(patch.insert):
            self.visible.add(ItemId(seq, index), insert.message)
        return texts

    def build_effects(self) -> CompactionEffects:
        """Return the effects of all compactions so far."""
        return CompactionEffects(
            survival=tuple(KindSurvival(kind, *counts) for kind, counts in self.survival.items() if counts[0]),
            beside_recency=tuple(RecencySurvival(kind, *counts) for kind, counts in self.beside_recency.items() if counts[0]),
            freed_shares=tuple(self.freed_shares),
            floors_tokens=tuple(self.floors),
            trigger_errors=tuple(self.trigger_errors),
            prefix_shares=tuple(self.prefix_shares),
            resume_steps=tuple(self.resume_steps),
            cuts_in_loop=self.cuts_in_loop,
            blocking_seconds=None if self.has_unknown_wait else self.blocking_seconds,
            prefix_breaks=self.prefix_breaks,
            steps=self.steps,
            duplicate_calls=self.duplicate_calls,
        )


def _count_waited(event: Compaction) -> float:
    if event.status == "started":
        return 0.0
    return event.summarizer_seconds if event.blocking_seconds is None else event.blocking_seconds


def measure_compactions(entries: Iterable[Entry], counter: Counter) -> CompactionEffects:
    """Return the effects of all compactions of a session.

    Args:
        entries: Log of the session, without entries that a rollback undid.
        counter: Token counter of the session's policy.
    """
    builder, view = EffectsBuilder(), View()
    for entry in entries:
        before, view = view, fold(view, entry, counter)
        builder.add_entry(entry, before, view)
    return builder.build_effects()


def summarize_effects(effects: CompactionEffects) -> dict[str, Any]:
    """Return the effects as one number for each column of results; None if nothing was measured.

    Shares of several compactions are averaged. Numbers of repeated calls and of broken prefixes do not need a compaction.
    """
    survival = {row.kind: row.share for row in effects.survival}
    has_compacted = bool(effects.floors_tokens)
    return {
        **{f"{kind.replace(' ', '_')}_survival": survival.get(kind) for kind in TEXT_KINDS},
        "freed_share": _average(effects.freed_shares),
        "floor_growth_tokens": effects.floor_growth_tokens,
        "cycles_to_stuck": effects.cycles_to_stuck,
        "prefix_breaks_per_100_steps": effects.prefix_breaks_per_100_steps,
        "stable_prefix_share": _average(effects.prefix_shares),
        "blocking_seconds": effects.blocking_seconds if has_compacted else None,
        "trigger_error": _average(effects.trigger_errors),
        "duplicate_calls": effects.duplicate_calls,
        "resume_steps": _average(effects.resume_steps),
        "cuts_in_loop": effects.cuts_in_loop if has_compacted else None,
    }


def _average(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def describe_effects(effects: CompactionEffects, summary_note: str = "") -> Iterator[tuple[str, str]]:
    """Yield name and text of each effect that was measured, as rows of a table; nothing without a compaction.

    Args:
        effects: Effects of the compactions of a session.
        summary_note: Note behind durations of summaries, such as ` (simulated)`.
    """
    if not effects.floors_tokens:
        return
    if effects.survival:
        rows = (f"{row.kind} {row.kept} of {row.removed} ({format_percent(row.kept / row.removed)})" for row in effects.survival)
        yield "survived", ", ".join(rows)
    if effects.beside_recency:
        shares = (
            f"{row.kind} {format_percent(row.kept / row.seen)} ({format_percent(row.kept_by_recency / row.seen)})"
            for row in effects.beside_recency
        )
        yield "recency", f"stayed in view, and in brackets in the newest messages of equal tokens: {', '.join(shares)}"
    freed = f"{_format_range(effects.freed_shares, percent=True)} of the view at each compaction"
    growth, stuck = effects.floor_growth_tokens, effects.cycles_to_stuck
    freed += "" if growth is None else f"; the floor grew by {growth:+,.0f} tokens each time"
    yield "freed", freed + ("" if stuck is None else f"; stuck after {stuck} (less than {format_percent(STUCK_SHARE)} freed)")
    breaks = effects.prefix_breaks_per_100_steps
    prefix = "" if breaks is None else f"broken {effects.prefix_breaks} times, {breaks:.1f} for 100 steps; "
    share = f"{_format_range(effects.prefix_shares, percent=True)} kept at a compaction" if effects.prefix_shares else ""
    yield "prefix", f"{prefix}{share}".rstrip("; ")
    if effects.trigger_errors:
        yield "trigger", f"fired at {_format_range(effects.trigger_errors)} of the threshold, by the provider's count"
    resumed = f"after {_format_range(effects.resume_steps)} steps, " if effects.resume_steps else ""
    loop = f"{effects.cuts_in_loop} of {len(effects.floors_tokens)} compactions while tests failed"
    yield "resumed", f"{resumed}{effects.duplicate_calls} calls were made twice; {loop}"
    if effects.blocking_seconds is not None:
        yield "waited", f"{effects.blocking_seconds:.1f} s for summaries{summary_note}"


def _format_range(values: Sequence[float], *, percent: bool = False) -> str:
    """Return the mean of several values with the smallest and the largest."""
    form = "{:.2f}" if any(isinstance(value, float) for value in values) else "{:.0f}"
    low, mean, high = (
        format_percent(value) if percent else form.format(value)
        for value in (min(values), sum(values) / len(values), max(values))
    )
    return mean if min(values) == max(values) else f"{mean} ({low} to {high})"
