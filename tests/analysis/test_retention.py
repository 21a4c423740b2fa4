"""Retention and survival of facts, kind by kind."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp
from statsmodels.duration.survfunc import SurvfuncRight

from harness.analysis.retention import estimate_survival, find_cliff_round, measure_lifetimes, measure_retention
from tests.analysis.selections import frame, results


def probe(trial_id="a/flashcards/0/0", fact="port", kind="constraint", event=1, **more):
    plain = {"session_id": trial_id, "version": 1, "seen_before": True, "seen_after": True, "used": None}
    return {"trial_id": trial_id, "fact": fact, "kind": kind, "event": event, **plain, **more}


def lives(*rows):
    return measure_lifetimes(frame("probes", rows))[["fact", "version", "rounds", "lost"]].to_numpy().tolist()


def test_kinds_stand_apart_and_only_facts_in_view_before_count():
    kept = results(
        [{}],
        probes=[
            probe(),
            probe(fact="name", seen_after=False),
            probe(fact="gone", seen_before=False),
            probe(fact="table", kind="artifact", seen_after=False),
        ],
    )
    retention = measure_retention(kept)
    assert [(row.kind, row.kept.successes, row.kept.trials) for row in retention.itertuples()] == [
        ("constraint", 1, 2),
        ("artifact", 0, 1),
    ]


def test_facts_of_one_session_are_no_independent_evidence_of_what_is_kept():
    shares = [0.2, 0.5, 0.9, 0.4, 0.7, 0.6]
    trials = [{"trial_id": f"trial {task}", "task": f"t{task}"} for task in range(6)]
    probes = [
        probe(f"trial {task}", fact=f"f{number}", seen_after=number < 10 * share)
        for task, share in enumerate(shares)
        for number in range(10)
    ]
    for copies in (1, 5):  # more facts that are lost together say nothing more
        facts = [probe | {"event": copy} for probe in probes for copy in range(copies)]
        (row,) = measure_retention(results(trials, probes=facts)).itertuples()
        half = ttest_1samp(shares, 0).confidence_interval(0.95).high - 0.55
        assert (row.kept.share, row.kept.low, row.kept.high) == pytest.approx((0.55, 0.55 - half, 0.55 + half))
        assert (row.kept.successes, row.kept.trials) == (33 * copies, 60 * copies)


def test_values_that_stand_in_other_words_are_counted_among_those_that_cannot_be_read():
    rows = [
        probe(stands_after=True),
        probe(fact="b", seen_after=False, stands_after=True),
        probe(fact="c", seen_after=False, stands_after=False),
        probe(fact="short", seen_after=False),
    ]
    (retention,) = measure_retention(results([{}], probes=rows)).itertuples()
    assert (retention.unread.successes, retention.unread.trials) == (1, 2)


def test_a_summary_is_measured_by_the_facts_that_it_alone_could_keep():
    rows = [
        probe(seen_in_kept=True),
        probe(fact="b", seen_in_kept=False),
        probe(fact="c", seen_in_kept=False, seen_after=False),
        probe(fact="d", seen_in_kept=False, seen_after=False),
        probe(fact="gone", seen_in_kept=False, seen_before=False),
        probe(fact="no summary"),
        probe(fact="no summary", kind="value"),
    ]
    constraint, value = measure_retention(results([{}], probes=rows)).itertuples()
    assert (constraint.summarized.successes, constraint.summarized.trials) == (1, 3)
    assert constraint.summarized.share == pytest.approx(1 / 3)
    assert value.summarized.trials == 0


def test_uses_of_kept_and_of_lost_facts_are_counted_apart():
    rows = [
        probe(used="right"),
        probe(fact="b", used="wrong"),
        probe(fact="c"),
        probe(fact="d", seen_after=False, used="stale"),
        probe(fact="e", seen_after=False, used="right"),
        probe(fact="f", seen_after=False, used="wrong"),
    ]
    (row,) = measure_retention(results([{}], probes=rows)).itertuples()
    assert (row.used_kept.successes, row.used_kept.trials) == (1, 2)
    assert (row.used_lost.successes, row.used_lost.trials) == (1, 3)


def test_trials_that_do_not_count_are_left_out():
    assert measure_retention(results([{"status": "crashed"}], probes=[probe()])).empty


def test_a_value_lives_until_the_first_compaction_that_loses_it():
    rows = [probe(event=1), probe(event=5, seen_after=False), probe(event=9)]
    assert lives(*rows) == [["port", 1, 2, True]]


def test_a_value_that_a_newer_one_replaces_is_censored_and_the_newer_begins_anew():
    rows = [probe(event=1), probe(event=5), probe(event=9, version=2, seen_after=False)]
    assert lives(*rows) == [["port", 1, 2, False], ["port", 2, 1, True]]


def test_rounds_count_from_the_telling_of_a_value():
    rows = [probe(event=1), probe(event=5), probe(fact="late", event=5, seen_after=False)]
    assert lives(*rows) == [["late", 1, 1, True], ["port", 1, 2, False]]


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=40))
def test_the_curve_is_the_product_of_what_survives_each_round(ends):
    rows = [
        probe(f"session {number % 3}", fact=f"f{number}", event=event, seen_after=not (lost and event == rounds))
        for number, (rounds, lost) in enumerate(ends)
        for event in range(1, rounds + 1)
    ]
    curve = estimate_survival(measure_lifetimes(frame("probes", rows)))
    alive = 1.0
    for row in curve.iloc[1:].itertuples():
        at_risk = sum(rounds >= row.rounds for rounds, _ in ends)
        gone = sum(lost and rounds == row.rounds for rounds, lost in ends)
        alive *= 1 - gone / at_risk
        assert (row.at_risk, row.lost) == (at_risk, gone)
        assert row.alive == pytest.approx(alive)
    known = curve.dropna(subset=["low", "high"])
    assert len(ends) == 1 or len(known) == len(curve)
    assert (known["low"] <= known["alive"] + 1e-12).all()
    assert (known["alive"] <= known["high"] + 1e-12).all()


def test_facts_that_are_lost_together_do_not_make_an_interval_narrower():
    def rows(copies):
        return [
            probe(f"session {number}", fact=f"f{copy}", event=event, seen_after=event <= number)
            for number in range(5)
            for copy in range(copies)
            for event in range(1, number + 2)
        ]

    once, often = (estimate_survival(measure_lifetimes(frame("probes", rows(copies)))) for copies in (1, 20))
    assert often["alive"].tolist() == pytest.approx(once["alive"].tolist())
    assert often[["low", "high"]].to_numpy() == pytest.approx(once[["low", "high"]].to_numpy())
    assert once["sessions_at_risk"].tolist() == often["sessions_at_risk"].tolist() == [5, 5, 4, 3, 2, 1]


def test_a_survival_curve_of_one_session_has_no_interval():
    curve = estimate_survival(measure_lifetimes(frame("probes", [probe(fact="a"), probe(fact="b", seen_after=False)])))
    assert curve["alive"].tolist() == [1, 0.5]
    assert curve["low"].isna().tolist() == [False, True]


def test_the_cliff_is_the_first_round_with_fewer_than_half_alive():
    half = [probe(fact="a"), probe(fact="b", seen_after=False)]
    assert find_cliff_round(estimate_survival(measure_lifetimes(frame("probes", half)))) is None
    third = [*half, probe(fact="c", seen_after=False)]
    assert find_cliff_round(estimate_survival(measure_lifetimes(frame("probes", third)))) == 1


@given(st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=2, max_size=30))
def test_curves_agree_with_statsmodels(values):
    rows = pd.DataFrame(values, columns=["rounds", "lost"]).assign(trial_id=[str(place // 2) for place in range(len(values))])
    expected = SurvfuncRight(rows["rounds"].to_numpy(), rows["lost"].to_numpy().astype(int))
    survival = estimate_survival(rows).set_index("rounds")
    assert survival.loc[list(expected.surv_times), "alive"].tolist() == pytest.approx(list(expected.surv_prob))
    assert survival.loc[list(expected.surv_times), "at_risk"].tolist() == list(expected.n_risk)
