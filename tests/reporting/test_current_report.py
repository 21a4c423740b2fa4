import json
import subprocess
import sys

import pytest

from harness.analysis.chart_options import METRIC_NAMES, ChartOptions
from harness.analysis.measures import METRICS
from harness.inspection.loading import load
from harness.reporting.current_report import RECORD_FILE, digest_sources, list_sources, read_current_report, record_report
from harness.store.journal import Journal
from tests.experiment.records import record

CHOSEN = ChartOptions(metric="cost")


def write_trials(output, seeds):
    output.mkdir(exist_ok=True)
    with Journal.open(output / "journal.sqlite") as journal:
        for seed in seeds:
            journal.record_trial(record(trial_id=f"t{seed}", seed=seed), ())


def write_report(output):
    """Write an experiment of two trials, and a report on it that consists of its short text."""
    write_trials(output, [0, 1])
    (output.parent / "plan.toml").write_text('[experiment]\ntitle = "first"\n')
    (output / "margins.json").write_text("[null]")
    (output / "looks.json").write_text('{"from_start": true, "looks": []}')
    results = load(output)
    made_from = digest_sources(results, None, CHOSEN)
    (output / "summary.txt").write_text("short text")
    record_report(results, output, made_from, [output / "summary.txt"])


def read_again(output, against=None, options=CHOSEN, **which):
    results = load(output)
    return read_current_report(results, output, digest_sources(results, against, options), **which)


@pytest.mark.parametrize("name", ["../plan.toml", "margins.json", "looks.json"])
@pytest.mark.parametrize("change", ["edited", "deleted"])
def test_a_report_is_outdated_after_a_change_of_a_file_that_it_reads(name, change, tmp_path):
    output = tmp_path / "output"
    write_report(output)
    assert read_again(output) == "short text"
    if change == "edited":
        (output / name).write_text((output / name).read_text() + "\n")
    else:
        (output / name).unlink()
    assert read_again(output) is None


def test_a_report_is_outdated_after_another_trial_and_while_a_trial_runs(tmp_path):
    output = tmp_path / "output"
    write_report(output)
    (output / "journals").mkdir()
    with Journal.open(output / "journals" / "t2.sqlite"):
        assert read_again(output) is None
    (output / "journals" / "t2.sqlite").unlink()
    assert read_again(output) == "short text"
    write_trials(output, [2])
    assert read_again(output) is None


@pytest.mark.slow
def test_a_report_is_outdated_for_other_options_and_without_one_of_its_files(tmp_path):
    output = tmp_path / "output"
    write_report(output)
    assert read_again(output, against="a") is None
    assert read_again(output, options=ChartOptions()) is None
    assert read_again(output, as_page=True) is None
    assert read_again(output, full=True) is None
    (output / "summary.txt").unlink()
    assert read_again(output) is None


@pytest.mark.parametrize("content", ["", "[]", "{}", json.dumps({"made_from": None, "looks": "", "files": []})])
def test_a_report_with_a_damaged_record_is_outdated(content, tmp_path):
    output = tmp_path / "output"
    write_report(output)
    (output / RECORD_FILE).write_text(content)
    assert read_again(output) is None


def test_a_report_stays_current_after_a_change_of_a_file_that_it_does_not_read(tmp_path):
    output = tmp_path / "output"
    write_report(output)
    for path in (tmp_path / "README.md", output / "run.lock", output / "notes.txt"):
        path.write_text("changed")
    (tmp_path / "plan.toml").touch()
    assert read_again(output) == "short text"


def test_a_command_knows_all_metrics_without_the_code_that_computes_them():
    assert tuple(METRICS) == METRIC_NAMES


LOADED = """\
import sys, harness.cli.new_report, harness.analysis.figures, harness.analysis.pilot, harness.store.frames
print(*sorted(module.__file__ for name, module in sys.modules.items() if name.partition(".")[0] == "harness" and module.__file__))
"""


@pytest.mark.slow
def test_every_module_that_a_report_loads_is_a_source_of_it_except_for_the_commands():
    loaded = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True).stdout.split()
    sources = set(map(str, list_sources()))
    assert {path for path in loaded if path not in sources and "/harness/cli/" not in path} == set()
    assert any(path.endswith("page/bundles/page.js") for path in sources)


@pytest.mark.slow
def test_a_run_and_a_report_load_no_slow_package_before_something_is_computed():
    slow = "('duckdb', 'docker', 'litellm', 'matplotlib', 'numpy', 'pandas', 'pyarrow', 'scipy')"
    code = f"import sys, harness.cli.run, harness.cli.report; print(*[name for name in {slow} if name in sys.modules])"
    assert not subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
