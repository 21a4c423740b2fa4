"""Results of version 0.1 remain usable: its journals open, its finished grid has nothing left to run, and its ids are the same.

The folder `tests/golden/version_0_1` holds data of that version: a grid of three trials, a live session that was rolled back and
resumed, and the ids of trials with every policy, every task and every field.
"""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import zstandard

from harness.analysis.arms import add_total_cost
from harness.conversation import codec
from harness.experiment.experiment import Experiment
from harness.experiment.trial import Trial, to_plain
from harness.inspection.loading import load
from harness.inspection.timeline import inspect_session
from harness.policies import PRESETS
from harness.protocols import SandboxLimits
from harness.revisions import find_stored_kind
from harness.sandboxes.backends import SandboxChoice
from harness.session.live_session import LiveSession
from harness.store.columns import TABLES
from harness.task import World
from harness.tasks import SUITE

RECORDED = Path(__file__).parents[1] / "golden" / "version_0_1"
TRIALS: dict[str, dict[str, str]] = json.loads((RECORDED / "trials.json").read_text())
TRIAL_IDS: dict[str, str] = json.loads((RECORDED / "trial_ids.json").read_text())
EVERY_FIELD = Trial(
    task="long-march",
    policy=PRESETS["keep-last"](threshold=0.5, keep_last=4, summarizer="scripted/empty"),
    seed=3,
    world=World(steps=90),
    replicate=2,
    model="openai/gpt-5",
    tool_calls="text",
    window_tokens=9_000,
    nominal_window_tokens=200_000,
    max_steps=7,
    parallel_tools=True,
    command_timeout_seconds=5.5,
    sandbox=SandboxChoice(backend="docker", image="x:y", limits=SandboxLimits(pids=99, network=True)),
)


def unpack(name: str, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(zstandard.ZstdDecompressor().decompress((RECORDED / name).read_bytes()))
    return target


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    """Return a copy of the folder of the grid from version 0.1, without the tables, which are made from the journal."""
    unpack("grid/journal.sqlite.zst", tmp_path / "grid" / "output" / "journal.sqlite")
    text = (RECORDED / "grid" / "plan.toml").read_text()
    (tmp_path / "grid" / "plan.toml").write_text(text.replace('"codex"', '"codex@2025"'))
    return tmp_path / "grid"


def compute_unrevised_id(trial: Trial) -> str:
    """Return the id that a trial would have if no policy, task or tool had been revised since version 0.1."""
    return codec.hash_configuration(codec.to_identity(trial, to_plain(trial)), dict)


def is_revised(trial: Trial) -> bool:
    """Return whether a part of a trial, such as its policy or its task, has been revised since version 0.1."""
    return any(isinstance(revision, int) and revision for revision in trial.revisions.values())


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_finished_grid_runs_again_only_trials_of_revised_policies_and_tasks(grid: Path) -> None:
    experiment = Experiment.from_toml(grid)
    assert {compute_unrevised_id(cell.trial) for cell in experiment.grid} == set(TRIALS)
    before = load(grid / "output").trials.set_index("trial_id")["started_at"]
    after = experiment.run(progress="off", workers=1).trials.set_index("trial_id")["started_at"]
    current = {cell.trial.trial_id: cell.trial for cell in experiment.grid}
    assert set(after.index) == set(current) | set(before.index), "results of the older revision stay in the journal"
    for trial_id, trial in current.items():
        assert (trial_id in before.index) == (not is_revised(trial))
        if trial_id in before.index:
            assert after[trial_id] == before[trial_id], "a trial was run again"


@pytest.mark.slow
def test_tables_are_built_from_its_journal(grid: Path) -> None:
    results = load(grid / "output")
    for trial in results.trials.to_dict("records"):
        recorded = TRIALS[trial["trial_id"]]
        assert {name: str(trial[name]) for name in recorded} == recorded
        assert (trial["explorations"], trial["sub_agent_steps"], trial["sub_agent_cost_usd"]) == (0, 0, 0.0), "S3.20"
    assert add_total_cost(results.trials)["total_cost_usd"].notna().all()
    for name, columns in TABLES.items():
        assert list(getattr(results, name).columns) == [column.name for column in columns]
    sizes = {name: len(getattr(results, name)) for name in ("trials", "steps", "compactions", "checks", "probes")}
    assert sizes == {"trials": 3, "steps": 72, "compactions": 43, "checks": 42, "probes": 194}


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_live_session_of_version_0_1_can_be_continued(tmp_path: Path) -> None:
    journal = unpack("session.sqlite.zst", tmp_path / "session.sqlite")
    live = LiveSession.reopen(journal, "live-by-0-1")
    assert live.spec.task is not None
    stored = live.spec.task
    assert (stored.name, len(stored.checks), len(stored.facts), len(stored.script.steps)) == ("changing-requirements", 18, 16, 92)
    assert len(stored.later_messages) == 2
    assert all(getattr(stored, one.name) for one in fields(stored) if one.metadata != codec.ADDED_LATER), (
        "a field of the stored task was lost"
    )
    numbers = inspect_session(live.entries)
    assert (numbers.turns, live.view.steps, live.view.rounds) == (2, 24, 15)
    live.start()
    live.send("Go on.")
    live.wait(60)
    assert live.view.steps > 24
    live.close()


def test_every_policy_and_task_has_the_same_trial_id_but_for_revisions() -> None:
    presets = {f"policy {find_stored_kind(kind)}": preset for kind, preset in PRESETS.items()}
    trials = {name: Trial(task="flashcards", policy=preset(), max_steps=50) for name, preset in presets.items()}
    trials |= {f"task {name}": Trial(task=name, policy=PRESETS["none"](), max_steps=50) for name in SUITE}
    trials["every field"] = EVERY_FIELD
    assert {name: compute_unrevised_id(trials[name]) for name in TRIAL_IDS} == TRIAL_IDS
    revised = {name for name in TRIAL_IDS if is_revised(trials[name]) or name == "every field"}
    assert {name for name in TRIAL_IDS if trials[name].trial_id != TRIAL_IDS[name]} == revised


def test_each_field_is_part_of_the_id() -> None:
    changes: dict[str, Any] = {
        "seed": 4,
        "replicate": 0,
        "model": "openai/gpt-4",
        "tool_calls": "native",
        "max_steps": 8,
        "window_tokens": None,
    }
    ids = {replace(EVERY_FIELD, **{name: value}).trial_id for name, value in changes.items()}
    assert len(ids | {EVERY_FIELD.trial_id}) == len(changes) + 1
