"""Report on an experiment: tables by arm, paired comparisons and validity checks as text, Markdown and charts.

A `Report` consists of sections. It can be printed on a terminal, and `Report.write` writes it as text, Markdown and charts. Every
estimate has an interval or a range and a number of trials. Names and error messages come from models and plans, so they are never
interpreted as markup.
"""

import csv
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from harness.analysis.arms import (
    OUTCOME_ADVICE,
    add_total_cost,
    describe_missing_outcomes,
    drop_earlier_plans,
    order_arms,
    select_outcomes,
)
from harness.analysis.chart_options import Format, Theme, Width
from harness.analysis.families import count_planned_trials, find_source, find_withheld, is_selection
from harness.analysis.figures.files import write_figures
from harness.analysis.formatting import describe_level, format_short_number, format_usd
from harness.analysis.other_models import split_other_models
from harness.analysis.random_arms import SUCCESS
from harness.analysis.revisions import describe_versions
from harness.analysis.tables import Tables, read_report_tables, require_single_level, split_by_level
from harness.errors import StoreError, UnknownName, UsageError, format_count
from harness.experiment.contrasts import Family
from harness.reporting.claims import ClaimReport, build_progress_section, judge_outcomes
from harness.reporting.headlines import HEADLINES, find_question
from harness.reporting.monitoring import build_alert_sections, build_overhead_section
from harness.reporting.random_arms import build_random_arm_sections
from harness.reporting.section import Section, make_arm_section
from harness.reporting.sections import build_sections
from harness.reporting.treatments import build_warning_section
from harness.text import escape_control_characters, escape_html, render_html_table

TEXT_WIDTH = 132
EARLIER_TRIALS_HEADING = "Earlier plans and versions"
"""Heading of the section on trials that ran under earlier plans, or with other revisions of their parts than today's."""
_EARLIER_USE = "part of the tables, but not of this report"
ARM_TABLE_HEADING = "How the trials ended"
"""First words of the heading above the table with one row per arm."""
_LATEX_SIGNS = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "−": "$-$",
        "–": "--",
        "×": r"$\times$",
        "÷": r"$\div$",
        "·": r"$\cdot$",
        "±": r"$\pm$",
        "≤": r"$\le$",
        "≥": r"$\ge$",
        "†": r"$\dagger$",
        "→": r"$\to$",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "…": r"\ldots{}",
    }
)
MAX_SHORT_ROWS = 40
"""Maximum number of rows of a table in the short form of a report."""
MAX_SHORT_LINES = 120
"""Maximum number of lines of the short form of a report; its tables are cut to fewer rows if it would be longer."""
_SHORT_ROW_LIMITS = (MAX_SHORT_ROWS, 30, 20, 14, 10, 7, 5, 3, 1)
"""Numbers of rows of each table that are tried, in this order, until the short form of a report has few enough lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Report on an experiment: a title, and sections with tables and notes, printable with rich.

    Attributes:
        title: Title with the names of the experiments and the number of trials. Required.
        sections: Sections of the report in order, each with heading, table and notes. Required.
        results: Tables of results from which the charts of the report are drawn, without the columns that no report shows
            (`harness.store.columns.UNREPORTED_COLUMNS`). Required.
        claims: Results of the contrasts that the plan declared; None if it declared none or has not finished. Default: `None`.

    Example::

        document = harness.report(results)
        document.write("report/")
    """

    title: str
    sections: tuple[Section, ...]
    results: Tables
    claims: ClaimReport | None = None

    def render_text(self, width: int = TEXT_WIDTH, *, full: bool = False) -> str:
        """Return the report as plain text, as it is printed on a terminal without colours.

        Args:
            width: Maximum width of a line in characters. Default: `132`.
            full: Whether to return all sections, not only the summary, the table of arms and the validity section. Default:
                `False`.
        """
        file = StringIO()
        options: dict[str, Any] = {"color_system": None, "force_terminal": False, "force_jupyter": False, "legacy_windows": False}
        Console(file=file, width=width, **options).print(self.expand() if full else self)
        return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"

    def expand(self) -> "Report":
        """Return the report with all sections shown, e.g. to print it with rich."""
        return replace(self, sections=tuple(replace(section, is_detail=False) for section in self.sections))

    def render_markdown(self) -> str:
        """Return the whole report as Markdown, with a heading, a table and notes for each section."""
        blocks = [f"# {_escape_markdown(self.title)}", *(_render_section_markdown(section) for section in self.sections)]
        return "\n\n".join(blocks) + "\n"

    def write(
        self,
        directory: str | os.PathLike[str],
        *,
        figures: Format | None = None,
        metric: str | None = None,
        baseline: str | Mapping[str, object] | None = None,
        theme: Theme = "light",
        width: Width = "notebook",
    ) -> list[Path]:
        """Write the report as text and Markdown, and its charts into the folder `charts`; return the paths of all files.

        The texts are `summary.txt` (the short form), `report.txt` and `report.md`.

        Args:
            directory: Folder for the files, created if it does not exist. Required.
            figures: File format of all charts, `png`, `svg` or `pdf`; None draws only one loss with its consequence, if there is
                one, and cost against score or, with a single arm, the token curves, as PNG. Default: `None`.
            metric: Metric of the charts: `score`, `success`, `cost`, `tokens`, `steps` or `retention`; None for success, or score
                if success is the same in all trials of most arms. Default: `None`.
            baseline: Arm with which the charts compare, by its name or by settings as in `compare`; None for the arm of the
                declared contrasts, or else the arm without compaction, or else the first arm. Default: `None`.
            theme: Colours for a `light` or a `dark` page. Default: `'light'`.
            width: Largest width of a chart: that of a `notebook` or of a printed page, `paper`. Default: `'notebook'`.

        Raises:
            StoreError: The folder cannot be written.
            UnknownName: There is no such format, metric, arm, theme or width; the message suggests similar names.
        """
        folder = Path(directory)
        return [
            *write_charts(self.results, folder, figures, metric=metric, baseline=baseline, theme=theme, width=width),
            *self.write_texts(folder),
        ]

    def write_texts(self, directory: str | os.PathLike[str]) -> list[Path]:
        """Write the texts of the report, without its charts, and return the paths of the files.

        The files are `summary.txt` (the short form), `report.txt` and `report.md`. No partial file is left if writing fails.

        Args:
            directory: Folder for the files, created if it does not exist. Required.

        Raises:
            StoreError: The folder cannot be written.
        """
        texts = {
            "summary.txt": self.render_text(),
            "report.txt": self.render_text(full=True),
            "report.md": self.render_markdown(),
        }
        folder = Path(directory)
        with _wrap_write_errors(folder):
            return [_write_atomically(folder / name, text) for name, text in texts.items()]

    def to_csv(self, heading: str = "") -> str:
        """Return the table of one section as CSV.

        Args:
            heading: Heading of the section, or its beginning; empty for the table with one row per arm. Default: `''`.

        Raises:
            UnknownName: No section with a table has such a heading; the message suggests similar ones.
        """
        section = self._find_table(heading or ARM_TABLE_HEADING)
        file = StringIO()
        csv.writer(file, lineterminator="\n").writerows(
            [section.columns, *(map(escape_control_characters, row) for row in section.rows)]
        )
        return file.getvalue()

    def to_latex(self, heading: str = "") -> str:
        """Return the table of one section as LaTeX for the package booktabs.

        Args:
            heading: Heading of the section, or its beginning; empty for the table with one row per arm. Default: `''`.

        Raises:
            UnknownName: No section with a table has such a heading; the message suggests similar ones.
        """
        section = self._find_table(heading or ARM_TABLE_HEADING)
        rows = (" & ".join(map(_escape_latex, row)) for row in (section.columns, *section.rows))
        lines = [
            f"{'{}' if row.startswith(('[', '*')) else ''}{row} \\\\" for row in rows
        ]  # after `\\`, [ and * would be options
        return "\n".join(
            [
                r"\begin{table}",
                rf"\caption{{{_escape_latex(section.heading)}}}",
                rf"\begin{{tabular}}{{l{'r' * (len(section.columns) - 1)}}}",
                r"\toprule",
                lines[0],
                r"\midrule",
                *lines[1:],
                r"\bottomrule",
                r"\end{tabular}",
                *(f"% {_escape_latex(note)}" for note in section.notes),
                r"\end{table}",
                "",
            ]
        )

    def _find_table(self, heading: str) -> Section:
        tables = [section for section in self.sections if section.columns]
        for section in tables:
            if section.heading.startswith(heading):
                return section
        raise UnknownName("table heading", heading, [section.heading for section in tables])

    def _repr_html_(self) -> str:
        shown = (section.draw_bars() for section in self.sections if not section.is_detail)
        tables = (
            render_html_table(section.heading, section.columns, section.rows[:MAX_SHORT_ROWS], section.notes) for section in shown
        )
        return f"<h3>{escape_html(self.title, keep='')}</h3>{''.join(tables)}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.render_text())

    def __rich_console__(self, console: Console, options: object) -> Iterator[RenderableType]:
        shown = [section for section in self.sections if not section.is_detail]
        if len(shown) == len(self.sections):
            yield from self._list_renderables(shown)
            return
        parts: list[RenderableType] = []
        for sections in (shown, _keep_headlines(shown)):
            for max_rows in _SHORT_ROW_LIMITS:
                parts = list(self._list_renderables(sections, max_rows))
                if sum(len(console.render_lines(part, pad=False)) for part in parts) <= MAX_SHORT_LINES:
                    yield from parts
                    return
        yield from parts

    def _list_renderables(self, shown: Sequence[Section], max_rows: int | None = None) -> Iterator[RenderableType]:
        """Yield the title, the given sections with at most `max_rows` rows of each table, and the names of all other sections."""
        yield Text(escape_control_characters(self.title), style="bold")
        for section in shown:
            yield Text(f"\n{escape_control_characters(section.heading)}", style="bold cyan")
            if section.columns:
                rows = section.rows[:max_rows]
                yield _build_table(replace(section, rows=rows, bars=section.bars[:max_rows]).draw_bars())
                if len(rows) < len(section.rows):
                    yield Text(f"and {format_count(len(section.rows) - len(rows), 'more row')} in the full report")
            for note in section.notes:
                yield Text(escape_control_characters(note))
        further = [section for section in self.sections if not any(section is other for other in shown)]
        if further:
            names = (section.heading.partition(":")[0].removesuffix(", against") for section in further)
            headings = escape_control_characters("; ".join(dict.fromkeys(names)))
            yield Text(f"\nFurther sections, in report.txt and printed by harness report --full: {headings}.")


def report(results: Tables, against: str | None = None) -> Report:
    """Build the report on an experiment: tables by arm, comparisons and validity checks.

    If the plan declares contrasts, a report on trials that were not reported before counts as an interim analysis of the results,
    and is recorded in their folder. Unless the plan declares interim analyses, only the progress is shown until all its trials
    have finished.

    Args:
        results: Results of one experiment, as returned by `harness.load` or `Experiment.results`. Fidelity levels are reported
            one after another and never pooled. Trials of earlier plans or revisions are only counted. A report on
            selected trials says so and claims nothing. Of sessions outside of experiments, which have no outcomes, the report
            shows totals and alerts, and compares the arms of a gateway. Required.
        against: Name of the arm that all other arms are compared with; None compares with each arm without compaction and each
            repeated arm, or else with the first arm. Default: `None`.

    Example::

        print(harness.report(results).render_text())

    Raises:
        UsageError: No trial has finished yet.
        StoreError: The record of how often results were looked at cannot be read.
        UnknownName: The arm `against` does not exist; the message suggests similar names.
    """
    results = read_report_tables(results)
    if results.trials.empty:
        raise UsageError("no trial has finished yet, so there is nothing to report; run the experiment first")
    if results.trials["success"].isna().all():
        return _report_sessions(results)
    results = select_outcomes(results)
    judged = judge_outcomes(results)
    if judged is not None and judged.is_in_progress:
        return report_progress(find_source(results), judged.family)
    own_results, others = split_other_models(drop_earlier_plans(results))
    return _assemble(
        results,
        [section for part in split_by_level(own_results) for section in build_sections(part, against, judged, others)],
        judged,
    )


def _report_sessions(results: Tables) -> Report:
    """Build a report on sessions outside of experiments, which says that there are no outcomes, and shows what needs none."""
    sections = [
        section
        for part in split_by_level(results)
        for section in (
            *build_random_arm_sections(part),
            _build_session_section(part),
            *build_alert_sections(part),
            *build_overhead_section(part),
        )
    ]
    first, *others = [replace(section, is_detail=False) for section in sections]
    text = f"{describe_missing_outcomes(results.trials)}; {OUTCOME_ADVICE}."
    openings = () if results.trials[SUCCESS].notna().any() else (text[:1].upper() + text[1:],)
    return Report(
        title=f"Report on {format_count(len(results.trials), 'session')} outside of experiments",
        sections=(replace(first, notes=(*openings, *first.notes)), *others),
        results=results,
    )


_SESSION_NOTE = (
    "Totals over the sessions of a row. Active: sessions without an end. Reacquired: tool calls that fetched again what a "
    "compaction had removed. USD: a question mark if a price is unknown."
)


def _build_session_section(results: Tables) -> Section:
    trials = add_total_cost(results.trials)
    rows = {
        arm: (
            str(len(group)),
            str(int((group["status"] == "active").sum())),
            *(str(int(group[name].sum())) for name in ("turns", "steps", "compactions", "failed_calls", "reacquisitions")),
            format_short_number(float(group["prompt_tokens"].sum())),
            format_usd(float(group["total_cost_usd"].sum(min_count=len(group)))),
        )
        for arm in order_arms(trials)
        for group in [trials[trials["arm"] == arm]]
    }
    columns = ("n", "active", "turns", "steps", "compactions", "failed calls", "reacquired", "prompt tokens", "USD")
    return make_arm_section(
        f"Sessions, {describe_level(require_single_level(trials))}",
        columns,
        rows,
        (_SESSION_NOTE,),
    )


def report_progress(results: Tables, family: Family) -> Report:
    """Build a report that shows how many trials have finished, but no outcome.

    It replaces the full report until all trials of a plan that declares contrasts have finished. To read it does not count as a
    interim analysis of the results.

    Args:
        results: Results of one experiment.
        family: Comparisons that the plan declares, with its number of trials.
    """
    trials = drop_earlier_plans(results).trials
    return _assemble(results, [build_progress_section(trials, family), *build_warning_section(trials)], is_withheld=True)


def _assemble(
    results: Tables, all_sections: list[Section], claims: ClaimReport | None = None, *, is_withheld: bool = False
) -> Report:
    trials, current_results = results.trials, drop_earlier_plans(results)
    own_results, _ = split_other_models(current_results)
    names = ", ".join(sorted(trials["experiment"].unique()))
    question = find_question(results)
    if is_withheld:
        openings = [f"Question: {question}"] if question else []
    else:
        openings = [*_describe_completeness(results, current_results)]
    if openings:
        first, *notes = all_sections[0].notes
        all_sections[0] = replace(all_sections[0], notes=(" ".join([*openings, first]), *notes))
    notes = [*describe_versions(trials)]
    if earlier := len(trials) - len(current_results.trials):
        notes.insert(0, f"{format_count(earlier, 'trial')} of earlier plans or revisions in the same folder: {_EARLIER_USE}.")
    if notes:
        all_sections.append(Section(heading=EARLIER_TRIALS_HEADING, notes=tuple(notes), is_detail=False))
    return Report(
        title=f"Report on {names}: {format_count(len(current_results.trials), 'trial')}",
        sections=tuple(all_sections),
        results=own_results,
        claims=claims,
    )


def _describe_completeness(results: Tables, current_results: Tables) -> Iterator[str]:
    """Yield sentences that say whether trials are missing because they were not selected or have not finished."""
    finished = int((current_results.trials["status"] != "crashed").sum())
    expected, kind = count_planned_trials(find_source(results)), "planned"
    is_selected = is_selection(results)
    selection = f"Selection: {len(current_results.trials)} of {format_count(expected, 'planned trial')}."
    if is_selected:
        expected, kind = len(current_results.trials), "selected"
    if finished < expected:
        text = f"{finished} of {expected} {kind} trials have finished, so everything below may change; run the experiment again"
        yield f"Unfinished: {text}."
    if is_selected:
        yield selection


def _keep_headlines(shown: Sequence[Section]) -> list[Section]:
    """Return the sections without the tables and validity sections of all fidelity levels but the first."""
    starts = [place for place, section in enumerate(shown) if section.heading == HEADLINES]
    end = starts[1] if len(starts) > 1 else len(shown)
    return [*shown[:end], *(section for section in shown[end:] if section.heading in {HEADLINES, EARLIER_TRIALS_HEADING})]


def _build_table(section: Section) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for place, column in enumerate(section.columns):
        table.add_column(Text(escape_control_characters(column)), justify="left" if place == 0 else "right", overflow="fold")
    for row in section.rows:
        table.add_row(*(Text(escape_control_characters(cell)) for cell in row))
    return table


def _escape_latex(text: str) -> str:
    return escape_control_characters(text).translate(_LATEX_SIGNS)


def _escape_markdown(text: str) -> str:
    return "".join(f"\\{sign}" if sign in "\\`*_[]<>|#&" else sign for sign in escape_control_characters(text))


def _render_section_markdown(plain_section: Section) -> str:
    section = plain_section.draw_bars()
    lines = [f"## {_escape_markdown(section.heading)}", ""]
    if section.columns:
        rule = ["---", *("---:" for _ in section.columns[1:])]
        lines += [
            _format_markdown_row(map(_escape_markdown, section.columns)),
            _format_markdown_row(rule),
            *(_format_markdown_row(map(_escape_markdown, row)) for row in section.rows),
            "",
        ]
    return "\n".join([*lines, *(f"{_escape_markdown(note)}\n" for note in section.notes)]).rstrip()


def _format_markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def write_charts(
    results: Tables,
    directory: Path,
    figures: Format | None = None,
    *,
    metric: str | None = None,
    baseline: str | Mapping[str, object] | None = None,
    theme: Theme = "light",
    width: Width = "notebook",
) -> list[Path]:
    """Draw the charts of a report and return the paths of the files; see `Report.write` for the arguments.

    Nothing is drawn while only the progress of the experiment may be shown.

    Raises:
        StoreError: The folder cannot be written.
        UnknownName: There is no such format, metric, arm, theme or width; the message suggests similar names.
    """
    results = read_report_tables(results)  # since the whole table of trials takes much memory
    if find_withheld(results) is not None:
        return []
    with _wrap_write_errors(directory / "charts"):
        return write_figures(results, directory, figures, metric=metric, baseline=baseline, theme=theme, width=width)


@contextmanager
def _wrap_write_errors(directory: Path) -> Iterator[None]:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        message = f"cannot write the report to {str(directory)!r}: {error.strerror or error}; name another folder"
        raise StoreError(message) from error


def _write_atomically(path: Path, text: str) -> Path:
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
    return path
