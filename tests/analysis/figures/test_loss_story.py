"""One loss and its consequence: which pair of sessions is chosen, and what its chart and its table say."""

import re
from typing import Any

import pytest
from matplotlib.text import Text

from harness.analysis.figures import loss_story
from harness.analysis.figures.files import write_figures
from harness.analysis.loss_story import find_loss_story
from harness.analysis.tables import Selection, select
from harness.errors import UsageError
from harness.reporting.page.values import encode_story
from tests.analysis.test_figures import make_selection
from tests.reporting.page.experiments import run_losses

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return run_losses(tmp_path_factory.mktemp("losses"))


@pytest.fixture(scope="module")
def story(results):
    return find_loss_story(results)


def test_the_sessions_of_a_story_did_what_the_story_says(results, story):
    lost, kept = (results.trials.set_index("trial_id").loc[side.trial_id] for side in (story.lost, story.kept))
    assert (lost["task"], lost["seed"]) == (kept["task"], kept["seed"]) == (story.task, story.seed)
    assert "lossy" in story.lost.arm
    assert not lost["success"]
    assert kept["success"]
    checks = results.checks.set_index(["trial_id", "title"])["passed"]
    assert not checks[story.lost.trial_id, story.check]
    assert checks[story.kept.trial_id, story.check]
    probes = results.probes.set_index(["trial_id", "round", "fact"])
    loss = probes.loc[(story.lost.trial_id, story.lost.round, story.fact)]
    assert (bool(loss["seen_before"]), bool(loss["seen_after"])) == (True, False)
    assert (loss["used"], loss["used_step"], loss["step"]) == ("wrong", story.lost.use_step, story.lost.round_step)
    hold = probes.loc[(story.kept.trial_id, story.kept.round, story.fact)]
    assert bool(hold["seen_after"])
    assert (hold["used"], hold["used_step"]) == ("right", story.kept.use_step)


def test_the_words_name_the_value_that_was_used_and_the_right_one(story):
    ((wrong, right),) = re.findall(r"^uses (.+) instead of (.+)$", story.lost.use)
    assert wrong != right
    assert story.kept.use == f"uses {right}"
    assert right in story.lost.fate
    assert right in story.kept.fate


def test_the_table_has_the_steps_of_both_sessions_and_the_chart_shows_both_verdicts(results, story):
    table = loss_story.table(results)
    assert list(table.columns) == list(loss_story.COLUMNS)
    assert list(dict.fromkeys(table["trial_id"])) == [story.lost.trial_id, story.kept.trial_id]
    steps = results.steps[results.steps["trial_id"].isin([story.lost.trial_id, story.kept.trial_id])]
    assert len(table) == len(steps)
    for theme in ("light", "dark"):
        figure = loss_story.draw(table, theme=theme)
        texts = " ".join(text.get_text().replace("\n", " ") for text in figure.findobj(Text))
        for words in ("✕ check failed", "● check passed", story.lost.use, story.kept.use, story.lost.fate, "no evidence"):
            assert words in texts
    panel = loss_story.draw(table).axes[0]
    assert loss_story.draw(table, ax=panel) is panel.figure


def test_the_page_has_the_same_steps_and_words(results, story):
    plain: Any = encode_story(results, story)
    table = loss_story.table(results)
    for side, expected in zip(plain["sides"], (story.lost, story.kept), strict=True):
        rows = table[table["trial_id"] == side["trial"]]
        assert (side["trial"], side["fate"], side["use"]) == (expected.trial_id, expected.fate, expected.use)
        assert [step for step, _, _ in side["steps"]] == rows["step"].tolist()
        assert [tokens for _, tokens, _ in side["steps"]] == pytest.approx(rows["view_tokens"].tolist(), rel=1e-5)
        assert sum(before is not None for _, _, before in side["steps"]) == rows["tokens_before"].notna().sum()


def test_a_report_draws_the_story_first_and_another_chart(results, tmp_path):
    names = [path.name for path in write_figures(results, tmp_path)]
    assert names == ["loss_story.png", "cost_score.png"]


def test_there_is_no_story_without_two_arms_or_without_a_journal(results, tmp_path):
    alone = select(results, results.trials[results.trials["arm"] == results.trials["arm"].iloc[0]])
    assert find_loss_story(alone) is None
    tables = {name: getattr(results, name) for name in ("trials", "steps", "compactions", "probes", "checks")}
    without_journal = Selection(**tables)
    assert find_loss_story(without_journal) is None
    selection = make_selection()
    assert loss_story.table(selection).empty
    with pytest.raises(UsageError, match="there is no loss to draw"):
        loss_story.draw(loss_story.table(selection))
    assert [path.name for path in write_figures(selection, tmp_path)] == ["cost_score.png"]
