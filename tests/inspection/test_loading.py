"""Tests of results loaded from journals: sessions of people, trials, sub-agents, forks, recordings and running sessions."""

import json
import shutil
import sqlite3
from collections.abc import Set as AbstractSet
from pathlib import Path

import pandas as pd
import pytest

import harness
from harness.analysis.alerts import evaluate_alerts
from harness.analysis.figures import FIGURES, FIGURES_WITHOUT_OUTCOMES
from harness.compaction.presets.keep_last import KeepLast
from harness.conversation.events import MISSED_TARGET, Compaction
from harness.errors import StoreError, UsageError
from harness.experiment.job import Job, collect_provenance
from harness.experiment.run_trial import run_trial
from harness.experiment.trial import Trial
from harness.inspection.import_export import export_session, import_session
from harness.inspection.timeline import inspect_session
from harness.reporting.treatments import describe_missed_targets
from harness.sandboxes.backends import SandboxChoice
from harness.session.execution import execute_session
from harness.session.live_session import LiveSession
from harness.store.columns import TABLES, TRIAL_ONLY_COLUMNS
from harness.store.database import locate_log
from harness.store.journal import Journal
from harness.store.results import load_experiment
from harness.store.sessions.lookup import JOURNAL_FILE, SessionLocation
from tests.cli.command import LOCAL, TINY
from tests.cli.command import harness as run_command
from tests.experiment.exploring_task import hidden
from tests.recordings.outline import FIXTURES
from tests.session.test_execution import session

SECONDS = 300
COMPACTING = KeepLast(threshold=0.3, keep_last=2, summarizer="scripted/oracle")
IN_THE_LOG_ONLY = {
    *("arm", "trial_id", "config_json", "axes_json", "provenance_json", "harness_version", "revisions"),
    *("started_at", "wall_seconds", "max_steps"),
}
"""Columns of trials that name or time a trial, and have another value for the same session outside of its experiment."""
OF_THE_TASK = {"task", "fact_uses", "wrong_uses", "stale_uses", "constraint_violations"}
"""Columns of trials that need the task, which the log of a trial does not contain."""


def run_live(journal: Path, *messages: str, **changes) -> str:
    """Run a live session with the scripted model to its end, and return its id."""
    live = LiveSession(session(journal=journal, **changes)).start()
    live.wait(SECONDS)
    for message in messages:
        live.send(message)
        live.wait(SECONDS)
    live.close()
    return live.session_id


@pytest.fixture
def lived(tmp_path):
    """Path of a journal with one live session of three turns that was compacted."""
    path = tmp_path / "mine.sqlite"
    run_live(path, "And now?", "Anything else?", policy=COMPACTING, window_tokens=16_000)
    return path


@pytest.fixture(scope="module")
def trial_output(tmp_path_factory):
    """Output folder of two trials, each still in a journal of its own."""
    output = tmp_path_factory.mktemp("trials")
    for seed in (0, 1):
        trial = Trial(task=TINY, policy=COMPACTING, window_tokens=16_000, seed=seed, sandbox=SandboxChoice(backend="local"))
        job = Job(
            trial=trial,
            trial_id=trial.trial_id,
            experiment="e",
            arm="an arm",
            axes={"seed": seed},
            backend="local",
            unsafe_local=True,
            provenance=collect_provenance("prices-1"),
            journal=output / "journals" / f"{trial.trial_id}.sqlite",
        )
        assert run_trial(job).record.compactions
    return output


def assert_same_rows(one: pd.DataFrame, other: pd.DataFrame, without: AbstractSet[str] = frozenset()) -> None:
    columns = [name for name in one.columns if name not in without]
    pd.testing.assert_frame_equal(one[columns].reset_index(drop=True), other[columns].reset_index(drop=True), check_dtype=False)


def test_a_live_session_has_the_numbers_that_its_inspection_shows(lived):
    results = harness.load(lived)
    (row,) = results.trials.itertuples()
    with Journal.open(lived, read_only=True) as journal:
        shown = inspect_session(journal.read_entries(row.session_id))
    assert (row.turns, row.steps, row.compactions, row.messages) == (
        shown.turns, shown.totals.steps, shown.totals.compactions, shown.messages
    )  # fmt: skip
    assert row.turns == 4  # the task of the session sends a message itself
    assert row.compactions > 0
    assert 0 < row.freed_share < 1
    assert row.duplicate_calls >= 0
    assert (row.cost_usd, row.summarizer_cost_usd) == (shown.totals.cost_usd, shown.totals.summarizer_cost_usd)
    assert (row.trial_id, row.task, row.level, row.status, row.policy) == (row.session_id, "tiny", "L0", "completed", "keep-last")
    assert row.arm == (
        "keep-last(threshold=0.3, keep_last=2, summarizer=scripted/oracle), scripted/tiny:attentive, 16,000 tokens"
    )
    assert set(results.steps["trial_id"]) == set(results.compactions["trial_id"]) == {row.session_id}
    assert len(results.steps) == row.steps
    assert set(results.probes["fact"]) == {"port"}
    assert repr(results).startswith("Results(")
    assert "1 session" in repr(results)
    assert "1 session" in results._repr_html_()


@pytest.mark.slow
def test_columns_that_do_not_apply_to_a_session_have_no_value_and_say_so(lived):
    results = harness.load(lived)
    assert {name for name in results.trials if results.trials[name].isna().all()} >= TRIAL_ONLY_COLUMNS
    for column in TABLES["trials"]:
        if column.name in TRIAL_ONLY_COLUMNS:
            assert "missing for a session outside of trials" in column.description
    assert results.sql("SELECT count(*) AS n FROM trials WHERE success IS NULL")["n"].item() == 1
    assert results.axes.columns.tolist() == ["trial_id"]
    assert results.checks.empty


def test_sql_joins_the_tables_of_a_session(lived):
    rows = harness.load(lived).sql(
        "SELECT t.steps, count(*) AS n, sum(s.prompt_tokens) AS sent, t.prompt_tokens FROM trials AS t JOIN steps AS s "
        "USING (trial_id) GROUP BY ALL"
    )
    assert rows["steps"].tolist() == rows["n"].tolist()
    assert rows["sent"].tolist() == rows["prompt_tokens"].tolist()


@pytest.mark.slow
def test_figures_without_outcomes_draw_sessions_and_the_others_refuse_them_in_words(lived):
    results = harness.load(lived)
    for name, figure in FIGURES.items():
        if name in FIGURES_WITHOUT_OUTCOMES:
            table = figure.table(results)
            assert len(table), name
            figure.draw(table)
        else:
            with pytest.raises(UsageError, match="these results have no outcomes: 1 session outside of an experiment"):
                figure.table(results)


def test_statistics_of_outcomes_are_refused_in_words_and_the_report_says_so(lived, tmp_path):
    results = harness.load(lived)
    arm = results.trials["arm"].item()
    for ask in (
        lambda: harness.compare(results, arm, arm),
        lambda: harness.estimate_best_arm(results),
        lambda: harness.write_page(results, tmp_path / "page.html"),
    ):
        with pytest.raises(UsageError, match="these results have no outcomes"):
            ask()
    text = harness.report(results).render_text()
    assert "Report on 1 session outside of experiments" in text
    assert "These results have no outcomes" in text
    assert "Monitoring" in text


def test_the_alerts_of_a_session_are_evaluated_like_those_of_a_trial(lived):
    alerts = evaluate_alerts(harness.load(lived))
    assert alerts["alert"].tolist() == ["overflow rate", "summarization cost", "cache hit rate"]
    assert alerts["value"].notna().all()


@pytest.mark.slow
def test_the_command_line_runs_a_session_and_reports_on_its_journal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run_command("agent", "--task", TINY, "--policy", "none", *LOCAL)
    assert done.returncode == 0, done.stderr
    results = harness.load("sessions")
    (row,) = results.trials.itertuples()
    assert (row.status, row.reason, row.turns, row.max_steps) == ("completed", "replied", 2, 57)
    reported = run_command("report", "sessions", "--output", "out")
    assert reported.returncode == 0, reported.stderr
    assert "These results have no outcomes: 1 session outside of an experiment" in reported.stdout
    assert (tmp_path / "out" / "charts" / "token_curves.png").is_file()
    (journal,) = (tmp_path / "sessions").glob("*.sqlite")
    assert run_command("report", journal).returncode == 0
    assert (tmp_path / "sessions" / f"{journal.stem}-report" / "summary.txt").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("name", list(TABLES))
def test_the_journal_of_a_trial_alone_has_the_rows_that_its_experiment_has(trial_output, name):
    whole = load_experiment(trial_output)
    owners = set(whole.trials["trial_id"])
    assert len(owners) == 2
    for path in (trial_output / "journals").glob("*.sqlite"):
        alone = harness.load(path)
        assert set(alone.trials["trial_id"]) < owners
        table = getattr(whole, name)
        rows = table[table["trial_id"].isin(alone.trials["trial_id"])]
        assert len(rows) or name == "probes"
        pd.testing.assert_frame_equal(rows.reset_index(drop=True), getattr(alone, name))


@pytest.mark.slow
def test_the_session_of_a_trial_without_its_record_has_the_values_that_its_log_gives(trial_output, tmp_path):
    """The law of exports: what does not depend on the experiment is the same, whichever way a session is loaded."""
    path = next((trial_output / "journals").glob("*.sqlite"))
    recorded = harness.load(path)
    (session_id,) = recorded.trials["session_id"]
    export_session(SessionLocation(path, session_id, ""), tmp_path / "one.jsonl")
    import_session(tmp_path / "one.jsonl", tmp_path / "one.sqlite")
    alone = harness.load(tmp_path / "one.sqlite")
    assert_same_rows(recorded.trials, alone.trials, TRIAL_ONLY_COLUMNS | IN_THE_LOG_ONLY | OF_THE_TASK)
    for name in ("steps", "compactions", "messages"):
        assert_same_rows(getattr(recorded, name), getattr(alone, name), {"trial_id"})
    assert len(alone.probes) == 0
    assert alone.checks.empty
    assert_same_rows(evaluate_alerts(recorded), evaluate_alerts(alone), {"trial_id", "arm"})


@pytest.mark.slow
def test_a_journal_copied_from_elsewhere_and_a_link_to_it_are_read_once(lived, tmp_path):
    copy = tmp_path / "elsewhere" / "copied.sqlite"
    copy.parent.mkdir()
    shutil.copy(lived, copy)
    link = tmp_path / "link.sqlite"
    link.symlink_to(lived)
    alone = harness.load(lived)
    for places in ([lived, link], [link, copy, lived], [copy]):
        joined = harness.load(places)
        for name in TABLES:
            assert_same_rows(getattr(joined, name), getattr(alone, name))


@pytest.mark.slow
def test_a_session_in_an_experiments_journal_has_a_row_only_where_the_file_is_loaded(trial_output, tmp_path):
    output = tmp_path / "output"
    shutil.copytree(trial_output, output)
    path = next((output / "journals").glob("*.sqlite"))
    path.rename(output / JOURNAL_FILE)
    shutil.rmtree(output / "journals")
    mine = run_live(output / JOURNAL_FILE)
    assert len(load_experiment(output).trials) == 1
    both = harness.load(output / JOURNAL_FILE)
    assert both.trials["experiment"].tolist()[0] == "e"
    assert both.trials["session_id"].tolist()[1:] == [mine]
    assert both.trials["success"].tolist()[0] in {True, False}
    assert pd.isna(both.trials["success"].tolist()[1])
    assert "1 trial and 1 session" in repr(both)


@pytest.mark.slow
def test_journals_and_experiments_join_and_outcomes_come_from_the_experiments(lived, trial_output):
    mixed = harness.load([trial_output, lived])
    assert len(mixed.trials) == 3
    assert mixed.trials["success"].isna().sum() == 1
    assert set(mixed.steps["trial_id"]) == set(mixed.trials["trial_id"])
    assert mixed.sql("SELECT count(*) AS n FROM trials")["n"].item() == 3
    text = harness.report(mixed).render_text()
    assert "2 trials" in text
    assert "Selection" not in text
    assert harness.compare(mixed, "an arm", "an arm").counts.pairs == 2
    assert set(FIGURES["token_curves"].table(mixed)["trial_id"]) == set(mixed.trials["trial_id"])
    FIGURES["token_curves"].draw(FIGURES["token_curves"].table(mixed))
    FIGURES["compaction_rounds"].draw(FIGURES["compaction_rounds"].table(mixed))


@pytest.mark.slow
def test_several_sessions_of_one_journal_and_a_fork_have_a_row_each(tmp_path):
    path = tmp_path / "j.sqlite"
    live = LiveSession(session(journal=path)).start()
    live.wait(SECONDS)
    fork = live.fork(3).start()
    fork.send("Go on.")
    fork.wait(SECONDS)
    fork.close()
    live.close()
    other = run_live(path)
    trials = harness.load(path).trials.set_index("session_id")
    assert set(trials.index) == {live.session_id, fork.session_id, other}
    assert trials.loc[fork.session_id, "forked_from"] == live.session_id
    assert trials["forked_from"].notna().sum() == 1
    assert trials.loc[fork.session_id, "steps"] >= 3


@pytest.mark.slow
def test_a_rolled_back_session_counts_as_its_inspection_does(tmp_path):
    path = tmp_path / "j.sqlite"
    live = LiveSession(session(journal=path)).start()
    live.wait(SECONDS)
    live.roll_back(2)
    live.send("Again.")
    live.wait(SECONDS)
    live.close()
    results = harness.load(path)
    (row,) = results.trials.itertuples()
    assert row.steps == inspect_session(live.entries).totals.steps
    assert len(results.steps) > row.steps  # steps that were rolled back were paid, too


def test_a_sub_agent_is_part_of_its_session_and_no_row_of_its_own(tmp_path):
    path = tmp_path / "j.sqlite"
    task = hidden(0)
    execute_session(session(journal=path, task=task, request=task.prompt, explore=True), "mine")
    results = harness.load(path)
    assert results.trials["session_id"].tolist() == ["mine"]
    assert results.trials["explorations"].item() > 0
    others = results.steps[results.steps["session_id"] != "mine"]
    assert len(others) == results.trials["sub_agent_steps"].item()
    assert others["trial_id"].isna().all()


def test_a_running_session_is_read_without_stopping_it(tmp_path):
    path = tmp_path / "j.sqlite"
    live = LiveSession(session(journal=path)).start()
    live.wait(SECONDS)
    before = harness.load(path)
    assert before.trials["status"].item() == "active"
    assert before.trials["reason"].item() == ""
    files = set(tmp_path.iterdir())
    assert locate_log(path) in files
    live.send("And now?")
    live.wait(SECONDS)
    after = harness.load(path)
    assert after.trials["turns"].item() == before.trials["turns"].item() + 1
    assert set(tmp_path.iterdir()) == files
    live.close()
    assert harness.load(path).trials["status"].item() == "completed"


@pytest.mark.slow
def test_a_session_that_its_user_stopped_stays_in_charts(tmp_path):
    path = tmp_path / "j.sqlite"
    run_live(path)
    with sqlite3.connect(path) as connection:
        body = json.dumps({"status": "failed", "reason": "cancelled", "detail": "stopped by the user"})
        connection.execute("UPDATE event SET body = ? WHERE kind = 'session-ended'", (body,))
    results = harness.load(path)
    assert results.trials["reason"].item() == "cancelled"
    assert len(FIGURES["token_curves"].table(results))


def test_loading_a_journal_changes_no_file(lived):
    before = {path: path.read_bytes() for path in lived.parent.iterdir()}
    results = harness.load(lived)
    for name in TABLES:
        getattr(results, name)
    assert {path: path.read_bytes() for path in lived.parent.iterdir()} == before


def test_an_imported_recording_loads_and_says_what_it_does_not_know(tmp_path):
    files = [FIXTURES[name] for name in ("claude-code.jsonl", "codex.jsonl", "swe-agent-text.traj")]
    path = tmp_path / "recorded.sqlite"
    for number, file in enumerate(files):
        import_session(file, path, f"recording-{number}")
    trials = harness.load(path).trials
    assert len(trials) == len(files) > 0
    assert set(trials["level"]) == {"L3"}
    assert trials["max_steps"].isna().all()
    assert trials["task"].isna().all()
    assert trials.sort_values("session_id")["started_at"].isna().tolist() == [False, False, True]
    assert trials.sort_values("session_id")["wall_seconds"].isna().tolist() == [False, False, True]
    assert (trials["steps"] > 0).all()


def test_a_path_without_a_journal_is_refused_with_advice(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("nothing")
    with pytest.raises(StoreError, match="no journal"):
        harness.load(text)
    with pytest.raises(StoreError, match="does not exist"):
        harness.load(tmp_path / "missing.sqlite")
    with pytest.raises(UsageError, match="empty"):
        harness.load([])
    (tmp_path / "sessions").mkdir()
    with pytest.raises(StoreError, match="no results"):
        harness.load(tmp_path / "sessions")


@pytest.mark.slow
def test_the_reason_why_compactions_miss_their_target_is_whole_however_long(tmp_path):
    path = tmp_path / "mine.sqlite"
    policy = KeepLast(trigger_tokens=900, keep_last=2, summarizer="scripted/oracle", least_saved_share=0.9)
    session_id = run_live(path, *["More words. " * 400] * 3, policy=policy, window_tokens=16_000)
    with Journal.open(path, read_only=True) as journal:
        events = [entry.event for entry in journal.read_entries(session_id)]
    logged = [event.shortfall for event in events if isinstance(event, Compaction)]
    assert max(map(len, logged)) > 256, "longer than a text that is stored within its event"
    results = harness.load(path)
    assert list(results.compactions["shortfall"]) == logged
    (sentence,) = describe_missed_targets(results.trials, results.compactions)
    assert logged[-1].removeprefix(f"{MISSED_TARGET}: ") in sentence
