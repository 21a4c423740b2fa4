"""Scripted summarizer that loses facts as often as a publication reports: `scripted/survival:NAME` or `…:NAME-SPREAD`.

Like `scripted/oracle`, the summarizer knows the text patterns of a task's facts and keeps the lines with facts and with evidence
of finished steps; unlike it, it loses each of them with a published probability (see `harness.models.survival_table`). A fact is
lost with the hazard of a *first* compaction, or with that of a compaction *again* if the former summary states the fact. The
losses of one compaction are correlated: the logit of each loss is shifted by one normal draw, whose standard deviation is the
spread. Averaged over that draw, losses are as frequent as published, whatever the spread is.

Only facts in the part that the summary replaces can be kept. A fact that the former summary has lost stays lost until a message
states it again, also if the prompt repeats the user's request for orientation. A summary follows from the prompt and from
`Trial.summarizer_seed` alone.
"""

import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Literal, NamedTuple, TypeAlias, get_args

from harness.models.scripted.summarizers import FactLedger, Summarize, digest_prompt, keep_newest
from harness.models.scripted.summary_prompts import KEPT_HEADING, arrange_summary, read_summary_prompt, split_material
from harness.task import Fact, Script

Shape: TypeAlias = Literal["path", "command", "number", "identifier", "sentence"]
"""Form of a fact's value, by which published rates are chosen."""
SHAPES: tuple[Shape, ...] = get_args(Shape)

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


class Hazards(NamedTuple):
    """Probabilities that one compaction loses a fact."""

    first: float
    """Probability for a fact that the former summary does not state."""
    again: float
    """Probability for a fact that the former summary states."""


class SurvivalRates(NamedTuple):
    """Rates at which facts and reports are lost, and the correlation of the losses."""

    by_shape: Mapping[Shape, Hazards]
    """Rates of facts by the form of their value."""
    progress: Hazards
    """Rates of reports of finished steps."""
    spread: float
    """Standard deviation of the logit of the loss between compactions; 0 makes all losses independent."""


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


def build_survival_summarize(facts: tuple[Fact, ...], script: Script, rates: SurvivalRates, summarizer_seed: int) -> Summarize:
    """Return a function that writes a summary from which facts are lost at published rates.

    Like the perfect summary, it may exceed the limit on its length. A line that states lost and kept facts is cut down to the
    statements of the kept facts.

    Args:
        facts: Facts of the task.
        script: Steps of the task.
        rates: Rates of the losses, and their correlation.
        summarizer_seed: Seed of the draws, besides the prompt.
    """
    ledger = _share_ledger(facts, script)
    statements = {fact.name: [re.compile(pattern, re.MULTILINE) for pattern in fact.patterns] for fact in facts}
    hazards, progress_hazards, spread = rates

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
        return f"{KEPT_HEADING}\n{arrange_summary(read_summary_prompt(prompt), keep_newest(kept))}" if kept else ""

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
