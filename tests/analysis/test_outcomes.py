"""Outcomes of other studies: columns, refusals, and the figures of a published re-analysis."""

import os
from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest

from harness.analysis.comparison import compare
from harness.analysis.figures import compaction_rounds
from harness.analysis.outcomes import load_outcomes
from harness.analysis.statistics import PairedCounts, adjust_holm, compute_mcnemar_p
from harness.errors import UnknownName, UsageError
from harness.reporting.experiment_report import report
from harness.reporting.page.values import build_parts

FOLDER = Path(os.environ.get("HARNESS_OUTCOMES", Path(__file__).parents[3] / "shared" / "data" / "complexity-trap"))
TABLE = FOLDER / "experiment_instance_costs_combined.csv"
ROWS = pd.DataFrame(
    {
        "id": [f"t{number}" for number in range(8)] * 2,
        "policy": ["mask"] * 8 + ["raw"] * 8,
        "solved": [1] * 8 + [0] * 6 + [1] * 2,
        "usd": [1.0 + number / 10 for number in range(8)] + [2.0 + number / 20 for number in range(8)],
    }
)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_of_outcomes_is_compared_like_an_experiment(tmp_path, ending):
    file = tmp_path / f"runs.{ending}"
    ROWS.to_csv(file, index=False) if ending == "csv" else ROWS.to_parquet(file)
    comparison = compare(load_outcomes(file, task="id", arm="policy", success="solved", cost="usd"), "mask", "raw")
    assert (comparison.counts, comparison.p_value) == (PairedCounts(both=2, only_a=6), 2**-5)
    assert comparison.find_effect("success").estimand == "tasks like these"
    assert comparison.find_effect("total_cost_usd").value == pytest.approx(0.62, abs=0.03)
    assert "until one compacts): no steps to compare" in str(comparison)


@pytest.mark.slow
def test_a_table_of_outcomes_has_a_report_and_an_arm_that_is_selected_by_unknown_settings_is_refused(tmp_path):
    ROWS.to_csv(tmp_path / "runs.csv", index=False)
    outcomes = load_outcomes(tmp_path / "runs.csv", task="id", arm="policy", success="solved", cost="usd")
    paths = report(outcomes, "raw").write(tmp_path, figures="svg")
    assert "exact reader" not in (tmp_path / "report.md").read_text(encoding="utf-8")
    assert {path.name for path in paths} > {"report.md", "cost_score.svg", "paired_differences.svg"}
    with pytest.raises(UnknownName, match="threshold"):
        compare(outcomes, {"threshold": 0.5}, "raw")


@pytest.mark.slow
@pytest.mark.parametrize("summaries", [None, "shortened"])
def test_compactions_of_another_study_are_unknown_unless_a_column_states_them(tmp_path, summaries):
    ROWS.assign(shortened=[2, 0] * 8).to_csv(tmp_path / "runs.csv", index=False)
    outcomes = load_outcomes(tmp_path / "runs.csv", task="id", arm="policy", success="solved", summaries=summaries)
    (section,) = (section for section in report(outcomes).sections if section.heading.startswith("How the trials ended"))
    assert [row[section.columns.index("compacted")] for row in section.rows] == ["4/8" if summaries else "–"] * 2
    [effort] = [section for section in report(outcomes, "raw").sections if section.heading.startswith("Effort")]
    assert [row[effort.columns.index("rounds")] for row in effort.rows] == [("1 [0–2]" if summaries else "–")] * 2
    assert len(compaction_rounds.table(outcomes)) == (16 if summaries else 0)
    [page] = build_parts(outcomes, "raw", [])
    assert page["trials"]["compactions"] == ([2, 0] * 8 if summaries else [None] * 16)


@pytest.mark.parametrize(
    ("columns", "error", "words"),
    [
        ({"task": "ids"}, UnknownName, "did you mean 'id'|ids"),
        ({"success": "usd"}, UsageError, "success must be 0 or 1"),
        ({"cost": "policy"}, UsageError, "numbers only"),
    ],
)
def test_columns_that_are_absent_or_impossible_are_refused(tmp_path, columns, error, words):
    ROWS.to_csv(tmp_path / "runs.csv", index=False)
    with pytest.raises(error, match=words):
        load_outcomes(tmp_path / "runs.csv", **({"task": "id", "arm": "policy", "success": "solved"} | columns))
    with pytest.raises(UnknownName, match="unknown level 'banana'"):
        load_outcomes(tmp_path / "runs.csv", task="id", arm="policy", success="solved", level="banana")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("role", "value", "words"),
    [
        ("seed", 0.2, "whole number"),
        ("seed", None, "whole number"),
        ("turns", 2.7, "whole number"),
        ("tokens", None, "whole number"),
        ("cost", -1.0, "no negative"),
        ("cost", float("inf"), "no infinite"),
    ],
)
def test_impossible_numbers_are_refused(tmp_path, role, value, words):
    ROWS.assign(given=[value, *range(15)]).to_csv(tmp_path / "runs.csv", index=False)
    with pytest.raises(UsageError, match=f"column 'given': .*{words}"):
        load_outcomes(tmp_path / "runs.csv", task="id", arm="policy", success="solved", **{role: "given"})  # type: ignore[arg-type]


def test_an_arm_may_be_called_none(tmp_path):
    ROWS.replace({"policy": {"mask": "None", "raw": "NA"}}).to_csv(tmp_path / "runs.csv", index=False)
    outcomes = load_outcomes(tmp_path / "runs.csv", task="id", arm="policy", success="solved")
    assert set(outcomes.trials["arm"]) == {"None", "NA"}


def test_other_files_are_refused(tmp_path):
    for name in ("runs.txt", "absent.csv"):
        with pytest.raises(UsageError, match=name):
            load_outcomes(tmp_path / name, task="id", arm="policy", success="solved")


MODELS = {
    "gemini": "gemini_2.5_flash-",
    "gemini thinking": "gemini_2.5_flash_thinking",
    "coder": "local-Qwen3-Coder_480B_A35B",
    "qwen": "local-qwen3-32b",
    "qwen thinking": "local-Qwen3-32B_thinking",
}
PUBLISHED = {  # difference in points, wins, losses, p
    ("gemini", "mask", "raw"): (2.8, 50, 36, 0.161),
    ("gemini", "sum", "raw"): (3.2, 52, 36, 0.109),
    ("gemini", "sum", "mask"): (0.4, 47, 45, 0.917),
    ("gemini thinking", "mask", "raw"): (-3.8, 37, 56, 0.061),
    ("gemini thinking", "sum", "raw"): (-9.1, 29, 74, 0.0001),
    ("gemini thinking", "sum", "mask"): (-5.0, 31, 56, 0.010),
    ("coder", "mask", "raw"): (1.4, 32, 25, 0.427),
    ("coder", "sum", "raw"): (0.4, 37, 35, 0.906),
    ("coder", "sum", "mask"): (-1.0, 37, 42, 0.653),
    ("qwen", "mask", "raw"): (-2.0, 24, 34, 0.237),
    ("qwen", "sum", "raw"): (-1.0, 37, 42, 0.653),
    ("qwen", "sum", "mask"): (1.0, 34, 29, 0.615),
}
STRATEGIES = {"raw": "Raw Agent", "mask": "Observation Masking", "sum": "LLM-Summary"}


@pytest.mark.slow
@pytest.mark.skipif(not TABLE.is_file(), reason="no table of published outcomes: set HARNESS_OUTCOMES to its folder")
def test_the_published_contrasts_are_reproduced():
    whole = load_outcomes(
        TABLE, task="instance_id", arm="experiment", success="outcome", cost="cost", turns="turn_count", summaries="summary_count"
    ).trials
    source = pd.read_csv(TABLE).drop_duplicates("experiment").set_index("experiment")
    names = {
        (model, short): name
        for model, prefix in MODELS.items()
        for short, strategy in STRATEGIES.items()
        for name in source.index[(source["strategy"] == strategy) & (source["scaffold"] == "sweagent")]
        if name.startswith(prefix) and name.endswith("verified-500")
    }
    assert len(names) == 15
    p_values = {}
    for model in MODELS:
        for b, a in combinations(STRATEGIES, 2):
            sides = [whole[whole["arm"] == names[model, one]].set_index("task")["success"] for one in (a, b)]
            both = pd.concat(sides, axis=1, join="inner", keys=["a", "b"])
            counts = PairedCounts.from_outcomes(list(both["a"]), list(both["b"]))
            p_values[model, a, b] = compute_mcnemar_p(counts)
            if (model, a, b) in PUBLISHED:
                points, wins, losses, p = PUBLISHED[model, a, b]
                assert (counts.only_a, counts.only_b) == (wins, losses)
                assert 100 * counts.difference == pytest.approx(points, abs=0.1)
                assert p_values[model, a, b] == pytest.approx(p, abs=0.001)
    shown = [key for key, p in zip(p_values, adjust_holm(list(p_values.values())), strict=True) if p <= 0.05]
    assert shown == [("gemini thinking", "sum", "raw")]
