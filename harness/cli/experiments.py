"""Command `harness experiments`, which lists experiments with titles, tags and notes from their plans.

An experiment made in Python has no plan file. Its folder is recognized by its journal, and its trials know how many were planned.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import click

from harness.cli.terminal import build_table, print_parts
from harness.errors import HarnessError, UsageError
from harness.experiment.experiment import Experiment
from harness.experiment.paths import is_earlier_arm
from harness.experiment.plan import PLAN_FILE_NAME
from harness.store.journal import Journal
from harness.store.sessions.lookup import JOURNAL_FILE, OUTPUT_FOLDER

COLUMNS = ("experiment", "title", "trials", "finished", "tags", "notes")
UNKNOWN = "?"


@click.group("experiments")
def command() -> None:
    """List experiments with their titles, tags and notes."""


@command.command("list")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=Path("experiments"))
@click.option("--tag", metavar="TAG", help="List only experiments with this tag.")
def list_command(folder: Path, tag: str | None) -> None:
    """List the experiments in FOLDER, by default `experiments`.

    An experiment is a folder with a plan.toml, whose table [experiment] has title, tags and notes, or a folder with the results
    of an experiment made in Python, which has none of these. A plan that cannot be read is listed with the reason.

    Example: `harness experiments list --tag thresholds`
    """
    if not folder.is_dir():
        raise UsageError(f"there is no folder {str(folder)!r}; name the folder that contains the experiments")
    rows = list(list_experiments(folder, tag))
    if not rows:
        which = "" if tag is None else f" with the tag {tag!r}"
        print_parts(f"no experiments{which} in {folder}")
        return
    print_parts(build_table(COLUMNS, rows))


def list_experiments(folder: Path, tag: str | None = None) -> Iterator[tuple[str, ...]]:
    """Yield name, title, numbers of planned and finished trials, tags and notes of each experiment in a folder.

    Args:
        folder: Folder that contains the folders of the experiments.
        tag: Tag that the experiments must have; None lists all.
    """
    for place in sorted(path for path in folder.iterdir() if path.is_dir()):
        if (place / PLAN_FILE_NAME).is_file():
            yield from _describe_plan(place / PLAN_FILE_NAME, tag)
        elif tag is None:  # only plans have tags
            for journal_path in (place / OUTPUT_FOLDER / JOURNAL_FILE, place / JOURNAL_FILE):
                if journal_path.is_file():
                    yield _describe_journal(place.name, journal_path)


def _describe_plan(path: Path, tag: str | None) -> Iterator[tuple[str, ...]]:
    try:
        experiment = Experiment.from_toml(path)
    except HarnessError as error:
        if tag is None:
            yield path.parent.name, f"cannot be read: {error}", "", "", "", ""
        return
    settings = experiment.settings
    if tag is None or tag in settings.tags:
        planned = {cell.trial_id for cell in experiment.grid}
        finished = _count_finished(experiment.output / JOURNAL_FILE, planned)
        yield experiment.name, settings.title, str(len(planned)), finished, ", ".join(settings.tags), settings.notes


def _describe_journal(folder_name: str, journal_path: Path) -> tuple[str, ...]:
    """Return the row of an experiment without a plan file, under the name that its newest trial has."""
    try:
        with Journal.open(journal_path, read_only=True) as journal:
            trials = [trial for trial in journal.list_trials() if not is_earlier_arm(trial.arm)]
    except HarnessError as error:
        return folder_name, f"cannot be read: {error}", "", "", "", ""
    if not trials:
        return folder_name, "", UNKNOWN, "0", "", ""
    newest = max(trials, key=lambda trial: trial.started_at_ms)
    family = json.loads(newest.provenance_json or "{}").get("family") or {}
    name = newest.experiment if newest.experiment == folder_name else f"{newest.experiment} in {folder_name}"
    finished = sum(trial.status != "crashed" for trial in trials)
    return name, "", str(family.get("planned_trials") or UNKNOWN), str(finished), "", ""


def _count_finished(journal_path: Path, planned: set[str]) -> str:
    """Return how many of the planned trials have finished, as text; `?` if the journal cannot be read."""
    if not journal_path.is_file():
        return "0"
    try:
        with Journal.open(journal_path, read_only=True) as journal:
            return str(sum(trial.trial_id in planned and trial.status != "crashed" for trial in journal.list_trials()))
    except HarnessError:
        return UNKNOWN
