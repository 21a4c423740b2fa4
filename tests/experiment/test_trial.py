"""Tests of trials: ids, parsing, and refused values."""

import pickle
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.compaction.presets.opencode import OpenCodeV1
from harness.conversation.codec import ADDED_LATER, to_identity
from harness.conversation.codec import to_plain as encode
from harness.errors import UnknownName, UsageError
from harness.experiment.experiment import Experiment
from harness.experiment.job import build_session_spec
from harness.experiment.plan import Settings
from harness.experiment.trial import SharedFields, Trial, from_plain, to_plain
from harness.models.cassette import Cassette
from harness.models.factory import open_model
from harness.models.scripted.profiles import add_options
from harness.policies import PRESETS
from harness.protocols import SandboxLimits
from harness.revisions import REVISIONS
from harness.sandboxes.backends import SandboxChoice
from harness.session.spec import SessionSpec
from harness.task import DIFFICULTIES, World
from harness.tasks import load_task, make_task

POLICIES = st.builds(NoCompaction) | st.builds(
    KeepLast,
    threshold=st.floats(0.01, 1),
    keep_last=st.integers(1, 50),
    summarizer=st.sampled_from(["same", "scripted/oracle", "gpt-4.1-mini"]),
)
TRIALS = st.builds(
    Trial,
    task=st.sampled_from(["flashcards", "bug-hunt"]),
    policy=POLICIES,
    seed=st.integers(0, 99),
    replicate=st.integers(0, 3),
    world=st.builds(World, steps=st.none() | st.integers(1, 99), recoverable_share=st.none() | st.floats(0, 1)),
    model=st.sampled_from(["scripted", "scripted/flashcards:typical"]),
    window_tokens=st.none() | st.integers(1, 200_000),
    nominal_window_tokens=st.none() | st.integers(1, 200_000),
    output_limit_scale=st.just(1.0) | st.floats(0.01, 100),
    summarizer_seed=st.integers(0, 3),
    max_steps=st.none() | st.integers(1, 500),
    parallel_tools=st.booleans(),
    command_timeout_seconds=st.floats(0.1, 1000),
    sandbox=st.builds(
        SandboxChoice,
        backend=st.sampled_from(["auto", "docker"]),
        image=st.none() | st.text(max_size=5),
        limits=st.builds(SandboxLimits, pids=st.integers(8, 500), network=st.booleans()),
    ),
)


@given(TRIALS)
def test_a_trial_written_and_read_back_is_the_same_trial(trial):
    again = from_plain(to_plain(trial))
    assert again == trial
    assert again.trial_id == trial.trial_id


def test_a_task_that_is_revised_at_one_level_of_difficulty_keeps_its_ids_at_the_others(monkeypatch):
    levels = [Trial(task="long-march", policy="none", world=World(difficulty=level)) for level in DIFFICULTIES]
    before = [trial.trial_id for trial in levels]
    number = REVISIONS["hard long-march"]
    assert [trial.revisions.get("hard long-march") for trial in levels] == [None, None, number]
    monkeypatch.setattr("harness.revisions.REVISIONS", {**REVISIONS, "hard long-march": number + 1})
    assert [trial.trial_id == old for trial, old in zip(levels, before, strict=True)] == [True, True, False]
    shared = SharedFields()
    assert [shared.compute_trial_id(trial) for trial in levels] == [trial.trial_id for trial in levels]


@pytest.mark.parametrize(
    "make",
    [
        lambda **more: Trial(task="flashcards", policy=NoCompaction(), **more),
        lambda **more: replace(Trial(task="flashcards", policy=NoCompaction()), **more),
        lambda **more: SessionSpec(request="Hello.", policy=NoCompaction(), **more),
    ],
    ids=["new", "changed", "interactive"],
)
def test_a_misspelt_field_is_refused_with_the_nearest_names(make):
    with pytest.raises(UnknownName, match="'windw_tokens'; did you mean 'window_tokens'"):
        make(windw_tokens=8_000)
    assert make(window_tokens=8_000).window_tokens == 8_000


@pytest.mark.parametrize(
    ("kind", "misspelt", "field"),
    [(World, "redundance", "redundancy"), (SandboxChoice, "backnd", "backend"), (SandboxLimits, "memory_byte", "memory_bytes")],
    ids=["world", "sandbox", "limits"],
)
def test_so_are_the_misspelt_fields_of_its_parts(kind, misspelt, field):
    with pytest.raises(UnknownName, match=f"field of {kind.__name__}: '{misspelt}'; did you mean '{field}'"):
        kind(**{misspelt: 1})


@given(TRIALS, TRIALS)
def test_ids_are_equal_exactly_when_trials_are(one, other):
    assert (one.trial_id == other.trial_id) == (to_plain(one) == to_plain(other))


@given(TRIALS)
def test_a_trial_crosses_process_borders(trial):
    assert pickle.loads(pickle.dumps(trial)) == trial


@pytest.mark.slow
def test_an_id_is_the_same_in_another_process():
    code = (
        "from harness.experiment.trial import Trial; from harness.compaction.presets.keep_last import KeepLast; "
        "print(Trial(task='flashcards', policy=KeepLast(), seed=3).trial_id)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert output == Trial(task="flashcards", policy=KeepLast(), seed=3).trial_id


def test_a_default_written_out_makes_no_other_trial():
    plain = {"task": "flashcards", "policy": {"kind": "keep-last"}}
    spelled = {**plain, "seed": 0, "policy": {"kind": "keep-last", "threshold": 0.8}, "sandbox": {"backend": "auto"}}
    assert from_plain(plain).trial_id == from_plain(spelled).trial_id


def test_the_models_seed_follows_from_seed_and_replicate_and_is_neither():
    base = Trial(task="flashcards", policy=NoCompaction(), seed=1)
    seeds = {base.model_seed, replace(base, seed=2).model_seed, replace(base, replicate=1).model_seed}
    assert len(seeds) == 3
    assert base.seed not in seeds
    assert replace(base, max_steps=7).model_seed == base.model_seed


def test_the_default_summarizer_is_the_model_of_the_trial_and_none_disables_it():
    assert Trial(task="t", policy=KeepLast(), model="m").summarizer == "m"
    assert Trial(task="t", policy=KeepLast(), model="scripted").summarizer == "scripted/extractive"
    assert Trial(task="t", policy=KeepLast(), model="scripted/t:typical").summarizer == "scripted/extractive"
    assert Trial(task="t", policy=KeepLast(summarizer="s"), model="m").summarizer == "s"
    assert Trial(task="t", policy=NoCompaction(), model="m").summarizer is None


GOOD = {"task": "flashcards", "policy": {"kind": "keep-last"}}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sed": 1}, "unknown path in trial: 'sed'; did you mean 'seed'"),
        ({"seed": "1"}, r"trial\.seed: must be a number"),
        ({"seed": 1.5}, r"trial\.seed: must be a whole number \(got 1\.5\)"),
        ({"seed": -1}, r"trial\.seed: must be at least 0"),
        ({"seed": True}, r"trial\.seed: must be a number"),
        ({"max_steps": 0}, r"trial\.max_steps: must be at least 1"),
        ({"window_tokens": 0}, r"trial\.window_tokens: must be at least 1"),
        ({"nominal_window_tokens": 0}, r"trial\.nominal_window_tokens: must be at least 1"),
        ({"output_limit_scale": 0.0}, r"trial\.output_limit_scale: must be a number above 0 \(got 0\.0\)"),
        ({"summarizer_seed": -1}, r"trial\.summarizer_seed: must be at least 0 \(got -1\)"),
        ({"summarizer_seed": 0.5}, r"trial\.summarizer_seed: must be a whole number \(got 0\.5\)"),
        ({"parallel_tools": "yes"}, r"trial\.parallel_tools: "),
        ({"command_timeout_seconds": 0}, r"trial\.command_timeout_seconds: must be above 0"),
        ({"command_timeout_seconds": 86_400}, r"trial\.command_timeout_seconds: must be above 0 and below 86400 \(got 86400"),
        ({"policy": "nune"}, r"unknown policy in trial\.policy: 'nune'; did you mean 'none'"),
        ({"policy": -3}, r"max_messages=-3 must not be negative"),
        ({"policy": True}, r"trial\.policy: must be a name, a number of messages or a table"),
        ({"policy": {"threshold": 0.5}}, r"trial\.policy\.kind"),
        ({"policy": {"kind": "keep-lats"}}, r"unknown policy in trial\.policy: 'keep-lats'; did you mean 'keep-last'"),
        ({"policy": {"kind": "keep-last", "treshold": 1}}, r"trial\.policy\.treshold.*did you mean 'threshold'"),
        ({"policy": {"kind": "keep-last", "threshold": "0.5"}}, r"trial\.policy\.threshold: must be a number"),
        ({"policy": {"kind": "keep-last", "threshold": 1.5}}, r"threshold=1\.5 must be above 0"),
        ({"policy": {"kind": "keep-last", "keep_last": 2.5}}, r"trial\.policy\.keep_last: "),
        ({"sandbox": {"backend": "dokcer"}}, r"trial\.sandbox\.backend: .*'docker'.*got 'dokcer'"),
        (
            {"sandbox": {"backend": "bubblewrap", "image": "mine:1"}},
            r"trial\.sandbox: image 'mine:1': the sandbox 'bubblewrap' has no",
        ),
        ({"sandbox": {"limits": {"pid": 3}}}, r"unknown path in trial\.sandbox: 'limits\.pid'; did you mean 'limits\.pids'"),
        ({"sandbox": {"limits": {"pids": 0}}}, r"trial\.sandbox\.limits: pids: must be at least 8 and at most 4194304 \(got 0\)"),
        ({"sandbox": {"limits": {"pids": 2**62}}}, "pids: must be at least 8"),
        ({"sandbox": {"limits": {"pids": 2**63}}}, r"limits\.pids: must be between -2\^63 and 2\^63 - 1"),
        ({"sandbox": {"limits": {"memory_bytes": -1}}}, r"memory_bytes: must be at least 16777216 .* \(got -1\)"),
        ({"sandbox": {"limits": {"memory_bytes": 0}}}, "memory_bytes: must be"),
        ({"sandbox": {"limits": {"disk_bytes": 0}}}, "disk_bytes: must be at least 4096"),
        ({"sandbox": {"limits": {"output_bytes": 24 * 2**20 + 1}}}, "output_bytes: must be at least 1 and at most 25165824"),
        ({"sandbox": {"limits": {"file_bytes": 48 * 2**20 + 1}}}, "file_bytes: must be at least 1 and at most 50331648"),
        ({"sandbox": 3}, r"trial\.sandbox"),
    ],
)
def test_an_invalid_field_is_refused_with_its_path(change, words):
    with pytest.raises(UsageError, match=words):
        from_plain({**GOOD, **change})


def test_a_trial_without_a_policy_says_what_to_write():
    with pytest.raises(UsageError, match=r"Trial: the field 'policy' is missing; write e\.g\. policy='keep-last'.* an axis"):
        Trial(task="flashcards")


@pytest.mark.parametrize("missing", ["task", "policy"])
def test_task_and_policy_must_be_named(missing):
    with pytest.raises(UsageError, match=rf"trial\.{missing}: missing; every trial needs a"):
        from_plain({name: value for name, value in GOOD.items() if name != missing})


def test_an_unknown_name_keeps_its_facts():
    with pytest.raises(UnknownName) as caught:
        from_plain({**GOOD, "sed": 1})
    assert caught.value.name == "sed"
    assert "seed" in caught.value.known


def test_a_turned_knob_makes_another_problem_of_the_same_arm():
    plain = Trial(task="long-march", policy=NoCompaction())
    turned = from_plain({"task": "long-march", "policy": {"kind": "none"}, "world": {"steps": 400}})
    assert (plain.problem, turned.problem) == ("long-march", "long-march(steps=400)")


@pytest.mark.parametrize(("world", "explanation"), [({"step": 4}, "world.*steps"), ({"recoverable_share": 1.5}, "at most 1")])
def test_a_knob_that_there_is_not_or_that_is_out_of_range_is_refused(world, explanation):
    with pytest.raises(UsageError, match=explanation):
        from_plain({"task": "long-march", "policy": {"kind": "none"}, "world": world})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"policy": KeepLast}, r"the class KeepLast; write KeepLast\(...\)"),
        ({"policy": {"kind": "keep-last"}}, "convert a table with policy_from_plain"),
        ({"policy": 3.5}, "float is not a policy: it has no budget"),
        ({"task": load_task("flashcards")(0)}, "must be the name of a task, e.g. 'flashcards'"),
        ({"task": load_task("flashcards")}, "must be the name of a task"),
        ({"task": 5}, "task: must be a string"),
        ({"window_tokens": "32k"}, "window_tokens: must be a whole number"),
        ({"seed": True}, "seed: must be a whole number"),
        ({"sandbox": "local"}, "sandbox: must be a SandboxChoice"),
        ({"world": {"steps": 5}}, "world: must be a World"),
        ({"parallel_tools": "yes"}, "parallel_tools: must be true or false"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_by_the_constructor(wrong, message):
    with pytest.raises(UsageError, match=message):
        Trial(**{"task": "flashcards", "policy": KeepLast(), **wrong})


@pytest.mark.parametrize(
    ("kind", "wrong", "message"),
    [
        (SandboxChoice, {"backend": "bubblewarp"}, "backend: must be 'auto', 'docker'"),
        (SandboxChoice, {"backend": "local", "image": "mine:1"}, "image 'mine:1': the sandbox 'local' has no images"),
        (SandboxLimits, {"pids": "many"}, r"pids: must be a whole number \(got 'many'\)"),
        (SandboxLimits, {"pids": 0}, r"pids: must be at least 8"),
        (World, {"steps": "many"}, r"world\.steps: .*number"),
        (SessionSpec, {"request": "x", "policy": KeepLast}, "the class KeepLast"),
        (
            SessionSpec,
            {"request": "x", "policy": KeepLast(), "window_tokens": "32k"},
            "window_tokens: must be a whole number",
        ),
        (Settings, {"stall_seconds": "long"}, "stall_seconds: must be a number"),
    ],
)
def test_so_are_the_parts_of_a_trial_and_a_session_outside_of_grids(kind, wrong, message):
    with pytest.raises(UsageError, match=message):
        kind(**wrong)


def test_another_text_of_the_file_of_a_task_makes_another_trial(tmp_path):
    file = tmp_path / "mine.py"
    trial = Trial(task=f"{file}:task", policy=NoCompaction())
    ids = [trial.trial_id]
    for text in ("def task(seed): ...", "def task(seed): pass"):
        file.write_text(text)
        ids.append(trial.trial_id)
    assert len(set(ids)) == 3
    file.write_text("def task(seed): ...")
    assert trial.trial_id == ids[1]


def test_a_policy_can_be_given_by_its_public_name():
    named: Any = "codex"
    trial = Trial(task="flashcards", policy=named)
    assert trial == Trial(task="flashcards", policy=PRESETS["codex@2026"]())
    assert trial.trial_id == Trial(task="flashcards", policy=PRESETS["codex@2026"]()).trial_id
    unknown: Any = "codecs"
    with pytest.raises(UnknownName, match="codex"):
        Trial(task="flashcards", policy=unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    old: int = 1
    new: int = field(default=2, metadata=ADDED_LATER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    new: tuple[int, ...] = field(default_factory=tuple, metadata=ADDED_LATER)


def test_a_field_added_later_is_left_out_of_the_id_at_its_default():
    assert to_identity(Outer(), encode(Outer())) == {"inner": {"old": 1}}
    changed = Outer(inner=Inner(new=3), new=(1,))
    assert to_identity(changed, encode(changed)) == encode(changed)


def test_type_checkers_accept_names_of_policies_and_paths_as_text() -> None:
    assert SessionSpec(request="", policy="codex", journal="a.sqlite").journal == Path("a.sqlite")
    assert Trial(task="flashcards", policy="codex").policy.clip_characters == 10_000
    assert Cassette(path="b.cassette", mode="replay").path.suffix == ".cassette"
    assert Experiment(name="x", base=Trial(task="flashcards", policy="codex"), axes={}, folder="x").folder == Path("x")


def test_checks_decided_otherwise_than_in_version_0_1_are_part_of_the_ids_of_real_models_only() -> None:
    for model, revisions in (("scripted", {}), ("scripted:typical", {}), ("openai/gpt-5", {"checks": REVISIONS["checks"]})):
        raised = {"task": REVISIONS["task flashcards"]} | revisions
        additions = Trial(task="flashcards", policy="crush", model=model).find_additions()["revisions"]
        assert isinstance(additions, dict)
        assert {name: additions[name] for name in ("task", "checks") if name in additions} == raised


def test_a_policy_whose_threshold_follows_the_registry_is_revised() -> None:
    assert [OpenCodeV1(input_limit_tokens=limit).revision for limit in (None, 100_000)] == [3, 2]


def test_a_revision_changes_the_ids_of_the_affected_trials_only(monkeypatch):
    def ids():
        policies = {"codex": PRESETS["codex@2025"](), "three-tiers": PRESETS["three-tiers"]()}
        return {
            (task, name): Trial(task=task, policy=policies[name]).trial_id
            for task in ("flashcards", "bug-hunt")
            for name in policies
        }

    before = ids()
    monkeypatch.setattr(PRESETS["codex@2025"], "revision", 99)
    policy = ids()
    assert {key for key in before if before[key] != policy[key]} == {("flashcards", "codex"), ("bug-hunt", "codex")}
    monkeypatch.setattr("harness.revisions.REVISIONS", {**REVISIONS, "task bug-hunt": 99})
    task = ids()
    assert {key for key in policy if policy[key] != task[key]} == {("bug-hunt", "codex"), ("bug-hunt", "three-tiers")}
    monkeypatch.setattr("harness.revisions.REVISIONS", {**REVISIONS, "task bug-hunt": 99, "tool search_output": 99})
    tool = ids()
    assert {key for key in task if task[key] != tool[key]} == {("flashcards", "three-tiers"), ("bug-hunt", "three-tiers")}


def test_sub_agents_leave_the_id_of_a_trial_without_them_alone():
    """S3.20: an axis of grids, and no trial of an older version has to run again."""
    trial = Trial(task="flashcards", policy="keep-last")
    plain = to_identity(trial, to_plain(trial))
    assert not {"explore", "explore_model"} & plain.keys()
    exploring = replace(trial, explore=True)
    others = [exploring, *(replace(exploring, explore_model=name) for name in ("scripted:typical", "openai/gpt-4o"))]
    assert len({trial.trial_id, *(one.trial_id for one in others)}) == 4
    assert from_plain(to_plain(others[1])) == others[1]
    assert others[2].models == ("scripted", "scripted/extractive", "openai/gpt-4o")
    with pytest.raises(UsageError, match="explore_model: has no effect unless explore is true"):
        replace(trial, explore_model="scripted:typical")


def test_the_factor_on_output_limits_is_part_of_the_id_unless_it_is_one():
    trial = Trial(task="flashcards", policy="keep-last")
    assert "output_limit_scale" not in to_identity(trial, to_plain(trial))
    assert replace(trial, output_limit_scale=1.0).trial_id == trial.trial_id
    assert replace(trial, output_limit_scale=0.5).trial_id != trial.trial_id


def test_the_seed_of_the_summarizer_is_part_of_the_id_unless_it_is_zero():
    trial = Trial(task="flashcards", policy=KeepLast(summarizer="scripted/survival:constraints-rounds"))
    assert "summarizer_seed" not in to_identity(trial, to_plain(trial))
    assert replace(trial, summarizer_seed=0).trial_id == trial.trial_id
    others = [replace(trial, summarizer_seed=seed) for seed in (1, 2)]
    assert len({trial.trial_id, *(other.trial_id for other in others)}) == 3
    assert {other.model_seed for other in others} == {trial.model_seed}
    assert trial.revisions["summarizer survival"] == REVISIONS["summarizer survival"]


def test_only_trials_that_are_scaled_to_a_window_have_the_revision_of_scaling():
    plain = Trial(task="flashcards", policy="keep-last")
    scaled, shared = replace(plain, nominal_window_tokens=200_000), SharedFields()
    before = [(trial.trial_id, shared.compute_trial_id(trial)) for trial in (plain, scaled)]
    assert all(one == other for one, other in before)
    assert scaled.revisions == {**plain.revisions, "scaling": 1}


def test_the_reader_is_part_of_the_id_and_of_the_models_name_unless_it_is_exact():
    trial = Trial(task="flashcards", policy="keep-last", model="scripted:typical")
    assert "reader" not in to_identity(trial, to_plain(trial))
    tolerant = replace(trial, reader="tolerant")
    assert tolerant.trial_id != trial.trial_id == replace(trial, reader="exact").trial_id
    assert from_plain(to_plain(tolerant)) == tolerant
    task = make_task("flashcards", 1)
    for one, name in ((trial, "scripted/flashcards:typical"), (tolerant, "scripted/flashcards:typical+tolerant")):
        spec = build_session_spec(one, task)
        assert spec.reader == one.reader
        model = open_model(add_options(spec.model, spec.reader), task=task, seed=1, window_tokens=None)
        assert model.name == open_model(model.name, task=task, seed=1, window_tokens=None).name == name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reader": "tolerant", "model": "openai/gpt-4o"}, "reader: only a scripted model has a reader"),
        ({"model": "scripted:typical+tolerant"}, "set model = 'scripted:typical' and reader = 'tolerant' instead"),
        ({"reader": "lenient"}, "reader"),
    ],
)
def test_a_reader_that_cannot_be_used_is_refused(changes, message):
    with pytest.raises(UsageError, match=message):
        Trial(task="flashcards", policy="keep-last", **changes)


def test_the_standard_difficulty_leaves_ids_and_names_of_problems_alone():
    trials = {level: Trial(task="flashcards", policy="keep-last", world=World(difficulty=level)) for level in DIFFICULTIES}
    assert "difficulty" not in str(to_identity(trials["standard"], to_plain(trials["standard"])))
    assert len({trial.trial_id for trial in trials.values()}) == 3
    assert [trials[level].problem for level in ("standard", "hard")] == ["flashcards", "flashcards(difficulty='hard')"]
    assert from_plain(to_plain(trials["hard"])) == trials["hard"]


@pytest.mark.parametrize("level", ["hrad", 3, None])
def test_an_unknown_difficulty_of_a_plan_is_refused_with_its_path(level):
    with pytest.raises(UsageError, match=r"trial\.world\.difficulty: must be 'easy', 'standard' or 'hard'"):
        from_plain({"task": "flashcards", "policy": "keep-last", "world": {"difficulty": level}})
