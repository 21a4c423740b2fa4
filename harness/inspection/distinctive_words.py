"""Distinctive words of a session, by kind, and what a compaction did to them.

A recording has no ledger of facts. Its paths, numbers and identifiers, the commands that ran, the decisions that the agent stated
and the constraints of the user stand in for them. A word that is no longer in view is no harm: an agent may do without it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

from harness.conversation.events import Compaction, Entry, ItemId, MessageAdded
from harness.conversation.messages import Message
from harness.conversation.tokens import Counter, iter_texts
from harness.conversation.transcript import find_key_argument
from harness.conversation.view import Item, View, drop_rolled_back, fold
from harness.inspection.disposition import Disposition
from harness.metrics.session_metrics import find_token

MAX_SEARCHED_CHARACTERS = 8_000
"""Length of the beginning of a text in which words are looked for, so that large outputs cost little."""
MAX_WORDS_PER_KIND = 400
"""Largest number of words of a kind that are followed at one boundary, those mentioned last."""
MAX_PHRASE_CHARACTERS = 160
CONTEXT_CHARACTERS = 70
"""Number of characters around a word that a view quotes on each side."""
MIN_LETTERS = 4
"""Smallest length of the words of a decision or a constraint by which a text is compared with it."""
MIN_SHARED = 0.6
"""Share of these words that one message must have for the decision or the constraint to stand in it."""
MIN_SHARED_WORDS = 3
"""Smallest number of these words that a decision or a constraint has."""
STAND_IN_CHARACTERS = 3_200
"""Length of the extractive stand-in where the agent's own compaction wrote no summary: 800 tokens."""

WORD_KINDS: Mapping[str, re.Pattern[str]] = {
    "path": re.compile(r"(?<![\w/.-])(?:[\w.-]+/)+[\w.-]+\.\w{1,5}\b"),
    "number": re.compile(r"(?<![\w.])(?:\d{4,}|\d+\.\d{2,})(?!\w|\.\d)"),
    "identifier": re.compile(r"\b(?:[a-z]+_[a-z_0-9]+|[a-z]+[A-Z]\w+|[A-Z][a-z]+[A-Z]\w+)\b"),
}
"""Kinds of single words, which are found by a pattern."""
PHRASE_KINDS = ("command", "decision", "user constraint")
"""Kinds of phrases: commands that the agent ran, sentences in which it decided, and sentences in which the user set limits."""
ALL_KINDS = (*WORD_KINDS, *PHRASE_KINDS)
_SHELL_NAMES = re.compile(r"bash|shell|terminal|exec|command|^run", re.IGNORECASE)
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?](?=\s|$))?")
_DECISION = re.compile(
    r"\b(?:I(?:'ll| will|'m going to)|we(?:'ll| will)|let's|let us|decid|instead of|going with|chose|choose|the plan is)\b",
    re.IGNORECASE,
)
_CONSTRAINT = re.compile(
    r"\b(?:must|should|never|always|don't|do not|only|without|at most|at least|make sure|ensure|required?|avoid|keep)\b",
    re.IGNORECASE,
)
_ESCAPED_SPACE = re.compile(r"\\+[nrt]")
_RUN = re.compile(r"[\w./-]+")
"""Run of characters in which a whole match of a pattern of `WORD_KINDS` stands, whatever is around the run."""
_MARKED = re.compile(r"[/_]|\d{4}|\.\d\d|[a-z][A-Z]")
"""Part of each match of these patterns, which few runs have."""
_LETTERS = re.compile(rf"[^\W_]{{{MIN_LETTERS},}}")

SURVIVAL_HEADS = ("kind", "in evicted messages", "if nothing is kept", "extractive stand-in", "in view after")
SURVIVAL_NOTE = (
    "Words of the evicted messages in the view after the compaction, beside stand-ins for its summary: one that keeps nothing, "
    "and the beginnings of the evicted messages cut to the summary's length. A summary that keeps everything keeps them all."
)

Fate: TypeAlias = Literal["used later", "seen again", "unused", "kept"]
"""Fate of a word of an evicted message.

- `kept`: It still stands in the view behind the compaction.
- `used later`: The agent wrote it later, although it stood nowhere in view and had not been seen again.
- `seen again`: A later message or compaction showed it before the agent wrote it.
- `unused`: Neither.
"""
FATES: tuple[Fate, ...] = ("used later", "seen again", "unused", "kept")


class WordQuote(NamedTuple):
    """Place of a word in a message, with the text around it."""

    label: str
    text_before: str
    word: str
    text_after: str


class WordFate(NamedTuple):
    """Distinctive word or phrase of an evicted or changed message, and what became of it.

    Args:
        kind: Kind of the word, such as `path`.
        word: Word or phrase.
        before: Newest message with it before the compaction.
        action: What the policy did to that message.
        after: Message with it behind the compaction; None if no message shows it.
        fate: What became of it. A phrase is never `used later`, since the agent wrote most of them itself.
        step: Number of the step in which it was used or seen again; None if it was not.
    """

    kind: str
    word: str
    before: WordQuote
    action: Disposition
    after: WordQuote | None
    fate: Fate
    step: int | None


class Survival(NamedTuple):
    """Number of words of one kind in evicted messages, and of those that would stand in several views behind a compaction.

    A summary that keeps everything would leave `evicted`.

    Args:
        kind: Kind of the words.
        evicted: Words in the evicted messages, those that the agent wrote included.
        nothing: Words that stand in the messages that were kept: a summary that keeps nothing.
        extractive: Words that stand there, or in the beginnings of the evicted messages, cut to the length of the summary.
        native: Words that stand in the view that the session's own compaction left.
    """

    kind: str
    evicted: int
    nothing: int
    extractive: int
    native: int


class WordFinder:
    """Finder of distinctive words and phrases that reads each message, and each run of characters in any of them, only once.

    A pattern of `WORD_KINDS` matches within a run of letters, digits and the characters `_./-`, whatever stands around the run.
    Most runs of a message stand in other messages, too, so looking them up takes a fraction of the time of the patterns.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._words_of_run: dict[str, tuple[frozenset[str], ...]] = {}
        """Words of each run that has any, by kind in the order of `WORD_KINDS`."""
        self._messages: dict[int, _ReadMessage] = {}  # keeps the messages, so no other message gets the `id` of one

    def find_words(self, message: Message) -> Mapping[str, frozenset[str]]:
        """Return the single distinctive words of a message, by kind."""
        return self._read(message).words

    def find_phrases(self, message: Message) -> Mapping[str, tuple[str, ...]]:
        """Return the commands, decisions and constraints in a message, by kind."""
        return self._read(message).phrases

    def sort_words(self, message: Message) -> Mapping[str, tuple[str, ...]]:
        """Return the single distinctive words of a message in alphabetical order, by kind."""
        return self._read(message).sorted_words

    def join_texts(self, message: Message) -> str:
        """Return what the function `join_texts` returns."""
        return self._read(message).text

    def find_in_text(self, text: str) -> dict[str, frozenset[str]]:
        """Return the single distinctive words of a text, by kind."""
        runs = set(_RUN.findall(text))
        for run in filter(_MARKED.search, runs - self._known):
            words = tuple([frozenset(pattern.findall(run)) for pattern in WORD_KINDS.values()])
            if any(words):
                self._words_of_run[run] = words
        self._known |= runs
        rows = [self._words_of_run[run] for run in self._words_of_run.keys() & runs]
        return {kind: frozenset[str]().union(*[row[place] for row in rows]) for place, kind in enumerate(WORD_KINDS)}

    def _read(self, message: Message) -> "_ReadMessage":
        known = self._messages.get(id(message))
        if known is None:
            text = join_texts(message)
            known = self._messages[id(message)] = _ReadMessage(message, text, self.find_in_text(text))
        return known


@dataclass(frozen=True)
class _ReadMessage:
    """Message with its words; its phrases are looked for when they are needed."""

    message: Message
    text: str
    words: Mapping[str, frozenset[str]]

    @cached_property
    def sorted_words(self) -> Mapping[str, tuple[str, ...]]:
        return {kind: tuple(sorted(words)) for kind, words in self.words.items()}

    @cached_property
    def phrases(self) -> Mapping[str, tuple[str, ...]]:
        return find_phrases(self.message)


def find_words(message: Message) -> Mapping[str, frozenset[str]]:
    """Return the single distinctive words of a message, by kind."""
    return WordFinder().find_words(message)


def join_texts(message: Message) -> str:
    r"""Return the beginnings of the texts of a message, in which words are looked for.

    An escaped line break or tab, as in the JSON of arguments, becomes two spaces: `\nTest` is the word `Test`, not `nTest`.
    """
    text = "\n".join([text[:MAX_SEARCHED_CHARACTERS] for text in iter_texts(message)])
    return _ESCAPED_SPACE.sub(lambda match: " " * len(match[0]), text) if "\\" in text else text


def find_phrases(message: Message) -> dict[str, tuple[str, ...]]:
    """Return the commands, decisions and constraints in a message, by kind."""
    commands, decisions, constraints = list[str](), list[str](), list[str]()
    for call in message.calls:
        if _SHELL_NAMES.search(call.name):
            first = re.split(r"&&|\|\||[|;\n]|<<", find_key_argument(call).strip())[0]
            commands.append(_shorten(first))
    if message.role in ("assistant", "user"):
        said = "\n".join(part.text[:MAX_SEARCHED_CHARACTERS] for part in message.parts if part.kind == "text")
        pattern, found = (_DECISION, decisions) if message.role == "assistant" else (_CONSTRAINT, constraints)
        sentences = [_shorten(sentence) for sentence in _SENTENCE.findall(said) if pattern.search(sentence)]
        found += [sentence for sentence in sentences if len(_list_letters(sentence)) >= MIN_SHARED_WORDS]
    commands = [command for command in commands if len(command) >= MIN_LETTERS]
    return {"command": tuple(commands), "decision": tuple(decisions), "user constraint": tuple(constraints)}


def _shorten(text: str) -> str:
    return " ".join(text.split())[:MAX_PHRASE_CHARACTERS]


def _list_letters(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _LETTERS.findall(text))


class ViewWords:
    """Texts of some messages, in which words and phrases are looked up."""

    def __init__(self, texts: Iterable[tuple[str, Mapping[str, frozenset[str]]]]) -> None:
        """Collect texts, each with its single words by kind."""
        self.texts: list[str] = []
        self.places: dict[str, dict[str, int]] = {kind: {} for kind in WORD_KINDS}
        """Place of the last text with each single word, by kind."""
        for place, (text, found) in enumerate(texts):
            self.texts.append(text)
            for kind, words in found.items():
                self.places[kind] |= dict.fromkeys(words, place)

    @classmethod
    def from_messages(cls, messages: Iterable[Message], finder: WordFinder) -> "ViewWords":
        """Return the words of messages, which the finder reads unless it has read them before."""
        return cls([(finder.join_texts(message), finder.find_words(message)) for message in messages])

    @cached_property
    def _spaced(self) -> list[str]:
        return [" ".join(text.split()) for text in self.texts]

    @cached_property
    def _letters(self) -> list[frozenset[str]]:
        return [_list_letters(text) for text in self.texts]

    def find(self, kind: str, word: str) -> int | None:
        """Return the place of the last text in which a word or phrase stands; None if there is none."""
        if kind in WORD_KINDS:
            return self.places[kind].get(word)
        backwards = reversed(range(len(self.texts)))
        if kind == "command":
            return next((place for place in backwards if word in self._spaced[place]), None)
        letters = _list_letters(word)
        needed = MIN_SHARED * len(letters)
        return next((place for place in backwards if len(letters & self._letters[place]) >= needed), None)


def list_words(messages: Sequence[Message], finder: WordFinder) -> dict[str, dict[str, int]]:
    """Return the distinctive words and phrases of some messages by kind, each with the place of the last message that has it.

    Of each kind at most `MAX_WORDS_PER_KIND` are returned, those mentioned last.
    """
    found: dict[str, dict[str, int]] = {kind: {} for kind in ALL_KINDS}
    for place, message in enumerate(messages):
        for kind, words in (*finder.sort_words(message).items(), *finder.find_phrases(message).items()):
            places = found[kind]
            for word in words:
                places.pop(word, None)
                places[word] = place
    return {kind: dict(list(words.items())[-MAX_WORDS_PER_KIND:]) for kind, words in found.items()}


def count_survival(
    evicted: Sequence[Message], kept: Sequence[Message], inserted: Sequence[Message], finder: WordFinder | None = None
) -> tuple[Survival, ...]:
    """Return for each kind how many words of evicted messages stand in the view behind a compaction, and behind stand-ins of it.

    Args:
        evicted: Messages as they were before the compaction, those that it shortened included.
        kept: Messages that it did not touch.
        inserted: Summaries and shortened messages that it wrote.
        finder: Finder that has read messages of the same session. Default: a new one.
    """
    finder = finder or WordFinder()
    words = list_words(evicted, finder)
    left, native = ViewWords.from_messages(kept, finder), ViewWords.from_messages(inserted, finder)
    extracted = write_extract(evicted, sum(map(len, native.texts)), finder)
    extract = ViewWords([(extracted, finder.find_in_text(extracted))])
    rows = []
    for kind, places in words.items():
        standing = {word for word in places if left.find(kind, word) is not None}
        others = [word for word in places if word not in standing]
        rows.append(
            Survival(
                kind,
                len(places),
                len(standing),
                len(standing) + sum(extract.find(kind, word) is not None for word in others),
                len(standing) + sum(native.find(kind, word) is not None for word in others),
            )
        )
    return tuple(rows)


def write_extract(messages: Sequence[Message], characters: int, finder: WordFinder | None = None) -> str:
    """Return the beginnings of some messages, in equal shares of a length, as a summary that writes no word of its own.

    Args:
        messages: Evicted messages.
        characters: Length of the summary in characters; 0 takes `STAND_IN_CHARACTERS`.
        finder: Finder that has read messages of the same session. Default: a new one.
    """
    finder = finder or WordFinder()
    share = max(1, (characters or STAND_IN_CHARACTERS) // max(1, len(messages)))
    return "\n".join(finder.join_texts(message)[:share] for message in messages)[: characters or STAND_IN_CHARACTERS]


def split_views(before: View, after: View) -> tuple[list[Item], list[Item], list[Item]]:
    """Return the messages that a compaction removed or shortened, those that it kept, and those that it wrote, in view order."""
    old = {item.item_id: item.message for item in before.items}
    new = {item.item_id: item.message for item in after.items}
    gone = [item for item in before.items if new.get(item.item_id) != item.message]
    kept = [item for item in before.items if new.get(item.item_id) == item.message]
    return gone, kept, [item for item in after.items if old.get(item.item_id) != item.message]


class CompactionWords(NamedTuple):
    """Distinctive words of the messages that one compaction evicted or shortened, and what became of them.

    Args:
        fates: Words and phrases: those used later first, then those seen again, those not used, and those still in view.
        survival: Numbers by kind, with stand-ins.
    """

    fates: tuple[WordFate, ...]
    survival: tuple[Survival, ...]


class _Shown(NamedTuple):
    """Message or summary that came into view, with its single words by kind and its text on one line."""

    seq: int
    role: str
    step: int
    words: Mapping[str, frozenset[str]]
    text: str


def follow_words(entries: Iterable[Entry], counter: Counter, finder: WordFinder | None = None) -> dict[int, CompactionWords]:
    """Return what each applied compaction did to distinctive words, by the number of its event in the log.

    Args:
        entries: Log of a session; events that were rolled back are ignored.
        counter: Token counter of the session's compaction policy.
        finder: Finder that has read messages of the log before, such as those of the same session under another policy. Default:
            a new one.
    """
    log, view = drop_rolled_back(list(entries)), View()
    labels: dict[ItemId, str] = {}
    finder, shown = finder or WordFinder(), list[_Shown]()
    cuts: list[tuple[int, View, View]] = []
    for entry in log:
        before, view = view, fold(view, entry, counter)
        match entry.event:
            case MessageAdded(message=message, step=step):
                labels[view.items[-1].item_id] = _label(message, step)
                text = " ".join(finder.join_texts(message).split())
                shown.append(_Shown(entry.seq, message.role, step, finder.find_words(message), text))
            case Compaction(status="applied") as event:
                written = [item for item in view.items if item.item_id not in {old.item_id for old in before.items}]
                labels |= {item.item_id: f"summary of compaction {event.round}" for item in written}
                cuts.append((entry.seq, before, view))
                words = ViewWords.from_messages([item.message for item in written], finder)
                found = {kind: frozenset(known) for kind, known in words.places.items()}
                shown.append(_Shown(entry.seq, "summary", event.step, found, " ".join(words.texts)))
    return {seq: _follow(seq, before, after, labels, shown, finder) for seq, before, after in cuts}


def _follow(
    seq: int,
    before: View,
    after: View,
    labels: Mapping[ItemId, str],
    shown: Sequence[_Shown],
    finder: WordFinder,
) -> CompactionWords:
    gone, kept, written = split_views(before, after)
    later = [row for row in shown if row.seq > seq]
    standing = ViewWords.from_messages([item.message for item in after.items], finder)
    in_after = {item.item_id for item in after.items}
    own: dict[str, set[str]] = {kind: set() for kind in WORD_KINDS}
    others: dict[str, set[str]] = {kind: set() for kind in WORD_KINDS}
    for item in before.items:  # a word that the agent wrote first may have been invented by it, and may be written again
        for kind, words in finder.find_words(item.message).items():
            target = own if item.message.role == "assistant" else others
            target[kind] |= words - (others if target is own else own)[kind]
    fates = []
    covered = bool(written)
    for kind, places in list_words([item.message for item in gone], finder).items():
        for word, place in places.items():
            if kind in WORD_KINDS and word in own[kind]:
                continue
            item = gone[place]
            where = standing.find(kind, word)
            fate, step = ("kept", None) if where is not None else _find_fate(kind, word, later)
            carrier = None if where is None else after.items[where]
            action: Disposition = "masked" if item.item_id in in_after else "summarized" if covered else "dropped"
            quote = None if carrier is None else _quote(carrier, labels, kind, word, finder)
            fates.append(WordFate(kind, word, _quote(item, labels, kind, word, finder), action, quote, fate, step))
    fates.sort(key=lambda fate: (FATES.index(fate.fate), fate.step or 0))
    survival = count_survival(
        [item.message for item in gone], [item.message for item in kept], [item.message for item in written], finder
    )
    return CompactionWords(tuple(fates), survival)


def _find_fate(kind: str, word: str, later: Sequence[_Shown]) -> tuple[Fate, int | None]:
    for row in later:
        if word in row.words[kind] if kind in WORD_KINDS else word in row.text:
            return ("used later" if row.role == "assistant" and kind in WORD_KINDS else "seen again"), row.step
    return "unused", None


def _label(message: Message, step: int) -> str:
    if message.role == "user":
        return "message of the user"
    if message.role == "system":
        return "system prompt"
    return f"step {step}, the agent" if message.role == "assistant" else f"step {step}, output of a tool"


def _quote(item: Item, labels: Mapping[ItemId, str], kind: str, word: str, finder: WordFinder) -> WordQuote:
    """Quote the line of a message with a word; of a phrase in other words, only the place."""
    text, label = finder.join_texts(item.message), labels.get(item.item_id, "")
    place = find_token(text, word)
    if place < 0:
        return WordQuote(label, "", word if kind not in WORD_KINDS else "", "")
    behind = place + len(word)
    start = max(text.rfind("\n", 0, place) + 1, place - CONTEXT_CHARACTERS)
    end = text.find("\n", behind)
    stop = min(len(text) if end < 0 else end, behind + CONTEXT_CHARACTERS)
    return WordQuote(label, text[start:place].lstrip(), word, text[behind:stop].rstrip())


def describe_fate(fate: WordFate) -> str:
    """Return in a few words what became of a word after a compaction."""
    match fate.fate:
        case "used later":
            return f"used later at step {fate.step}"
        case "seen again":
            return f"seen again at step {fate.step}"
        case "unused":
            return "not used later"
        case "kept":
            return "still in view"


def describe_words(words: CompactionWords) -> str:
    """Return in one sentence how many words left the view, and how many of them the agent used later."""
    gone = [fate for fate in words.fates if fate.fate != "kept"]
    used = [fate for fate in gone if fate.fate == "used later"]
    again = sum(fate.fate == "seen again" for fate in gone)
    first = f", the first at step {used[0].step}" if used else ""
    return (
        f"{len(gone):,} of {len(words.fates):,} distinctive words left the view; {len(used):,} of them were used later{first}, "
        f"{again:,} were seen again first."
    )
