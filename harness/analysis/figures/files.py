"""Image files of charts: which charts a report draws, and their files in PNG, SVG or PDF."""

from collections.abc import Mapping
from inspect import signature
from pathlib import Path

import pandas as pd

from harness.analysis.arms import drop_earlier_plans
from harness.analysis.chart_options import Format, Theme, Width
from harness.analysis.figures import FIGURES, FIGURES_WITHOUT_OUTCOMES, style
from harness.analysis.formatting import format_label
from harness.analysis.measures import find_metric
from harness.analysis.tables import Tables, read_report_tables, require_single_level, split_by_level

STORY = "loss_story"
"""Chart that a report draws first if there is a loss to show."""
FIRST_FIGURES = ("cost_score", "token_curves")
"""Charts of which a report draws the first that has data, unless all are requested. With a single arm, the first has none."""


def build_table(
    name: str, results: Tables, *, metric: str | None = None, baseline: str | Mapping[str, object] | None = None
) -> pd.DataFrame:
    """Return the data of a chart for the chosen metric and baseline; a chart without such a choice ignores them.

    A chart takes the choices that are arguments of its function `table`: `metric` or, for several metrics, `metrics`, and
    `baseline`. Its optional constant `UNSUITABLE_METRICS` names metrics for which it shows its default metric instead.

    Args:
        name: Name of the chart, as in `harness.figures.FIGURES`.
        results: Results of one experiment and one fidelity level.
        metric: Name of a metric; None for the default. Charts that show cost anyway show it beside the metric.
        baseline: Arm to compare with, by its name or by settings as in `harness.compare`; None for the default.

    Raises:
        UnknownName: There is no such metric or arm; the message suggests similar names.
    """
    module = FIGURES[name]
    choices: dict[str, object] = {"baseline": baseline}
    if metric is not None:
        choices["metrics"] = list(dict.fromkeys((find_metric(metric).name, "cost")))
        choices["metric"] = None if metric in getattr(module, "UNSUITABLE_METRICS", ()) else metric
    accepted = signature(module.table).parameters
    table: pd.DataFrame = module.table(
        results, **{key: choice for key, choice in choices.items() if choice is not None and key in accepted}
    )
    return table


def write_figures(
    results: Tables,
    directory: Path,
    file_format: Format | None = None,
    *,
    metric: str | None = None,
    baseline: str | Mapping[str, object] | None = None,
    theme: Theme = "light",
    width: Width = "notebook",
) -> list[Path]:
    """Draw charts as `charts/NAME.png`, `.svg` or `.pdf` in a folder, and return the paths of the files.

    Each fidelity level has its own charts. Trials that ran under an earlier plan of the experiment are excluded. A chart without
    data, or with fewer rows than its optional constant `MIN_ROWS`, is left out. No partial file remains if writing fails.

    Args:
        results: Results of one experiment.
        directory: Folder that contains or gets the folder `charts`.
        file_format: File format of all charts; None draws only one loss with its consequence, if there is one, and cost against
            score or, with a single arm, the token curves, as PNG.
        metric: Name of a metric in `harness.analysis.measures.METRICS`; None for the default of each chart.
        baseline: Arm to compare with, by its name or by settings as in `harness.compare`; None for the default.
        theme: Colours for a light or a dark page.
        width: Largest width: that of a notebook or of a printed page.

    Raises:
        UnknownName: There is no such metric, arm, format, theme or width; the message suggests similar names.
        OSError: The folder cannot be written.
    """
    parts = split_by_level(drop_earlier_plans(read_report_tables(results)))
    folder = directory / "charts"
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for part in parts:
        level_suffix = f"_{format_label(require_single_level(part.trials))}" if len(parts) > 1 else ""
        names = (STORY, *FIRST_FIGURES) if file_format is None else tuple(FIGURES)
        if part.trials["success"].isna().all():
            names = tuple(name for name in names if name in FIGURES_WITHOUT_OUTCOMES)
        for name in names:
            table = build_table(name, part, metric=metric, baseline=baseline)
            if len(table) < getattr(FIGURES[name], "MIN_ROWS", 1):
                continue
            figure = FIGURES[name].draw(table, theme=theme, width=width)
            paths.append(style.save(figure, folder / f"{name}{level_suffix}.{file_format or 'png'}"))
            if file_format is None and name != STORY:
                break
    return paths
