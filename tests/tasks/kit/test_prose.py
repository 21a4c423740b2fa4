"""Generated pages are reproducible, reach their minimum length, and contain each fact once."""

import random

import pytest

from harness.tasks.kit.prose import Section, Writer

SECTIONS = (Section("One", ("The colour is blue.",)), Section("Two", rows=("| a |", "| - |", "| x |", "| y |")))


def page(seed, least=5_000):
    return Writer(random.Random(seed), ("cat", "dog", "bird")).write_page("Title", SECTIONS, least)


@pytest.mark.parametrize("least", [0, 900, 20_000])
def test_a_page_is_as_long_as_asked_for_and_not_much_longer(least):
    assert least <= len(page(1, least)) <= least + 1_500


def test_required_lines_of_a_page_appear_exactly_once():
    for seed in range(20):
        text = page(seed)
        for line in ("# Title\n", "## One", "## Two", "The colour is blue.", "| x |", "| y |"):
            assert text.count(line) == 1


def test_pages_follow_from_the_seed():
    assert page(3) == page(3)
    assert page(3) != page(4)
