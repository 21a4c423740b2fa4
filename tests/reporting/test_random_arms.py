"""Arms that a gateway draws at random: what the report of its journal claims, and the marks of the user."""

import json
from itertools import islice
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import cast

import numpy as np
import pandas as pd
import pytest

from harness.analysis.formatting import format_usd
from harness.analysis.random_arms import SUCCESS, compare_random_arms, read_arms
from harness.analysis.rule_costs import price_trials
from harness.analysis.tables import Tables
from harness.errors import StoreError, UsageError
from harness.gateway.recorder import Arm, SessionRecorder, draw_arms
from harness.inspection.loading import load
from harness.policies import policy_from_plain
from harness.reporting.random_arms import build_random_arm_sections
from harness.store.journal import Journal
from tests.cli.command import within
from tests.gateway.test_recorder import Agent, make_keep_last
from tests.reporting.page.experiments import write_experiment
from tests.store.samples import begun, opening, trial

pytestmark = pytest.mark.slow

NONE = policy_from_plain({"kind": "none"})
WORDS_OF_AN_OUTPUT = 1_000


def record(journal: Path, arms: dict[str, object], seed: int, *, sessions: int = 16, steps: int | None = None) -> dict[str, str]:
    """Record sessions of agents with tasks of random length; return the arm of each session."""
    random, drawn = Random(f"lengths {seed}"), dict[str, str]()
    lines = list[str]()
    policies = [Arm(name=name, policy=policy) for name, policy in arms.items()]  # type: ignore[arg-type]
    recorder = SessionRecorder(policies, journal=journal, window_tokens=20_000, seed=seed, report=lines.append)
    for number in range(sessions):
        agent = Agent(recorder, f"Task {number}")
        for step in range(steps or random.randint(1, 4)):
            assert "messages" in agent.ask()
            prompt_tokens = sum(len(str(raw)) for raw in agent.sent) // 4
            call = agent.receive(f"Step {step}.", prompt_tokens=prompt_tokens)["tool_calls"][0]
            content = "word " * (WORDS_OF_AN_OUTPUT if steps else random.randint(1, 300))
            agent.history.append({"role": "tool", "tool_call_id": call["id"], "content": content})
    recorder.close()
    for line in lines:
        if ", arm " in line:
            session_id, _, rest = line.removeprefix("session ").partition(", arm ")
            drawn[session_id] = rest.partition(":")[0]
    assert len(drawn) == sessions
    return drawn


def redraw(trials: pd.DataFrame, names: list[str], seed: int) -> pd.DataFrame:
    """Assign the sessions of a journal to arms as a gateway with another seed would have done."""
    ordered = trials.sort_values("number")
    drawn = islice(draw_arms(names, seed), len(ordered))
    configurations = [json.dumps({"gateway": {"arm": arm, "arms": names}}) for arm in drawn]
    return ordered.assign(config_json=configurations)


def test_two_arms_with_one_policy_are_claimed_to_differ_in_at_most_five_percent_of_assignments(tmp_path: Path) -> None:
    journal, marks, names = tmp_path / "gateway.sqlite", Random(5), ["one", "same"]
    for session_id in record(journal, dict.fromkeys(names, NONE), 0, sessions=30):
        with Journal.open(journal) as opened:
            opened.mark_session(session_id, marks.choice((True, True, False, None)))
    trials = load(journal).trials
    trials = trials.assign(number=trials["config_json"].map(lambda text: json.loads(text)["gateway"]["number"]))
    assert read_arms(redraw(trials, names, 0)).tolist() == read_arms(trials.sort_values("number")).tolist()
    runs = 80
    claims = sum(any(row.is_claimed for row in compare_random_arms(redraw(trials, names, seed))) for seed in range(runs))
    assert claims / runs <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / runs), claims


def test_the_report_finds_a_planted_difference_in_marks_and_prompts(tmp_path: Path) -> None:
    journal = tmp_path / "gateway.sqlite"
    drawn = record(journal, {"whole": NONE, "short": make_keep_last()}, 3, sessions=24, steps=8)
    short = [session_id for session_id, arm in drawn.items() if arm == "short"]
    for mark, names in (("failure", short), ("success", [name for name in drawn if name not in short])):
        shown = within("sessions", "mark", mark, *names, "--in", journal)
        assert shown.exit_code == 0, shown.output
    rows = {row.metric: row for row in compare_random_arms(load(journal).trials)}
    assert rows[SUCCESS].is_claimed
    assert (rows[SUCCESS].mean, rows[SUCCESS].baseline_mean) == (0.0, 1.0)
    assert -1 <= rows[SUCCESS].low < rows[SUCCESS].high < -0.5
    assert rows["prompt_tokens"].is_claimed
    assert rows["prompt_tokens"].high < 0
    assert rows["steps"].p == 1.0
    text = within("report", journal).output
    assert "short against whole" in text
    assert f"Success: as marked by the user, in {24 - len(short)} of {24 - len(short)} (whole), {len(short)} of" in text


def test_the_cost_of_the_arms_stands_under_each_rule_and_an_arm_without_steps_has_none(tmp_path: Path) -> None:
    journal = tmp_path / "gateway.sqlite"
    record(journal, {"whole": NONE, "short": make_keep_last()}, 3, sessions=8, steps=8)
    results = load(journal)
    trials = results.trials.assign(model="scripted/flashcards")
    tables = cast("Tables", SimpleNamespace(trials=trials, steps=results.steps))
    _, costs = build_random_arm_sections(tables)
    assert costs.columns == ("arm", "anthropic-2025-09", "anthropic-2026-10", "no cache")
    means = price_trials(tables).groupby(read_arms(trials).set_axis(trials["trial_id"])).mean()
    assert {row[0]: row[1:] for row in costs.rows} == {arm: tuple(map(format_usd, means.loc[arm])) for arm in ("whole", "short")}
    failed = trials.loc[read_arms(trials) == "short", "trial_id"]
    steps = results.steps[~results.steps["trial_id"].isin(failed)]
    _, costs = build_random_arm_sections(cast("Tables", SimpleNamespace(trials=trials, steps=steps)))
    assert {row[0]: set(row[1:]) == {"?"} for row in costs.rows} == {"whole": False, "short": True}


def test_the_arms_of_several_journals_are_pooled(tmp_path: Path) -> None:
    arms = {"whole": NONE, "short": make_keep_last()}
    journals = [tmp_path / f"week-{number}.sqlite" for number in range(2)]
    for number, journal in enumerate(journals):
        record(journal, arms, number, sessions=6, steps=2)
    shown = within("report", *journals)
    assert shown.exit_code == 0, shown.output
    assert "Report on 12 sessions outside of experiments" in shown.output
    assert "short against whole" in shown.output
    assert "Not ended by the agent's own answer, and counted like the others: " in " ".join(shown.output.split())
    assert (tmp_path / "week-0-and-1-more-report" / "report.txt").is_file()
    pooled = {row.metric: row for row in compare_random_arms(load(journals).trials)}
    assert pooled["steps"].sessions + pooled["steps"].baseline_sessions == 12
    by_folder = within("report", tmp_path)
    assert "Report on 12 sessions outside of experiments" in by_folder.output


def test_journals_that_cannot_be_pooled_are_refused_in_words(tmp_path: Path) -> None:
    first, second, plain = (tmp_path / f"{name}.sqlite" for name in ("first", "second", "plain"))
    record(first, {"one": NONE, "same": NONE}, 0, sessions=4, steps=1)
    record(second, {"one": NONE, "short": make_keep_last()}, 0, sessions=4, steps=1)
    recorder = SessionRecorder([Arm(name="none", policy=NONE)], journal=plain, window_tokens=20_000)
    Agent(recorder).finish()
    recorder.close()
    refused = within("report", first, second)
    assert refused.exit_code != 0
    assert f"did not draw among the same arms ({first}: one, same; {second}: one, short)" in refused.stderr
    assert f"{plain}: no arm was drawn" in within("report", first, plain).stderr
    assert within("report", plain, plain).exit_code == 0
    experiment = tmp_path / "experiment"
    write_experiment(experiment)
    assert f"{str(experiment)!r} is an experiment, and only journals are" in within("report", first, experiment).stderr
    with pytest.raises(UsageError, match=r"the sessions drew among different arms \(one, same; one, short\)"):
        compare_random_arms(load([first, second]).trials)
    by_folder = " ".join(within("report", tmp_path / "first.sqlite").output.split())
    assert "the two kinds are never compared" not in by_folder
    folder = tmp_path / "journals"
    folder.mkdir()
    for path in (first, second):
        path.rename(folder / path.name)
    assert "the two kinds are never compared" in " ".join(within("report", folder).output.split())


def test_a_mark_can_be_changed_listed_and_removed_and_changes_the_report(tmp_path: Path) -> None:
    journal = tmp_path / "gateway.sqlite"
    first, second, *_ = record(journal, {"one": NONE, "same": NONE}, 1, sessions=6, steps=1)
    assert "No session is marked" in within("report", journal).output
    assert f"{first}: marked success" in within("sessions", "mark", "success", first, "--in", journal).output
    within("sessions", "mark", "success", second, "--in", journal)
    within("sessions", "mark", "failure", second, "--in", journal)
    listed = within("sessions", "list", journal).output
    assert listed.count("marked success") == listed.count("marked failure") == 1
    assert "sessions without a mark do not count" in within("report", journal).output
    marks = load(journal).trials.set_index("session_id")["marked_success"]
    assert (marks[first], marks[second], marks.notna().sum()) == (True, False, 2)
    for name in (first, second):
        assert f"{name}: no mark" in within("sessions", "mark", "none", name, "--in", journal).output
    assert "No session is marked" in within("report", journal).output


def test_a_session_that_cannot_be_marked_is_named(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "trials.sqlite") as journal:
        begun(journal, "first", created_at_ms=1).append(opening("first"))
        journal.record_trial(trial("t", "first"))
        with pytest.raises(UsageError, match="session 'first' belongs to a trial, whose checks say how it ended"):
            journal.mark_session("first", True)
        with pytest.raises(StoreError, match="has no session 'second'"):
            journal.mark_session("second", True)
    shown = within("sessions", "mark", "maybe", "first", "--in", tmp_path / "trials.sqlite")
    assert shown.exit_code == 2
    assert "success" in shown.output
