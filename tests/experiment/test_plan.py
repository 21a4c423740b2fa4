"""Tests of the plan file: parsing, and messages about invalid plans."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.window import MessageWindow
from harness.errors import UsageError
from harness.experiment.grid import Grid
from harness.experiment.plan import RENAMED_KEYS, read_plan
from harness.tasks import SUITE

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
TRIAL = '[trial]\ntask = "flashcards"\npolicy = { kind = "none" }\n'


def written(folder: Path, text: str) -> Path:
    (folder / "plan.toml").write_text(text)
    return folder


def test_the_quickstart_compares_six_arms_with_the_base_on_seven_tasks_and_four_seeds():
    plan = read_plan(EXPERIMENTS / "quickstart")
    grid = Grid(plan.base, plan.axes, plan.arms, other_models=plan.settings.other_models)
    assert {cell.trial.task for cell in grid} == set(SUITE) - {"flashcards-bun"}
    assert {cell.trial.seed for cell in grid} == {0, 1, 2, 3}
    own = [cell for cell in grid if not cell.other_model]
    assert len({cell.arm for cell in own}) == 7
    assert len(own) == 7 * 4 * 7
    assert [cell.trial for cell in grid if cell.other_model] == [replace(cell.trial, model="scripted:typical") for cell in own]


def test_the_grid_of_flashcards_is_300_trials_a_control_and_an_a_a_arm_over_five_seeds():
    """C3: thresholds, keep-last values and summarization models."""
    plan = read_plan(EXPERIMENTS / "flashcards")
    assert plan.settings.other_models == ("scripted:typical",)
    grid = Grid(plan.base, plan.axes, plan.arms)
    assert len(grid) == 310
    assert {"policy.threshold", "policy.keep_last", "policy.summarizer"} <= set(plan.axes)
    assert all(len(plan.axes[path]) > 1 for path in plan.axes)
    policies = [cell.trial.policy for cell in grid]
    assert sum(isinstance(policy, KeepLast) for policy in policies) == 305
    assert {cell.trial.replicate for cell in grid} == {0, 1}
    assert {(cell.trial.task, cell.trial.window_tokens, cell.trial.max_steps) for cell in grid} == {("flashcards", 32_768, 300)}
    again = [cell for cell in grid if cell.trial.replicate == 1]
    assert all(any(cell.trial.policy == other.trial.policy for other in grid if other is not cell) for cell in again)


def test_a_plan_is_read_by_its_folder_or_its_file(tmp_path):
    folder = written(tmp_path, TRIAL)
    assert read_plan(folder) == read_plan(folder / "plan.toml") == read_plan(str(folder))


def test_axes_may_be_nested_tables_or_quoted_paths(tmp_path):
    base = '[trial]\ntask = "t"\npolicy = { kind = "keep-last" }\n[axes]\n'
    nested = read_plan(written(tmp_path, base + "policy.threshold = [0.5, 0.6]")).axes
    assert nested == read_plan(written(tmp_path, base + '"policy.threshold" = [0.5, 0.6]')).axes
    assert nested == {"policy.threshold": [0.5, 0.6]}


def test_the_window_of_messages_has_a_short_and_a_full_form_of_equal_trials(tmp_path):
    """S4.5."""
    trial = '[trial]\ntask = "flashcards"\npolicy = '
    full = (
        '{ kind = "message-window", max_messages = 100, preserve_first_n = 1, preserve_last_n = 20, summarize_on_trim = false }'
    )
    bases = [
        read_plan(written(tmp_path, trial + policy)).base
        for policy in ('"message-window"', '{ kind = "message-window", max_messages = 100 }', full)
    ]
    assert bases[0] == bases[1] == bases[2]
    assert len({base.trial_id for base in bases}) == 1
    other = read_plan(written(tmp_path, trial + '{ kind = "message-window", max_messages = 30 }')).base
    assert other.policy == MessageWindow(max_messages=30, preserve_last_n=20)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[trial\n", r"plan\.toml' is not valid TOML: .*line 1"),
        (
            '[trial]\ntask = "t"\npolicy = { kind = "keep-last", trigger_tokens = "q0.5" }',
            r"trial\.policy\.trigger_tokens: a quantile such as 'q0\.5' is allowed in axes and arms only",
        ),
        (TRIAL + "[trail]\n", r"unknown table in plan\.toml: 'trail'; did you mean 'trial'"),
        ("", r"trial\.task: missing; every trial needs a task"),
        ("trial = 3", r"trial: must be a table \(got 3"),
        (TRIAL + "[axes]\nseed = 3", r"axes\.seed: must be a list of values \(got 3"),
        (TRIAL + "[experiment]\ntitel = 'x'", r"path in experiment: 'titel'; did you mean 'title'"),
        (TRIAL + "[experiment]\ntitle = 3", r"experiment\.title"),
        (TRIAL + "[experiment]\ntrial_timeout_seconds = 0", "must be above 0"),
        (TRIAL + "[experiment]\nstall_seconds = -1", r"experiment\.stall_seconds: must be above 0 \(got -1"),
        (TRIAL + "[experiment]\nnot_worse_margin = 0", r"experiment\.not_worse_margin: must be above 0 and below 1 \(got 0\)"),
        (TRIAL + "[experiment]\nnot_worse_margin = 1.0", r"experiment\.not_worse_margin: must be above 0 and below 1 \(got 1\.0"),
        (TRIAL + "[experiment]\nnot_worse_margin = nan", "must be above 0 and below 1"),
        (TRIAL + "[experiment]\nnot_worse_margin = true", "must be above 0 and below 1"),
        (TRIAL + "[experiment]\nnot_worse_margin = '5 %'", "must be above 0 and below 1"),
        (
            TRIAL + "[experiment]\nnot_worse_margn = 0.1",
            r"path in experiment: 'not_worse_margn'; did you mean 'not_worse_margin'",
        ),
        (TRIAL + "[experiment]\nexecutor = 'cluster'", r"experiment\.executor: .*'processes' or 'threads'"),
        (TRIAL + "[arms]\nname = 'x'", r"arms: write each arm as a table of its own, under \[\[arms\]\]"),
        (TRIAL + "[[arms]]\nnam = 'x'", r"path in arms\[0\]: 'nam'; did you mean 'name'"),
        (TRIAL + "[[arms]]\ntrial = { seed = 1 }", r"arms\[0\]\.name"),
        ("arms = [3]\n" + TRIAL, r"arms: write each arm as a table of its own, under \[\[arms\]\]"),
        ("seed = 2026-01-01\n" + TRIAL, "table"),
        ("[trial]\ntask = 2026-01-01\npolicy = { kind = 'none' }", r"trial\.task"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_with_the_place(tmp_path, text, words):
    with pytest.raises(UsageError, match=words):
        read_plan(written(tmp_path, text))


@pytest.mark.parametrize(
    "plan", sorted(Path(__file__).parents[2].glob("experiments/*/plan.toml")), ids=lambda plan: plan.parent.name
)
def test_every_shipped_plan_declares_a_margin_of_5_points(plan):
    assert read_plan(plan).not_worse_margin == 0.05


def test_a_folder_without_a_plan_says_what_is_missing(tmp_path):
    with pytest.raises(UsageError, match=r"there is no plan .*plan\.toml"):
        read_plan(tmp_path)
    with pytest.raises(UsageError, match="there is no plan"):
        read_plan(tmp_path / "nothing" / "there")


def test_a_plan_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "plan.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot read"):
        read_plan(tmp_path)


@pytest.mark.parametrize("path", RENAMED_KEYS)
def test_a_key_that_was_renamed_is_refused_with_its_new_name(tmp_path, path):
    table, _, key = path.rpartition(".")
    text = f"[[{table}]]" if table == "contrasts" else f"[{table}]"
    with pytest.raises(UsageError) as refused:
        read_plan(written(tmp_path, f"{text}\n{key} = 1"))
    place = path.replace("contrasts", "contrasts[0]")
    assert str(refused.value) == f"{place}: this key is now called `{RENAMED_KEYS[path]}`; rename it"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[trial]\nold_steps = 1", "trial.old_steps"),
        ("[trial.policy]\nkind = 'codex'\nold_share = 1", "trial.policy.old_share"),
        ("[axes]\n'policy.old_share' = [1]", "axes.policy.old_share"),
        ("[axes.policy]\nold_share = [1]", "axes.policy.old_share"),
        ("[[arms]]\nname = 'a'\n[[arms]]\nname = 'b'\ntrial = { old_steps = 1 }", "arms[1].trial.old_steps"),
        ("[[contrasts]]\nold_arm = 'a'", "contrasts[0].old_arm"),
    ],
)
def test_a_renamed_key_is_accepted_in_every_table_of_a_plan(tmp_path, monkeypatch, text, place):
    renamed = {"trial.old_steps": "max_steps", "trial.policy.old_share": "threshold", "contrasts.old_arm": "a"}
    monkeypatch.setattr("harness.experiment.plan.RENAMED_KEYS", renamed)
    with pytest.raises(UsageError) as refused:
        read_plan(written(tmp_path, text))
    new = next(new for old, new in renamed.items() if old.endswith(place.rpartition(".")[2]))
    assert str(refused.value) == f"{place}: this key is now called `{new}`; rename it"


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("30", '{ kind = "message-window", max_messages = 30 }'),
        ("0", '{ kind = "message-window", max_messages = 0 }'),
        ('"message-window"', '{ kind = "message-window" }'),
        ('"none"', '{ kind = "none" }'),
    ],
)
def test_a_policy_in_short_is_the_policy_in_full(tmp_path, short, full):
    beginning = '[trial]\ntask = "flashcards"\npolicy = '
    one, other = (read_plan(written(tmp_path, beginning + policy)).base for policy in (short, full))
    assert one == other
    assert one.trial_id == other.trial_id


def test_axes_and_arms_take_policies_in_short_too(tmp_path):
    text = TRIAL + '[axes]\npolicy = [30, "keep-last"]\n[[arms]]\nname = "wide"\ntrial = { policy = 100 }\n'
    plan = read_plan(written(tmp_path, text))
    cells = Grid(plan.base, plan.axes, plan.arms)
    assert [cell.arm for cell in cells] == ["policy=message-window", "policy=keep-last", "wide"]
    assert [getattr(cell.trial.policy, "max_messages", None) for cell in cells] == [30, None, 100]
