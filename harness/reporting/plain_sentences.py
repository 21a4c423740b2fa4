"""First three sentences of a report, as a person would say them: what differs, what does not, and what spoils the answer.

The sentences say nothing that the lines below them do not say with intervals and p-values. Verdicts come from `claims`.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from harness.analysis.effects import Effect
from harness.errors import format_count
from harness.reporting.claims import Claim, ClaimReport
from harness.reporting.not_worse import Ranking
from harness.text import format_percent

MAX_TOLD_CLAIMS = 2
"""Maximum number of shown comparisons that the first sentence states one by one; of more, it states the largest."""
_NUMBER_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


class _RatioWords(NamedTuple):
    """Words for a ratio of amounts, around the percentage."""

    verb: str
    higher: str
    lower: str


_RATIO_WORDS: Mapping[str, _RatioWords] = {
    "steps": _RatioWords("took", "more steps than", "fewer steps than"),
    "prompt_tokens": _RatioWords("read", "more tokens than", "fewer tokens than"),
    "total_cost_usd": _RatioWords("was", "more expensive than", "cheaper than"),
}


def write_plain_sentences(judged: ClaimReport | None, ranking: Ranking, trouble: str) -> str:
    """Return three sentences on an experiment.

    Args:
        judged: Results of the declared contrasts; None if none was declared.
        ranking: Compared arms, with the mean of the metric of each.
        trouble: Largest threat to the answers, as a sentence that may begin with a small letter.
    """
    claims = () if judged is None or judged.refusal else judged.claims
    spread = _tell_spread(ranking)
    first, second = _tell_claims(claims, spread) if claims else (spread, _tell_standing(judged, ranking))
    return " ".join([first, second, trouble[:1].upper() + trouble[1:]])


def _tell_claims(claims: Sequence[Claim], spread: str) -> tuple[str, str]:
    """Return a sentence on the declared comparisons that are shown, and one on the others or, if none is, on all arms."""
    shown, count = [claim for claim in claims if claim.is_shown], len(claims)
    if not shown:
        (claim, *_) = claims
        if count == 1:
            return f"{claim.contrast.a} against {claim.contrast.b} shows nothing.", "It was the only declared comparison."
        return f"{'Neither' if count == 2 else 'None'} of the {_spell(count)} declared comparisons shows anything.", spread
    largest = sorted(shown, key=_measure_size, reverse=True)[:MAX_TOLD_CLAIMS]
    text = "; ".join(map(_tell_claim, largest))
    if len(shown) > len(largest):
        text = f"{_spell(len(shown)).capitalize()} of {_spell(count)} declared comparisons are shown, the largest first: {text}"
    rest = count - len(shown)
    if not rest:
        return f"{text}.", "No other comparison was declared."
    others = f"other {_spell(rest)} declared comparisons show" if rest > 1 else "other declared comparison shows"
    return f"{text}.", f"The {others} nothing."


def _measure_size(claim: Claim) -> float:
    """Return the size of a difference; comparisons of amounts and those with a margin come after all differences."""
    is_difference = claim.effect.scale == "difference" and claim.contrast.margin is None
    return abs(claim.effect.value) if is_difference else -1.0


def _tell_claim(claim: Claim) -> str:
    contrast, effect = claim.contrast, claim.effect
    if contrast.margin is not None:
        return f"{contrast.a} is not worse in {contrast.metric} than {contrast.b} by {contrast.margin:g} or more"
    if effect.scale == "difference":
        verb, against = ("cost", "against") if effect.value < 0 else ("gained", "over")
        return f"{contrast.a} {verb} {_format_points(effect)} of {contrast.metric} {against} {contrast.b}"
    words = _RATIO_WORDS[effect.metric]
    comparative = words.higher if effect.value > 1 else words.lower
    return f"{contrast.a} {words.verb} {format_percent(abs(effect.value - 1))} {comparative} {contrast.b}"


def _format_points(effect: Effect) -> str:
    points = 100 * abs(effect.value)
    return f"{points:.1f} points" if points < 1 else format_count(round(points), "point")


def _tell_spread(ranking: Ranking) -> str:
    """Return a sentence on the lowest and the highest arm."""
    values = {arm: cell.value for arm, cell in ranking.cells.items()}
    lowest = min(values, key=lambda arm: values[arm])
    low, high = f"{values[lowest]:.2f}", f"{values[ranking.best]:.2f}"
    if len(values) == 1:
        return f"{ranking.best} reached {high} in {ranking.metric}."
    if low == high:
        return f"All {_spell(len(values))} arms reached {high} in {ranking.metric}."
    return f"{ranking.metric.capitalize()} lies between {low} ({lowest}) and {high} ({ranking.best})."


def _tell_standing(judged: ClaimReport | None, ranking: Ranking) -> str:
    if judged is not None and judged.refusal:
        return "The declared comparisons are not tested, so nothing is a finding."
    if len(ranking.cells) == 1:
        return "There is no other arm to compare it with."
    return "No comparison was declared before the run, so no difference is a finding."


def _spell(count: int) -> str:
    return _NUMBER_WORDS[count] if count < len(_NUMBER_WORDS) else f"{count:,}"
