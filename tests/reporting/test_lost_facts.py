"""Sentences on the facts that summaries and other compactions lost."""

import dataclasses
import json

from harness.analysis.arms import summarize_arms
from harness.reporting.lost_facts import MAX_GROUPS, describe_lost_facts
from tests.analysis.selections import results
from tests.analysis.test_retention import probe

SUMMARIES = "Lost by summaries: "
COMPACTIONS = "Lost by compactions: "
ONLY_SUMMARIZED = "facts found only in replaced messages"
COUNTING = " A fact that survives a compaction counts again at the next, so these are shares per compaction."


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
    sentences = list(describe_lost_facts(tables, summarize_arms(tables)))
    assert all(sentence.endswith(COUNTING) for sentence in sentences)
    return [sentence.removesuffix(COUNTING) for sentence in sentences]


def test_kinds_are_named_by_their_share_of_lost_facts_and_repeated_arms_are_left_out():
    kinds = {"value": 3, "goal": 1, "progress": 4, "next-step": 2, "error": 3}
    trials = [run("careful", "s"), run("careless", "s"), run("careless again", "s", replicate=1)]
    probes = [*facts("careful", {"value": 4}), *facts("careless", kinds), *facts("careless again", kinds, replicate=1)]
    lost = "(most: 75 % of goals, 50 % of next steps, 25 % of error messages; least: 0 % of records of finished work)"
    careless = f'"careless" lost 35 % of 20, in 1 compaction {lost}'
    assert describe(trials, probes) == [f'{SUMMARIES}"careful" lost 0 % of 4 {ONLY_SUMMARIZED}, in 1 compaction; {careless}.']


def test_arms_are_named_in_the_order_of_the_report_whichever_trial_finished_first():
    trials = [run("base", "extractive"), run("late", "extractive"), run("weak", "empty")]
    probes = [*facts("base", {"goal": 2}), *facts("late", {"goal": 4}), *facts("weak", {"goal": 0})]
    assert describe(trials, probes[::-1]) == describe(trials, probes)


def test_arms_of_one_summarizer_are_taken_together_if_there_are_several():
    trials = [run("base", "extractive"), run("weak", "empty"), run("late", "extractive"), run("again", "extractive", replicate=1)]
    probes = [*facts("base", {"goal": 2}), *facts("late", {"goal": 4}), *facts("weak", {"goal": 0})]
    extractive = f"extractive (base and late together) lost 25 % of 8 {ONLY_SUMMARIZED}, in 2 compactions (25 % of goals)"
    assert describe(trials, probes) == [f"{SUMMARIES}{extractive}; empty lost 100 % of 4, in 1 compaction (100 % of goals)."]
    trials += [run(name, "extractive") for name in ("early", "wide")]
    probes += [*facts("early", {"goal": 0}), *facts("wide", {"goal": 4})]
    extractive = f"extractive (4 arms together, without A/A) lost 38 % of 16 {ONLY_SUMMARIZED}, in 4 compactions (38 % of goals)"
    assert describe(trials, probes) == [f"{SUMMARIES}{extractive}; empty lost 100 % of 4, in 1 compaction (100 % of goals)."]


def test_a_summary_is_only_blamed_for_facts_that_no_kept_message_shows():
    trials = [run("summary", "s"), run("mask"), run("old", "s")]
    summary = [fact | {"seen_in_kept": at < 2} for at, fact in enumerate(facts("summary", {"goal": 3}))]
    others = [*facts("mask", {"goal": 3}, seen_in_kept=None), *facts("old", {"goal": 0}, seen_in_kept=None)]
    assert describe(trials, [*summary, *others]) == [
        f'{SUMMARIES}"summary" lost 50 % of 2 {ONLY_SUMMARIZED}, in 1 compaction (50 % of goals).',
        (
            f"{COMPACTIONS}no summarizer lost 25 % of 4 facts in view, in 1 compaction (25 % of goals); s lost 100 % of 4, in 1 "
            "compaction (100 % of goals)."
        ),
    ]


def test_an_arm_with_summaries_is_not_described_by_its_trials_without_any():
    trials = [run("a", "s"), run("a", "s") | {"seed": 1}]
    masked = [fact | {"trial_id": "a/flashcards/1/0"} for fact in facts("a", {"goal": 0}, seen_in_kept=None)]
    probes = [*facts("a", {"goal": 2}), *masked]
    assert describe(trials, probes) == [f'{SUMMARIES}"a" lost 50 % of 4 {ONLY_SUMMARIZED}, in 1 compaction (50 % of goals).']


def test_the_share_is_that_of_all_facts_and_no_mean_over_kinds():
    probes = [
        *facts("a", {"goal": 0}),
        *[fact | {"fact": f"{fact['fact']} {at}"} for at in range(4) for fact in facts("a", {"value": 4})],
    ]
    assert describe([run("a", "s")], probes) == [
        f'{SUMMARIES}"a" lost 20 % of 20 {ONLY_SUMMARIZED}, in 1 compaction (100 % of goals).'
    ]


def test_only_the_range_is_stated_for_kinds_of_facts_that_are_lost_alike():
    kinds = [(f"{kind} {at}", kind, at < lost) for kind, lost in (("goal", 9), ("value", 10), ("error", 8)) for at in range(10)]
    probes = [
        probe("a/flashcards/0/0", fact=fact, kind=kind, seen_after=not lost, seen_in_kept=False) for fact, kind, lost in kinds
    ]
    assert describe([run("a", "s")], probes) == [
        (
            f'{SUMMARIES}"a" lost 90 % of 30 {ONLY_SUMMARIZED}, in 1 compaction (100 % of values, 90 % of goals, 80 % of error '
            "messages)."
        )
    ]
    equal = [probe | {"seen_after": False} for probe in probes]
    assert describe([run("a", "s")], equal) == [
        f'{SUMMARIES}"a" lost 100 % of 30 {ONLY_SUMMARIZED}, in 1 compaction (of each kind).'
    ]
    alike = [probe for probe in probes if probe["kind"] != "error"]
    assert describe([run("a", "s")], alike) == [
        f'{SUMMARIES}"a" lost 95 % of 20 {ONLY_SUMMARIZED}, in 1 compaction (90 % to 100 %, depending on the kind).'
    ]


def test_only_the_worst_and_the_best_of_many_groups_are_named():
    names = [f"arm {number}" for number in range(MAX_GROUPS + 1)]
    probes = [fact for number, name in enumerate(names) for fact in facts(name, {"goal": [2, 4, 0, 1, 3][number]})]
    (sentence,) = describe([run(name, "s") for name in names], probes)
    assert (
        sentence
        == f'{SUMMARIES}"arm 2" lost 100 % of 4 {ONLY_SUMMARIZED}, in 1 compaction (100 % of goals); "arm 1" lost 0 % of 4, in 1 '
        "compaction (0 % of goals)."
    )


def test_arms_are_grouped_by_their_actual_summarizer_rather_than_its_name():
    trials = [
        run("base", "same", writer="scripted/extractive"),
        run("named", "scripted/extractive"),
        run("weak", "scripted/empty"),
    ]
    probes = [*facts("base", {"goal": 4}), *facts("named", {"goal": 2}), *facts("weak", {"goal": 0})]
    assert describe(trials, probes) == [
        (
            f"{SUMMARIES}scripted/extractive (base and named together) lost 25 % of 8 {ONLY_SUMMARIZED}, in 2 compactions (25 % "
            "of goals); scripted/empty lost 100 % of 4, in 1 compaction (100 % of goals)."
        )
    ]
    models = [run(name, "same", writer=f"model {name}") for name in "ab"]
    probes = [*facts("a", {"goal": 4}), *facts("b", {"goal": 0})]
    assert describe(models, probes) == [
        (
            f"{SUMMARIES}model a lost 0 % of 4 {ONLY_SUMMARIZED}, in 1 compaction (0 % of goals); model b lost 100 % of 4, in 1 "
            "compaction (100 % of goals)."
        )
    ]


def test_an_arm_that_loops_is_left_out_by_name():
    trials = [run("calm", "s"), run("mad", "s")]
    probes = [*facts("calm", {"goal": 2}), *facts("mad", {"goal": 4})]
    tables = results([one for one in trials if one.pop("writer")], probes=probes)
    looping = tables.trials["doom_loop"].astype(object).mask(tables.trials["arm"] == "mad", "same call")
    tables = dataclasses.replace(tables, trials=tables.trials.assign(doom_loop=looping))
    (sentence,) = describe_lost_facts(tables, summarize_arms(tables))
    assert sentence == (
        f'{SUMMARIES}"calm" lost 50 % of 4 {ONLY_SUMMARIZED}, in 1 compaction (50 % of goals).{COUNTING} Left out: mad, which '
        "looped in 1 of 1 trial."
    )


def test_lost_facts_are_not_described_without_compactions():
    assert describe([run("a", "s")], []) == []
