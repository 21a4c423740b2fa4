"""The report as text, Markdown and files, with hostile names."""

import json
from dataclasses import replace
from functools import cache
from io import StringIO

import pandas as pd
import pytest
from rich.console import Console

from harness.analysis.figures import heat_map
from harness.analysis.tables import select
from harness.errors import StoreError, UnknownName, UsageError
from harness.inspection.loading import load
from harness.reporting.experiment_report import Report, report
from harness.reporting.headlines import HEADLINES
from harness.reporting.section import Section
from harness.store.journal import Journal
from harness.store.records import TrialRecord
from tests.analysis.selections import grid, results, trial
from tests.reporting.page.experiments import write_experiment


def small():
    return grid(keeps=(4, 10), summarizers=("scripted/empty", "scripted/oracle"))


@cache
def small_report():
    return report(small())


HOSTILE = "[red]x[/red] \x1b[2J | `a` <script>alert(1)</script> $\\frac{1}{0$ *b* \u202e"


def test_a_report_without_trials_is_refused():
    with pytest.raises(UsageError, match="run the experiment first"):
        report(results([]))


@pytest.mark.slow
def test_the_text_fits_its_width():
    assert max(map(len, small_report().render_text(100).splitlines())) <= 100


@pytest.mark.slow
def test_a_hostile_name_steers_neither_terminal_nor_markup(tmp_path):
    text_report = report(results([{"arm": HOSTILE, "seed": s, "experiment": HOSTILE, "reason": HOSTILE} for s in (0, 1)]))
    for text in (text_report.render_text(), text_report.render_text(full=True), text_report.render_markdown()):
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "[red]x[/red]" in text_report.render_text()
    assert "<script>" not in text_report.render_markdown()
    rows = [line.replace("\\|", "") for line in text_report.render_markdown().splitlines() if line.startswith("|")]
    widths = [
        len(section.columns) + 1 for section in text_report.sections for _ in range(len(section.rows) + 2) if section.columns
    ]
    assert [row.count("|") for row in rows] == widths
    text_report.write(tmp_path)


@pytest.mark.slow
def test_colours_of_a_terminal_come_from_us_alone():
    file = StringIO()
    Console(file=file, force_terminal=True, width=120, color_system="standard").print(
        report(results([{"arm": "[bold]a[/bold]"}]))
    )
    assert "[bold]a[/bold]" in file.getvalue()


@pytest.mark.slow
def test_in_a_notebook_a_report_shows_itself_as_its_text():
    class Printer:
        output = ""

        def text(self, text):
            self.output += text

    printer, report_shown = Printer(), small_report()
    report_shown._repr_pretty_(printer, False)
    assert printer.output == report_shown.render_text()


@pytest.mark.slow
def test_writing_lays_down_texts_and_charts_and_nothing_half(tmp_path):
    written = small_report().write(tmp_path)
    names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert names == [
        "charts/cost_score.png",
        "report.md",
        "report.txt",
        "summary.txt",
    ]
    assert sorted(written) == sorted(tmp_path / name for name in names)


@pytest.mark.slow
def test_an_unwritable_folder_is_reported_with_what_to_do(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot write the report to .*file/below.*; name another folder"):
        small_report().write(tmp_path / "file" / "below")
    (tmp_path / "folder" / "report.txt").mkdir(parents=True)
    with pytest.raises(StoreError, match="directory"):
        small_report().write(tmp_path / "folder")


@pytest.mark.slow
def test_levels_get_sections_and_charts_of_their_own(tmp_path):
    mixed = [{"seed": s, "level": level, "trial_id": f"{level}{s}"} for s in (0, 1) for level in ("L0", "L3")]
    text_report = report(results(mixed))
    assert [section.heading for section in text_report.sections if "ended" in section.heading] == [
        "How the trials ended (L0 simulated)",
        "How the trials ended (L3 real model)",
    ]
    assert "compaction_rounds_L3.png" in {path.name for path in text_report.write(tmp_path, figures="png")}


@pytest.mark.slow
def test_an_unfinished_experiment_says_so_first():
    plan = json.dumps({"family": {"planned_trials": 6}})
    rows = [{"arm": arm, "provenance_json": plan} for arm in "abc"]
    rows[2] |= {"status": "crashed", "reason": "crashed"}
    first, *_ = report(results(rows)).sections[0].notes
    assert first.startswith("Unfinished: 2 of 6 planned trials have finished, so everything below may change; run the experiment")
    whole, *_ = report(results([{"seed": seed, "provenance_json": plan} for seed in range(6)])).sections[0].notes
    assert "Unfinished" not in whole


@pytest.mark.slow
def test_a_report_on_a_selection_says_so_and_is_unfinished_only_if_selected_trials_are_missing():
    plan = json.dumps({"family": {"planned_trials": 6}})
    whole = results([{"arm": arm, "seed": seed, "provenance_json": plan} for arm in "ab" for seed in range(3)])
    part = select(whole, whole.trials[whole.trials["seed"] < 2])
    first, *_ = report(part).sections[0].notes
    assert first.startswith("Selection: 4 of 6 planned trials. ")
    crashed = select(whole, part.trials.assign(status=["crashed", *part.trials["status"][1:]]))
    first, *_ = report(crashed).sections[0].notes
    assert first.startswith("Unfinished: 3 of 4 selected trials have finished, so everything below may change; run the exp")
    assert "Selection" not in report(select(whole, whole.trials)).sections[0].notes[0]


@pytest.mark.slow
def test_trials_of_earlier_plans_are_counted_and_in_no_number(tmp_path):
    today = [{"arm": "a", "seed": seed, "success": False} for seed in range(4)]
    earlier = [{"arm": "a (earlier plan 0a1b2c)", "seed": seed, "success": True, "window_tokens": 9} for seed in range(3)]
    text_report, alone = report(results(today + earlier)), report(results(today))
    assert text_report.sections[:-1] == alone.sections
    assert "3 trials of earlier plans" in text_report.sections[-1].notes[0]
    assert list(heat_map.table(results(today + earlier))["n"]) == [4]
    assert "3 trials" in report(results(earlier)).title
    text_report.write(tmp_path / "both")
    alone.write(tmp_path / "alone")
    for chart in (tmp_path / "alone" / "charts").iterdir():
        assert (tmp_path / "both" / "charts" / chart.name).read_bytes() == chart.read_bytes()


@pytest.mark.slow
def test_the_same_results_give_the_same_files(tmp_path):
    first, second = (report(small()).write(tmp_path / name) for name in ("one", "two"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


@pytest.mark.slow
def test_results_of_the_store_can_be_reported(tmp_path):
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        for seed in (0, 1):
            journal.record_trial(TrialRecord(**trial(seed=seed, arm="a")), ())
    assert "2/2, 100 %" in report(load(tmp_path)).render_text()


MARKUP = "<script>alert(1)</script>&_%"


def hostile_report():
    rows = [{"arm": arm, "seed": seed, "success": seed > 1, "score": seed / 4} for arm in (MARKUP, "b") for seed in range(4)]
    return report(results(rows))


@pytest.mark.slow
def test_a_notebook_shows_the_short_report_escaped_and_without_broken_words():
    html = hostile_report()._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&amp;_%" in html
    assert "In short" in html
    assert "Effort: median" not in html
    assert "white-space:nowrap" in html


@pytest.mark.slow
def test_the_table_of_arms_is_exported_as_csv_and_latex():
    document = hostile_report()
    read = pd.read_csv(StringIO(document.to_csv()), dtype=str, keep_default_na=False)
    (table,) = (section for section in document.sections if section.heading.startswith("How the trials ended"))
    assert [list(read.columns), *read.to_numpy().tolist()] == [list(table.columns), *map(list, table.rows)]
    latex = document.to_latex()
    assert latex.count(r"\\") == 1 + len(table.rows)
    assert r"\textless{}script\textgreater{}alert(1)\textless{}/script\textgreater{}\&\_\%" in latex
    assert r"\begin{tabular}{l" + "r" * (len(table.columns) - 1) + "}" in latex
    assert latex.count("{") == latex.count("}")
    assert document.to_csv("Effort").startswith("arm,n,rounds,steps,")
    with pytest.raises(UnknownName, match="unknown table heading 'Efort'"):
        document.to_latex("Efort")


def test_a_row_of_a_latex_table_does_not_begin_with_an_option_of_the_row_before():
    rows = (("[2cm] a",), ("* b",), ("a ≥ b | †",))
    section = Section(heading="How the trials ended", columns=("arm",), rows=rows)
    lines = Report(title="", sections=(section,), results=results([{}])).to_latex().splitlines()
    assert [line for line in lines if line.endswith(r"\\")] == [
        r"arm \\",
        r"{}[2cm] a \\",
        r"{}* b \\",
        r"a $\ge$ b \textbar{} $\dagger$ \\",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("arm_count", "name_length", "level_count"), [(60, 20, 1), (60, 300, 1), (60, 300, 2), (20, 20, 4)])
def test_the_short_form_has_at_most_120_lines_whatever_the_number_of_arms_and_levels(arm_count, name_length, level_count):
    table = Section(heading="Arms", columns=("arm", "n"), rows=(("a" * name_length, "1"),) * arm_count, is_detail=False)
    short = Section(heading=HEADLINES, notes=("line",) * 12, is_detail=False)
    validity = Section(heading="Validity", notes=("note",) * 14, is_detail=False)
    sections = [
        one for _ in range(level_count) for one in (short, table, validity, replace(table, heading="More", is_detail=True))
    ]
    document = Report(title="Report", sections=tuple(replace(section) for section in sections), results=results([{"arm": "a"}]))
    lines = document.render_text().splitlines()
    assert len(lines) <= 120
    assert lines.count(HEADLINES) == level_count
    assert any(line.startswith("a" * 20) for line in lines)
    assert "in the full report" not in document.render_text(full=True)


@pytest.mark.slow
def test_experiments_that_share_trials_have_a_report_together(tmp_path):
    for name, arms in (("first", ("a", "b")), ("second", ("a", "c"))):  # the trials of a are in both
        write_experiment(tmp_path / name / "output", arms=arms)
    joined = load([tmp_path / "first", tmp_path / "second"])
    (table,) = (section for section in report(joined).sections if section.heading.startswith("How the trials ended"))
    assert {row[0]: row[1] for row in table.rows} == dict.fromkeys(joined.trials["arm"].unique(), "6")
