"""Bars for the facts that summaries and other compactions lost."""

import dataclasses
import json

from harness.analysis.arms import summarize_arms
from harness.reporting.lost_facts import (
    COMPACTIONS_HEADING,
    COUNTING,
    MAX_GROUPS,
    SUMMARIES_HEADING,
    build_lost_fact_sections,
)
from tests.analysis.selections import results
from tests.analysis.test_retention import probe


def run(name, summarizer=None, replicate=0, writer=None, **more):
    """Return a trial and, as `writer`, the model that writes the summary of its only compaction."""
    policy = json.dumps({"kind": "keep-last", "summarizer": summarizer} if summarizer else {"kind": "mask"})
    return {"arm": name, "replicate": replicate, "policy_json": policy, "writer": writer or summarizer} | more


def facts(name, kinds, replicate=0, seen_in_kept=False):
    """Return four facts of each kind, of which some are kept."""
    return [
        probe(f"{name}/flashcards/0/{replicate}", fact=f"{kind} {at}", kind=kind, seen_after=at < kept, seen_in_kept=seen_in_kept)
        for kind, kept in kinds.items()
        for at in range(4)
    ]


def describe(trials, probes):
    compactions = [
        {"trial_id": f"{one['arm']}/flashcards/{one.get('seed', 0)}/{one['replicate']}", "event": 1, "status": "applied"}
        | {"summarizer": one.pop("writer") or ""}
        for one in map(dict, trials)
        if "writer" in one
    ]
    trials = [{name: value for name, value in one.items() if name != "writer"} for one in trials]
    tables = results(trials, compactions=compactions, probes=probes)
    sections = list(build_lost_fact_sections(tables, summarize_arms(tables)))
    for section in sections:
        assert section.notes == (COUNTING,)
        assert [f"{100 * share:.0f} %" for share in section.bars] == [row[1] for row in section.rows]
    return {section.heading: [" | ".join(row).removesuffix(" | ") for row in section.rows] for section in sections}


def test_kinds_are_shown_by_their_share_of_lost_facts_and_repeated_arms_are_left_out():
    kinds = {"value": 3, "goal": 1, "progress": 4, "next-step": 2, "error": 3}
    trials = [run("careful", "s"), run("careless", "s"), run("careless again", "s", replicate=1)]
    probes = [*facts("careful", {"value": 4}), *facts("careless", kinds), *facts("careless again", kinds, replicate=1)]
    assert describe(trials, probes) == {
        SUMMARIES_HEADING: [
            '"careful" | 0 % | 4 | 1',
            '"careless" | 35 % | 20 | 1',
            "– goals | 75 % | 4",
            "– next steps | 50 % | 4",
            "– error messages | 25 % | 4",
            "– records of finished work | 0 % | 4",
        ]
    }


def test_arms_are_named_in_the_order_of_the_report_whichever_trial_finished_first():
    trials = [run("base", "extractive"), run("late", "extractive"), run("weak", "empty")]
    probes = [*facts("base", {"goal": 2}), *facts("late", {"goal": 4}), *facts("weak", {"goal": 0})]
    assert describe(trials, probes[::-1]) == describe(trials, probes)


def test_arms_of_one_summarizer_are_taken_together_if_there_are_several():
    trials = [run("base", "extractive"), run("weak", "empty"), run("late", "extractive"), run("again", "extractive", replicate=1)]
    probes = [*facts("base", {"goal": 2}), *facts("late", {"goal": 4}), *facts("weak", {"goal": 0})]
    assert describe(trials, probes) == {
        SUMMARIES_HEADING: ["extractive (base and late together) | 25 % | 8 | 2", "empty | 100 % | 4 | 1"]
    }
    trials += [run(name, "extractive") for name in ("early", "wide")]
    probes += [*facts("early", {"goal": 0}), *facts("wide", {"goal": 4})]
    assert describe(trials, probes) == {
        SUMMARIES_HEADING: ["extractive (4 arms together, without A/A) | 38 % | 16 | 4", "empty | 100 % | 4 | 1"]
    }


def test_a_summary_is_only_blamed_for_facts_that_no_kept_message_shows():
    trials = [run("summary", "s"), run("mask"), run("old", "s")]
    summary = [fact | {"seen_in_kept": at < 2} for at, fact in enumerate(facts("summary", {"goal": 3}))]
    others = [*facts("mask", {"goal": 3}, seen_in_kept=None), *facts("old", {"goal": 0}, seen_in_kept=None)]
    assert describe(trials, [*summary, *others]) == {
        SUMMARIES_HEADING: ['"summary" | 50 % | 2 | 1'],
        COMPACTIONS_HEADING: ["no summarizer | 25 % | 4 | 1", "s | 100 % | 4 | 1"],
    }


def test_an_arm_with_summaries_is_not_described_by_its_trials_without_any():
    trials = [run("a", "s"), run("a", "s") | {"seed": 1}]
    masked = [fact | {"trial_id": "a/flashcards/1/0"} for fact in facts("a", {"goal": 0}, seen_in_kept=None)]
    assert describe(trials, [*facts("a", {"goal": 2}), *masked]) == {SUMMARIES_HEADING: ['"a" | 50 % | 4 | 1']}


def test_the_share_is_that_of_all_facts_and_no_mean_over_kinds():
    values = [fact | {"fact": f"{fact['fact']} {at}"} for at in range(4) for fact in facts("a", {"value": 4})]
    rows = ['"a" | 20 % | 20 | 1', "– goals | 100 % | 4"]
    assert describe([run("a", "s")], [*facts("a", {"goal": 0}), *values]) == {SUMMARIES_HEADING: rows}


def test_kinds_of_facts_that_are_lost_alike_have_no_rows():
    kinds = [(f"{kind} {at}", kind, at < lost) for kind, lost in (("goal", 9), ("value", 10), ("error", 8)) for at in range(10)]
    probes = [
        probe("a/flashcards/0/0", fact=fact, kind=kind, seen_after=not lost, seen_in_kept=False) for fact, kind, lost in kinds
    ]
    shown = ["– values | 100 % | 10", "– goals | 90 % | 10", "– error messages | 80 % | 10"]
    assert describe([run("a", "s")], probes) == {SUMMARIES_HEADING: ['"a" | 90 % | 30 | 1', *shown]}
    alike = [probe for probe in probes if probe["kind"] != "error"]
    assert describe([run("a", "s")], alike) == {SUMMARIES_HEADING: ['"a" | 95 % | 20 | 1']}


def test_only_the_worst_and_the_best_of_many_groups_are_shown():
    names = [f"arm {number}" for number in range(MAX_GROUPS + 1)]
    probes = [fact for number, name in enumerate(names) for fact in facts(name, {"goal": [2, 4, 0, 1, 3][number]})]
    rows = ['"arm 2" | 100 % | 4 | 1', '"arm 1" | 0 % | 4 | 1']
    assert describe([run(name, "s") for name in names], probes) == {SUMMARIES_HEADING: rows}


def test_arms_are_grouped_by_their_actual_summarizer_rather_than_its_name():
    trials = [
        run("base", "same", writer="scripted/extractive"),
        run("named", "scripted/extractive"),
        run("weak", "scripted/empty"),
    ]
    probes = [*facts("base", {"goal": 4}), *facts("named", {"goal": 2}), *facts("weak", {"goal": 0})]
    assert describe(trials, probes) == {
        SUMMARIES_HEADING: ["scripted/extractive (base and named together) | 25 % | 8 | 2", "scripted/empty | 100 % | 4 | 1"]
    }
    models = [run(name, "same", writer=f"model {name}") for name in "ab"]
    probes = [*facts("a", {"goal": 4}), *facts("b", {"goal": 0})]
    assert describe(models, probes) == {SUMMARIES_HEADING: ["model a | 0 % | 4 | 1", "model b | 100 % | 4 | 1"]}


def test_an_arm_that_loops_is_left_out_by_name():
    trials = [run("calm", "s"), run("mad", "s")]
    probes = [*facts("calm", {"goal": 2}), *facts("mad", {"goal": 4})]
    tables = results([one for one in trials if one.pop("writer")], probes=probes)
    looping = tables.trials["doom_loop"].astype(object).mask(tables.trials["arm"] == "mad", "same call")
    tables = dataclasses.replace(tables, trials=tables.trials.assign(doom_loop=looping))
    (section,) = build_lost_fact_sections(tables, summarize_arms(tables))
    assert [row[0] for row in section.rows] == ['"calm"']
    assert section.notes == (f"{COUNTING} Left out: mad, which looped in 1 of 1 trial.",)


def test_lost_facts_are_not_described_without_compactions():
    assert describe([run("a", "s")], []) == {}
