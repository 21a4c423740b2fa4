"""Where results come from, and how real they are."""

import platform
import subprocess

import pytest

from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.experiment.provenance import classify_level, collect_provenance
from harness.experiment.trial import Trial


@pytest.mark.parametrize(
    ("model", "policy", "level"),
    [
        ("scripted", NoCompaction(), "L0"),
        ("scripted/flashcards:typical", KeepLast(), "L0"),
        ("scripted", KeepLast(summarizer="scripted/oracle"), "L0"),
        ("scripted", KeepLast(summarizer="gpt-4.1-mini"), "L1"),
        ("scripted", KeepLast(summarizer="local/smollm2-135m"), "L1"),
        ("gpt-4.1-mini", NoCompaction(), "L3"),
        ("gpt-4.1-mini", KeepLast(summarizer="scripted/oracle"), "L3"),
        ("scriptedly/named", NoCompaction(), "L3"),
    ],
)
def test_the_level_follows_from_the_models(model, policy, level):
    assert classify_level(Trial(task="t", policy=policy, model=model)) == level


def test_a_run_knows_its_versions_and_its_commit(checkout):
    found = collect_provenance("prices-7")
    assert (found.python, found.price_table) == (platform.python_version(), "prices-7")
    assert "pydantic" in dict(found.packages)
    git = subprocess.run(["git", "-C", str(checkout), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    if git.returncode == 0:
        assert found.git_commit is not None
        assert found.git_commit.removesuffix("+changes") == git.stdout.strip()
