"""A run with stored verdicts equals a run with new ones in every column that does not speak of time or of the cache itself."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

from harness.compaction.presets.none import NoCompaction
from harness.errors import VerdictMismatch
from harness.experiment.experiment import Experiment
from harness.experiment.grid import Arm
from harness.experiment.trial import Trial
from harness.inspection.loading import load
from harness.policies import PRESETS
from harness.sandboxes.action_cache.cache import CACHE_FILE
from harness.sandboxes.action_cache.entry import pack_bytes
from harness.sandboxes.backends import SandboxChoice
from harness.session.verdict_cache import COMMAND, is_drawn_for_test
from harness.store.columns import TABLES, VOLATILE_COLUMNS

pytestmark = [pytest.mark.bubblewrap, pytest.mark.slow]

TINY = f"{Path(__file__).parents[1] / 'experiment' / 'tiny_task.py'}:tiny"


def grid(cache: Path, use: str = "on") -> Experiment:
    reserves = {f"{name}_reserve_tokens": 100 for name in ("system", "output", "safety")}
    policy = PRESETS["keep-last"](threshold=0.3, keep_last=2, summarizer="scripted/oracle", **reserves)
    base = Trial(task=TINY, policy=policy, window_tokens=7_000, sandbox=SandboxChoice(backend="bubblewrap"))
    arms = [Arm(name="control", trial={"policy": "none"}), Arm(name="again", trial={"replicate": 1})]
    experiment = Experiment(name="stored", base=base, axes={"policy.keep_last": [2, 4], "seed": [1, 2, 3]}, arms=arms)
    return experiment.with_cache("off" if use == "off" else "on", cache)


def read(folder: Path, table: str) -> pd.DataFrame:
    names = [column.name for column in TABLES[table] if column.name not in VOLATILE_COLUMNS.get(table, ())]
    rows = load(folder).sql(f"SELECT {', '.join(f'{chr(34)}{name}{chr(34)}' for name in names)} FROM {table}")
    return rows.sort_values(list(rows.columns), ignore_index=True)


def test_a_run_with_stored_verdicts_equals_runs_with_new_ones(tmp_path):
    folders = {name: tmp_path / name for name in ("new", "stored", "no cache")}
    for name, folder in folders.items():
        grid(tmp_path / "cache", "off" if name == "no cache" else "on").run(folder, workers=2, progress="off")
    for table in TABLES:
        expected = read(folders["no cache"], table)
        for name in ("new", "stored"):
            pd.testing.assert_frame_equal(read(folders[name], table), expected, obj=f"{table} with {name} verdicts")
    trials = load(folders["stored"]).trials
    is_tested = (trials["policy"] == "none") | (trials["replicate"] > 0) | trials["trial_id"].map(is_drawn_for_test)
    assert 0 < is_tested.sum() < len(trials)
    assert (trials["verdict_cached"] == ~is_tested).all()
    assert not load(folders["no cache"]).trials["verdict_cached"].any()
    assert len(read(folders["stored"], "compactions")) > 0


def test_a_wrong_stored_verdict_ends_the_run_with_both_verdicts(tmp_path):
    cache = tmp_path / "cache"
    grid(cache).run(tmp_path / "first", workers=1, progress="off")
    with closing(sqlite3.connect(cache / CACHE_FILE)) as connection, connection:
        for (key,) in connection.execute("SELECT key FROM entry WHERE command = ?", (COMMAND,)).fetchall():
            wrong = json.dumps({"port": (False, "forged"), "note": (True, "")}).encode()
            connection.execute("UPDATE entry SET data = ? WHERE key = ?", (pack_bytes(key, wrong), key))
    with pytest.raises(VerdictMismatch, match=r"stored port: failed \(forged\), new port: "):
        grid(cache).run(tmp_path / "second", workers=1, progress="off")
    assert not list((tmp_path / "second").glob("trials/*"))


def test_controls_and_repetitions_are_references():
    trial = Trial(task=TINY, policy=PRESETS["keep-last"](threshold=0.5))
    assert [
        one.is_reference
        for one in (trial, Trial(task=TINY, policy=NoCompaction()), Trial(task=TINY, policy=trial.policy, replicate=1))
    ] == [False, True, True]
