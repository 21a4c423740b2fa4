"""Import of other studies' results: a table with one row per run, whose arms can then be compared like those of an experiment.

Such a table says how each run ended and what it cost, but not what the agent did. Requests, compactions and facts are unknown,
so checks that need them report that there is nothing to compare.
"""

import os
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import pyarrow.parquet as pq

from harness.analysis.tables import Selection
from harness.errors import UnknownName, UsageError
from harness.files.bounded_input import read_input
from harness.store.columns import TABLES
from harness.store.records import Level

MAX_OUTCOMES_BYTES = 64 * 2**20
"""Maximum size of a table of outcomes in bytes."""
MAX_OUTCOMES = 1_000_000
"""Maximum number of rows of a Parquet file; a small file may state any number."""
_BLANK_VALUES: dict[str, object] = {"str": "", "bool": False, "int64": 0, "float64": float("nan")}
"""Values for columns that the table of another study lacks, by dtype; columns of other dtypes get missing values."""


def load_outcomes(
    path: str | os.PathLike[str],
    *,
    task: str,
    arm: str,
    success: str,
    score: str | None = None,
    seed: str | None = None,
    cost: str | None = None,
    turns: str | None = None,
    tokens: str | None = None,
    summaries: str | None = None,
    level: Level = "L3",
) -> Selection:
    """Read another study's results, one run per row of a CSV or Parquet file, to compare its arms with `compare`.

    Args:
        path: Path of the file; its name ends in `.csv` or `.parquet`. Required.
        task: Name of the column with the name of the task. Required.
        arm: Name of the column with the configuration. Required.
        success: Name of the column with the outcome, 0 or 1. Required.
        score: Name of the column with the score, 0 to 1; None uses the outcome. Default: `None`.
        seed: Name of the column with the seed, a whole number; None means that there are none. Default: `None`.
        cost: Name of the column with the cost of the run in US dollars. Default: `None`.
        turns: Name of the column with the number of model calls. Default: `None`.
        tokens: Name of the column with the number of prompt tokens. Default: `None`.
        summaries: Name of the column with the number of compactions; None means that these numbers are unknown. Default: `None`.
        level: Fidelity level of the runs. Default: `'L3'`.

    Example::

        results = harness.load_outcomes("runs.csv", task="instance_id", arm="strategy", success="resolved", cost="cost_usd")
        print(harness.compare(results, "masking", "raw"))

    Raises:
        UnknownName: The file has no column with one of these names, or the level does not exist; the message suggests similar
            names.
        UsageError: The file cannot be read, or a column has impossible values.
    """
    if level not in get_args(Level):
        raise UnknownName("level", level, get_args(Level))
    source = _read_table(Path(path))
    for name in (task, arm, success, score, seed, cost, turns, tokens, summaries):
        if name is not None and name not in source.columns:
            raise UnknownName(f"column of {Path(path).name}:", name, [str(column) for column in source.columns])
    names = {"success": success, "score": score or success, "cost_usd": cost, "steps": turns, "prompt_tokens": tokens}
    names |= {"compactions": summaries, "seed": seed}
    columns: dict[str, Any] = {"task": source[task].astype(str), "arm": source[arm].astype(str), "level": level}
    columns |= {name: _read_numbers(source, given) for name, given in names.items() if given is not None}
    for name in ("success", "score"):
        if not columns[name].between(0, 1).all() or (name == "success" and not columns[name].isin([0, 1]).all()):
            raise UsageError(
                f"column {names[name]!r}: {name} must be {'0 or 1' if name == 'success' else 'from 0 to 1'} in each row"
            )
    for name in columns.keys() & {"seed", "steps", "prompt_tokens", "compactions"}:
        known = columns[name].dropna() if name == "compactions" else columns[name]
        if not (known % 1 == 0).all():
            raise UsageError(f"column {names[name]!r}: must contain a whole number in each row")
    for name in columns.keys() & {"cost_usd", "steps", "prompt_tokens", "compactions"}:
        if not columns[name].dropna().between(0, sys.float_info.max).all():
            raise UsageError(f"column {names[name]!r}: must contain no negative and no infinite number")
    trials = pd.DataFrame(columns, index=source.index)
    if seed is None:
        trials["seed"] = 0
    trials["replicate"] = trials.groupby(["arm", "task", "seed"]).cumcount()
    trials["summarizer_seed"] = 0
    trials = trials.assign(
        experiment=Path(path).stem,
        trial_id=[f"row {place}" for place in range(len(trials))],
        status="completed",
        reason="",
        treatment="",
        activity="",
        summarizer_cost_usd=0.0,
        sub_agent_cost_usd=0.0,
    )
    tables = {name: _complete(pd.DataFrame(), name) for name in ("steps", "compactions", "probes")}
    whole = _complete(trials, "trials")
    if summaries is None:
        whole["compactions"] = pd.array([pd.NA] * len(whole), dtype="Int64")
    return Selection(trials=whole, **tables)


def _read_table(path: Path) -> pd.DataFrame:
    readers: dict[str, Callable[[BytesIO], pd.DataFrame]] = {".csv": _read_csv, ".parquet": _read_parquet}
    if path.suffix not in readers:
        raise UsageError(f"{str(path)!r}: the name of a table of outcomes must end in .csv or .parquet")
    try:
        return readers[path.suffix](BytesIO(read_input(path, MAX_OUTCOMES_BYTES)))
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {str(path)!r}: {getattr(error, 'strerror', None) or error}") from error


def _read_csv(content: BytesIO) -> pd.DataFrame:
    # Only an empty cell is missing: `None` or `NA` may be the name of an arm.
    return pd.read_csv(content, keep_default_na=False, na_values=[""])


def _read_parquet(content: BytesIO) -> pd.DataFrame:
    rows = pq.read_metadata(content).num_rows
    if rows > MAX_OUTCOMES:
        raise ValueError(f"it has {rows:,} rows, more than the {MAX_OUTCOMES:,} that are read; pass a smaller table")
    return pd.read_parquet(content)


def _read_numbers(source: pd.DataFrame, name: str) -> pd.Series:
    try:
        return pd.to_numeric(source[name])
    except (ValueError, TypeError) as error:
        raise UsageError(f"column {name!r}: must contain numbers only ({error})") from error


def _complete(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Add the missing columns of a results table to rows, with blank values."""
    columns = {}
    for column in TABLES[name]:
        blank = "{}" if column.name.endswith("_json") else _BLANK_VALUES.get(column.dtype)
        values = rows[column.name] if column.name in rows else [blank] * len(rows)
        columns[column.name] = pd.Series(values, index=rows.index).astype(column.dtype)
    return pd.DataFrame(columns, index=rows.index)
