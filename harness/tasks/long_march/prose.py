"""Generator of filler text around the facts of the task `long-march`.

The sizes of the texts are distributed like the sizes of tool outputs in recorded sessions of agents.
"""

import random
from collections.abc import Sequence
from math import exp
from statistics import NormalDist

WHO = "scouts carriers drivers cooks drummers smiths herders surveyors"
DID = "counted passed found marked crossed mended guarded left"
WHAT = "ropes stakes mules barrels tents ladders sledges lanterns"
WHERE = "below above behind near beyond under along past"
PLACE = "ridge marsh ford mill quarry hollow chapel wall"
WORDS = {"who": WHO, "did": DID, "what": WHAT, "where": WHERE, "place": PLACE}
"""Words from which filler lines are generated such as `Scouts counted 12 ropes near the mill`."""
CHARACTERS_PER_TOKEN = 3.75
"""Mean number of characters per token in filler lines, measured with the tokenizer cl100k_base."""
MAX_CHARACTERS = 9_000
"""Maximum number of characters in the report that a step prints; a longer tool output would be truncated."""


def draw_sizes(count: int, mean: float, sigma: float, rng: random.Random) -> list[int]:
    """Return the sizes of `count` reports in characters, in random order.

    The sizes are quantiles of a lognormal distribution and not random draws, so mean and spread are the same for every seed.
    Sizes above `MAX_CHARACTERS` are cut off, and the other sizes are scaled up to keep the mean.

    Args:
        count: Number of reports.
        mean: Mean size in characters.
        sigma: Spread of the sizes: standard deviation of their logarithm.
        rng: Random generator for the order.
    """
    normal = NormalDist()
    shape = [exp(sigma * normal.inv_cdf((index + 0.5) / count)) for index in range(count)]
    low, high = 0.0, mean * 1_000
    while high - low > 1e-6 * high:
        scale = (low + high) / 2
        total = sum(min(MAX_CHARACTERS, scale * size) for size in shape)
        low, high = (scale, high) if total < mean * count else (low, scale)
    rounded_sizes = [round(min(MAX_CHARACTERS, high * size)) for size in shape]
    rng.shuffle(rounded_sizes)
    return rounded_sizes


def write_page(sentence: str, characters: int, rng: random.Random) -> str:
    """Return a page with about `characters` characters of filler text, and a sentence that states a fact."""
    words = {name: text.split() for name, text in WORDS.items()}
    lines = [sentence]
    size = len(sentence)
    while size < characters:
        lines.append(_write_line(words, rng))
        size += len(lines[-1]) + 1
    lines[0], lines[len(lines) // 3] = lines[len(lines) // 3], lines[0]
    return "\n".join(lines) + "\n"


def _write_line(words: dict[str, list[str]], rng: random.Random) -> str:
    picked: dict[str, Sequence[str]] = {name: rng.choice(choices) for name, choices in words.items()}
    start = f"{str(picked['who']).title()} {picked['did']} {rng.randrange(1, 100)} {picked['what']}"
    return f"{start} {picked['where']} the {picked['place']}, {rng.randrange(10, 1000)} feet from the last camp."
