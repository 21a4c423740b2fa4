"""Measured quality of the functions (readers) by which the scripted agent finds facts in texts.

Reports show it beside results with a real summarizer. The figures in `reader_quality.json` are measured on summaries by small
local models and written by `python -m experiments.reader_quality.judge`.
"""

import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

import pandas as pd

from harness.errors import format_count
from harness.text import format_percent

REAL_SUMMARIZER_LEVELS = frozenset({"L1", "L2-fork", "L3"})
"""Fidelity levels at which real models may write the summaries."""


@cache
def load_reader_quality() -> dict[str, Any]:
    """Return the measured quality of each function that finds facts in texts (reader).

    The numbers say how many facts a reader read and misread, and in how many summaries.
    """
    figures: dict[str, Any] = json.loads(files("harness.reporting").joinpath("reader_quality.json").read_text(encoding="utf-8"))
    return figures


def describe_readers(trials: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence on how well each function that finds facts in texts (reader) reads real summaries.

    Only the readers of the given trials are described. Nothing is yielded if no real model can have written their summaries, as
    in a simulation.

    Args:
        trials: Rows with the columns `level` and `config_json`, all of one fidelity level.
    """
    if trials["level"].iloc[0] not in REAL_SUMMARIZER_LEVELS:
        return
    quality = load_reader_quality()
    summaries = format_count(quality["summaries"], "summary")
    models, sessions = format_count(len(quality["by_model"]), "local model"), format_count(quality["sessions"], "session")
    configurations = [json.loads(text) for text in trials["config_json"].unique()]
    readers = {plain.get("reader", "exact") for plain in configurations if plain}  # other studies' trials have none
    for reader in sorted(readers):
        counts = quality["readers"][reader]
        stated = counts["false_readings"] - counts["misreadings"]
        yield (
            f"Facts are found by the {reader} reader. On {summaries} by {models} ({sessions}) it read {counts['recalled']:,} of "
            f"{format_count(counts['stated'], 'fact')} that a summary stated, and {counts['false_readings']} of "
            f"{format_count(counts['readings'], 'value')} that it read were false (upper 95 % bound "
            f"{format_percent(counts['false_upper_bound'], 1)}, clustered by session); of these, the summary itself stated "
            f"{stated}, and the reader misread {counts['misreadings']} "
            f"(bound {format_percent(counts['misreading_upper_bound'], 1)}). "
            f"Source: {quality['source']}."
        )
