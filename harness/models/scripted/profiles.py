"""Reading ability and speed of scripted models: all parameters in one table, each with its source.

Models overlook more information the longer the context is, and most of it in the middle of the context. Two published curves give
the shape of this loss, each scaled to 1 at its worst point. The probability that a profile overlooks a visible fact is the
product of both curves and one factor:

- LENGTH: accuracy of GPT-4-1106-preview on the 13 tasks of RULER: 96.6 % at 4K tokens, and 96.3, 95.2, 93.2, 87.0, 81.2 % at 8K
  to 128K. The curve is the loss relative to 4K, since the loss of 3.4 % at 4K comes from the difficulty of the tasks and not from
  the length. The model is in the middle of the models with windows of 128K in that table. Source: Hsieh et al. 2024, RULER,
  Table 3.
- DEPTH: accuracy of GPT-3.5-Turbo with the answer in the 1st, 5th, 10th, 15th and 20th of 20 documents: 75.8, 57.2, 53.8, 55.4,
  63.2 %. The curve is the loss relative to 88.3 % with that document alone. Source: Liu et al. 2023, Lost in the Middle, Table 6
  and Table 1.

The profile `typical` overlooks as much as the GPT-4 model lost at 128K, averaged over all depths. The profile `overlooks-P` has
the same shape, scaled so that a fact in the middle of 128K tokens is overlooked with probability P. Experiments can vary P,
because losses are several times higher for facts that must be inferred and not only found (Modarressi et al. 2025, NoLiMa: GPT-4o
falls from 99.3 to 69.7 % at 32K).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, TypeAlias, get_args

from harness.errors import UnknownName, UsageError

Reader: TypeAlias = Literal["exact", "tolerant"]
"""Rule by which a scripted model finds the values of facts in the texts that it sees.

`exact` finds a value only in the wording of the task. `tolerant` also finds it in other words, e.g. in the summary of a real
model.
"""
READERS: tuple[Reader, ...] = get_args(Reader)
"""All rules by which a scripted model can find the values of facts."""
EXACT: Reader = "exact"
"""Default rule by which a scripted model finds the values of facts."""
MARK = "+"
"""Character in the name of a profile before the name of its reading rule, and before `notes`, e.g. `typical+tolerant+notes`."""
NOTES = "notes"
"""Word at the end of the name of a profile with which the scripted agent writes notes."""

Curve = tuple[tuple[float, float], ...]
"""Curve as points (x, y) with increasing x, joined by straight lines; constant before the first and after the last point."""

LENGTH_CURVE: Curve = tuple(
    (1024 * kilo, (96.6 - accuracy) / (96.6 - 81.2))
    for kilo, accuracy in ((4, 96.6), (8, 96.3), (16, 95.2), (32, 93.2), (64, 87.0), (128, 81.2))
)
"""Curve of the loss in reading accuracy, as a share of the worst loss, over the prompt length in tokens."""
DEPTH_CURVE: Curve = tuple(
    ((document - 1) / 19, (88.3 - accuracy) / (88.3 - 53.8))
    for document, accuracy in ((1, 75.8), (5, 57.2), (10, 53.8), (15, 55.4), (20, 63.2))
)
"""Curve of the loss in reading accuracy, as a share of the worst loss, over the depth in the prompt from 0 (beginning) to 1."""


def interpolate(curve: Curve, x: float) -> float:
    """Return the value at a position on a curve that is made of straight lines between points."""
    for (left, low), (right, high) in pairwise(curve):
        if x <= right:
            return low + (high - low) * max(0.0, x - left) / (right - left)
    return curve[-1][1]


def compute_mean(curve: Curve) -> float:
    """Return the mean value of a curve between its first and its last point."""
    area = sum((right - left) * (low + high) / 2 for (left, low), (right, high) in pairwise(curve))
    return area / (curve[-1][0] - curve[0][0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Reading ability and speed of a scripted model."""

    first_token_seconds: float
    """Simulated time in seconds from a request to the first token of the answer; a prompt cache makes no difference."""
    input_tokens_per_second: float
    output_tokens_per_second: float
    openings: tuple[str, ...]
    """Possible first sentences of a reply, one of which is drawn at random, so that equal actions differ in wording."""

    reader: Reader = EXACT
    """Rule by which the model finds the values of facts in the texts that it sees."""
    overlook_probability: float = 0.0
    """Probability that the model overlooks a visible fact in the middle of a prompt of 128K tokens."""
    notes: bool = False
    """Whether the model writes each fact that it sees into a file, and reads this file when it no longer sees its notes."""

    def compute_overlook_probability(self, prompt_tokens: int, depth: float) -> float:
        """Return the probability that the model overlooks a visible fact.

        The probability rises with the prompt length and is highest in the middle of the prompt.

        Args:
            prompt_tokens: Length of the whole request in tokens; the probability is constant beyond 128K, for lack of
                measurements.
            depth: Position of the fact in the prompt: 0 at the beginning, 1 at the end.
        """
        return self.overlook_probability * interpolate(LENGTH_CURVE, prompt_tokens) * interpolate(DEPTH_CURVE, depth)

    def compute_seconds(self, input_tokens: int, output_tokens: int) -> float:
        """Return the simulated duration of a model call in seconds; the model does not really wait."""
        reading_seconds = input_tokens / self.input_tokens_per_second
        return round(self.first_token_seconds + reading_seconds + output_tokens / self.output_tokens_per_second, 6)


ATTENTIVE = Profile(
    # Overlooks nothing. The speeds are round numbers of the order of hosted models in 2025, chosen for this project; no
    # conclusion depends on them. The openings are also chosen for this project: one of them, drawn with the seed, adds a few
    # tokens to each step.
    first_token_seconds=0.5,
    input_tokens_per_second=5_000.0,
    output_tokens_per_second=80.0,
    openings=("", "Next. ", "Good, going on. ", "Now to the next part of the work. "),
)
PROFILES: dict[str, Profile] = {
    "attentive": ATTENTIVE,
    "typical": replace(ATTENTIVE, overlook_probability=(0.966 - 0.812) / compute_mean(DEPTH_CURVE)),
}
DEFAULT_PROFILE = "attentive"
"""Profile of a scripted model whose name contains none."""
PARAMETRIC_PREFIX = "overlooks-"
PROFILE_NAMES: Sequence[str] = (*PROFILES, f"{PARAMETRIC_PREFIX}P")
"""Names of all profiles of scripted models; P stands for a number from 0 to 1."""


def look_up_profile(name: str) -> Profile:
    """Return the profile (reading ability and speed) of a scripted model by name.

    The name may end with the rule by which the model finds values in texts (a reader), and with `notes`, as in
    `typical+tolerant+notes`. The default rule is `exact`.

    Raises:
        UnknownName: There is no such profile or reader.
        UsageError: The P of `overlooks-P` is not a probability.
    """
    name, *options = name.split(MARK)
    if options:
        profile = look_up_profile(name)
        if options[-1] == NOTES:
            profile, options = replace(profile, notes=True), options[:-1]
        if options:
            option = MARK.join(options)
            reader = next((reader for reader in READERS if reader == option), None)
            if reader is None:
                raise UnknownName("reader of the scripted model", option, READERS)
            profile = replace(profile, reader=reader)
        return profile
    if name.startswith(PARAMETRIC_PREFIX):
        return replace(ATTENTIVE, overlook_probability=parse_probability(name, name.removeprefix(PARAMETRIC_PREFIX)))
    if name not in PROFILES:
        raise UnknownName("profile of the scripted model", name, PROFILE_NAMES)
    return PROFILES[name]


def parse_probability(name: str, text: str) -> float:
    """Return the probability P at the end of a name such as `lossy-0.5`.

    Raises:
        UsageError: P is not a number from 0 to 1.
    """
    if not re.fullmatch(r"0(\.\d+)?|1(\.0+)?", text):
        raise UsageError(f"{name!r}: the part after '-' must be a probability from 0 to 1, e.g. 0.25 (got {text!r})")
    return float(text)


def is_scripted(name: str) -> bool:
    """Return whether a name begins with `scripted`, like the names of scripted models; the model need not exist."""
    return name.partition("/")[0].partition(":")[0] == "scripted"


def add_options(model: str, reader: Reader, *, notes: bool = False) -> str:
    """Add a reading rule (reader) and the use of notes to the name of a scripted model, e.g. `scripted:attentive+tolerant+notes`.

    The defaults, the reader `exact` and no notes, do not change the name.

    Raises:
        UsageError: The name of the model contains such an option already, or the model is not scripted.
    """
    if is_scripted(model) and MARK in model:
        name, _, option = model.partition(MARK)
        settings = "notes = true" if option == NOTES else f"reader = {option!r}"
        raise UsageError(f"model: {model!r} contains the option {option!r}; set model = {name!r} and {settings} instead")
    options = ([] if reader == EXACT else [reader]) + ([NOTES] if notes else [])
    if not options:
        return model
    if not is_scripted(model):
        field, what, value = ("reader", "a reader", reader) if reader != EXACT else ("notes", "notes", "true")
        raise UsageError(f"{field}: only a scripted model has {what}; leave it out for model {model!r} (got {value!r})")
    return MARK.join([model if ":" in model else f"{model}:{DEFAULT_PROFILE}", *options])
