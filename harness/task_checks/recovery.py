"""Validity checks on looking up lost facts.

A recoverable fact can be looked up in the workspace whenever a step needs the fact. Any other fact can never be looked up.
"""

import base64
import codecs
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache, lru_cache, partial
from itertools import islice
from string import Template
from typing import NamedTuple

from harness.compaction.description import choose_truncation
from harness.compaction.presets.none import NoCompaction
from harness.conversation.messages import ToolCall
from harness.conversation.transcript import find_key_argument
from harness.models.scripted.profiles import Reader
from harness.protocols import Sandbox
from harness.task import Fact, Task
from harness.task_checks.definitions import SEEDS
from harness.task_checks.findings import Finding, Move, collect_needs, find_first_needing_step, read_values, trace
from harness.task_checks.simulation import SessionCache, WatchedRun, open_task_sandbox
from harness.tools import make_session_tools
from harness.tools.task_tools import make_task_tools

CONTEXT_WIDTHS = (4, 8, 16)
"""Lengths in characters of the text before a value that are tried as context by which an agent could find the value in a file."""
COMPARED_SEEDS = 8
"""Maximum number of other seeds whose outputs are searched for the value in the same place; one other place ends the search."""
MAX_PLACES = 200
"""Maximum number of occurrences of a value in a text that are compared with the texts of other seeds."""


def check_recovery(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that a lost fact can be looked up whenever a step of the session needs it.

    The tool call that looks up the fact must show its value. A step that itself writes the file from which the fact can be looked
    up, such as a note, may need the fact before the file exists. For a fact that is revised later, the tool call may also show an
    earlier value.
    """
    task, watched = sessions.make_task(seed), sessions.watch(seed)
    needs = _list_needs(task, trace(task, watched.run.requests, sessions.model_spec.reader))
    with closing(open_task_sandbox(task, sessions.sandbox).use_blobs(watched.blobs)) as sandbox:
        sandbox.start()

        @cache
        def find_error(name: str, index: int) -> str:
            """Return why a fact cannot be looked up right before the request with this index; empty if it can."""
            sandbox.restore(watched.trees[index])
            return _find_recovery_error(next(fact for fact in task.facts if fact.name == name), task, sandbox)

        for fact in task.facts:
            if fact.recover is not None and needs.get(fact.name):
                yield from _find_missing_look_up(fact, needs[fact.name], find_error, seed)


def _find_missing_look_up(
    fact: Fact, needs: Sequence[Move], find_error: Callable[[str, int], str], seed: int
) -> Iterator[Finding]:
    """Report the first step before which a fact cannot be looked up although the step needs the fact."""
    was_shown = not find_error(fact.name, 0)
    for move in needs:
        if not (error := find_error(fact.name, move.number - 1)):
            was_shown = True
        elif was_shown or find_error(fact.name, move.number):
            words = f"the step needs the fact, which cannot be recovered{' any more' * was_shown} before this step: {error}"
            yield Finding(words, step=move.step, fact=fact.name, seed=seed)
            return


def _list_needs(task: Task, moves: Sequence[Move]) -> dict[str, list[Move]]:
    """Return the agent's actions that use each fact, by name of the fact."""
    steps = {step.name: step for step in task.script.steps}
    needs: dict[str, list[Move]] = {}
    for move in moves:
        if move.kind in {"step", "repair"}:
            step = steps[move.step]
            actions = (step,) if move.kind == "step" else step.repairs
            for name in {name: None for action in actions for name in action.required_facts}:
                needs.setdefault(name, []).append(move)
    return needs


def _find_recovery_error(fact: Fact, task: Task, sandbox: Sandbox) -> str:
    """Return the reason why the agent cannot look up a lost fact in a workspace; empty when it can."""
    files = sandbox.snapshot().files
    if fact.source and fact.source not in files and not any(path.startswith(f"{fact.source}/") for path in files):
        return f"its source {fact.source!r} does not exist"
    if fact.recover is None:
        return "the fact has no recovering call"
    arguments = {name: Template(text).substitute() for name, text in fact.recover.arguments}
    call = ToolCall(call_id="again", name=fact.recover.tool, arguments_json=json.dumps(arguments))
    own_tools = make_task_tools(task.tools, sandbox)
    tools = {tool.spec.name: tool for tool in (*make_session_tools(choose_truncation(NoCompaction()), sandbox, None), *own_tools)}
    value, output = task.values[fact.name], tools[call.name].run(call).output
    if (collect := getattr(tools[call.name], "collect_images", None)) is not None:
        output = "\n".join((output, *(image.text for image in collect(call.call_id))))
    values = read_values(output, fact)
    if value in values or (values and fact.is_superseded):
        return ""
    return f"its patterns do not read {value!r} from what {call.name} {find_key_argument(call)!r:.100} shows: {output!r:.100}"


def check_hidden(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that no file reveals a fact that cannot be looked up, before the agent uses it.

    A fact cannot be looked up if it has no recovering call (a tool call that shows its value). A file reveals a value in two
    cases:

    - A text pattern of the fact finds the value.
    - One rule, such as the line number or the words next to the value, finds the right value under every seed. The value may be
      encoded, e.g. in base64.

    Files in the fact's list `also_in` are exempt.
    """
    task = sessions.make_task(seed)
    reader = sessions.model_spec.reader
    trace_own = cache(lambda: _TracedSession.make(task, sessions.watch(seed), reader))
    trace_other = cache(lambda: _TracedSession.make(*sessions.watch_other(seed)[1:], reader))
    for fact in task.facts:
        if fact.recover is not None or not task.values.get(fact.name):
            continue
        paths = {*_find_initial_files(sessions, fact, seed), *_find_produced_files(trace_own(), trace_other, fact)}
        paths -= {*fact.also_in}
        if paths:
            words = (
                f"the fact has no recovering call, but its value stands in {', '.join(map(repr, sorted(paths)))}; remove it "
                "there, add a recovering call, or name the file in `also_in` if an agent has no reason to look there"
            )
            yield Finding(words, step=find_first_needing_step(task, fact.name), fact=fact.name, seed=seed)


def _find_initial_files(sessions: SessionCache, fact: Fact, seed: int) -> Iterator[str]:
    """Yield the paths of the initial files that reveal the value of a fact by their text or their name."""
    tasks = [sessions.make_variant(seed, other) for other in (seed, *SEEDS)]
    values, files = [task.values[fact.name] for task in tasks], [dict(task.workspace) for task in tasks]
    yield from (path for path, text in files[0].items() if values[0] in read_values(text, fact))
    common = set(files[0]).intersection(*files)
    # first the text of a file that exists for every seed, then paths, then files whose paths depend on the seed
    yield from (path for path in common if _has_common_place(values, [texts[path] for texts in files]))
    if _has_common_place(values, ["\n".join(texts) for texts in files], numbered=False):
        yield from (path for path in files[0] if values[0] in path)
    other_texts = ["\n".join(text for path, text in texts.items() if path not in common) for texts in files]
    if _has_common_place(values, other_texts, numbered=False):
        yield from (path for path, text in files[0].items() if path not in common and values[0] in text)


class _TracedSession(NamedTuple):
    """Recorded session of a task, with the agent's actions that use each fact, by name of the fact."""

    task: Task
    watched: WatchedRun
    needs: Mapping[str, Sequence[Move]]

    @classmethod
    def make(cls, task: Task, watched: WatchedRun, reader: Reader) -> "_TracedSession":
        return cls(task, watched, _list_needs(task, trace(task, watched.run.requests, reader)))

    def list_texts_before_use(self, fact: Fact) -> dict[str, str]:
        """Return the files that the session wrote before the agent first needed a fact, by path.

        Each text begins with the path.
        """
        needs = self.needs.get(fact.name)
        if not needs:
            return {}
        initial = dict(self.task.workspace)
        texts = self.watched.read_texts(self.watched.trees[needs[0].number - 1])
        return {path: f"{path}\n{text}" for path, text in texts.items() if initial.get(path) != text}


def _find_produced_files(own: _TracedSession, trace_other: Callable[[], _TracedSession], fact: Fact) -> Iterator[str]:
    """Yield the paths of files that a session wrote and that reveal a fact before the fact is first needed.

    A file reveals the value if a text pattern of the fact finds the value, or if a session with other values has the other value
    in the same place.
    """
    value, texts = own.task.values[fact.name], own.list_texts_before_use(fact)
    yield from (path for path, text in texts.items() if value in read_values(text, fact))
    if any(value in text for text in texts.values()):
        other = trace_other()
        other_value, other_texts = other.task.values[fact.name], other.list_texts_before_use(fact)
        common = texts.keys() & other_texts.keys()
        yield from (path for path in common if _has_common_place([value, other_value], [texts[path], other_texts[path]]))


def check_outputs(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that no tool output reveals a fact that only the user states and a later step needs.

    The stated facts are first deleted from messages and files. The agent then works with priors, so a true value in an output
    cannot come from the agent. An output reveals a value by the same rules as a file in the law `hidden`. Lines of the files in
    the fact's list `also_in` are exempt.
    """
    task, steps = sessions.make_task(seed), sessions.make_task(seed).script.steps
    last_needs = {name: number for number, step in enumerate(steps) for name in collect_needs(step)}
    hidden_facts = [fact for fact in task.facts if fact.said_in == "prompt" and fact.recover is None]
    choose_seeds = cache(partial(_choose_seeds, sessions, seed=seed))
    list_outputs = cache(partial(_list_outputs, sessions, seed))

    def find_value_and_output(fact: Fact, step: str, other: int) -> tuple[str, str]:
        """Return the value of a fact and the output of a step in the task whose values come from another seed."""
        variant = sessions.make_variant(seed, other)
        value, output = variant.values[fact.name], list_outputs(other).get(step, "")
        return value, _remove_known_lines(output, [text for path, text in variant.workspace if path in fact.also_in], value)

    for number, step in enumerate(steps):
        for fact in hidden_facts:
            is_needed_later = number < last_needs.get(fact.name, 0)
            if is_needed_later and _is_shown(fact, seed, choose_seeds(fact), partial(find_value_and_output, fact, step.name)):
                words = (
                    "only the request states the fact, but its value stands in the output of this step, not only after its use; "
                    "remove it there, or add a recovering call"
                )
                yield Finding(words, step=step.name, fact=fact.name, seed=seed)


def _remove_known_lines(output: str, texts: Sequence[str], value: str) -> str:
    """Return a tool output without the lines that contain a line of a known text in which the value appears."""
    known_lines = {line.strip() for text in texts for line in text.splitlines() if value in line}
    lines = output.splitlines(keepends=True)
    return "".join(line for line in lines if not any(text in line for text in known_lines)) if known_lines else output


def _choose_seeds(sessions: SessionCache, fact: Fact, seed: int) -> list[int]:
    """Return other seeds to compare outputs with, those with a new value of the fact first."""
    values = {other: sessions.make_variant(seed, other).values[fact.name] for other in (seed, *SEEDS)}
    first_seeds = {value: other for other, value in reversed(values.items())}.values()
    return sorted(values.keys() - {seed}, key=lambda other: (other not in first_seeds, other))[:COMPARED_SEEDS]


def _is_shown(fact: Fact, seed: int, other_seeds: Sequence[int], find_value_and_output: Callable[[int], tuple[str, str]]) -> bool:
    """Return whether a tool output reveals a fact: by a text pattern, or at the same place for all seeds."""
    value, output = find_value_and_output(seed)
    if value in read_values(output, fact):
        return True
    # makes no further session for most outputs, in which the value does not occur at all
    if not any(value in _decode(kind, output) for kind in ("", *DECODINGS)):
        return False
    values, outputs = [value], [output]
    for other in other_seeds:
        value, output = find_value_and_output(other)
        values.append(value)
        outputs.append(output)
        if len({*values}) > 1 and not _has_common_place(values, outputs):
            return False
    return len({*values}) > 1


def _list_outputs(sessions: SessionCache, seed: int, values_seed: int) -> dict[str, str]:
    """Return the tool outputs of a session in which no fact is stated, by name of the step that produced them."""
    task, run = sessions.make_variant(seed, values_seed), sessions.run_blank(seed, values_seed, is_graded=False)
    moves = trace(task, run.requests, sessions.model_spec.reader)
    outputs: dict[str, list[str]] = {}
    for move, (request, _), (later, _) in zip(moves, run.requests, run.requests[1:], strict=False):
        new_messages = later.messages[len(request.messages) :]
        outputs.setdefault(move.step, []).extend(result.output for message in new_messages for result in message.results)
    return {step: "\n".join(texts) for step, texts in outputs.items()}


def _decode_words(pattern: str, decode: Callable[[str], bytes], text: str) -> str:
    """Decode the words of a text that match a pattern, except words whose decoded form is not printable."""
    return re.sub(pattern, lambda match: _decode_word(decode, match[0]), text)


@lru_cache(maxsize=2**16)
def _decode_word(decode: Callable[[str], bytes], word: str) -> str:
    """Decode a word; texts repeat most of their words."""
    try:
        decoded = decode(word).decode()
    except (ValueError, UnicodeDecodeError):
        return word
    return decoded if all(char.isprintable() or char in "\t\n" for char in decoded) else word


def _decode_base64(word: str) -> bytes:
    word = word.rstrip("=")
    return base64.b64decode(word + "=" * (-len(word) % 4), altchars=b"-_" if {*word} & {*"-_"} else None, validate=True)


MAX_ENCODED_CHARACTERS = 2**16
"""Maximum length in characters of a text that is searched for encoded values."""
DECODINGS: Mapping[str, Callable[[str], str]] = {
    "without leading zeros": lambda text: re.sub(r"(?<!\d)0+(?=\d)", "", text),
    "backwards": lambda text: text[::-1],
    "hexadecimal numbers": lambda text: re.sub(r"\b(?:0x)?[0-9a-fA-F]{1,12}\b", lambda match: str(int(match[0], 16)), text),
    "bytes in hexadecimal": lambda text: _decode_words(r"\b(?:[0-9a-fA-F]{2})+\b", bytes.fromhex, text),
    "base64": lambda text: _decode_words(r"[A-Za-z0-9+/_-]{3,}=*", _decode_base64, text),
    "rot13": lambda text: codecs.encode(text, "rot13"),
}
"""Functions that undo an encoding in which a file may contain a value, by name of the encoding, e.g. `base64`."""


class _Place(NamedTuple):
    """Place at which a value can be found in a text: line number, and text around the value on its line.

    `line` counts from 0; None means any line. If `whole_line` is set, `before` and `after` are the whole rest of the line,
    otherwise only some characters next to the value.
    """

    line: int | None
    before: str
    after: str
    whole_line: bool

    def leads_to(self, value: str, text: str) -> bool:
        """Return whether a text contains this place, and contains the value wherever the place occurs."""
        expected = f"{self.before}{value}{self.after}"
        if expected not in text:
            return False
        if not self.whole_line:
            # one character more than the value shows whether a longer number or word begins there
            bound, length = re.compile(_bound(value)), len(value) + 1
            ends = (match.end() for match in re.finditer(re.escape(self.before), text))
            return all(bound.match(text[end : end + length]) for end in ends)
        lines = _list_lines(self.before, text) if self.line is None else _split_lines(text)[self.line : self.line + 1]
        is_found = False
        for line in lines:
            if line == expected:
                is_found = True
            elif line.startswith(self.before) and line.endswith(self.after) and len(line) > len(self.before) + len(self.after):
                return False
        return is_found


def _list_lines(beginning: str, text: str) -> Iterator[str]:
    """Yield the lines of a text that begin with these characters."""
    enclosed = _enclose_in_line_breaks(text)
    start = enclosed.find(f"\n{beginning}")
    while 0 <= start < len(enclosed) - 1:
        end = enclosed.find("\n", start + 1)
        yield enclosed[start + 1 : end]
        start = enclosed.find(f"\n{beginning}", end)


@lru_cache(maxsize=16)
def _enclose_in_line_breaks(text: str) -> str:
    """Return a text with a line break before and after it; it is searched for many places in turn."""
    return f"\n{text}\n"


@lru_cache(maxsize=16)
def _split_lines(text: str) -> list[str]:
    """Split a text at its line breaks; it is searched for many places in turn."""
    return text.split("\n")


def _bound(value: str) -> str:
    """Return a regular expression that matches a value, but not inside a longer number or run of letters."""
    first, last = (r"\d" if char.isdigit() else r"[^\W\d_]" if char.isalpha() else "(?!)" for char in (value[0], value[-1]))
    return rf"(?<!{first}){re.escape(value)}(?!{last})"


def _has_common_place(values: Sequence[str], texts: Sequence[str], *, numbered: bool = True) -> bool:
    """Return whether one rule finds the right value in the text of every seed.

    An agent could then learn the value from the text. The rule is a line number, unless `numbered` is False, or the words next to
    the value. The texts are searched as they are and decoded. The result is False if all values are equal.
    """
    if len(set(values)) == 1:
        return False
    decodings = () if max(map(len, texts)) > MAX_ENCODED_CHARACTERS else DECODINGS
    return any(_has_common_place_after(decoding, values, texts, numbered) for decoding in ("", *decodings))


@lru_cache(maxsize=4096)
def _decode(decoding: str, text: str) -> str:
    """Undo the encoding with this name in `DECODINGS`; without a name, or if the text is long, return the text."""
    return DECODINGS[decoding](text) if decoding and len(text) <= MAX_ENCODED_CHARACTERS else text


def _has_common_place_after(decoding: str, values: Sequence[str], texts: Sequence[str], numbered: bool) -> bool:
    places = [*dict.fromkeys(_list_places(values[0], _decode(decoding, texts[0])))]
    places = [place for place in places if numbered or place.line is None]
    for value, text in zip(values, texts, strict=True):
        if not places:
            return False
        decoded = _decode(decoding, text)
        places = [place for place in places if place.leads_to(value, decoded)]
    return bool(places)


def _list_places(value: str, text: str) -> Iterator[_Place]:
    for match in islice(re.finditer(_bound(value), text), MAX_PLACES):
        begin, end = match.span()
        start = text.rfind("\n", 0, begin) + 1
        before, after = text[start:begin], text[end:].split("\n", 1)[0]
        yield _Place(None, before, after, whole_line=True)
        yield _Place(text.count("\n", 0, begin), before, after, whole_line=True)
        yield from (_Place(None, text[begin - width : begin], "", whole_line=False) for width in CONTEXT_WIDTHS if width <= begin)
