"""Chart of the survival of facts: the table and the drawing."""

from dataclasses import replace

import pytest

from harness.analysis.figures import style
from harness.analysis.figures.retention import COLUMNS, draw, select_round, table
from harness.errors import UsageError
from tests.analysis.selections import frame, grid, results
from tests.analysis.test_retention import probe


def make_selection(kinds=("constraint", "value"), arms=("a", "b")):
    probes = [
        probe(f"{arm}/flashcards/0/0", fact=f"{kind} {number}", kind=kind, event=event, seen_after=event < number + 1)
        for arm in arms
        for kind in kinds
        for number in range(3)
        for event in range(1, number + 2)
    ]
    return results([{"arm": arm} for arm in arms], probes=probes)


def test_each_kind_and_arm_has_a_curve_that_begins_with_all():
    curves = table(make_selection())
    assert list(curves.columns) == list(COLUMNS)
    begin = curves[curves["rounds"] == 0]
    assert begin[["kind", "group", "alive", "at_risk"]].to_numpy().tolist() == [
        [kind, arm, 1.0, 3] for kind in ("constraint", "value") for arm in ("a", "b")
    ]
    one = curves[(curves["kind"] == "value") & (curves["group"] == "b")]
    assert one["rounds"].tolist() == [0, 1, 2, 3]
    assert one["alive"].tolist() == pytest.approx([1, 2 / 3, 1 / 3, 0])
    assert one["cliff_round"].tolist() == [2] * 4


def test_a_curve_that_stays_at_a_half_or_above_has_no_cliff():
    curves = table(results([{}], probes=[probe(fact="a"), probe(fact="b", seen_after=False)]))
    assert curves["alive"].tolist() == [1, 0.5]
    assert curves["cliff_round"].isna().all()


def test_a_large_grid_is_drawn_by_its_named_axis():
    whole = grid()
    probes = [probe(trial_id, fact=f"f{seed}") for seed, trial_id in enumerate(whole.trials["trial_id"])]
    curves = table(replace(whole, probes=frame("probes", probes)))
    assert set(curves["group"]) == {f"summarizer scripted/{name}" for name in ("oracle", "extractive", "empty")}
    counted = whole.trials[~whole.trials["arm"].isin(["no compaction", "A/A"])]
    assert curves.loc[curves["rounds"] == 0, "at_risk"].sum() == len(counted)
    texts = " ".join(text.get_text() for text in draw(curves).texts)
    assert "not shown: no compaction, A/A" in " ".join(texts.split())


@pytest.mark.slow
def test_every_panel_names_its_kind_its_n_and_its_units():
    figure = draw(table(make_selection(kinds=("constraint", "value", "artifact", "error", "progress"))))
    first, third, *curves = [ax for ax in figure.axes if ax.get_visible()]
    assert first.get_title(loc="left") == "in view after 1 compaction (% of values)"
    assert third.get_title(loc="left") == "in view after 3 compactions (% of values)"
    assert [ax.get_title(loc="left") for ax in curves] == [
        f"{kind} (n = 6)" for kind in ("constraint", "artifact", "value", "error", "progress")
    ]
    assert {ax.get_xlabel() for ax in curves} <= {"", "compactions (count)"}
    assert {ax.get_ylabel() for ax in curves} == {"", "in view (share)"}
    assert style.render(figure) == style.render(figure)


def test_a_single_kind_of_fact_can_be_drawn_into_given_axes():
    figure = style.make_figure(4, 3)
    ax = figure.subplots()
    assert draw(table(make_selection()), ax) is figure
    assert ax.get_ylabel() == "in view (share of values)"


@pytest.mark.slow
def test_the_chart_begins_with_the_shares_of_each_arm_and_kind_after_one_and_three_compactions():
    curves = table(make_selection())
    shares = select_round(curves, 1).set_index(["kind", "group"])["alive"]
    assert shares.to_dict() == pytest.approx({(kind, arm): 2 / 3 for kind in ("constraint", "value") for arm in ("a", "b")})
    assert set(select_round(curves, 3)["alive"]) == {0.0}
    first, third, *_ = draw(curves).axes
    assert [text.get_text() for text in first.texts].count("67") == 4
    assert [text.get_text() for text in third.texts].count("0") == 4


def test_a_share_that_no_session_reached_is_unknown_and_a_kept_one_has_an_interval():
    curves = table(results([{}], probes=[probe(fact="a"), probe(fact="b")]))
    (once,) = select_round(curves, 1).itertuples()
    assert (once.alive, once.high) == (1.0, 1.0)
    assert once.low < 0.5  # one session says little
    assert select_round(curves, 3).empty
    assert [text.get_text() for text in draw(curves).axes[1].texts].count("–") == 1


def test_a_chart_without_probed_facts_is_refused():
    assert table(results([{}])).empty
    with pytest.raises(UsageError, match="no fact was probed"):
        draw(table(results([{}])))
