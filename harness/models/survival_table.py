"""Published figures on how many facts survive compactions, by which `scripted/survival:NAME` loses facts.

The figures stand in `survival.toml`, each with population, evidence mark, date and source.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from harness.errors import UnknownName, UsageError
from harness.models.scripted.survival import SHAPES, Hazards, Shape, SurvivalRates


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
    plain = tomllib.loads(files("harness.models").joinpath("survival.toml").read_text(encoding="utf-8"))
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

    def build_rates(self) -> SurvivalRates:
        """Return the rates of the losses by the form of a fact's value."""
        by_shape = {shape: self.profile.compute_hazards(self.profile.find_kind(shape)) for shape in SHAPES}
        return SurvivalRates(by_shape, self.profile.compute_hazards(self.profile.progress), self.spread)


def parse_survival_name(name: str) -> SurvivalChoice:
    """Return the profile and the spread in a name such as `scripted/survival:constraints-rounds-0.5`.

    Raises:
        UnknownName: There is no such profile.
        UsageError: The spread is not a number of at least 0.

    Example:
        >>> from harness.models.survival_table import parse_survival_name
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
