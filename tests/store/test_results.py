import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from harness.conversation.events import ItemId, MessageAdded, Patch, RolledBack, StepFinished
from harness.conversation.messages import ToolCall, ToolResult, assistant, tool
from harness.conversation.tokens import Estimated
from harness.errors import NewerVersion, StoreError, UsageError
from harness.inspection.loading import load
from harness.store.columns import TABLES
from harness.store.journal import Journal
from harness.store.results import Results
from harness.store.schema import MIGRATIONS, migrate
from harness.store.tables import export
from tests.store.samples import CONDUCT, ENDED, PROBES, begun, checks, compaction, finished, opening, step, trial

LONG = "a long line of output\n" * 100


def experiment(folder: Path, trials: int = 2) -> Path:
    with Journal.open(folder / "output" / "journal.sqlite") as journal:
        for number in range(trials):
            run(journal, f"t{number}", f"s{number}")
    return folder


def run(journal: Journal, trial_id: str, session_id: str) -> None:
    events = [*opening(session_id), *step(1, LONG), *step(2), compaction(forget=[4, 5], before_step=3, summary=LONG), *step(3)]
    begun(journal, session_id).append([*events, ENDED])
    journal.record_metrics(session_id, CONDUCT, PROBES)
    journal.record_trial(trial(trial_id, session_id), checks(trial_id))


def exported(folder: Path) -> Path:
    export(folder / "output" / "journal.sqlite", folder / "output" / "results")
    return folder


@pytest.fixture(params=["journal", "parquet", "parquet alone"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = experiment(tmp_path / "quickstart")
    if request.param != "journal":
        exported(folder)
    if request.param == "parquet alone":
        (folder / "output" / "journal.sqlite").unlink()
    return folder


def test_a_notebook_shows_where_results_are_and_how_many(folder: Path) -> None:
    shown = repr(load(folder))
    assert f"{str(folder / 'output')!r}: 2 trials (2 completed) in 1 arm; tables trials, steps" in shown
    assert len(shown) < 400


def test_results_are_opened_by_a_path_or_its_text(folder: Path) -> None:
    for output in (folder / "output", str(folder / "output")):
        assert Results(output).trials["trial_id"].tolist() == ["t0", "t1"]


@pytest.mark.slow
def test_the_frames_have_exactly_the_documented_columns(folder: Path) -> None:
    results = load(folder)
    for name, columns in TABLES.items():
        frame = getattr(results, name)
        assert [(column, str(dtype)) for column, dtype in frame.dtypes.items()] == [
            (column.name, column.dtype) for column in columns
        ]
        assert len(frame) > 0


def test_a_trial_has_a_row_with_its_axes(folder: Path) -> None:
    results = load(folder)
    row = results.trials.iloc[1]
    assert (row.trial_id, row.session_id, row.arm, row.success, row.score) == ("t1", "s1", "keep-last 0.8", True, 1.0)
    assert row.started_at == pd.Timestamp(1_700_000_000_123, unit="ms", tz="UTC")
    assert pd.isna(row.cost_usd)
    assert pd.isna(row.threshold_tokens)
    assert results.axes.to_dict("list") == {"trial_id": ["t0", "t1"], "policy.threshold": [0.8, 0.8]}


def test_a_trial_has_the_sums_of_its_session(folder: Path) -> None:
    row = load(folder).trials.iloc[0]
    assert (row.turns, row.messages, row.clipped_outputs, row.clipped_characters, row.clipped_bytes) == (1, 8, 0, 0, 0)
    assert (row.summaries, row.prunings, row.pruned_tokens) == (1, 0, 0)
    assert (row.emergency_compactions, row.fruitless_compactions, row.summarizer_seconds) == (0, 0, 2.0)
    assert (row.cache_read_tokens, row.cache_write_tokens, row.cache_hit_share) == (90 + 180 + 270, 9, 0.54)
    assert row.first_compaction_step == 3
    assert pd.isna(row.pruning_seconds), "a summary is no pruning"
    assert pd.isna(row.activity), "nobody said what its policy could do"


def test_prunings_emergencies_fruitless_attempts_and_cuts_are_counted_apart(tmp_path: Path) -> None:
    """S3.16."""
    cut = cut_result(700, 900)
    pruning = replace(
        compaction(forget=[4, 5], summary=""), patch=Patch(forget=(ItemId(4), ItemId(5))), tokens_after=Estimated(801)
    )
    pruning = replace(pruning, wall_seconds=0.25)
    fruitless = [replace(pruning, patch=Patch(), status=status) for status in ("no-op", "failed")]
    emergency = replace(pruning, patch=Patch(forget=(ItemId(7),)), moment="overflow")
    with Journal.open(tmp_path / "output" / "journal.sqlite") as journal:
        log = begun(journal, "s")
        log.append([*opening("s"), *step(1), pruning, MessageAdded(step=2, message=tool(cut)), *fruitless, emergency, ENDED])
        journal.record_trial(trial("t", "s", activity="active"), checks("t"))
        journal.record_trial(trial("crashed", ""), ())
    results = load(tmp_path)
    row, crashed = results.trials.iloc[0], results.trials.iloc[1]
    assert (row.prunings, row.pruned_tokens, row.summaries) == (2, 2 * (20_001 - 801), 0)
    assert (row.pruning_seconds, results.compactions["wall_seconds"].tolist()) == (0.5, [0.25] * 4)
    assert (row.emergency_compactions, row.fruitless_compactions) == (1, 2)
    assert (row.clipped_outputs, row.clipped_characters, row.clipped_bytes, row.activity) == (1, 700, 900, "active")
    assert (row.clipped_by_tool_json, crashed.clipped_by_tool_json) == ('{"execute_command":1}', "{}")
    assert pd.isna(crashed.turns)
    assert pd.isna(crashed.prunings)
    assert results.messages.set_index("event")[["clipped_characters", "clipped_bytes"]].loc[8].tolist() == [700, 900]


def cut_result(characters: int, size_bytes: int, tool_name: str = "execute_command") -> ToolResult:
    return ToolResult(call_id="call-2", name=tool_name, output="short", clipped_characters=characters, clipped_bytes=size_bytes)


def test_cuts_are_counted_by_tool_and_their_bytes_are_missing_where_an_older_version_cut(tmp_path: Path) -> None:
    """S3.16; version 0.2 counted characters only."""
    cuts = {"s": [(700, 900, "read_file"), (5, 5, "read_file"), (1, 3, "execute_command")], "old": [(700, 0, "read_file")]}
    with Journal.open(tmp_path / "output" / "journal.sqlite") as journal:
        for session_id, results in cuts.items():
            messages = [MessageAdded(step=1, message=tool(cut_result(*cut))) for cut in results]
            begun(journal, session_id).append([*opening(session_id), *step(1), *messages, ENDED])
            journal.record_trial(trial(f"t-{session_id}", session_id))
    trials = load(tmp_path).trials
    assert [json.loads(text) for text in trials["clipped_by_tool_json"]] == [
        {"execute_command": 1, "read_file": 2},
        {"read_file": 1},
    ]
    assert trials["clipped_characters"].tolist() == [706, 700]
    assert trials["clipped_bytes"].fillna(-1).tolist() == [908, -1]


def test_overflows_and_all_tokens_of_a_trial_are_columns(tmp_path: Path) -> None:
    """S3.16."""
    counted = trial("t", "s", overflows=2, summarizer_prompt_tokens=40, summarizer_output_tokens=3, sub_agent_prompt_tokens=100)
    with Journal.open(tmp_path / "output" / "journal.sqlite") as journal:
        begun(journal, "s").append([*opening("s"), *step(1), ENDED])
        journal.record_trial(replace(counted, sub_agent_output_tokens=9, explorations=1))
        journal.record_trial(trial("old", ""))
    new, old = load(tmp_path).trials.itertuples()
    own = counted.prompt_tokens + counted.output_tokens
    assert (new.overflows, new.total_tokens) == (2, own + 40 + 3 + 100 + 9)
    assert (pd.isna(old.overflows), old.total_tokens) == (True, own)


METRICS: dict[str, tuple[str, list[object]]] = {
    "conversation.tokens.input": ("prompt_tokens FROM steps ORDER BY step", [103, 193, 283]),
    "conversation.tokens.output": ("output_tokens FROM steps ORDER BY step", [5, 5, 5]),
    "conversation.tokens.total": ("total_tokens FROM steps ORDER BY step", [108, 198, 288]),
    "conversation.overflow.count": ("overflows FROM trials", [1]),
    "conversation.length.messages": ("messages FROM trials", [8]),
    "conversation.length.turns": ("turns FROM trials", [1]),
    "compaction.prune.triggered": ("prunings FROM trials", [2]),
    "compaction.prune.tokens_saved": (
        "tokens_before - tokens_after FROM compactions WHERE inserted = 0 ORDER BY event",
        [19_200, 19_200],
    ),
    "compaction.prune.duration_ms": ("1000 * wall_seconds FROM compactions WHERE inserted = 0 ORDER BY event", [250, 250]),
    "compaction.summarize.triggered": ("summaries FROM trials", [1]),
    "compaction.summarize.duration_ms": ("1000 * summarizer_seconds FROM compactions WHERE inserted > 0", [2_000]),
    "compaction.summarize.cost_usd": ("summarizer_cost_usd FROM compactions WHERE inserted > 0", [0.125]),
    "compaction.summarize.tokens.input": ("summarizer_prompt_tokens FROM compactions WHERE inserted > 0", [700]),
    "compaction.summarize.tokens.output": ("summarizer_output_tokens FROM compactions WHERE inserted > 0", [80]),
    "truncation.triggered": ("clipped_outputs FROM trials", [1]),
    "truncation.bytes_saved": ("clipped_bytes FROM messages WHERE clipped_characters > 0", [900]),
    "truncation.tool": ("tool FROM messages WHERE clipped_characters > 0", ["execute_command"]),
    "cache.hit_rate": ("cache_hit_share FROM trials", [540 / 1_000]),
    "cache.tokens.read": ("cache_read_tokens FROM trials", [540]),
    "cache.tokens.write": ("cache_write_tokens FROM trials", [9]),
    "cache.cost_saved_usd": ("cache_saved_usd FROM trials", [0.0625]),
}
"""Query and expected values of each metric of the design document."""


@pytest.mark.slow
def test_every_metric_of_the_document_is_a_query(tmp_path: Path) -> None:
    """S3.16."""
    cut = cut_result(700, 900)
    pruning = replace(compaction(), patch=Patch(forget=(ItemId(4),)), summary="", summarizer="", summarizer_usage=None)
    pruning = replace(pruning, tokens_after=Estimated(801), summarizer_cost_usd=None, summarizer_seconds=0.0, wall_seconds=0.25)
    emergency = replace(pruning, patch=Patch(forget=(ItemId(5),)), moment="overflow")
    with Journal.open(tmp_path / "output" / "journal.sqlite") as journal:
        events = [
            *opening("s"),
            *step(1),
            pruning,
            *step(2)[:1],
            MessageAdded(step=2, message=tool(cut)),
            *step(2)[2:],
            emergency,
        ]
        events += [compaction(forget=[9, 10], before_step=3), *step(3), ENDED]
        begun(journal, "s").append(events)
        journal.record_trial(trial("t", "s", activity="active", cache_saved_usd=0.0625, overflows=1), checks("t"))
    results = load(tmp_path)
    values = {name: results.sql(f"SELECT {query}").iloc[:, 0].tolist() for name, (query, _) in METRICS.items()}
    assert values == {name: expected for name, (_, expected) in METRICS.items()}


def test_a_step_has_a_row_with_its_tokens_and_the_rounds_before_it(folder: Path) -> None:
    steps = load(folder).steps
    assert steps[["trial_id", "step", "rounds", "prompt_tokens"]].head(3).to_numpy().tolist() == [
        ["t0", 1, 0, 103],
        ["t0", 2, 0, 193],
        ["t0", 3, 1, 283],
    ]
    assert steps.iloc[2].finished_at == pd.Timestamp(1_000_000, unit="ms", tz="UTC")


def test_a_compaction_has_a_row_with_its_summary(folder: Path) -> None:
    row = load(folder).compactions.iloc[0]
    assert (row.trial_id, row["round"], row.step, row.status, row.forgotten, row.inserted) == ("t0", 1, 3, "applied", 2, 1)
    assert row.summary == LONG
    assert row.summarizer_prompt_tokens == 700


def test_a_message_has_its_whole_content_and_the_step_before_which_it_was_compacted(folder: Path) -> None:
    messages = load(folder).messages.query("session_id == 's0'")
    assert messages["origin"].tolist() == ["added"] * 6 + ["inserted"] + ["added"] * 2
    first = messages.iloc[3]
    assert (first.content, first.tool, first.is_compacted, first.compacted_before_step) == (LONG, "execute_command", True, 3)
    assert messages["is_compacted"].sum() == 2
    assert messages["compacted_before_step"].isna().sum() == 7
    assert messages.sort_values("place").query("not is_compacted")["sequence"].tolist() == [1, 7, 2, 5, 6, 8, 9]


def test_rolled_back_messages_leave_the_view_and_undone_evictions_return_to_it(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "e" / "output" / "journal.sqlite") as journal:
        events = [*opening(), *step(1), *step(2), compaction(forget=[4, 5], before_step=3), *step(3)]
        begun(journal).append([*events, RolledBack(step=2, to_event=9), *step(3, "another way")])
    messages = load(tmp_path / "e").messages
    shown = messages.query("not is_compacted").sort_values("place")
    assert shown["event"].tolist() == [2, 3, 4, 5, 7, 8, 15, 16]
    gone = messages.query("is_compacted")
    assert gone["event"].tolist() == [10, 11, 12]
    assert gone["compacted_before_step"].tolist() == [3, 3, 3]


def test_a_check_has_a_row(folder: Path) -> None:
    assert load(folder).checks[["trial_id", "check", "passed"]].head(2).to_numpy().tolist() == [
        ["t0", "app-runs", True],
        ["t0", "port", False],
    ]


def test_a_trial_shows_how_its_session_behaved(folder: Path) -> None:
    row = load(folder).trials.iloc[0]
    assert (row.mean_context_tokens, row.first_compaction_step) == (500.0, 3)
    assert (row.execution_calls, row.retrieval_calls, row.repeat_calls, row.redundant_calls) == (1, 3, 2, 1)
    assert (row.reacquisitions, row.reacquired_tokens, row.reacquired_after_steps, row.thrash_ratio) == (2, 50, 1.5, 0.25)
    assert (row.reacquisitions_per_compaction, row.reacquired_tokens_per_compaction) == (2.0, 50.0)
    assert row.reacquisitions_per_evicted_token == 0.01
    assert (row.thrash, row.close_compactions, row.full_compactions, row.evicted_again) == (True, 1, 0, 0)
    assert (row.doom_loop, row.doom_loop_step, row.repeated_dead_ends) == ("alternation", 2, 2)
    assert pd.isna(row.doom_loop_after_steps)
    assert (row.fact_uses, row.wrong_uses, row.stale_uses, row.constraint_violations) == (4, 1, 1, 0)


def test_steps_without_calls_are_known_to_have_none(folder: Path) -> None:
    steps = load(folder).steps.head(3)
    assert steps["is_execution"].tolist() == [True, False, False]
    assert steps["is_retrieval"].tolist() == [True, False, True]
    assert steps["is_reacquisition"].tolist() == [False, False, True]
    assert steps["reacquired_tokens"].tolist() == [0, 0, 50]
    assert steps["reacquired_after_steps"].fillna(-1).tolist() == [-1, -1, 1.5]


def test_a_probe_has_a_row_with_its_compaction_and_its_fact(folder: Path) -> None:
    first, second = load(folder).probes.head(2).itertuples()
    assert (first.trial_id, first.event, first.round, first.step) == ("t0", 10, 1, 3)
    assert (first.fact, first.kind, first.said_in, first.version) == ("port", "constraint", "prompt", 2)
    assert (first.seen_before, first.seen_after, first.used_step, first.used) == (True, False, 3, "stale")
    assert (first.stands_after, second.stands_after) == (pd.NA, True)
    assert (first.seen_in_kept, second.seen_in_kept) == (pd.NA, False)
    assert pd.isna(first.reacquisition_calls)
    assert (second.fact, second.reacquisition_calls, second.seen_after) == ("table", 2, True)
    assert pd.isna(second.used_step)
    assert pd.isna(second.used)


def test_metrics_that_were_not_measured_are_missing_rather_than_zero(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "output" / "journal.sqlite") as journal:
        begun(journal, "s").append([*opening("s"), *step(1), ENDED])
        journal.record_trial(trial("t", "s"))
    results = load(tmp_path)
    columns = ["execution_calls", "redundant_calls", "evicted_tokens", "thrash", "doom_loop", "fact_uses", "thrash_ratio"]
    columns += ["reacquisitions_per_compaction", "reacquired_tokens_per_compaction", "reacquisitions_per_evicted_token"]
    assert results.trials[columns].isna().all(axis=None)
    assert results.steps[["is_execution", "is_repeat", "reacquired_tokens"]].isna().all(axis=None)
    assert results.probes.empty


@pytest.mark.slow
def test_a_journal_of_an_older_form_is_read_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "output" / "journal.sqlite"
    path.parent.mkdir()
    connection = sqlite3.connect(path, isolation_level=None)
    migrate(connection, MIGRATIONS[:1])
    connection.close()
    before = path.read_bytes()
    assert load(tmp_path).trials.empty
    assert path.read_bytes() == before


def test_a_parquet_file_with_other_columns_is_not_believed(tmp_path: Path) -> None:
    folder = exported(experiment(tmp_path))
    path = folder / "output" / "results" / "trials" / "000000.parquet"
    older = pq.read_table(path).drop_columns(["thrash"])
    pq.write_table(older, path)
    assert load(folder).trials["thrash"].tolist() == [True, True]


def test_sql_joins_the_tables(folder: Path) -> None:
    """C4: sessions are logged in SQLite, and DuckDB queries them."""
    frame = load(folder).sql("SELECT t.arm, count(*) AS n FROM trials t JOIN steps s USING (trial_id) GROUP BY ALL")
    assert frame.to_numpy().tolist() == [["keep-last 0.8", 6]]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["arm=other", "seed=9", "run[1]", "run*", "what?", "it's", "50%", "ein Lauf ü"])
def test_the_name_of_a_folder_is_no_part_of_its_rows(tmp_path: Path, name: str) -> None:
    exported(experiment(tmp_path / "run1", trials=3))  # would match the patterns
    results = load(exported(experiment(tmp_path / name, trials=1)))
    frame = results.sql("SELECT trial_id, arm, seed FROM trials")
    pd.testing.assert_frame_equal(frame, results.trials[["trial_id", "arm", "seed"]], check_dtype=False)


def test_a_wrong_query_is_refused_with_suggestions(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="trials"):
        load(experiment(tmp_path)).sql("SELECT * FROM trial")
    with pytest.raises(UsageError, match="returns no table"):
        load(experiment(tmp_path)).sql("-- nothing")


def test_the_output_folder_itself_loads_too(folder: Path) -> None:
    assert len(load(str(folder / "output")).trials) == 2


def test_results_stay_those_of_their_folder_when_the_working_folder_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    exported(experiment(tmp_path / "one"))
    monkeypatch.chdir(tmp_path)
    results = load("one")
    assert repr(results).startswith("Results('one/output': 2 trials")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert len(results.trials) == len(results.sql("SELECT DISTINCT session_id FROM steps")) == 2


@pytest.mark.slow
def test_rows_that_are_newer_than_the_parquet_are_read_from_the_journal(tmp_path: Path) -> None:
    folder = exported(experiment(tmp_path))
    with Journal.open(folder / "output" / "journal.sqlite") as journal:
        run(journal, "t2", "s2")
        results = load(folder)
        assert results.trials["trial_id"].tolist() == ["t0", "t1", "t2"]
        assert results.sql("SELECT count(*) AS n FROM steps")["n"].tolist() == [9]
    exported(folder)
    assert len(load(folder).messages) == 27


def test_a_trial_that_ran_again_is_noticed(tmp_path: Path) -> None:
    folder = exported(experiment(tmp_path))
    with Journal.open(folder / "output" / "journal.sqlite") as journal:
        journal.record_trial(trial("t1", "s1", success=False, score=0.5), checks("t1"))
    assert sorted(load(folder).trials["score"]) == [0.5, 1.0]


@pytest.mark.slow
def test_trials_that_are_still_running_are_seen_once(tmp_path: Path) -> None:
    folder = exported(experiment(tmp_path))
    with Journal.open(folder / "output" / "journals" / "t9.sqlite") as journal:
        begun(journal, "s9").append([*opening("s9"), *step(1)])
        results = load(folder)
        assert len(results.trials) == 2
        assert results.steps.query("session_id == 's9'")["trial_id"].isna().tolist() == [True]
    shutil.copy(folder / "output" / "journal.sqlite", folder / "output" / "journals" / "t0.sqlite")
    again = load(folder)
    assert len(again.steps) == 7
    assert len(again.trials) == 2
    assert len(again.checks) == 4


def test_loading_writes_nothing(tmp_path: Path) -> None:
    folder = experiment(tmp_path)
    before = sorted(path.name for path in folder.rglob("*"))
    results = load(folder)
    for name in TABLES:
        getattr(results, name)
    results.sql("SELECT 1")
    assert sorted(path.name for path in folder.rglob("*")) == before


def test_an_experiment_in_which_nothing_has_happened_has_empty_frames(tmp_path: Path) -> None:
    experiment(tmp_path, trials=0)
    results = load(tmp_path)
    for name, columns in TABLES.items():
        frame = getattr(results, name)
        assert (list(frame.columns), len(frame)) == ([column.name for column in columns], 0)
    exported(tmp_path)
    assert load(tmp_path).trials.empty


@pytest.mark.parametrize(
    ("name", "explanation"), [("there", "no trial has been run yet"), ("missing", "the folder does not exist")]
)
def test_a_folder_without_results_is_refused_with_the_command_to_run(tmp_path: Path, name: str, explanation: str) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(StoreError, match=f"{explanation}; run the experiment with `harness run"):
        load(tmp_path / name)


def test_a_journal_that_does_not_exist_is_refused_with_those_that_do(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"monday\.sqlite': the file does not exist; check the path"):
        load(tmp_path / "monday.sqlite")
    with Journal.open(tmp_path / "gateway.sqlite"):
        pass
    with pytest.raises(StoreError, match=r"the file does not exist; there is '.*gateway\.sqlite'"):
        load(tmp_path / "monday.sqlite")


def test_a_broken_parquet_file_is_not_believed(tmp_path: Path) -> None:
    folder = exported(experiment(tmp_path))
    (folder / "output" / "results" / "steps" / "000000.parquet").write_bytes(b"PAR1 not really")
    assert len(load(folder).steps) == 6


def test_an_export_leaves_only_its_files(tmp_path: Path) -> None:
    folder = exported(exported(experiment(tmp_path)))
    results = folder / "output" / "results"
    files = sorted(path.relative_to(results).as_posix() for path in results.rglob("*") if path.is_file())
    assert files == sorted(f"{name}/000000.parquet" for name in TABLES)


def test_a_folder_among_the_exported_files_stops_no_export(tmp_path: Path) -> None:
    folder = exported(experiment(tmp_path, trials=1))
    (folder / "output" / "results" / "steps" / ".ipynb_checkpoints").mkdir()
    with Journal.open(folder / "output" / "journal.sqlite") as journal:
        run(journal, "t1", "s1")
    assert len(load(exported(folder)).sql("SELECT DISTINCT session_id FROM steps")) == 2


def test_results_that_cannot_be_written_are_reported(tmp_path: Path) -> None:
    folder = experiment(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write results"):
        export(folder / "output" / "journal.sqlite", tmp_path / "file" / "results")


def test_hostile_text_reaches_the_tables(tmp_path: Path) -> None:
    odd = "caf\udce9 \0 '; DROP TABLE trial; -- [red] <script>" * 20
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        call = ToolCall(call_id="c", name="n", arguments_json=odd)
        begun(journal).append([MessageAdded(step=1, message=assistant(odd, call)), compaction(summary=odd, after=1)])
        journal.record_trial(trial(error=odd))
    results = load(tmp_path)
    assert results.messages["content"].tolist() == [f"{odd}\nn {odd}".replace("\udce9", "?"), odd.replace("\udce9", "?")]
    assert results.trials["error"].tolist() == results.compactions["summary"].tolist() == [odd.replace("\udce9", "?")]


def test_many_sessions_are_read_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.store.tables.BATCH_SIZE", 2)
    folder = experiment(tmp_path, trials=5)
    fresh = load(folder).messages
    assert fresh["session_id"].nunique() == 5
    pd.testing.assert_frame_equal(load(exported(folder)).messages, fresh)


def export_as_before(folder: Path) -> None:
    """Export tables as version 0.2 did: one file a table, with the state of the journal."""
    results = load(folder)
    folder_of_results = folder / "output" / "results"
    folder_of_results.mkdir()
    with Journal.open(folder / "output" / "journal.sqlite", read_only=True) as journal:
        sizes = journal.query("SELECT count(*), max(key), sum((SELECT max(seq) FROM event WHERE session = key)) FROM session")[0]
        revision = journal.query("SELECT max(revision) FROM trial")[0][0]
    state = {b"journal": ".".join(map(str, [*sizes, revision])).encode()}
    for name in TABLES:
        pq.write_table(results._load_table(name).replace_schema_metadata(state), folder_of_results / f"{name}.parquet")


@pytest.mark.slow
def test_tables_that_an_older_version_exported_are_read_until_the_next_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = experiment(tmp_path)
    export_as_before(folder)
    with monkeypatch.context() as patch:
        patch.delattr(Results, "_read_journals")
        assert len(load(folder).steps) == 6
        (folder / "output" / "journal.sqlite").rename(tmp_path / "away.sqlite")
        assert load(folder).trials["trial_id"].tolist() == ["t0", "t1"]
    (tmp_path / "away.sqlite").rename(folder / "output" / "journal.sqlite")
    with Journal.open(folder / "output" / "journal.sqlite") as journal:
        run(journal, "t2", "s2")
    assert len(load(folder).steps) == 9, "the files of the older version are outdated"
    exported(folder)
    assert [path for path in (folder / "output" / "results").iterdir() if path.is_file()] == []
    assert len(load(folder).steps) == 9


@pytest.mark.parametrize(
    "query", ["SELECT steps FROM trials", "WITH messages AS (SELECT 1 AS one) SELECT trial_id FROM trials, messages"]
)
def test_a_query_waits_only_for_the_tables_that_it_reads(query: str, tmp_path: Path) -> None:
    results = load(experiment(tmp_path))
    assert len(results.sql(query)) == 2
    assert results._tables.keys() == {"trials"}


@pytest.mark.slow
def test_results_of_several_experiments_are_joined_and_their_arms_stay_distinct(tmp_path: Path) -> None:
    folders = []
    for name, trials in (("first", ("t0", "t1")), ("second", ("t1", "t2", "t3"))):
        with Journal.open(tmp_path / name / "output" / "journal.sqlite") as journal:
            for number, trial_id in enumerate(trials):
                run(journal, trial_id, f"{name}{number}")
                arm = "alone" if trial_id == "t3" else "control"
                journal.record_trial(replace(trial(trial_id, f"{name}{number}"), experiment=name, arm=arm), checks(trial_id))
        folders.append(tmp_path / name)
    first, second, both = load(folders[0]), load(folders[1]), load(folders)
    assert list(both.trials["arm"]) == ["first: control"] * 2 + ["second: control"] * 2 + ["alone"]
    assert len(both.steps) == len(first.steps) + len(second.steps) * 2 // 3  # t1 is counted once
    for name, columns in TABLES.items():
        assert list(getattr(both, name).columns) == [column.name for column in columns]
    assert len(both.message_sizes) == len(both.messages)
    counted = both.sql("SELECT arm, count(*) AS n FROM trials GROUP BY arm ORDER BY arm")
    assert counted.to_numpy().tolist() == [["alone", 1], ["first: control", 2], ["second: control", 2]]
    assert both.sql("SELECT count(*) AS n FROM steps")["n"].iloc[0] == len(both.steps)
    assert both.digest not in {first.digest, second.digest, None}
    assert load(folders[:1]).trials.equals(first.trials)
    with pytest.raises(UsageError, match="the list of folders is empty"):
        load([])


def test_a_notebook_shows_the_number_of_trials_by_arm_and_no_outcomes(folder: Path) -> None:
    results = load(folder)
    html = results._repr_html_()
    assert "Results: 2 trials" in html
    assert "crashed" in html
    results.trials.loc[0, "status"] = "failed"
    assert results._repr_html_() == html
    assert "success" not in html


@pytest.mark.parametrize("folder", [None, 3])
def test_only_folders_are_loaded(folder):
    with pytest.raises(UsageError, match="load: must be a folder"):
        load(folder)


def test_a_file_is_no_folder_of_an_experiment(tmp_path):
    (tmp_path / "plan.toml").write_text("")
    with pytest.raises(StoreError, match="it is a file"):
        load(tmp_path / "plan.toml")


def test_files_of_other_programs_among_the_exported_tables_are_ignored(tmp_path: Path) -> None:
    folder = exported(experiment(tmp_path))
    steps = load(folder).steps
    (file,) = (folder / "output" / "results" / "steps").glob("*.parquet")
    file.with_name("._000000.parquet").write_bytes(b"nothing")
    file.with_name("000000 (copy).parquet").write_bytes(file.read_bytes())
    assert load(folder).steps.equals(steps)
    export(folder / "output" / "journal.sqlite", folder / "output" / "results")


def test_sessions_of_no_trial_are_in_joined_results_of_all_experiments(tmp_path: Path) -> None:
    for name in ("first", "second"):
        with Journal.open(tmp_path / name / "output" / "journal.sqlite") as journal:
            run(journal, f"{name} trial", f"{name} session")
            begun(journal, f"{name} session.a1").append([*opening("a"), *step(1)])
    both = load([tmp_path / "first", tmp_path / "second"])
    without_trial = both.steps[both.steps["trial_id"].isna()]
    assert list(without_trial["session_id"]) == ["first session.a1", "second session.a1"]


def test_a_summary_that_looks_like_a_reference_is_a_text(tmp_path: Path) -> None:
    folder = tmp_path / "hostile"
    texts = ('{"address":"x"}\0', '{"address":"x"}', '{"address":', "=", LONG)
    with Journal.open(folder / "output" / "journal.sqlite") as journal:
        events = [compaction(forget=[4], before_step=3, summary=text) for text in texts]
        begun(journal, "s").append([*opening("s"), *step(1, LONG), *step(2), *events, ENDED])
        journal.record_trial(trial("t", "s"), checks("t"))
    assert [text.split("\0")[0] for text in texts] == list(load(folder).compactions["summary"])


@pytest.mark.slow
def test_without_a_journal_a_parquet_file_of_an_older_version_has_missing_values_in_newer_columns(tmp_path: Path) -> None:
    folder = exported(experiment(tmp_path))
    path = folder / "output" / "results" / "trials" / "000000.parquet"
    trials = load(folder).trials
    pq.write_table(pq.read_table(path).drop_columns(["thrash", "revisions"]), path)
    (folder / "output" / "journal.sqlite").unlink()
    results = load(folder)
    assert list(results.trials.columns) == list(trials.columns)
    assert results.trials[["thrash", "revisions"]].isna().all(axis=None)
    assert results.trials["trial_id"].tolist() == trials["trial_id"].tolist()
    assert results.sql("SELECT trial_id FROM trials WHERE revisions IS NULL")["trial_id"].tolist() == trials["trial_id"].tolist()


@pytest.mark.parametrize("is_merged", [True, False])
def test_results_in_a_journal_of_a_newer_version_are_refused(tmp_path: Path, is_merged: bool) -> None:
    output = exported(experiment(tmp_path)) / "output"
    journal = output / "journal.sqlite"
    if not is_merged:
        (output / "journals").mkdir()
        Journal.open(journal := output / "journals" / "trial.sqlite").close()
    with closing(sqlite3.connect(journal)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(NewerVersion, match=r"has schema 99, but this version of harness reads schemas up to .*; update harness"):
        load(output).trials.head()


def test_without_a_journal_tables_of_a_newer_version_are_refused_by_the_names_of_their_columns(tmp_path: Path) -> None:
    folder = exported(experiment(tmp_path))
    path = folder / "output" / "results" / "trials" / "000000.parquet"
    table = pq.read_table(path)
    pq.write_table(table.append_column("mood", table["trial_id"]), path)
    (folder / "output" / "journal.sqlite").unlink()
    with pytest.raises(NewerVersion, match=r"written by a newer version of harness, .*\(mood\); update harness"):
        load(folder)


def test_an_impossible_report_of_a_prompt_is_marked_in_log_and_table(tmp_path: Path) -> None:
    output = tmp_path / "marked" / "output"
    with Journal.open(output / "journal.sqlite") as journal:
        ends = [replace(finished(number), impossible_usage=mark) for number, mark in enumerate((True, False, None), 1)]
        begun(journal, "s").append([*opening("s"), *ends, ENDED])
        stored = [entry.event for entry in journal.read_entries("s") if isinstance(entry.event, StepFinished)]
        journal.record_trial(trial("t", "s"), checks("t"))
    assert stored == ends
    assert [type(step.impossible_usage) for step in stored] == [bool, bool, type(None)]
    assert [*load(output).steps["impossible_usage"].astype(object).where(lambda marks: marks.notna(), "missing")] == [
        True,
        False,
        "missing",
    ]
