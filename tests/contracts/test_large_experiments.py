"""Experiments that the benchmark of large experiments writes are finished, and using them again repeats no work."""

from pathlib import Path

import pytest

from harness.inspection.loading import load
from harness.store.columns import TABLES
from tests.bench.large import ACTIONS, ARMS, perform, write_experiment
from tests.cli.command import within

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    write_experiment(folder, 2 * ARMS, steps=12)
    return folder


def test_every_trial_of_the_plan_has_a_session_with_steps_compactions_and_probes(folder: Path) -> None:
    results = load(folder)
    assert len(results.trials) == results.trials["session_id"].nunique() == 2 * ARMS
    assert results.trials["arm"].nunique() == ARMS
    assert results.steps["trial_id"].nunique() == results.messages["trial_id"].nunique() == 2 * ARMS
    assert all(len(getattr(results, name)) for name in TABLES)
    assert results.messages["content"].nunique() > 0.9 * len(results.messages.query("role != 'system'"))


@pytest.mark.bubblewrap
@pytest.mark.slow
def test_a_finished_experiment_is_run_without_running_anything(folder: Path) -> None:
    first = within("run", folder, "--progress", "off")
    assert first.exit_code == 0, first.stderr
    written = {path: path.stat().st_mtime_ns for path in (folder / "output").rglob("*.p*") if path.is_file()}
    again = within("run", folder, "--progress", "off")
    assert again.exit_code == 0, again.stderr
    assert "nothing has changed since the report was written" in again.stdout
    assert {path: path.stat().st_mtime_ns for path in (folder / "output").rglob("*.p*") if path.is_file()} == written


@pytest.mark.bubblewrap
def test_every_action_of_the_benchmark_can_be_measured(folder: Path) -> None:
    for action in [*ACTIONS, "dry run"]:
        assert perform(action, folder).cpu_seconds >= 0
