"""How well a scripted model reads, writes and how fast it is: all its numbers in one table, each with its source."""

from dataclasses import dataclass

from harness.errors import UnknownName


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The parameters of a scripted model."""

    first_token_seconds: float
    """Of the virtual clock: from request to first token, cache or no cache."""
    input_tokens_per_second: float
    output_tokens_per_second: float
    openings: tuple[str, ...]
    """A reply begins with one of these, drawn from (seed, step): wording differs between two models that do the same."""

    def seconds(self, input_tokens: int, output_tokens: int) -> float:
        """Time of one call on the virtual clock; never slept."""
        return round(
            self.first_token_seconds
            + input_tokens / self.input_tokens_per_second
            + output_tokens / self.output_tokens_per_second,
            6,
        )


PROFILES: dict[str, Profile] = {
    # Sees all that it is sent. Speeds are nominal: round numbers of the order that hosted models of 2025 showed, chosen by us;
    # no conclusion rests on them. The openings are ours too: they add a seeded difference of a few tokens a step.
    "attentive": Profile(
        first_token_seconds=0.5,
        input_tokens_per_second=5_000.0,
        output_tokens_per_second=80.0,
        openings=("", "Next. ", "Good, going on. ", "Now to the next part of the work. "),
    ),
}


def profile(name: str) -> Profile:
    """The profile of that name.

    Raises:
        UnknownName: there is none.
    """
    if name not in PROFILES:
        raise UnknownName("profile of the scripted model", name, PROFILES)
    return PROFILES[name]
