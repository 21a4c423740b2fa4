"""Finished workspace of the task, built once for all tests that read it or copy it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.tasks.flashcards import make_flashcards
from tests.tasks.flashcards.reference import Agent, Build


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Carry out the whole script with all its commands under seed 1."""
    task = make_flashcards(1)
    return Agent(task, tmp_path_factory.mktemp("reference"), task.values).finish()


@pytest.fixture
def copied(reference: Build, tmp_path: Path) -> Callable[[], Path]:
    """Return a function that copies the finished workspace."""
    numbers = iter(range(1000))
    return lambda: Path(shutil.copytree(reference.root, tmp_path / f"copy{next(numbers)}"))
