"""Figures of the README, drawn from the traces as `table.py` reads them: `python experiments/cache_repricing/figure.py TRACES`.

`ranks.png` has the rank of each threshold and the share of traces that it makes dearer, by the price of a read. `parts.png` has
the cost of one threshold by part under two rules, and the price of a read below which each threshold costs more than none.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from table import (
    BOOTSTRAP_DRAWS,
    INPUT_USD,
    LIFETIMES,
    OUTPUT_USD,
    READ_SHARES,
    THRESHOLDS,
    Trace,
    Variant,
    build_recording,
    compute_costs,
    name_thresholds,
    rank_thresholds,
    read_traces,
    select_traces,
)

from harness.analysis.figures.style import THEMES, apply_style
from harness.replay.triggers import CacheTerms, Cut, replay_threshold

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FOLDER = Path(__file__).parent
SETTING_TOKENS = 80_000
"""Threshold whose cost is shown by part."""
PART_TERMS = (("5 min", 0.1), ("1 h", 0.025))
"""Lifetime and price of a read of these."""
COLOURS = THEMES["light"]
DEARER, CHEAPER = COLOURS.palette[1], COLOURS.palette[2]
STYLES: dict[str, dict[str, Any]] = {
    name: {"color": COLOURS.palette[place], "marker": marker}
    for place, (name, marker) in enumerate(zip(name_thresholds(), "osD^v", strict=True))
}
DOTS_PER_INCH = 110


class Parts(NamedTuple):
    """Cost of all chains in USD by part.

    Args:
        read_usd: Tokens read from the cache.
        new_usd: Tokens written for the first time, as long as the cache is warm.
        rewarmed_usd: Tokens written since the lifetime had ended.
        output_usd: Output of the agent.
        cut_usd: Tokens written after compactions: those kept, and those read again.
        summary_usd: Calls of the summarizer.
    """

    read_usd: float
    new_usd: float
    rewarmed_usd: float
    output_usd: float
    cut_usd: float
    summary_usd: float


PART_NAMES = {
    "read_usd": "read from the cache",
    "rewarmed_usd": "written again after pauses",
    "cut_usd": "written after compactions",
    "summary_usd": "summaries",
}
"""Parts that differ between two thresholds, in the order of the figure."""


def sum_costs(traces: list[Trace], threshold: float, cut: Cut, read: float, write: float, output: float, seconds: float) -> float:
    """Return the cost of all chains under some prices, any of which may be 0; the compactions do not depend on prices."""
    terms = CacheTerms(input_usd=INPUT_USD, output_usd=output, read_share=read, write_share=write, lifetime_seconds=seconds)
    costs = [replay_threshold(chain, terms, threshold, cut).cost_usd for trace in traces for chain in trace.chains]
    return float(sum(costs))


def split_cost(traces: list[Trace], threshold: float, lifetime: str, read_share: float) -> Parts:
    """Return the cost under a threshold by part: each is the difference of two costs under prices of which some are 0."""
    seconds, write = LIFETIMES[lifetime]
    whole, silent = Cut(), Cut(summary_tokens=0)
    read_usd = sum_costs(traces, threshold, silent, read_share, 0.0, 0.0, seconds)
    written_usd = sum_costs(traces, threshold, silent, 0.0, write, 0.0, seconds)
    warm_usd = sum_costs(traces, threshold, silent, 0.0, write, 0.0, np.inf)
    new_usd = sum_costs(traces, np.inf, silent, 0.0, write, 0.0, np.inf)
    output_usd = sum_costs(traces, threshold, silent, 0.0, 0.0, OUTPUT_USD, seconds)
    total_usd = sum_costs(traces, threshold, whole, read_share, write, OUTPUT_USD, seconds)
    others_usd = read_usd + written_usd + output_usd
    return Parts(read_usd, new_usd, written_usd - warm_usd, output_usd, warm_usd - new_usd, total_usd - others_usd)


def find_break_even(costs: np.ndarray) -> pd.DataFrame:
    """Return the price of a read at which each threshold costs as much as none, with a 95 % interval by a bootstrap.

    Costs grow linearly with the price of a read, so two prices give it exactly. It is negative where a threshold saves under
    every price.

    Args:
        costs: Traces × thresholds × prices of a read.
    """

    def solve(totals: np.ndarray) -> np.ndarray:
        difference = totals[..., :-1, :] - totals[..., -1:, :]
        slope = (difference[..., 0] - difference[..., -1]) / (READ_SHARES[0] - READ_SHARES[-1])
        return READ_SHARES[-1] - difference[..., -1] / slope

    rng = np.random.default_rng(0)
    draws = costs[rng.integers(0, len(costs), (BOOTSTRAP_DRAWS, len(costs)))].sum(axis=1)
    low, high = np.percentile(solve(draws), (2.5, 97.5), axis=0)
    return pd.DataFrame({"share": solve(costs.sum(axis=0)), "low": low, "high": high}, index=name_thresholds()[:-1])


def list_dearer(costs: np.ndarray) -> pd.DataFrame:
    """Return the percentage of traces that cost more with each threshold than with none, by the price of a read."""
    shares = 100 * (costs[:, :-1] > costs[:, -1:]).mean(axis=0)
    return pd.DataFrame(shares, index=name_thresholds()[:-1], columns=list(READ_SHARES))


def draw_lines(ax: "Axes", table: pd.DataFrame, title: str, label: str) -> None:
    """Draw one line for each threshold over the price of a read, from dear to cheap."""
    for name, row in table.iterrows():
        ax.plot(range(len(row)), row.to_numpy(), label=str(name), linewidth=1.6, markersize=5, **STYLES[str(name)])
    ax.set_xticks(range(len(READ_SHARES)), [f"{share:g}" for share in READ_SHARES])
    ax.set(title=title, ylabel=label, xlabel="price of a read, as a share of the price of input")
    ax.grid(axis="y")


def draw_ranks(costs: np.ndarray, path: Path) -> None:
    """Draw ranks and shares of dearer traces, with one column for each lifetime.

    Args:
        costs: Traces × lifetimes × thresholds × prices of a read.
        path: Image file.
    """
    from matplotlib.figure import Figure

    with apply_style("light"):
        figure = Figure(figsize=(8.6, 5.8))
        axes = figure.subplots(2, 2)
        for place, lifetime in enumerate(LIFETIMES):
            draw_lines(axes[0, place], rank_thresholds(costs[:, place]), f"lifetime {lifetime}", "rank by cost (1 is cheapest)")
            axes[0, place].set_yticks(range(1, len(THRESHOLDS) + 1))
            axes[0, place].invert_yaxis()
            draw_lines(axes[1, place], list_dearer(costs[:, place]), f"lifetime {lifetime}", "traces that get dearer, %")
            axes[1, place].set_ylim(-3, 103)
        axes[0, 1].legend(title="threshold", loc="upper left", bbox_to_anchor=(1.0, 1.0))
        figure.savefig(path, dpi=DOTS_PER_INCH)


def draw_waterfall(ax: "Axes", before: Parts, after: Parts, title: str) -> None:
    """Draw the way from the cost without compaction to the cost with it, in % of the former."""
    whole = sum(before)
    level = 100.0
    ax.bar(0, level, color=COLOURS.muted, width=0.7)
    ax.annotate(f"{level:.0f}", (0, level), (0, 3), textcoords="offset points", ha="center")
    for place, part in enumerate(PART_NAMES, 1):
        change = 100 * (getattr(after, part) - getattr(before, part)) / whole
        ax.bar(place, change, bottom=level, color=DEARER if change > 0 else CHEAPER, width=0.7)
        ax.annotate(f"{change:+.1f}", (place, max(level, level + change)), (0, 3), textcoords="offset points", ha="center")
        level += change
    ax.bar(len(PART_NAMES) + 1, level, color=COLOURS.muted, width=0.7)
    ax.annotate(f"{level:.1f}", (len(PART_NAMES) + 1, level), (0, 3), textcoords="offset points", ha="center")
    names = ["no compaction", *PART_NAMES.values(), f"{SETTING_TOKENS // 1000}K"]
    ax.set_xticks(range(len(names)), [name.replace(" ", "\n") for name in names], fontsize=7)
    ax.set(title=title, ylabel="cost, % of no compaction", ylim=(0, 128))


def draw_parts(traces: list[Trace], costs: np.ndarray, path: Path) -> None:
    """Draw the cost of a threshold by part, and the price of a read at which each threshold costs as much as none."""
    from matplotlib.figure import Figure

    with apply_style("light"):
        figure = Figure(figsize=(8.6, 6.2))
        axes = figure.subplot_mosaic([["first", "second"], ["even", "even"]], height_ratios=(3, 2))
        for name, (lifetime, read_share) in zip(("first", "second"), PART_TERMS, strict=True):
            parts = [split_cost(traces, threshold, lifetime, read_share) for threshold in (np.inf, SETTING_TOKENS)]
            draw_waterfall(axes[name], *parts, f"{SETTING_TOKENS // 1000}K, lifetime {lifetime}, reads at {read_share}")
            print(f"{lifetime}, read {read_share}: none {parts[0]}, {SETTING_TOKENS // 1000}K {parts[1]}")
        ax = axes["even"]
        rows = [
            (f"{name}, {lifetime}", row)
            for name in name_thresholds()[:-1]
            for place, lifetime in enumerate(LIFETIMES)
            for row in [find_break_even(costs[:, place]).loc[name]]
        ]
        for place, (name, row) in enumerate(rows):
            style = STYLES[name.partition(",")[0]]
            ax.plot([row["low"], row["high"]], [place, place], color=style["color"], linewidth=2)
            ax.plot(row["share"], place, markersize=6, **style)
            print(f"break-even price of a read, {name}: {row['share']:.3f} [{row['low']:.3f}, {row['high']:.3f}]")
        ax.set_yticks(range(len(rows)), [name for name, _ in rows])
        ax.invert_yaxis()
        ax.axvspan(ax.get_xlim()[0], 0, color=COLOURS.panel, zorder=0)
        ax.axvline(0, color=COLOURS.muted, linewidth=0.8)
        ax.set(
            title="Break-even: below this price of a read, the threshold costs more than no compaction (shaded: it never does)",
            xlabel="price of a read, as a share of the price of input; 95 % interval",
        )
        ax.grid(axis="x")
        figure.savefig(path, dpi=DOTS_PER_INCH)


def main(archive: Path) -> None:
    """Draw both figures beside this script, and print the numbers in them."""
    traces = select_traces([build_recording(trace) for trace in read_traces(archive)], 0.5)
    costs = compute_costs(traces, (Variant(),))[:, 0]
    for place, lifetime in enumerate(LIFETIMES):
        print(f"Traces that get dearer in %, {lifetime}:\n{list_dearer(costs[:, place]).round(1).to_string()}\n")
    draw_ranks(costs, FOLDER / "ranks.png")
    draw_parts(traces, costs, FOLDER / "parts.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
