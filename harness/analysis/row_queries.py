"""Queries behind the numbers of a report: SQL for `Results.sql` that computes each number of an arm, or of a comparison.

A test runs each query and compares its result with the number in the report. Intervals and p-values have no query: the report
computes them from the same trials.
"""

from typing import NamedTuple

from harness.analysis.arms import COST_COLUMNS, select_valid
from harness.analysis.comparison import COMPARED_METRICS, ArmComparer, format_effect
from harness.analysis.effects import Effect
from harness.analysis.formatting import format_p
from harness.analysis.measures import METRICS, add_measures, estimate_cell
from harness.analysis.tables import Tables, require_single_level
from harness.experiment.contrasts import SHARE_METRICS
from harness.store.records import EXTERNAL_FAILURE_REASONS

_TOTAL_USD = " + ".join(COST_COLUMNS)
_TOTAL_TOKENS = " + ".join(
    f"coalesce({owner}{kind}_tokens, 0)" for owner in ("", "summarizer_", "sub_agent_") for kind in ("prompt", "output")
)
_COLUMNS = {"success": "success::int", "score": "score", "cost": _TOTAL_USD, "tokens": _TOTAL_TOKENS, "steps": "steps"}
"""SQL of each metric of an arm, by the name of the metric."""
_SPREADS = ("compactions", "steps", "prompt_tokens")
_PAIRED_COLUMNS = {
    "success": "success::int",
    "score": "score",
    "prompt_tokens": "prompt_tokens",
    "total_tokens": f"({_TOTAL_TOKENS})",
    "steps": "steps",
    "total_cost_usd": f"({_TOTAL_USD})",
}
"""SQL of each metric of a comparison, by the name of the column from which it is estimated."""


class Query(NamedTuple):
    """Number of a report, with the query that computes it."""

    number: str
    """Name of the number, such as `score`."""
    value: str
    """Number as the report prints it, with its interval."""
    sql: str


def write_arm_queries(arm: str, level: str) -> dict[str, str]:
    """Return the queries for the numbers of an arm, by the name of the number.

    Args:
        arm: Name of the arm.
        level: Fidelity level of its trials.
    """
    condition = f"WHERE arm = {_quote(arm)} AND {_describe_valid(level)}"
    queries = {"trials": f"SELECT count(*) FROM trials {condition}"}
    for name, column in _COLUMNS.items():
        inner = f"SELECT task, seed, avg({column}) AS value FROM trials {condition} GROUP BY task, seed"
        queries[f"{name}, mean over tasks"] = _average_tasks(inner)
    queries["USD, mean of trials"] = f"SELECT avg({_TOTAL_USD}) FROM trials {condition}"
    for name in _SPREADS:
        queries[f"{name}, median [min–max]"] = f"SELECT median({name}), min({name}), max({name}) FROM trials {condition}"
    return queries


def list_arm_queries(results: Tables, arm: str) -> list[Query]:
    """Return the numbers of an arm in a report, each with its query.

    Args:
        results: Results of one experiment and one fidelity level.
        arm: Name of the arm.
    """
    measured = add_measures(results)
    valid = select_valid(measured)
    trials = valid[valid["arm"] == arm]
    values = {"trials": str(len(trials)), "USD, mean of trials": METRICS["cost"].format_value(trials["total_cost_usd"].mean())}
    for name in _COLUMNS:
        metric = METRICS[name]
        cell = estimate_cell(trials, metric)
        values[f"{name}, mean over tasks"] = f"{metric.format_value(cell.value)} {metric.format_interval(cell.low, cell.high)}"
    for name in _SPREADS:
        known = trials[name].dropna().astype(float)
        text = f"{known.median():,.10g} [{known.min():,.10g}–{known.max():,.10g}]" if len(known) else "–"
        values[f"{name}, median [min–max]"] = text
    queries = write_arm_queries(arm, require_single_level(results.trials))
    return [Query(name, values[name], sql) for name, sql in queries.items()]


def write_pair_queries(a: str, b: str, level: str) -> dict[str, str]:
    """Return the queries for the comparison of arm a with arm b, by the column of the compared metric; `pairs` counts the pairs.

    A seed of a task counts once: its replicates are averaged, as in the report.

    Args:
        a: Name of the first arm.
        b: Name of the arm with which it is compared.
        level: Fidelity level of the trials of both.
    """
    condition = _describe_valid(level)
    queries = {"pairs": f"SELECT count(*) FROM ({_join_sides(a, b, '1', condition)})"}
    for metric, column in _PAIRED_COLUMNS.items():
        is_ratio = metric not in SHARE_METRICS
        is_known = f"{condition} AND {column} > 0" if is_ratio else condition
        joined = _join_sides(a, b, f"ln({column})" if is_ratio else column, is_known)
        seeds = f"SELECT task, seed, avg(a - b) AS value FROM ({joined}) GROUP BY task, seed"
        queries[metric] = _average_tasks(seeds, "exp" if is_ratio else "")
    return queries


def list_pair_queries(results: Tables, a: str, b: str) -> list[Query]:
    """Return the numbers of the comparison of arm a with arm b in a report, each with its query.

    Args:
        results: Results of one experiment and one fidelity level.
        a: Name of the first arm.
        b: Name of the arm with which it is compared.
    """
    comparer = ArmComparer(results)
    queries = write_pair_queries(a, b, require_single_level(results.trials))
    listed = [Query("pairs", str(len(comparer.pair(a, b))), queries["pairs"])]
    for metric in COMPARED_METRICS:
        effect = comparer.estimate(a, b, metric) if metric in queries else None
        if effect is not None and effect.pair_count:
            value = f"{format_effect(effect)}, p {format_p(effect.p_value)}"
            listed.append(Query(_name_effect(effect), value, queries[metric]))
    return listed


def _name_effect(effect: Effect) -> str:
    return f"{effect.metric}, {'ratio' if effect.scale == 'ratio' else 'difference'}"


def _average_tasks(seeds: str, function: str = "") -> str:
    """Return a query for the mean over tasks of the mean over the seeds of a task."""
    mean = f"{function}(avg(value))" if function else "avg(value)"
    return f"SELECT {mean} FROM (SELECT task, avg(value) AS value FROM ({seeds}) GROUP BY task)"


def _join_sides(a: str, b: str, column: str, condition: str) -> str:
    """Return a query for the values of two arms on the same task, seed and repetition."""
    sides = [
        f"(SELECT task, seed, replicate, summarizer_seed, {column} AS {side} FROM trials "
        f"WHERE arm = {_quote(arm)} AND {condition})"
        for side, arm in zip("ab", (a, b), strict=True)
    ]
    return f"SELECT * FROM {sides[0]} JOIN {sides[1]} USING (task, seed, replicate, summarizer_seed)"


def _describe_valid(level: str) -> str:
    """Return the SQL condition of valid trials of a level."""
    reasons = ", ".join(map(_quote, EXTERNAL_FAILURE_REASONS))
    return f"status <> 'crashed' AND reason NOT IN ({reasons}) AND level = {_quote(level)}"


def _quote(text: str) -> str:
    """Return a text as a string of SQL."""
    return "'" + text.replace("'", "''") + "'"
