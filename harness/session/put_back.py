"""Compactions that keep what they lost: the facts that a compaction removed, put back at the places where they stood.

A fact is put back with the lines that stated its newest value. If the message with the value was replaced or summarized, the
lines are added to the text that stands for it; if it was evicted, they become a message of the user at its place. The control
puts a text without facts, of equal length in characters, at the same places.

Source: restoration of dropped facts as in arXiv 2608.16370.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from harness.conversation.events import Compaction, Entry, Insert, ItemId, Patch
from harness.conversation.messages import Message, Text, ToolCall, ToolResult, user
from harness.conversation.tokens import Counter, Estimated
from harness.conversation.view import View, drop_rolled_back, find_violation, fold_all, patch_items
from harness.errors import UsageError
from harness.models.scripted.patterns import FactMatch
from harness.models.scripted.profiles import EXACT, Reader
from harness.models.scripted.visible_state import FactReader, extract_searchable_text
from harness.session.history import list_dropped_facts
from harness.task import Fact, Task

PUT_BACK_HEADING = "From earlier in this conversation:"
"""First line of a message that puts lines back at the place of an evicted message."""
FILLER = "This part of the conversation is left blank on purpose, since nothing in it matters for the work. "
"""Text of which the control consists, repeated to the length of the lines that it replaces; it states no fact of any task."""


class Excerpt(NamedTuple):
    """Lines of a message that a compaction removed, with the facts whose newest values they state."""

    item_id: ItemId
    """Message in which the lines stood before the compaction."""
    fact_names: tuple[str, ...]
    text: str


class LostFacts(NamedTuple):
    """Facts that a compaction removed from view, with the lines that stated them."""

    excerpts: tuple[Excerpt, ...]
    """Lines with lost facts, in the order of the messages in which they stood."""
    before: View
    """Messages in view before the compaction."""

    @property
    def fact_names(self) -> tuple[str, ...]:
        """Names of the lost facts, in the order of the messages in which they stood."""
        return tuple(dict.fromkeys(name for excerpt in self.excerpts for name in excerpt.fact_names))


def find_lost_facts(
    entries: Sequence[Entry],
    task: Task,
    compaction_seq: int,
    counter: Counter,
    reader: Reader = EXACT,
    names: Collection[str] | None = None,
) -> LostFacts:
    """Return the facts that a compaction removed from view, with the lines that stated their newest values.

    Args:
        entries: Entries of the session's log, at least up to the compaction.
        task: Task whose facts are searched for.
        compaction_seq: Number of the log event that records the compaction.
        counter: Token counter of the session's compaction policy.
        reader: Rule by which the scripted agent finds values in the texts that it sees.
        names: Names of the facts to return; None returns all lost facts.

    Raises:
        UsageError: `names` contains a fact that the compaction did not lose.
    """
    lost = list_dropped_facts(entries, task, compaction_seq, counter, reader)
    if unknown := sorted(set(names or ()) - set(lost)):
        known = ", ".join(lost) or "it lost none"
        raise UsageError(f"facts: the compaction did not lose {', '.join(unknown)}; choose from the facts that it lost: {known}")
    facts = {fact.name: fact for fact in task.facts if fact.name in (lost if names is None else names)}
    before = fold_all([entry for entry in drop_rolled_back(entries) if entry.seq < compaction_seq], counter)
    newest: dict[str, tuple[int, str]] = {}
    for index, item in enumerate(before.items):
        for match in _find_values(item.message, task, reader):
            if match.name in facts:
                newest[match.name] = index, _choose_excerpt(item.message, facts[match.name], match, reader)
    names_by_place: dict[tuple[int, str], list[str]] = {}
    for name, place in newest.items():
        names_by_place.setdefault(place, []).append(name)
    excerpts = [
        Excerpt(before.items[index].item_id, tuple(stated), text) for (index, text), stated in sorted(names_by_place.items())
    ]
    return LostFacts(tuple(excerpts), before)


def _find_values(message: Message, task: Task, reader: Reader) -> tuple[FactMatch, ...]:
    return FactReader(task.facts, EXACT if message.role == "tool" else reader).find_newest(message)


def _choose_excerpt(message: Message, fact: Fact, match: FactMatch, reader: Reader) -> str:
    """Return the shortest part of a message, in whole lines, in which the value of a fact is found."""
    text = extract_searchable_text(message)
    value_start = max(text.find(match.value, match.offset), match.offset)
    end = text.find("\n", value_start + len(match.value))
    lines = text[text.rfind("\n", 0, match.offset) + 1 : None if end < 0 else end]
    fact_reader = FactReader((fact,), reader)
    candidates = [lines]
    if fact.required_word:  # the pattern alone may fit other values
        candidates += [f"{line}\n{lines}" for line in text.splitlines() if fact.required_word in line][:1]
    for candidate in candidates:
        if fact_reader.find_values(user(candidate)).get(fact.name, ())[-1:] == (match.value,):
            return candidate
    return text


def write_filler(text: str) -> str:
    """Return a text that states no fact, with as many characters in each line as a given text."""
    return "\n".join((FILLER * (len(line) // len(FILLER) + 1))[: len(line)] for line in text.split("\n"))


def put_back(compaction: Compaction, seq: int, lost: LostFacts, counter: Counter, *, is_control: bool = False) -> Compaction:
    """Return a compaction that does not lose some facts.

    Args:
        compaction: Applied compaction that lost the facts.
        seq: Number of its event in the log.
        lost: Facts to put back, with the lines that stated them.
        counter: Token counter of the session's compaction policy.
        is_control: Whether to put a text without facts at the same places instead.
    """
    if not lost.excerpts:
        return compaction
    patch, after = compaction.patch, _find_kept_places(compaction.patch, lost.before)
    texts: dict[ItemId, list[str]] = {}
    for excerpt in lost.excerpts:
        texts.setdefault(excerpt.item_id, []).append(write_filler(excerpt.text) if is_control else excerpt.text)
    covering = {item: index for index, insert in enumerate(patch.insert) for item in insert.stands_for}
    replaced = {change.item: index for index, change in enumerate(patch.replace)}
    replacements, inserts, added = list(patch.replace), list(patch.insert), list[Insert]()
    for item_id, lines in texts.items():
        text = "\n".join(lines)
        if item_id in replaced and item_id not in patch.forget:
            index = replaced[item_id]
            replacements[index] = replace(replacements[index], message=_add_text(replacements[index].message, text))
        elif item_id in covering:
            index = covering[item_id]
            inserts[index] = replace(inserts[index], message=_add_text(inserts[index].message, text))
        else:
            heading = write_filler(PUT_BACK_HEADING) if is_control else PUT_BACK_HEADING
            added.append(Insert(message=user(f"{heading}\n{text}"), after=after[item_id]))
    patch = replace(patch, replace=tuple(replacements), insert=(*inserts, *added))
    patch = _move_to_legal_places(patch, seq, lost.before, counter, first_added=len(inserts))
    patched = patch_items(lost.before.items, patch, seq, counter)
    what = "a text without facts in place of" if is_control else "facts put back:"
    return replace(
        compaction,
        patch=patch,
        reason=f"{compaction.reason}; {what} {', '.join(lost.fact_names)}",
        tokens_after=Estimated(lost.before.tokens + patched.added_tokens),
        messages_after=len(patched.items),
    )


def _find_kept_places(patch: Patch, before: View) -> dict[ItemId, ItemId]:
    """Return for each message the nearest message before it, or the message itself, that a compaction leaves in view."""
    evicted, places = set(patch.forget), dict[ItemId, ItemId]()
    newest = before.items[0].item_id
    for item in before.items:
        newest = newest if item.item_id in evicted else item.item_id
        places[item.item_id] = newest
    return places


def _move_to_legal_places(patch: Patch, seq: int, before: View, counter: Counter, *, first_added: int) -> Patch:
    """Move added messages backwards until none stands between a tool call and its result."""
    kept = [item.item_id for item in before.items if item.item_id not in set(patch.forget)]
    inserts = list(patch.insert)
    for index in range(first_added, len(inserts)):
        while (place := kept.index(inserts[index].after)) > 0:
            trial = replace(patch, insert=tuple(inserts[: index + 1]))
            if not find_violation([item.message for item in patch_items(before.items, trial, seq, counter).items]):
                break
            inserts[index] = replace(inserts[index], after=kept[place - 1])
    return replace(patch, insert=tuple(inserts))


def _add_text(message: Message, text: str) -> Message:
    """Return a message with a text behind its own: in a tool's message as part of the output, else before any tool calls."""
    if message.role == "tool":
        *others, last = message.parts
        assert isinstance(last, ToolResult)
        return replace(message, parts=(*others, replace(last, output=f"{last.output}\n{text}")))
    index = next((index for index, part in enumerate(message.parts) if isinstance(part, ToolCall)), len(message.parts))
    return replace(message, parts=(*message.parts[:index], Text(text=text), *message.parts[index:]))
