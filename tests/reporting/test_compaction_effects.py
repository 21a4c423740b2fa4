"""The sections of a report on what compactions did: survival by kind, room made, and what came after."""

from math import nan

import pandas as pd

from harness.analysis.arms import ArmSummary
from harness.reporting.compaction_effects import NOTHING, build_effect_sections
from harness.store.columns import TRIALS, UNREPORTED_COLUMNS
from tests.analysis.selections import trial

EFFECTS = [column.name for column in TRIALS if column.stored_in == "conduct"]
MISSING: dict[str, object] = dict.fromkeys(EFFECTS, nan)


def make_arm(name: str, *values: dict[str, object], compactions: int = 2) -> ArmSummary:
    rows = [
        trial(arm=name, seed=seed, compactions=compactions) | MISSING | {"prefix_breaks_per_100_steps": 2.0} | given
        for seed, given in enumerate(values)
    ]
    return ArmSummary(arm=name, trials=pd.DataFrame(rows), counts={})


def read_cells(*arms: ArmSummary) -> dict[str, dict[str, dict[str, str]]]:
    return {
        section.heading: {row[0]: dict(zip(section.columns[1:], row[1:], strict=True)) for row in section.rows}
        for section in build_effect_sections(arms)
    }


def test_every_column_on_effects_of_compactions_is_shown_somewhere_and_read_by_reports():
    cells = read_cells(make_arm("a", dict.fromkeys(EFFECTS, 0.5), dict.fromkeys(EFFECTS, 0.5)))
    assert sum(len(row) for rows in cells.values() for row in rows.values()) == len(EFFECTS)
    assert not UNREPORTED_COLUMNS["trials"] & set(EFFECTS)


def test_shares_are_percentages_with_intervals_and_numbers_are_means():
    cells = read_cells(
        make_arm(
            "a",
            {"path_survival": 0.5, "floor_growth_tokens": -1_500, "cuts_in_loop": 1, "trigger_error": 0.9},
            {"path_survival": 0.7, "floor_growth_tokens": -500, "cuts_in_loop": 2, "trigger_error": 1.1},
        )
    )
    survived, room, after = (cells[heading]["a"] for heading in cells)
    assert survived["paths"].startswith("60 % [")
    assert room["floor growth, tokens"] == "-1k"
    assert room["size at trigger ÷ threshold"].startswith("1 [")
    assert after["cut in a loop"] == "1.5"
    assert after["prefix breaks per 100 steps"] == "2"


def test_a_value_of_zero_is_shown_and_a_missing_one_is_a_dash():
    cells = read_cells(make_arm("zero", {"path_survival": 0.0}, {"path_survival": 0.0}), make_arm("none", {}, {}))
    survived = cells["What survived a compaction, by kind"]
    assert survived["zero"]["paths"].startswith("0 %")
    assert survived["none"]["paths"] == NOTHING


def test_cycles_until_stuck_name_the_trials_that_got_stuck_and_say_never_only_where_it_was_measured():
    stuck = make_arm("stuck", {"cycles_to_stuck": 3}, {})
    older = make_arm("older", {"prefix_breaks_per_100_steps": nan, "freed_share": 0.5})
    cells = read_cells(stuck, make_arm("well", {"freed_share": 0.5}), older)["Room that compactions made"]
    assert [cells[arm]["until stuck"] for arm in ("stuck", "well", "older")] == ["3.0 (1 of 2)", "never", NOTHING]


def test_trials_of_an_older_version_have_a_sentence_and_no_number():
    (section,) = build_effect_sections([make_arm("old", MISSING, MISSING)])
    assert (section.rows, section.columns) == ((), ())
    assert section.notes[0].startswith("Not measured: the trials ran under a version without these numbers.")


def test_arms_that_never_compacted_have_no_row():
    assert list(build_effect_sections([make_arm("none", {"duplicate_calls": 3}, compactions=0)])) == []
    cells = read_cells(make_arm("none", {"duplicate_calls": 3}, compactions=0), make_arm("a", {"duplicate_calls": 1}))
    assert set(cells["After a compaction"]) == {"a"}


def test_a_column_that_no_arm_has_is_named_below_the_table():
    sections = list(build_effect_sections([make_arm("a", {"path_survival": 1.0})]))
    assert sections[0].columns == ("arm", "paths")
    assert "Nothing to measure in any arm: commands, numbers, identifiers, decisions, user's constraints." in sections[0].notes
