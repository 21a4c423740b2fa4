"""Scripted summarizer that loses facts as often as a publication reports: `scripted/survival:NAME` or `…:NAME-SPREAD`.

Like `scripted/oracle`, the summarizer knows the text patterns of a task's facts and keeps the lines with facts and with evidence
of finished steps; unlike it, it loses each of them with a probability from a table of published figures, `survival.toml`. A fact
is lost with the hazard of a *first* compaction, or with that of a compaction *again* if the former summary states the fact. The
losses of one compaction are correlated: the logit of each loss is shifted by one normal draw, whose standard deviation is SPREAD.
Averaged over that draw, losses are as frequent as in the table, whatever SPREAD is.

Only facts in the part that the summary replaces can be kept. A fact that the former summary has lost stays lost until a message
states it again, also if the prompt repeats the user's request for orientation. A summary follows from the prompt and from
`Trial.summarizer_seed` alone.
"""

import math
import random
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from statistics import NormalDist
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from harness.errors import UnknownName, UsageError
from harness.models.scripted.summarizers import FactLedger, Summarize, digest_prompt, keep_newest
from harness.task import Fact, Script

Shape: TypeAlias = Literal["path", "command", "number", "identifier", "sentence"]
"""Form of a fact's value, by which published kinds of strings are mapped to facts."""
SHAPES: tuple[Shape, ...] = get_args(Shape)

KEPT_HEADING = "Kept from the work so far:"
"""First line of each summary of this summarizer, by which the next summary recognizes it among other messages."""
_PLACES = {"ORIGINAL USER TASK": "task", "PREVIOUS SUMMARY": "former", "MESSAGES TO SUMMARIZE": "new"}
"""Content below each heading of a summary prompt."""
_HEADING = re.compile(rf"^<?({'|'.join(_PLACES)})\b.*[:>]$")
_FORMER_END = re.compile(r"^(?:\[(?:system|user|assistant)\]|</.*>)$")
"""Regular expression for a line that ends a former summary: the role of the next message, or a closing tag."""

_PATH = re.compile(r"[\w.~-]*/[\w./~-]*|[\w-]+(?:\.[\w-]+)*\.[A-Za-z]\w{0,3}")
_NUMBER = re.compile(r"[-+]?\d[\d.,:/-]*(?: ?(?:%|[munµ]?s|min|h|[kKMG]i?B|B))?")
_PROGRAMS = frozenset(
    (
        *("bash", "bun", "cargo", "cat", "cd", "cp", "curl", "docker", "find", "git", "go", "grep", "ls", "make", "mkdir", "mv"),
        *("node", "npm", "npx", "pip", "pnpm", "pytest", "python", "python3", "rm", "sed", "sh", "tsc", "uv", "yarn"),
    )
)
"""Programs with whose name a value of several words is a command."""


def classify_shape(value: str) -> Shape:
    """Return the form of a fact's value.

    Example:
        >>> from harness.models.scripted.survival import classify_shape
        >>> [classify_shape(value) for value in ("src/app.py", "git status", "4.5 MB", "card_table", "due cards first")]
        ['path', 'command', 'number', 'identifier', 'sentence']
    """
    words = value.split()
    if _NUMBER.fullmatch(value):
        return "number"
    if len(words) > 1:
        return "command" if words[0] in _PROGRAMS or words[0].startswith("./") else "sentence"
    return "path" if _PATH.fullmatch(value) else "identifier"


@dataclass(frozen=True, slots=True, kw_only=True)
class SurvivalRow:
    """One published figure: share of the facts of a kind that survive."""

    kind: str
    """Counted facts or strings, in the words of the source."""
    round: int
    """Number of compactions after which the facts were counted; 0 if each compaction was counted, whatever its number."""
    alive: float
    """Share of the facts that were still in the summary, 0 to 1."""
    n: int
    """Number of counted units."""
    unit: str
    """Name of the counted units."""
    population: str
    """Sessions that were counted, and how they were compacted."""
    evidence: Literal["measured by us", "read in the source", "second-hand"]
    """Origin of the figure; `second-hand` figures come from notes of others about the source."""
    date: str
    """Date of the source, e.g. `2026-08-24`."""
    source: str
    """Address of the source."""


class Hazards(NamedTuple):
    """Probabilities that one compaction loses a fact."""

    first: float
    """Probability for a fact that the former summary does not state."""
    again: float
    """Probability for a fact that the former summary states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SurvivalProfile:
    """Published figures on the survival of facts, with the facts to which they apply."""

    name: str
    about: str
    """Description of the source and of what the profile assumes beyond the source."""
    rows: tuple[SurvivalRow, ...]
    shapes: Mapping[str, tuple[Shape, ...]]
    """Forms of values to which each published kind applies; facts of other forms are always kept."""
    progress: str
    """Published kind by whose rate reports of finished steps survive; empty if no kind applies and all are kept."""

    def find_kind(self, shape: Shape) -> str | None:
        """Return the published kind that applies to a form of values; None if the profile has none, so such facts are kept."""
        return next((kind for kind, shapes in self.shapes.items() if shape in shapes), None)

    def compute_hazards(self, kind: str | None) -> Hazards:
        """Return the probabilities with which facts of a published kind are lost; 0 if no kind applies.

        If the source counts several rounds, the loss of a later round is spread evenly over the rounds after the first. If not,
        each compaction loses the same share.
        """
        if not kind:
            return Hazards(0.0, 0.0)
        rows = sorted((row for row in self.rows if row.kind == kind), key=lambda row: row.round)
        first, last = rows[0], rows[-1]
        if last.round <= 1:
            return Hazards(1.0 - first.alive, 1.0 - first.alive)
        return Hazards(1.0 - first.alive, 1.0 - (last.alive / first.alive) ** (1 / (last.round - first.round)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SurvivalTable:
    """All profiles of the summarizer, with the published spread between compactions."""

    profiles: Mapping[str, SurvivalProfile]
    spread: Mapping[str, Any]
    """Spread with its source: `value`, `lowest_recall`, `highest_recall`, `replicates`, `population`, `evidence` and so on."""


@cache
def load_survival_table() -> SurvivalTable:
    """Return the published figures in `survival.toml`."""
    plain = tomllib.loads(files("harness.models.scripted").joinpath("survival.toml").read_text(encoding="utf-8"))
    profiles = {
        name: SurvivalProfile(
            name=name,
            about=table["about"],
            rows=tuple(SurvivalRow(**row) for row in table["rows"]),
            shapes={kind: tuple(shapes) for kind, shapes in table["shapes"].items()},
            progress=table["progress"],
        )
        for name, table in plain["profiles"].items()
    }
    return SurvivalTable(profiles=profiles, spread=plain["spread"])


class SurvivalChoice(NamedTuple):
    """Profile and spread that the name of a summarizer asks for."""

    profile: SurvivalProfile
    spread: float
    """Standard deviation of the logit of the loss between compactions; 0 makes all losses independent."""


def parse_survival_name(name: str) -> SurvivalChoice:
    """Return the profile and the spread in a name such as `scripted/survival:constraints-rounds-0.5`.

    Raises:
        UnknownName: There is no such profile.
        UsageError: The spread is not a number of at least 0.

    Example:
        >>> from harness.models.scripted.survival import parse_survival_name
        >>> parse_survival_name("scripted/survival:optimistic-0").spread
        0.0
    """
    table = load_survival_table()
    choice = name.partition(":")[2]
    if choice in table.profiles:
        return SurvivalChoice(table.profiles[choice], float(table.spread["value"]))
    profile = next((known for key, known in table.profiles.items() if choice.startswith(f"{key}-")), None)
    if profile is None:
        raise UnknownName("survival profile of the summarizer", name, [f"scripted/survival:{key}" for key in table.profiles])
    text = choice.removeprefix(f"{profile.name}-")
    if not re.fullmatch(r"\d+(\.\d+)?", text):
        example = f"scripted/survival:{profile.name}-{table.spread['value']}"
        raise UsageError(
            f"{name!r}: the spread of losses between compactions, after 'survival:{profile.name}-', must be a number of at least "
            f"0, e.g. {example!r} (got {text!r})"
        )
    return SurvivalChoice(profile, float(text))


_STEP = 0.05
_NODES = [(_STEP * place, _STEP * NormalDist().pdf(_STEP * place)) for place in range(-160, 161)]
"""Points and weights with which the mean of a function of a standard normal draw is computed by the trapezoidal rule."""


def _compute_logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else 1 - 1 / (1 + math.exp(x))


@lru_cache(maxsize=1_000)
def compute_base_logit(hazard: float, spread: float) -> float:
    """Return the logit around which losses vary so that their mean over compactions is the hazard, which is between 0 and 1."""
    low, high = -60.0 - 10 * spread, 60.0 + 10 * spread
    for _ in range(80):
        middle = (low + high) / 2
        mean = sum(weight * _compute_logistic(middle + spread * draw) for draw, weight in _NODES)
        low, high = (middle, high) if mean < hazard else (low, middle)
    return (low + high) / 2


def compute_loss(hazard: float, spread: float, draw: float) -> float:
    """Return the probability that a compaction loses a fact.

    Args:
        hazard: Mean of that probability over all compactions.
        spread: Standard deviation of the logit of that probability between compactions.
        draw: Standard normal draw of the compaction; a higher draw loses more.
    """
    return hazard if hazard in {0.0, 1.0} or not spread else _compute_logistic(compute_base_logit(hazard, spread) + spread * draw)


class Material(NamedTuple):
    """Lines of a summary prompt that a summary replaces."""

    former: list[str]
    """Lines of the former summary."""
    new: list[str]
    """Lines of the messages, and of the user's request if there is no former summary."""


def split_material(prompt: str) -> Material:
    """Return the lines of a summary prompt that the summary replaces.

    Many prompts repeat the user's request. With a former summary, the repetition does not count, since what that summary has lost
    stays lost.
    """
    lines: dict[str, list[str]] = {"": [], "task": [], "former": [], "new": []}
    section = place = ""
    for line in prompt.splitlines():
        heading = _HEADING.match(line)
        if heading is not None:
            section = place = _PLACES[heading[1]]
        elif line == KEPT_HEADING:
            place = "former"
        elif place == "former" and _FORMER_END.match(line):
            section = place = "new" if section == "former" else section
        else:
            lines[place].append(line)
    new = lines["new"] if section else lines[""]  # a prompt without headings consists of messages
    has_former = any(line.strip() for line in lines["former"])
    return Material(lines["former"], new if has_former else lines["task"] + new)


def build_survival_summarize(facts: tuple[Fact, ...], script: Script, choice: SurvivalChoice, summarizer_seed: int) -> Summarize:
    """Return a function that writes a summary from which facts are lost at published rates.

    Like the perfect summary, it may exceed the limit on its length. A line that states lost and kept facts is cut down to the
    statements of the kept facts.

    Args:
        facts: Facts of the task.
        script: Steps of the task.
        choice: Table of published rates, and correlation of the losses.
        summarizer_seed: Seed of the draws, besides the prompt.
    """
    ledger = _share_ledger(facts, script)
    statements = {fact.name: [re.compile(pattern, re.MULTILINE) for pattern in fact.patterns] for fact in facts}
    profile, spread = choice
    hazards = {shape: profile.compute_hazards(profile.find_kind(shape)) for shape in SHAPES}
    progress_hazards = profile.compute_hazards(profile.progress)

    def list_statements(line: str, lost: set[str]) -> Iterator[str]:
        values = dict(ledger.find_values(line))
        if lost.isdisjoint(values):
            yield line
            return
        matches = (match for name in values.keys() - lost for pattern in statements[name] for match in pattern.finditer(line))
        yield from (match[0] for match in sorted(matches, key=lambda match: match.start()))

    def summarize(prompt: str, _: int) -> str:
        material = split_material(prompt)
        lines = [*material.former, *material.new]
        key = f"{summarizer_seed}/{digest_prompt(prompt)}"
        draw = NormalDist().inv_cdf(random.Random(key).random() or 0.5)

        def is_lost(what: str, hazard: float) -> bool:
            return random.Random(f"{key}/{what}").random() < compute_loss(hazard, spread, draw)

        former_values = _read_newest(ledger, material.former)
        lost_facts = {
            name
            for name, value in _read_newest(ledger, lines).items()
            if is_lost(f"fact {name}", _choose(hazards[classify_shape(value)], former_values.get(name) == value))
        }
        is_evidence = ledger.build_evidence_test(lines)
        former_lines = set(material.former)
        kept: list[str] = []
        for line in lines:
            if ledger.has_fact(line):
                kept += list_statements(line, lost_facts)
            elif is_evidence(line) and not is_lost(f"step {line}", _choose(progress_hazards, line in former_lines)):
                kept.append(line)
        return "\n".join((KEPT_HEADING, *keep_newest(kept))) if kept else ""

    return summarize


@lru_cache(maxsize=4)
def _share_ledger(facts: tuple[Fact, ...], script: Script) -> FactLedger:
    """Return the patterns of one task, which the summarizers of its trials share."""
    return FactLedger(facts, script)


def _choose(hazards: Hazards, is_again: bool) -> float:
    return hazards.again if is_again else hazards.first


def _read_newest(ledger: FactLedger, lines: Sequence[str]) -> dict[str, str]:
    """Return the last value of each fact that the lines state, by name of the fact."""
    return {name: values[-1] for line in lines if ledger.has_fact(line) for name, values in ledger.find_values(line)}


def describe_survival() -> Iterator[str]:
    """Yield the lines of a text that shows all published figures, and to which facts of a task each applies."""
    table = load_survival_table()
    spread = table.spread
    yield "Share of facts that survive a compaction by scripted/survival:NAME, from published figures"
    yield "Facts are found with the task's own patterns, as by scripted/oracle; losses are drawn from prompt and summarizer_seed."
    for profile in table.profiles.values():
        yield ""
        yield f"scripted/survival:{profile.name}"
        yield f"  {profile.about}"
        for row in profile.rows:
            when = f"after round {row.round}" if row.round else "at each compaction"
            yield f"  {row.kind}, {when}: {100 * row.alive:g} % alive (n = {row.n:,} {row.unit}; {row.population})"
            yield f"    {row.evidence}, {row.date}: {row.source}"
        rates = {f"value is {'an' if shape == 'identifier' else 'a'} {shape}": profile.find_kind(shape) for shape in SHAPES}
        for about, kind in {**rates, "report of a step": profile.progress}.items():
            yield f"  {about:24} {_describe_rate(profile, kind)}"
    yield ""
    yield (
        f"Spread of the losses between compactions (sd of the logit): {spread['value']:g}, or the SPREAD in "
        "scripted/survival:NAME-SPREAD, such as 0 for independent losses"
    )
    yield (
        f"  {spread['replicates']} repetitions of one cell kept {100 * spread['lowest_recall']:g} to "
        f"{100 * spread['highest_recall']:g} % ({spread['population']})"
    )
    yield f"    {spread['evidence']}, {spread['date']}: {spread['source']}"


def _describe_rate(profile: SurvivalProfile, kind: str | None) -> str:
    if not kind:
        return "not modelled: always kept"
    hazards = profile.compute_hazards(kind)
    again = f", {100 * hazards.again:.3g} % again" if hazards.again != hazards.first else ", the same again"
    return f"as {kind}: lost with {100 * hazards.first:.3g} % at first{again}"
