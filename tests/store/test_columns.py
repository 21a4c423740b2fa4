from pathlib import Path

import pytest

from harness.store.columns import TABLES, Column, build_select
from harness.store.journal import Journal
from harness.store.records import TrialRecord

COLUMNS = [pytest.param(column, id=f"{table}.{column.name}") for table, columns in TABLES.items() for column in columns]


@pytest.mark.parametrize("column", COLUMNS)
def test_every_column_says_what_it_is(column: Column) -> None:
    assert len(column.description) > 10
    assert column.name.isidentifier()


@pytest.mark.parametrize("column", COLUMNS)
def test_a_name_that_speaks_of_a_unit_has_it(column: Column) -> None:
    units = {"_tokens": "tokens", "_seconds": "s", "_usd": "USD", "_characters": "characters", "_messages": "messages"}
    for ending, unit in units.items():
        if column.name.endswith(ending):
            assert column.unit == unit


def test_names_are_unique_within_a_table() -> None:
    for columns in TABLES.values():
        assert len({column.name for column in columns}) == len(columns)


def test_all_of_a_trial_record_is_among_the_columns() -> None:
    documented = {column.name.replace("started_at", "started_at_ms") for column in TABLES["trials"]}
    assert documented >= TrialRecord.__dataclass_fields__.keys()


@pytest.mark.parametrize("name", ["steps", "compactions", "messages", "probes"])
def test_rows_of_some_sessions_are_read_without_those_of_all_sessions(name: str, tmp_path: Path) -> None:
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        plan = [row["detail"] for row in journal.query(f"EXPLAIN QUERY PLAN {build_select(name)}", "[1, 2]")]
    scans = [detail for detail in plan if detail.startswith("SCAN") and detail not in {"SCAN i", "SCAN (subquery-3)"}]
    assert [detail for detail in scans if "json_each" not in detail] == []
    assert [detail for detail in plan if "AUTOMATIC" in detail] == [], "an automatic index is built from a whole table"
