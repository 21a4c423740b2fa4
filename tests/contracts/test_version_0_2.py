"""Results of version 0.2 remain usable: loaded, labelled, resumed where no part was revised, and never mixed with newer ones.

The folder `tests/golden/version_0_2` holds data of that version; its README says how they were made. Which stored trials are
resumed follows from the revisions of today, so a test needs no change when a policy or another part is revised.
"""

import json
import re
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import zstandard

import harness
from harness.analysis.arms import drop_earlier_plans
from harness.analysis.revisions import list_revisions
from harness.cli.run import describe_plan
from harness.conversation import codec
from harness.errors import UsageError
from harness.experiment.experiment import Experiment
from harness.experiment.paths import is_earlier_arm
from harness.experiment.plan import RENAMED_KEYS
from harness.experiment.stored_revisions import find_raised, recover_revisions
from harness.experiment.trial import Trial, from_stored, to_plain
from harness.inspection.loading import load
from harness.inspection.timeline import inspect_session
from harness.policies import PRESETS
from harness.reporting.experiment_report import EARLIER_TRIALS_HEADING
from harness.revisions import REVISIONS, find_stored_kind, read_stored_kind
from harness.session.live_session import LiveSession
from harness.store.columns import TABLES
from harness.store.results import Results

RECORDED = Path(__file__).parents[1] / "golden" / "version_0_2"
RESULTS: dict[str, dict[str, str]] = json.loads((RECORDED / "results.json").read_text())
STORED: dict[str, dict[str, Any]] = json.loads((RECORDED / "trials.json").read_text())
FIELDS: dict[str, dict[str, list[str]]] = json.loads((RECORDED / "fields.json").read_text())
Uses = Callable[[Trial], bool]


def unpack(name: str, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(zstandard.ZstdDecompressor().decompress((RECORDED / name).read_bytes()))
    return target


def read_trial(stored: Mapping[str, Any]) -> Trial:
    """Return a trial of version 0.2, whose stored configuration names the number of steps that was the default then."""
    return from_stored({"max_steps": 50, **stored["trial"]})


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    """Return a copy of the folder of the grid from version 0.2, without the tables, which are made from the journal.

    The plan names the version of a policy that has several today.
    """
    unpack("grid/journal.sqlite.zst", tmp_path / "grid" / "output" / "journal.sqlite")
    text = (RECORDED / "grid" / "plan.toml").read_text()
    (tmp_path / "grid" / "plan.toml").write_text(text.replace('kind = "codex"', 'kind = "codex@2025"'))
    return tmp_path / "grid"


@pytest.fixture
def own_task(tmp_path: Path) -> str:
    """Return the name of a task in a file of a user."""
    (tmp_path / "own.py").write_text("def make(seed): ...\n")
    return f"{tmp_path / 'own.py'}:make"


def open_plan(grid: Path) -> Experiment:
    """Return the experiment of the stored grid, whose workers are threads, so that they see the revisions that a test raises."""
    experiment = Experiment.from_toml(grid)
    return replace(experiment, settings=replace(experiment.settings, executor="threads", action_cache="off"))


def relabel(experiment: Experiment) -> Results:
    """Begin a run that is stopped before its first trial, and return the results."""
    stop = threading.Event()
    stop.set()
    return experiment.run(progress="off", workers=1, stop=stop)


def list_unraised(experiment: Experiment) -> set[str]:
    """Return the ids of the planned trials that version 0.2 stored with the revisions that they have today."""
    return {cell.trial_id for cell in experiment.grid} & set(RESULTS)


def raise_part(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    name = read_stored_kind(part.removeprefix("policy "))
    if name in PRESETS:
        monkeypatch.setattr(PRESETS[name], "revision", 99)
    else:
        monkeypatch.setattr("harness.revisions.REVISIONS", {**REVISIONS, part: 99})


def test_ids_are_those_of_version_0_2_except_for_revisions() -> None:
    for name, stored in STORED.items():
        trial = read_trial(stored)
        identity = codec.to_identity(trial, to_plain(trial))
        revisions = {"revisions": stored["revisions"]} if stored["revisions"] else {}
        assert codec.hash_configuration({**identity, **revisions}, dict) == stored["trial_id"], (
            f"the id of {name!r} changed, but not by a revision: mark new fields `codec.ADDED_LATER`, and rename no field"
        )
        if trial.find_additions().get("revisions", {}) == stored["revisions"]:
            assert trial.trial_id == stored["trial_id"], name


def list_values(value: Any) -> list[Any]:
    """Return a dataclass instance and all dataclass instances in its fields."""
    inner = [getattr(value, field.name) for field in fields(value)]
    return [value, *(item for member in inner if is_dataclass(member) for item in list_values(member))]


def test_each_field_that_reaches_an_id_is_one_of_version_0_2_or_marked_as_added_later() -> None:
    known = {
        **FIELDS["classes"],
        **{type_.__name__: FIELDS["policies"].get(find_stored_kind(kind)) for kind, type_ in PRESETS.items()},
    }
    trials = [Trial(task="flashcards", policy=preset()) for preset in PRESETS.values()]
    for kind in {type(value) for trial in trials for value in list_values(trial)}:
        names = known.get(kind.__name__)
        if names is None:  # a policy, or a value of a new field, that is newer than version 0.2
            continue
        missing = set(names) - {field.name for field in fields(kind)}
        assert not missing, f"{kind.__name__} lacks {missing}: stored trials have these fields, so none may be renamed or removed"
        unmarked = [field.name for field in fields(kind) if field.name not in names and not field.metadata.get("added_later")]
        assert not unmarked, (
            f"declare {kind.__name__}.{unmarked} with `field(…, metadata=ADDED_LATER)`, or ids of old trials change"
        )


def is_scripted_summarizer(*kinds: str) -> Uses:
    return lambda trial: any(
        name is not None and name.removeprefix("scripted/").partition("-")[0] in kinds and name.startswith("scripted/")
        for name in (trial.summarizer, find_sub_summarizer(trial))
    )


def find_sub_summarizer(trial: Trial) -> str | None:
    """Return the name of the model that writes the summaries of sub-agents."""
    if trial.sub_agent_model is None or getattr(trial.policy, "summarizer", None) != "same":
        return None
    return "scripted/extractive" if trial.sub_agent_model.startswith("scripted") else trial.sub_agent_model


def has_scripted_agent(trial: Trial) -> bool:
    return trial.model.startswith("scripted")


def has_scripted_sub_agent(trial: Trial) -> bool:
    return trial.explore and (trial.explore_model if trial.explore_model != "same" else trial.model).startswith("scripted")


def reads(reader: str) -> Uses:
    def uses(trial: Trial) -> bool:
        is_read = has_scripted_agent(trial) or has_scripted_sub_agent(trial) or trial.policy_kind == "oracle"
        return trial.reader == reader and is_read

    return uses


USES: Mapping[str, Uses] = {
    "policy codex": lambda trial: trial.policy_kind == "codex@2025",
    "agent": has_scripted_agent,
    "explorer": has_scripted_sub_agent,
    "reader exact": reads("exact"),
    "reader tolerant": reads("tolerant"),
    "summarizer empty": is_scripted_summarizer("empty"),
    "summarizer extractive": is_scripted_summarizer("extractive", "same", "lossy"),
    "summarizer lossy": is_scripted_summarizer("lossy"),
    "summarizer oracle": is_scripted_summarizer("oracle"),
    "prices": lambda trial: True,
    "listed prices": lambda trial: not all(name.startswith("scripted") for name in trial.models),
    "checks": lambda trial: not has_scripted_agent(trial),
    "tool explore": lambda trial: trial.explore,
    "tool read_file": lambda trial: True,
    "tool search_output": lambda trial: trial.policy.truncation.saved,  # type: ignore[attr-defined]
    "task bug-hunt": lambda trial: trial.task == "bug-hunt",
}
"""Condition under which a trial uses a part, for parts of each kind."""


@pytest.mark.slow
@pytest.mark.parametrize("part", USES)
def test_a_raised_revision_changes_the_ids_of_exactly_the_trials_that_use_the_part(
    part: str, own_task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = [read_trial(stored) for stored in STORED.values()]
    trials += [replace(trial, task=own_task) for trial in trials]
    before = [trial.trial_id for trial in trials]
    raise_part(monkeypatch, part)
    changed = [trial for trial, trial_id in zip(trials, before, strict=True) if trial.trial_id != trial_id]
    assert changed == [trial for trial in trials if USES[part](trial)]
    assert changed
    assert all(part in trial.revisions for trial in changed)


def test_revisions_of_version_0_2_are_recovered_from_the_ids() -> None:
    for name, stored in STORED.items():
        trial = read_trial(stored)
        config_json = codec.to_canonical_json(to_plain(trial), dict)
        revisions = recover_revisions(stored["trial_id"], config_json)
        raised = {part.partition(" ")[0]: number for part, number in revisions.items() if number}
        assert (name, raised) == (name, stored["revisions"])
        assert revisions.keys() == trial.revisions.keys()


@pytest.mark.slow
def test_tables_are_built_from_its_journal_and_name_the_version(grid: Path) -> None:
    results = load(grid)
    for trial in results.trials.to_dict("records"):
        assert {name: str(trial[name]) for name in RESULTS[trial["trial_id"]]} == RESULTS[trial["trial_id"]]
    for name, columns in TABLES.items():
        assert list(getattr(results, name).columns) == [column.name for column in columns]
        assert len(getattr(results, name))
    assert set(results.trials["harness_version"]) == {"0.2.0"}
    assert results.trials["revisions"].isna().all()
    assert (
        results.trials[["path_survival", "freed_share", "blocking_seconds", "duplicate_calls", "cuts_in_loop"]]
        .isna()
        .all(axis=None)
    )
    assert all(list_revisions(results.trials))
    assert len(harness.report(results).sections) > 5


@pytest.mark.slow
def test_a_report_says_which_parts_were_revised_since_the_trials_ran(grid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raise_part(monkeypatch, "prices")
    last = harness.report(load(grid)).sections[-1]
    assert last.heading == EARLIER_TRIALS_HEADING
    assert "5 trials ran with other revisions than this version uses, under harness 0.2.0" in last.notes[0]
    assert "prices 0, now 99" in last.notes[0]


PARTS = (
    *("policy codex", "policy keep-last", "task flashcards", "task long-march", "tool explore", "agent", "explorer", "prices"),
    *("reader exact", "reader tolerant", "summarizer empty", "summarizer extractive", "summarizer lossy"),
)


@pytest.mark.slow
@pytest.mark.bubblewrap
@pytest.mark.parametrize("part", PARTS)
def test_trials_whose_revisions_are_not_those_of_today_become_arms_of_their_own(
    part: str, grid: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = list_unraised(open_plan(grid))
    raise_part(monkeypatch, part)
    experiment = open_plan(grid)
    unraised = list_unraised(experiment)
    forecast = experiment.estimate()
    assert (forecast.finished_trials, forecast.outdated_trials) == (len(unraised), len(RESULTS) - len(unraised))
    assert f"{len(RESULTS) - len(unraised)} finished trial" in describe_plan(experiment, forecast)
    stored = {cell.trial_id: part in cell.trial.revisions for cell in open_plan(grid).grid}
    assert unraised == {trial_id for trial_id in before if not stored.get(trial_id, True)}
    trials = relabel(experiment).trials
    assert set(trials["trial_id"]) == set(RESULTS), "nothing was run"
    for trial in trials.itertuples():
        assert (trial.arm == RESULTS[trial.trial_id]["arm"]) == (trial.trial_id in unraised)
        assert (" (earlier revision " in trial.arm) == (trial.trial_id not in unraised)


def test_the_plain_name_of_a_policy_with_a_newer_version_is_refused_in_its_folder(grid: Path, tmp_path: Path) -> None:
    shutil.copy(RECORDED / "grid" / "plan.toml", grid)
    experiment = open_plan(grid)
    for resume in (experiment.estimate, lambda: experiment.run(progress="off", workers=1)):
        with pytest.raises(
            UsageError, match=r"ran with 'codex@2025', and 'codex' is 'codex@2026' today; write 'codex@2025' in the"
        ):
            resume()
    assert set(load(grid).trials["policy"]) == {"none", "keep-last", "codex@2025", "pi", "swe-agent"}
    assert experiment.estimate(tmp_path / "another").finished_trials == 0


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_finished_grid_runs_again_only_trials_of_revised_parts(grid: Path) -> None:
    experiment = open_plan(grid)
    unraised = list_unraised(experiment)
    before = load(grid).trials.set_index("trial_id")["started_at"]
    trials = experiment.run(progress="off", workers=1).trials.set_index("trial_id")
    current = {cell.trial_id: cell.trial for cell in experiment.grid}
    assert set(trials.index) == set(current) | set(RESULTS), "older results stay in the journal"
    assert {trial_id for trial_id in RESULTS if not is_earlier_arm(trials["arm"][trial_id])} == unraised
    for trial_id, trial in current.items():
        if trial_id in RESULTS:
            assert trials["started_at"][trial_id] == before[trial_id], "a trial was run again"
        else:
            assert json.loads(trials["revisions"][trial_id]) == trial.revisions
            assert trials["harness_version"][trial_id] == version("compaction-harness")


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_results_of_two_revisions_are_loaded_together_but_never_pooled(grid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = shutil.copytree(grid, grid.with_name("old"))
    raise_part(monkeypatch, "prices")
    results = open_plan(grid).run(progress="off", workers=2)
    assert len(results.trials) == 2 * len(RESULTS)
    current = drop_earlier_plans(results)
    assert {json.loads(text)["prices"] for text in current.trials["revisions"]} == {99}
    report = harness.report(results)
    assert f"Report on grid: {len(RESULTS)} trials" in report.title
    assert any("other revisions" in note for note in report.sections[-1].notes)
    (earlier,) = (arm for arm in results.trials["arm"] if arm.startswith("none (earlier revision "))
    with pytest.raises(UsageError, match=r"different revisions \(.*prices: 0 and 99"):
        harness.compare(results, earlier, "none")
    both = load([old, grid])
    assert len(both.trials) == 3 * len(RESULTS)
    with pytest.raises(UsageError, match=r"different revisions \(.*prices: 0 and 99"):
        harness.compare(both, "grid #1: none", "grid #2: none")
    with pytest.raises(UsageError, match="never pooled"):
        harness.report(both)
    assert harness.compare(load(old), "none", "keep-last").counts.pairs == 1, "older results can be compared with each other"


def test_trials_of_other_revisions_predict_nothing(grid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = open_plan(grid)
    raise_part(monkeypatch, "agent")
    forecast = open_plan(grid).estimate()
    assert (forecast.pilot_trials, forecast.covered_trials) == (0, 0)
    with pytest.raises(UsageError, match=r"trials with policy 'none' ran with other revisions .*agent 0, now 99.*run it again"):
        replace(experiment, settings=replace(experiment.settings, uncompacted=str(grid)))


def find_changes(trial_id: str, config_json: str) -> dict[str, Any]:
    trial = from_stored(json.loads(config_json))
    return find_raised(recover_revisions(trial_id, config_json), trial.revisions)


def test_stored_trials_with_the_revisions_of_today_are_those_with_the_ids_of_today(grid: Path) -> None:
    unraised = list_unraised(open_plan(grid))
    rows = load(grid).trials[["trial_id", "config_json"]].itertuples(index=False)
    assert {trial_id for trial_id, config_json in rows if not find_changes(trial_id, config_json)} == unraised


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_live_session_of_version_0_2_can_be_continued(tmp_path: Path) -> None:
    journal = unpack("session.sqlite.zst", tmp_path / "session.sqlite")
    live = LiveSession.reopen(journal, "live-by-0-2")
    assert live.spec.task is not None
    assert live.spec.task.name == "flashcards"
    numbers = inspect_session(live.entries)
    assert (numbers.turns, live.view.steps, live.view.rounds) == (2, 8, 7)
    live.start()
    live.send("Go on.")
    live.wait(60)
    assert live.view.steps > 8
    live.close()


def test_every_key_of_its_plans_is_accepted_or_refused_with_its_new_name(tmp_path: Path) -> None:
    text = (RECORDED / "plan.toml").read_text()
    for path, name in RENAMED_KEYS.items():
        if re.search(rf"^{path.rpartition('.')[2]} = ", text, re.MULTILINE):
            (tmp_path / "plan.toml").write_text(text)
            with pytest.raises(UsageError, match=f"this key is now called `{name}`"):
                Experiment.from_toml(tmp_path)
            text = re.sub(rf"^{path.rpartition('.')[2]} = ", f"{name} = ", text, flags=re.MULTILINE)
    (tmp_path / "plan.toml").write_text(text)
    experiment = Experiment.from_toml(tmp_path)
    assert len(experiment.grid) == 36
    assert experiment.settings.tags == ("contract",)
    assert not experiment.base.sandbox.limits.network
