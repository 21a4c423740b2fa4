"""Primary contrasts: what a plan may declare, how they are read, and their digest."""

from dataclasses import replace

import pytest

from harness.errors import UnknownName, UsageError
from harness.experiment.contrasts import Contrast, Family, compute_smallest_p, refuse_invalid_contrasts
from harness.experiment.plan import read_plan

ONE = Contrast(a="a", b="b")
PLAN = """
[trial]
task = "flashcards"
policy = { kind = "none" }
[[contrasts]]
a = "none"
b = "other"
"""


def test_contrasts_are_read_from_the_plan(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN + 'metric = "score"\nmargin = 0.05\n')
    assert read_plan(tmp_path).contrasts == (Contrast(a="none", b="other", metric="score", margin=0.05),)


def test_a_margin_is_about_the_score_unless_the_plan_says_otherwise(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN + "margin = 0.05\n")
    assert [contrast.metric for contrast in read_plan(tmp_path).contrasts] == ["score"]
    assert (ONE.metric, Contrast(a="a", b="b", metric="success", margin=0.1).metric) == ("success", "success")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('metric = "speed"', "metric"),
        ("margin = 1.5", "between 0 and 1"),
        ('metric = "steps"\nmargin = 0.5', "above 1, as a ratio"),
        ("level = 3", "level"),
    ],
)
def test_invalid_contrasts_are_refused_with_the_place(tmp_path, lines, words):
    (tmp_path / "plan.toml").write_text(PLAN + lines + "\n")
    with pytest.raises(UsageError, match=words):
        read_plan(tmp_path)


@pytest.mark.parametrize(
    ("count", "tasks", "seeds", "is_allowed"),
    [(3, 7, 1, True), (4, 7, 1, False), (1, 1, 6, True), (1, 1, 5, False), (1, 3, 20, True)],
)
def test_a_plan_declares_at_most_as_many_contrasts_as_it_can_show(count, tasks, seeds, is_allowed):
    contrasts = [Contrast(a="a", b=f"b{number}") for number in range(count)]
    arms = {"a", *(contrast.b for contrast in contrasts)}
    if is_allowed:
        refuse_invalid_contrasts(contrasts, arms, tasks, seeds)
    else:
        with pytest.raises(UsageError, match="can show at most"):
            refuse_invalid_contrasts(contrasts, arms, tasks, seeds)


@pytest.mark.parametrize(("looks", "possible"), [(1, 3), (2, 1), (4, 0)])
def test_declared_looks_leave_fewer_contrasts(looks, possible):
    contrasts = [Contrast(a="a", b=f"b{number}") for number in range(possible + 1)]
    arms = {"a", *(contrast.b for contrast in contrasts)}
    refuse_invalid_contrasts(contrasts[:possible], arms, 7, 1, looks)
    with pytest.raises(UsageError, match=f"can show at most {possible} after"):
        refuse_invalid_contrasts(contrasts, arms, 7, 1, looks)


def test_contrasts_about_these_tasks_count_seeds_and_need_two():
    contrasts = [Contrast(a="a", b=f"b{number}", estimand="these tasks") for number in range(3)]
    arms = {"a", *(contrast.b for contrast in contrasts)}
    refuse_invalid_contrasts(contrasts, arms, 6, 2)
    with pytest.raises(UsageError, match="'these tasks' needs 2 seeds of each task"):
        refuse_invalid_contrasts(contrasts, arms, 6, 1)


def test_unknown_arms_and_repeated_contrasts_are_refused():
    with pytest.raises(UnknownName, match=r"contrasts\[0\]"):
        refuse_invalid_contrasts([ONE], {"a", "c"}, 9, 1)
    with pytest.raises(UsageError, match="declared twice"):
        refuse_invalid_contrasts([ONE, ONE], {"a", "b"}, 9, 1)
    with pytest.raises(UsageError, match="needs 6 tasks"):
        refuse_invalid_contrasts([Contrast(a="a", b="b", estimand="tasks like these")], {"a", "b"}, 3, 9)


def test_the_digest_depends_on_contrasts_and_looks_and_not_on_the_size_of_the_plan():
    family = Family(contrasts=(ONE,), planned_trials=10)
    assert family.digest == Family(contrasts=(ONE,), planned_trials=20).digest
    assert family.digest != Family(contrasts=(ONE,), planned_trials=10, looks=2).digest
    assert family.digest != Family(contrasts=(Contrast(a="a", b="b", margin=0.1),), planned_trials=10).digest


def test_amounts_on_these_tasks_have_no_smallest_p():
    contrasts = [Contrast(a="a", b=b, metric="total_cost_usd") for b in "bc"]
    refuse_invalid_contrasts(contrasts, {"a", "b", "c"}, task_count=2, seed_count=3)
    assert compute_smallest_p(2, 3, metric="steps") == 0
    assert compute_smallest_p(7, 3, metric="steps") == compute_smallest_p(7, 3) > 0
    with pytest.raises(UsageError, match="can show at most 1 after"):
        refuse_invalid_contrasts([replace(contrast, metric="success") for contrast in contrasts], {"a", "b", "c"}, 2, 3)
