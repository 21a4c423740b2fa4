"""Tests of `harness compare`, on stored results of two experiments."""

import base64
import json
import re
import zlib

import pytest

from harness.store.journal import Journal
from tests.cli.command import within
from tests.experiment.records import record
from tests.store.samples import begun, opening

REVISIONS = {"agent": 1, "prices": 0}


def store_experiment(folder, *, arms=("a",), name="first", score=1.0, level="L0", revisions=REVISIONS):
    """Store three trials of each arm, on three seeds of one task; return the folder."""
    (folder / "output").mkdir(parents=True)
    with Journal.open(folder / "output" / "journal.sqlite") as journal:
        for arm in arms:
            for seed in range(3):
                trial = record(
                    trial_id=f"{name}-{arm}-{seed}",
                    session_id="",
                    experiment=name,
                    arm=arm,
                    seed=seed,
                    score=score,
                    success=score == 1.0,
                    level=level,
                    provenance_json=json.dumps({"revisions": revisions}),
                )
                journal.record_trial(trial, ())
    return folder


def test_arms_of_the_same_name_are_compared_on_the_tasks_and_seeds_of_both(tmp_path):
    first = store_experiment(tmp_path / "first", arms=("a", "b", "only here"))
    second = store_experiment(tmp_path / "second", arms=("a", "b"), name="second", score=0.5)
    shown = within("compare", first, second)
    assert shown.exit_code == 0, shown.output
    text = " ".join(shown.stdout.split())
    for name in ("first: a", "second: a", "first: b", "second: b"):
        assert name in text
    assert "only here" not in text


def test_arms_of_other_names_are_named(tmp_path):
    first = store_experiment(tmp_path / "first", arms=("a", "x"))
    second = store_experiment(tmp_path / "second", arms=("b", "y"), name="second", score=0.5)
    refused = within("compare", first, second)
    assert refused.exit_code == 2
    text = " ".join(refused.output.split())
    assert "no arm is in both experiments: a, x and b, y; name one of each with --arm-a and --arm-b" in text
    shown = within("compare", first, second, "--arm-a", "a", "--arm-b", "y")
    assert shown.exit_code == 0, shown.output
    assert "unknown arm" in within("compare", first, second, "--arm-a", "z", "--arm-b", "y").output


def test_the_only_arms_are_compared_whatever_their_names(tmp_path):
    first = store_experiment(tmp_path / "first", arms=("a",))
    second = store_experiment(tmp_path / "second", arms=("b",), name="second", score=0.5)
    assert within("compare", first, second).exit_code == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"level": "L3"}, "level"), ({"revisions": {"agent": 2, "prices": 0}}, "agent: 1 and 2")],
    ids=["levels", "revisions"],
)
def test_mixed_levels_and_revisions_are_refused(tmp_path, changes, message):
    first = store_experiment(tmp_path / "first")
    second = store_experiment(tmp_path / "second", name="second", **changes)
    refused = within("compare", first, second)
    assert (refused.exit_code, message in " ".join(refused.output.split())) == (2, True), refused.output


def test_a_folder_that_is_no_experiment_and_the_same_folder_are_refused(tmp_path):
    first = store_experiment(tmp_path / "first")
    (tmp_path / "sessions").mkdir()
    with Journal.open(tmp_path / "sessions" / "j.sqlite") as journal:
        begun(journal, "s").append(opening("s"))
    assert "is no experiment: it holds sessions" in " ".join(within("compare", first, tmp_path / "sessions").output.split())
    assert "is named twice" in " ".join(within("compare", first, first).output.split())
    assert "does not exist" in within("compare", first, tmp_path / "missing").output


@pytest.mark.slow
def test_both_experiments_are_one_page_with_the_arm_of_the_second_as_baseline(tmp_path):
    first = store_experiment(tmp_path / "first", arms=("a",), score=0.75)
    second = store_experiment(tmp_path / "second", arms=("a",), name="second", score=0.5)
    shown = within("compare", first, second, "--html", tmp_path / "both.html")
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.endswith(f"wrote {tmp_path / 'both.html'}\n")
    values = read_values((tmp_path / "both.html").read_text())
    (part,) = values["parts"]
    assert part["arms"][part["baselines"][0]]["name"] == "second: a"
    place = next(index for index, arm in enumerate(part["arms"]) if arm["name"] == "first: a")
    assert part["effects"]["second: a"]["score"][str(place)][1] == 0.25


def test_no_page_is_written_for_arms_that_are_not_compared(tmp_path):
    first = store_experiment(tmp_path / "first")
    second = store_experiment(tmp_path / "second", name="second", level="L3")
    refused = within("compare", first, second, "--html", tmp_path / "both.html")
    assert refused.exit_code == 2
    assert not (tmp_path / "both.html").exists()


def read_values(text):
    """Return the values that a page shows."""
    (block,) = re.findall(r'id="values">([^<]*)<', text)
    return json.loads(zlib.decompress(base64.b64decode(block)))
