"""How well a scripted model reads, writes and how fast it is: all its numbers in one table, each with its source.

Readers of long contexts overlook what is there: the more the longer the context is, and most in its middle. Two published
curves give the shape, each scaled to 1 at its worst, and their product times one number is the probability that a profile
overlooks a visible fact:

- LENGTH: accuracy of GPT-4-1106-preview on the 13 tasks of RULER, 96.6 % at 4K tokens and 96.3, 95.2, 93.2, 87.0, 81.2 % at 8K
  to 128K, as what it lost from 4K on. That it misses 3.4 % at 4K is the difficulty of the tasks and not of the length. It lies
  in the middle of the models with windows of 128K in that table. Source: Hsieh et al. 2024, RULER, Table 3.
- DEPTH: accuracy of GPT-3.5-Turbo with the answer in the 1st, 5th, 10th, 15th and 20th of 20 documents, 75.8, 57.2, 53.8, 55.4,
  63.2 %, as what is missing to 88.3 % with that document alone. Source: Liu et al. 2023, Lost in the Middle, Table 6 and Table 1.

`typical` overlooks as much as that model lost at 128K, on the mean over all depths. `overlooks-P` has the same shape, scaled so
that a fact in the middle of 128K tokens is overlooked with probability P. Where a fact has to be inferred and not only found,
losses are several times higher (Modarressi et al. 2025, NoLiMa: GPT-4o from 99.3 to 69.7 % at 32K), so P is an axis.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from harness.errors import UnknownName, UsageError

Curve = tuple[tuple[float, float], ...]
"""Points (x, y) with growing x; straight lines between them, flat before and behind."""

LENGTH_CURVE: Curve = tuple(
    (1024 * kilo, (96.6 - accuracy) / (96.6 - 81.2))
    for kilo, accuracy in ((4, 96.6), (8, 96.3), (16, 95.2), (32, 93.2), (64, 87.0), (128, 81.2))
)
"""Share of the worst by tokens of the prompt."""
DEPTH_CURVE: Curve = tuple(
    ((document - 1) / 19, (88.3 - accuracy) / (88.3 - 53.8))
    for document, accuracy in ((1, 75.8), (5, 57.2), (10, 53.8), (15, 55.4), (20, 63.2))
)
"""Share of the worst by depth: 0 = the beginning of the prompt, 1 = its end."""


def interpolate(curve: Curve, x: float) -> float:
    """The value of a curve."""
    for (left, low), (right, high) in pairwise(curve):
        if x <= right:
            return low + (high - low) * max(0.0, x - left) / (right - left)
    return curve[-1][1]


def compute_mean(curve: Curve) -> float:
    """The mean of a curve between its first and last point."""
    area = sum((right - left) * (low + high) / 2 for (left, low), (right, high) in pairwise(curve))
    return area / (curve[-1][0] - curve[0][0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The parameters of a scripted model."""

    first_token_seconds: float
    """Of the virtual clock: from request to first token, cache or no cache."""
    input_tokens_per_second: float
    output_tokens_per_second: float
    openings: tuple[str, ...]
    """A reply begins with one of these, drawn from (seed, step): wording differs between two models that do the same."""

    overlook_probability: float = 0.0
    """Probability that a visible fact is overlooked in the middle of a prompt of 128K tokens."""

    def compute_overlook_probability(self, prompt_tokens: int, depth: float) -> float:
        """Probability that a visible fact is overlooked; grows with the length, and is highest in the middle.

        Args:
            prompt_tokens: of the whole request; beyond 128K it grows no more, since nothing was measured there.
            depth: where the fact stands: 0 = at the beginning, 1 = at the end.
        """
        return self.overlook_probability * interpolate(LENGTH_CURVE, prompt_tokens) * interpolate(DEPTH_CURVE, depth)

    def compute_seconds(self, input_tokens: int, output_tokens: int) -> float:
        """Time of one call on the virtual clock; never slept."""
        reading_seconds = input_tokens / self.input_tokens_per_second
        return round(self.first_token_seconds + reading_seconds + output_tokens / self.output_tokens_per_second, 6)


ATTENTIVE = Profile(
    # Sees all that it is sent. Speeds are nominal: round numbers of the order that hosted models of 2025 showed, chosen by us;
    # no conclusion rests on them. The openings are ours too: they add a seeded difference of a few tokens a step.
    first_token_seconds=0.5,
    input_tokens_per_second=5_000.0,
    output_tokens_per_second=80.0,
    openings=("", "Next. ", "Good, going on. ", "Now to the next part of the work. "),
)
PROFILES: dict[str, Profile] = {
    "attentive": ATTENTIVE,
    "typical": replace(ATTENTIVE, overlook_probability=(0.966 - 0.812) / compute_mean(DEPTH_CURVE)),
}
PARAMETRIC_PREFIX = "overlooks-"
PROFILE_NAMES: Sequence[str] = (*PROFILES, f"{PARAMETRIC_PREFIX}P")
"""The names of all profiles; P is a number from 0 to 1."""


def look_up_profile(name: str) -> Profile:
    """The profile of that name.

    Raises:
        UnknownName: there is none.
        UsageError: the P of `overlooks-P` is no probability.
    """
    if name.startswith(PARAMETRIC_PREFIX):
        return replace(ATTENTIVE, overlook_probability=parse_probability(name, name.removeprefix(PARAMETRIC_PREFIX)))
    if name not in PROFILES:
        raise UnknownName("profile of the scripted model", name, PROFILE_NAMES)
    return PROFILES[name]


def parse_probability(name: str, text: str) -> float:
    """The P at the end of a name.

    Raises:
        UsageError: it is no number from 0 to 1.
    """
    if not re.fullmatch(r"0(\.\d+)?|1(\.0+)?", text):
        raise UsageError(f"{name!r}: a probability from 0 to 1 must stand behind the '-' (got {text!r}), e.g. 0.25")
    return float(text)


def is_scripted(name: str) -> bool:
    """Whether a name is that of a scripted model or summarizer, rightly spelled or not."""
    return name.partition("/")[0].partition(":")[0] == "scripted"
