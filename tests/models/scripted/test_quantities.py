"""Numbers in words and quantities in other units are read as the number that they mean, or not at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.reader_quality.styles import LARGER, SMALLER, spell_number
from harness.models.scripted.quantities import list_quantities


def express(text: str, unit: str) -> list[str]:
    return [quantity.express(unit) for quantity in list_quantities(text)]


@given(st.integers(2, 9_999))
def test_a_number_in_words_is_read_as_the_number(number: int) -> None:
    assert express(f"The limit is {spell_number(number)}.", "") == [str(number)]


@given(st.integers(1, 500), st.sampled_from(sorted(SMALLER)))
def test_a_quantity_in_a_smaller_unit_is_read_in_the_larger_one(number: int, unit: str) -> None:
    count, smaller = SMALLER[unit]
    assert express(f"{number * count:,} {smaller}", unit) == [str(number)]
    assert express(f"{number * count + 1} {smaller}", unit) == [""]


@given(st.integers(1, 500), st.sampled_from(sorted(LARGER)))
def test_a_quantity_in_a_larger_unit_is_read_in_the_smaller_one(number: int, unit: str) -> None:
    count, larger = LARGER[unit]
    assert express(f"{number} {larger}s", unit) == [str(number * count)]


@pytest.mark.parametrize(
    ("text", "values"),
    [("3.5 minutes", ["210"]), ("a hundred seconds", ["100"]), ("this one", []), ("three four", []), ("30 kib", [""])],
)
def test_words_that_are_no_number_and_units_of_something_else_have_no_value(text: str, values: list[str]) -> None:
    assert express(text, "seconds") == values
