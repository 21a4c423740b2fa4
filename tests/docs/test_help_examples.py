"""Every example in the help of a command runs and succeeds, in a folder with the experiment and the session that examples name.

Examples that would download a model or serve until they are stopped are checked for commands and options that do not exist.
"""

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click
import pytest

import harness.cli
from harness.experiment.experiment import Experiment
from harness.session.execution import execute_session
from harness.session.spec import SessionSpec
from harness.tasks import make_task
from tests.docs.test_examples import check_command_line, read_output, run_line

EXAMPLE = re.compile(r"Examples?: `([^`]+)`")
NOT_RUN = {
    "harness models fetch local/smollm2-135m": "downloads a model",
    "harness serve-scripted --task flashcards --fault 429:2@3": "serves until it is stopped",
    "harness compare experiments/first experiments/second": "needs two experiments; tests/cli/test_compare.py runs it",
    "harness gateway --upstream http://127.0.0.1:8000/v1 --record-only": "serves until it is stopped; tests/peers runs it",
    "harness view experiments/quickstart": "serves until it is stopped",
    "harness task check mine.py --seeds 3": "takes a minute; a page of the guide runs it",
    "harness run experiments/quickstart": "takes minutes; its plan runs in test_examples.py",
    "harness replay ~/.claude/projects --thresholds 80K,150K": "needs sessions of Claude Code; tests/cli/test_replay.py runs it",
    "harness tune ~/.claude/projects --policy claude-code": "needs sessions of Claude Code; tests/cli/test_tune.py runs it",
    "harness task grade log-forensics work --seed 3 --mark --in gateway.sqlite": "needs the work of an agent",
    "harness task spread flashcards --seeds 10": "takes minutes",
    "harness task cells log-forensics --seeds 10": "takes minutes",
}
"""Reason why an example does not run, by the line of the example."""
SESSION_ID = "3f416a59ee3d"
"""Id of the session that the examples name."""


PREPARATIONS: Mapping[str, Sequence[str]] = {
    "harness import session.jsonl --journal mine.sqlite": ["harness export 3f416a session.jsonl"],
    "harness sessions restore 3f416a59ee3d": ["harness sessions archive --older-than 0d"],
}
"""Commands that a reader runs before an example, by the line of the example."""
PLAN = """
[experiment]
tags = ["thresholds"]

[trial]
task = "changing-requirements"
policy = "codex"
max_steps = 5
"""
"""Plan with one trial, for an experiment that stands in for the quickstart."""


def find_examples(command: click.Command) -> list[str]:
    return EXAMPLE.findall(" ".join((command.help or "").split()))


def list_commands(command: click.Command, words: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield a command and its subcommands, each with the words that call it."""
    yield words, command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            inner = command.get_command(click.Context(command), name)
            assert inner is not None
            yield from list_commands(inner, f"{words} {name}".strip())


EXAMPLES = sorted({example for _, command in list_commands(harness.cli.main) for example in find_examples(command)})


@pytest.fixture(scope="module")
def prepared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small finished experiment in place of the quickstart, and with the session that the examples name."""
    folder = tmp_path_factory.mktemp("examples")
    experiment = folder / "experiments" / "quickstart"
    experiment.mkdir(parents=True)
    (experiment / "plan.toml").write_text(PLAN)
    Experiment.from_toml(experiment).run(progress="off", workers=1)
    task = make_task("changing-requirements", 0)
    journal = folder / "sessions" / f"{SESSION_ID}.sqlite"
    journal.parent.mkdir()
    execute_session(SessionSpec(request=task.prompt, policy="none", task=task, max_steps=13, journal=journal), SESSION_ID)
    return folder


@pytest.mark.slow
@pytest.mark.bubblewrap
@pytest.mark.parametrize("example", [example for example in EXAMPLES if example not in NOT_RUN])
def test_an_example_in_a_help_text_runs_and_succeeds(example: str, prepared_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(prepared_folder, tmp_path / "copy")
    for line in (*PREPARATIONS.get(example, ()), example):
        read_output(run_line(line, folder, anew=False), line)


@pytest.mark.parametrize("example", NOT_RUN)
def test_an_example_that_does_not_run_names_a_command_and_options_that_exist(example: str) -> None:
    assert example in EXAMPLES
    check_command_line(example)


def test_every_command_has_an_example_that_calls_it() -> None:
    for words, command in list_commands(harness.cli.main):
        if isinstance(command, click.Group):
            continue
        examples = find_examples(command)
        assert examples, f"harness {words}: the help has no example"
        assert all(example.startswith(f"harness {words}") for example in examples), words
