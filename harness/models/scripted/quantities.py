"""Numbers in words, and quantities in other units, e.g. "two minutes" for 120 seconds.

The words are general English. A quantity in another unit has a value only if it is a whole number of the wanted unit.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_SMALL = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen"),
    *("fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_WORDS = {word: number for number, word in enumerate(_SMALL)} | {word: 10 * number for number, word in enumerate(_TENS, 2)}
_SIZES = {"hundred": 100, "thousand": 1_000}
_WORD = "|".join(sorted((*_WORDS, *_SIZES), key=len, reverse=True))
_IN_WORDS = re.compile(rf"\b(?:(?:an? )?(?={_WORD}\b))?(?:{_WORD})(?:(?:[\s-]+| and )(?:{_WORD}))*\b", re.IGNORECASE)
_IN_DIGITS = re.compile(r"(?<![\w./:\\-])(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?![\w/\\-]|[.:]\w)")
_UNIT_BEHIND = re.compile(r"[\s`\"*)-]*([^\W\d_]+)")
_SECONDS = {
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3_600),
    **dict.fromkeys(("day", "days"), 86_400),
    **dict.fromkeys(("week", "weeks"), 604_800),
}
_MONTHS = {
    **dict.fromkeys(("month", "months"), 1),
    **dict.fromkeys(("year", "years", "yr", "yrs"), 12),
    **dict.fromkeys(("decade", "decades"), 120),
}
_BYTES = {
    **dict.fromkeys(("byte", "bytes"), 1),
    **dict.fromkeys(("kib",), 1_024),
    **dict.fromkeys(("mib",), 1_024**2),
    **dict.fromkeys(("gib",), 1_024**3),
}
_SCALES = (_SECONDS, _MONTHS, _BYTES)
MAX_ROUNDING = 1e-6
"""Maximum difference to a whole number, which rounding explains."""
UNITS = frozenset(unit for scale in _SCALES for unit in scale if len(unit) > 1)
"""Names of units that can be converted into others, except single letters."""


class Quantity(NamedTuple):
    """Number in a text, with the unit behind it."""

    number: float
    start: int
    end: int
    unit: str
    """Name of the unit in lower case; empty without a unit that can be converted."""
    is_plain: bool
    """Whether the number consists of digits only."""

    def express(self, unit: str) -> str:
        """Return the number in a unit, in digits; empty if it is not whole in that unit, or if the units do not fit."""
        number = self.number
        if self.unit and unit:
            scale = next((scale for scale in _SCALES if unit in scale), {})
            if self.unit not in scale:
                return ""
            number = number * scale[self.unit] / scale[unit]
        return str(round(number)) if -MAX_ROUNDING < number - round(number) < MAX_ROUNDING else ""


def list_quantities(text: str) -> Iterator[Quantity]:
    """Yield the numbers of a text in digits and in words, in no particular order."""
    for match in _IN_DIGITS.finditer(text):
        number = float(match[0].replace(",", ""))
        yield Quantity(number, *match.span(), _find_unit(text, match.end()), match[0].isdigit())
    for match in _IN_WORDS.finditer(text):
        count = _parse_words(match[0])
        unit = _find_unit(text, match.end())
        # "one" is mostly no number, as in "this one"
        if count is not None and (match[0].lower() != "one" or unit):
            yield Quantity(count, *match.span(), unit, False)


def _find_unit(text: str, position: int) -> str:
    match = _UNIT_BEHIND.match(text, position)
    word = match[1].lower() if match else ""
    return word if any(word in scale for scale in _SCALES) else ""


def _parse_words(text: str) -> int | None:
    """Return the value of a number in words; None if the words are several numbers, as in "three four"."""
    total, group, unit = 0, 0, 1_000
    for word in re.split(r"[\s-]+", text.lower()):
        if word in {"a", "an", "and"}:
            continue
        if word in _SIZES:
            size = _SIZES[word]
            group = max(group, 1) * size
            unit = 100
            if size == 1_000:
                total, group, unit = total + group, 0, 1_000
            continue
        number = _WORDS[word]
        place = 1 if number < 10 else 10 if number >= 20 else 1
        if unit <= place or (unit == 10 and number >= 10):
            return None
        group += number
        unit = 10 if number >= 20 else 1
    return total + group
