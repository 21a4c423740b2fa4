"""Tests of a whole trial in a real sandbox, and of the records of trials that fail."""

import gc
import json
import os
import time
import warnings
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from harness.compaction.description import describe_measures
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.compaction.presets.window import MessageWindow
from harness.compaction.scaling import scale_policy
from harness.conversation.events import MessageAdded, SessionEnded, SessionStarted, StepFinished
from harness.conversation.plan import CompactionPlan
from harness.conversation.truncation import EXPLORE_PROPOSAL
from harness.experiment.job import CacheSettings, Job, collect_provenance
from harness.experiment.run_trial import WRITE_INTERVAL_SECONDS, choose_write_interval, run_trial
from harness.experiment.trial import Trial
from harness.inspection.timeline import inspect_session
from harness.metrics.session_metrics import measure_session
from harness.models.factory import Wiring
from harness.protocols import SandboxLimits
from harness.sandboxes.backends import SandboxChoice
from harness.sandboxes.cgroups import ControlGroup
from harness.store.journal import Journal
from harness.store.records import EXTERNAL_FAILURE_REASONS
from harness.store.tables import read_batches
from harness.tasks import make_task
from tests.experiment import tiny_task
from tests.models import anthropic_stub
from tests.models.openai_stub import Say, serving

pytestmark = pytest.mark.bubblewrap

TINY = f"{Path(__file__).parent / 'tiny_task.py'}:tiny"
HIDDEN = f"{Path(__file__).parent / 'exploring_task.py'}:hidden"
BASE = Trial(task=TINY, policy=NoCompaction(), window_tokens=32_768, seed=5)
TIGHT = KeepLast(
    threshold=0.3,
    keep_last=2,
    summarizer="scripted/oracle",
    system_reserve_tokens=100,
    output_reserve_tokens=100,
    safety_reserve_tokens=100,
)


@pytest.fixture
def job(tmp_path):
    def make_job(trial=BASE, **changes):
        job = Job(
            trial=trial,
            trial_id=trial.trial_id,
            experiment="e",
            arm="an arm",
            axes={"seed": trial.seed},
            backend="bubblewrap",
            provenance=collect_provenance("prices-1"),
            journal=tmp_path / f"{trial.trial_id}.sqlite",
        )
        return replace(job, **changes)

    return make_job


def test_a_trial_ends_in_a_record_its_checks_and_a_whole_log(job):
    one = job()
    trial, checks = run_trial(one)
    assert (trial.status, trial.reason, trial.success, trial.score) == ("completed", "replied", True, 1.0)
    assert (trial.error, trial.traceback) == ("", "")
    assert [(check.check, check.passed) for check in checks] == [("port", True), ("note", True)]
    assert (trial.level, trial.treatment, trial.sandbox, trial.policy) == ("L0", "as planned", "bubblewrap", "none")
    assert trial.cost_usd is not None
    assert trial.cost_usd > 0
    with Journal.open(one.journal) as journal:
        events = [entry.event for entry in journal.read_entries(trial.session_id)]
        assert journal.list_trials() == (trial,)
        assert set(journal.list_checks(trial.trial_id)) == set(checks)
    assert isinstance(events[0], SessionStarted)
    assert isinstance(events[-1], SessionEnded)
    assert trial.steps == sum(event.kind == "step-finished" for event in events)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["flashcards", "bug-hunt"])
def test_a_session_measured_in_its_trial_equals_its_log_measured_afterwards(job, task):
    policy = KeepLast(threshold=0.5, summarizer="scripted/lossy-0.5")
    one = job(Trial(task=task, policy=policy, window_tokens=32_768, max_steps=300))
    record, _ = run_trial(one)
    assert record.traceback == ""
    with Journal.open(one.journal) as journal:

        def read_metrics() -> list[list[object]]:
            tables = ("conduct", "step_conduct", "fact", "probe")
            return [journal.database.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3").fetchall() for table in tables]

        in_trial = read_metrics()
        entries = journal.read_entries(record.session_id)
        journal.record_metrics(record.session_id, *measure_session(entries, make_task(task, 0), policy.counter))
        assert in_trial == read_metrics()
    assert all(in_trial)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "activity"),
    [
        (NoCompaction(), "control"),
        (replace(TIGHT, threshold=1.0), "never fired"),
        (replace(TIGHT, keep_last=500), "no effect"),
        (TIGHT, "active"),
    ],
)
def test_the_activity_of_the_policy_is_a_column(job, policy, activity):
    one = job(replace(BASE, policy=policy, window_tokens=32_768 if activity == "never fired" else 8_000))
    trial, _ = run_trial(one)
    assert trial.activity == activity
    with Journal.open(one.journal) as journal:
        table = next(read_batches(journal, "trials"))
    row = {name: table[name].to_pylist()[0] for name in table.column_names}
    assert (row["activity"], row["fruitless_compactions"] > 0) == (activity, activity == "no effect")
    assert (row["turns"], row["summaries"] + row["prunings"]) == (2, trial.compactions)
    assert row["acts_on"] == trial.acts_on == describe_measures(policy)
    assert row["messages"] >= trial.steps * 2


def test_configuration_and_provenance_stand_in_the_record(job):
    one = job()
    trial, _ = run_trial(one)
    provenance = json.loads(trial.provenance_json)
    assert provenance["price_table"] == "prices-1"
    assert (provenance["sandbox"]["backend"], provenance["container"]) == ("bubblewrap", None)
    assert {"model_seed": BASE.model_seed, "task_seed": 5, "model": "scripted"}.items() <= provenance.items()
    assert {"harness", "pydantic"} <= dict(provenance["packages"]).keys()
    assert json.loads(trial.config_json)["window_tokens"] == 32_768
    assert json.loads(trial.axes_json) == {"seed": 5}


@pytest.mark.docker
def test_the_name_of_the_container_stands_in_the_record(job):
    import docker

    image = os.environ.get("HARNESS_TEST_IMAGE", "harness-test:py")
    began = time.time()
    trial, _ = run_trial(job(replace(BASE, sandbox=SandboxChoice(image=image)), backend="docker"))
    with closing(docker.from_env()) as client:
        when = {"since": int(began) - 1, "until": int(time.time()) + 1}
        created = client.api.events(**when, filters={"type": "container", "event": "create"}, decode=True)
        names = {event["Actor"]["Attributes"]["name"] for event in created}
    assert trial.success, trial.error
    name = json.loads(trial.provenance_json)["container"]
    assert name.startswith(f"coding-agent-{trial.session_id}-")
    assert name in names


def test_a_policy_that_compacts_is_counted_and_the_oracle_keeps_what_is_needed(job):
    trial, _ = run_trial(job(replace(BASE, policy=TIGHT, window_tokens=8_000)))
    assert trial.compactions > 0
    assert trial.summarizer_prompt_tokens > 0
    assert trial.treatment == "as planned"
    assert trial.threshold_tokens == 2_310
    assert trial.success


@pytest.mark.slow
def test_a_policy_for_another_window_is_scaled_and_the_record_has_the_factor(job):
    nominal = replace(BASE, policy=scale_policy(TIGHT, 4), window_tokens=8_000, nominal_window_tokens=32_000)
    as_it_is = replace(BASE, policy=TIGHT, window_tokens=8_000)
    one, other = job(nominal), job(as_it_is)
    (trial, _), (plain, _) = run_trial(one), run_trial(other)
    assert (trial.scale, plain.scale) == (0.25, 1.0)
    assert trial.trial_id != plain.trial_id
    assert (trial.threshold_tokens, trial.steps, trial.compactions) == (2_310, plain.steps, plain.compactions)
    assert trial.success
    assert (
        json.loads(trial.policy_json)["safety_reserve_tokens"] == 400
    )  # the record has the configured policy, the session the scaled one
    with Journal.open(one.journal) as journal:
        (started,) = [entry.event for entry in journal.read_entries(trial.session_id) if isinstance(entry.event, SessionStarted)]
        assert next(read_batches(journal, "trials"))["scale"].to_pylist() == [0.25]
    assert started.budget_rule.endswith("constants scaled by 0.25, from a nominal window of 32000")
    assert json.loads(started.policy_json)["safety_reserve_tokens"] == 100


def read_digests(one):
    """Return the digest of each request of the session of a job that has run."""
    with Journal.open(one.journal) as journal:
        return [
            entry.event.request_digest for entry in journal.read_entries(one.trial_id) if isinstance(entry.event, StepFinished)
        ]


@pytest.mark.slow
def test_a_nominal_window_alone_changes_nothing_in_a_session_that_never_compacts_but_a_limit_on_outputs_does(job):
    plain = Trial(task="log-forensics", policy="codex", window_tokens=131_072, max_steps=300, seed=1)
    scaled = replace(plain, nominal_window_tokens=800_000)
    limited = replace(plain, output_limit_scale=131_072 / 800_000)
    jobs = [job(trial) for trial in (plain, scaled, limited)]
    records = [run_trial(one)[0] for one in jobs]
    assert [record.compactions for record in records] == [0, 0, 0]
    assert [record.scale for record in records] == [1.0, 131_072 / 800_000, 1.0]
    assert read_digests(jobs[0]) == read_digests(jobs[1]) != read_digests(jobs[2])
    assert records[0].score == records[1].score == 1.0 > records[2].score
    with Journal.open(jobs[2].journal) as journal:
        limits = [
            json.loads(entry.event.policy_json)["clip_characters"]
            for entry in journal.read_entries(limited.trial_id)
            if isinstance(entry.event, SessionStarted)
        ]
    assert limits == [1_638]


def test_an_empty_summary_loses_the_facts_of_the_prompt(job):
    policy = replace(TIGHT, summarizer="scripted/empty")
    trial, checks = run_trial(job(replace(BASE, policy=policy, window_tokens=8_000)))
    assert trial.compactions > 0
    assert {check.check: check.passed for check in checks} == {"port": False, "note": True}
    assert trial.score == 0.5


def test_a_window_that_overflows_is_a_failure_with_its_reason_and_is_graded(job):
    trial, checks = run_trial(job(replace(BASE, window_tokens=6_000)))
    assert (trial.status, trial.reason, trial.success, trial.overflows) == ("failed", "overflow", False, 1)
    assert "; compaction is off with policy 'none': switch it on with another" in trial.error
    assert trial.error
    assert not trial.traceback
    assert {check.check: check.passed for check in checks} == {"port": False, "note": True}


def test_the_step_limit_is_a_failure_with_its_reason(job):
    trial, _ = run_trial(job(replace(BASE, max_steps=2)))
    assert (trial.status, trial.reason, trial.steps) == ("failed", "max_steps", 2)


def test_a_trial_records_the_step_limit_of_its_task(job):
    trial, _ = run_trial(job(BASE))
    assert (BASE.max_steps, trial.max_steps) == (None, make_task(BASE.task, BASE.seed).step_limit)


@pytest.mark.slow
def test_a_sandbox_that_cannot_start_is_a_failure_with_its_reason(job):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # without an engine, the SDK leaves its socket open
        of = job(replace(BASE, sandbox=SandboxChoice(image="no/such-image:0")), backend="docker")
        trial, checks = run_trial(of)
        gc.collect()
    assert (trial.status, trial.reason, trial.steps) == ("failed", "sandbox_error", 0)
    assert "docker" in trial.error
    with Journal.open(of.journal) as journal:
        [row] = journal.query("SELECT status, reason, detail FROM sessions")
    assert tuple(row) == ("failed", "sandbox_error", trial.error), "the session does not seem to be running"
    assert [check.passed for check in checks] == [False, False]


def test_only_steps_of_scripted_models_wait_to_be_written():
    assert choose_write_interval(BASE.models) == WRITE_INTERVAL_SECONDS > 0
    assert choose_write_interval(replace(BASE, policy=TIGHT, model="openai/gpt-5").models) == 0
    assert choose_write_interval(replace(BASE, policy=replace(TIGHT, summarizer="openai/gpt-5")).models) == 0


def test_an_agent_that_sleeps_fails_with_its_reason_and_is_graded(job):
    one = job(replace(BASE, task=TINY.replace(":tiny", ":sleepy")), tool_time_seconds=3.0)
    trial, checks = run_trial(one)
    assert (trial.status, trial.reason, trial.steps) == ("failed", "timeout", 2)
    assert trial.reason not in EXTERNAL_FAILURE_REASONS
    assert trial.error == "the tools took longer than 3 s altogether"
    assert trial.treatment == "as planned"
    assert {check.check: check.passed for check in checks} == {"port": False, "note": True}


@pytest.mark.slow
def test_an_agent_whose_code_uses_up_memory_while_it_is_graded_has_failed_and_counts(job):
    limits = SandboxLimits(memory_bytes=192 * 2**20)
    trial, checks = run_trial(job(replace(BASE, task=TINY.replace(":tiny", ":trapped"), sandbox=SandboxChoice(limits=limits))))
    assert not trial.success
    assert trial.reason not in EXTERNAL_FAILURE_REASONS
    assert [check.passed for check in checks] == [False, False]


def test_an_agent_that_kills_its_sandbox_has_failed_and_counts(job):
    group = ControlGroup.make(SandboxLimits())
    if group is None:
        pytest.skip("control groups cannot be made here")
    group.remove()
    limits = SandboxLimits(memory_bytes=192 * 2**20)
    trial, checks = run_trial(job(replace(BASE, task=TINY.replace(":tiny", ":greedy"), sandbox=SandboxChoice(limits=limits))))
    assert (trial.status, trial.reason, trial.success, trial.score) == ("failed", "sandbox_killed", False, 0.0)
    assert "its processes had used up its memory" in trial.error
    assert trial.reason not in EXTERNAL_FAILURE_REASONS
    assert [check.passed for check in checks] == [False, False]


def test_a_bug_in_a_task_is_a_crash_of_this_trial_with_its_traceback(job):
    trial, checks = run_trial(job(replace(BASE, task=TINY.replace(":tiny", ":broken"))))
    assert (trial.status, trial.reason, trial.success, trial.score) == ("crashed", "crashed", False, 0.0)
    line = tiny_task.broken.__code__.co_firstlineno + 2
    assert trial.error.endswith(f"cannot be made with seed 5 (line {line}): ZeroDivisionError: division by zero")
    assert trial.scale == 1.0
    assert "in broken" in trial.traceback
    assert checks == ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken(NoCompaction):
    """Policy with a bug that raises an exception at the first step."""

    def plan(self, view, budget, usage, moment="step"):
        raise ValueError("a bug")


def test_a_bug_in_a_policy_is_a_crash_and_ends_the_log_as_well(job):
    one = job(replace(BASE, policy=Broken()))
    trial, checks = run_trial(one)
    assert (trial.status, trial.error) == ("crashed", "ValueError: a bug")
    with Journal.open(one.journal) as journal:
        *_, last = journal.read_entries(trial.session_id)
    assert isinstance(last.event, SessionEnded)
    assert (last.event.status, last.event.reason) == ("failed", "crashed")
    assert [check.passed for check in checks] == [False, False]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lawless(NoCompaction):
    """Policy that evicts the system message as soon as the agent has acted."""

    def plan(self, view, budget, usage, moment="step"):
        return CompactionPlan(reason="whim", forget=(view.items[0].item_id,)) if view.steps else None


def test_an_illegal_plan_is_a_failure_of_the_policy_and_what_was_left_by_then_is_judged(job):
    one = job(replace(BASE, policy=Lawless()))
    trial, checks = run_trial(one)
    assert (trial.status, trial.reason, trial.traceback) == ("failed", "illegal_plan", "")
    assert trial.error.startswith("policy ")
    assert "illegal view: the system message would be changed or evicted" in trial.error
    with Journal.open(one.journal) as journal:
        *_, last = journal.read_entries(trial.session_id)
    assert isinstance(last.event, SessionEnded)
    assert (last.event.status, last.event.reason, last.event.detail) == ("failed", "illegal_plan", trial.error)
    assert not any("grader failed" in check.detail for check in checks)


@pytest.mark.slow
def test_the_same_trial_run_twice_is_the_same_to_the_last_digest(job, tmp_path):
    first, again = run_trial(job()), run_trial(job(journal=tmp_path / "again.sqlite"))
    one, other = (replace(trial, started_at_ms=0, wall_seconds=0.0) for trial in (first.record, again.record))
    assert one == other
    assert first.checks == again.checks
    digests = []
    for name in (f"{BASE.trial_id}.sqlite", "again.sqlite"):
        with Journal.open(tmp_path / name) as journal:
            entries = journal.read_entries(BASE.trial_id)
            digests.append([entry.event.request_digest for entry in entries if entry.event.kind == "step-finished"])
    assert digests[0] == digests[1]
    assert len(digests[0]) == first.record.steps


@pytest.mark.slow
def test_a_trial_that_is_run_again_is_answered_from_the_action_cache_and_its_rows_say_so(job, tmp_path):
    caching = CacheSettings(folder=tmp_path / "actions", max_bytes=2**20)
    one = replace(job(), cache_settings=caching)
    cold, checks = run_trial(one)
    (steps,) = journal_steps(one.journal)
    again = replace(one, journal=tmp_path / "again.sqlite")
    warm, again_checks = run_trial(again)
    (warm_steps,) = journal_steps(again.journal)
    assert cold.action_misses == warm.action_hits == sum(steps["action_misses"]) == sum(warm_steps["action_hits"]) > 0
    assert cold.action_hits == warm.action_misses == sum(steps["action_hits"]) == sum(warm_steps["action_misses"]) == 0
    assert again_checks == checks
    ran, cached = (list_call_timings(path) for path in (one.journal, again.journal))
    assert len(ran) == len(cached) > 0
    for (tool, cold_timing), (_, warm_timing) in zip(ran, cached, strict=True):
        assert cold_timing.started_at_ms >= cold.started_at_ms
        assert warm_timing.started_at_ms >= warm.started_at_ms
        assert cold_timing.cached_seconds is None
        if tool == "execute_command":
            assert 0 < warm_timing.cached_seconds <= cold_timing.seconds
            assert warm_timing.seconds >= warm_timing.cached_seconds
        else:
            assert warm_timing.cached_seconds is None


def list_call_timings(path):
    with Journal.open(path, read_only=True) as journal:
        [session_id] = journal.list_session_ids()
        added = [entry.event for entry in journal.read_entries(session_id) if isinstance(entry.event, MessageAdded)]
    return [(event.message.results[0].name, event.timing) for event in added if event.message.results]


def test_the_table_of_messages_has_the_times_of_calls(job):
    one = job()
    run_trial(one)
    with Journal.open(one.journal, read_only=True) as journal:
        [messages] = [table.to_pandas() for table in read_batches(journal, "messages")]
    results = messages[messages["role"] == "tool"]
    timings = [timing for _, timing in list_call_timings(one.journal)]
    assert [start.timestamp() * 1_000 for start in results["call_started_at"]] == [timing.started_at_ms for timing in timings]
    assert list(results["call_seconds"]) == [timing.seconds for timing in timings]
    assert messages[messages["role"] != "tool"][["call_started_at", "call_seconds"]].isna().all(axis=None)
    assert messages["call_cached_seconds"].isna().all()


def test_hits_and_misses_are_missing_without_an_action_cache(job):
    one = job()
    trial, _ = run_trial(one)
    (steps,) = journal_steps(one.journal)
    assert (trial.action_hits, trial.action_misses) == (None, None)
    assert set(steps["action_hits"]) == {None}


def journal_steps(path):
    with Journal.open(path, read_only=True) as journal:
        return [table.to_pydict() for table in read_batches(journal, "steps")]


def test_a_task_can_opt_out_of_the_action_cache(job, tmp_path):
    source = Path(TINY.partition(":")[0]).read_text()
    file = tmp_path / "uncached.py"
    file.write_text(
        f"{source}\n\nimport dataclasses\ndef opted_out(seed):\n    return dataclasses.replace(tiny(seed), cacheable=False)\n"
    )
    trial = replace(BASE, task=f"{file}:opted_out")
    record, _ = run_trial(replace(job(trial), cache_settings=CacheSettings(folder=tmp_path / "actions", max_bytes=2**20)))
    assert (record.success, record.action_hits, record.action_misses) == (True, None, None)


@pytest.mark.slow  # litellm takes seconds to import
def test_a_provider_that_stalls_is_asked_again_after_the_time_that_was_set_and_the_record_counts_it(job, monkeypatch):
    stalls, done = Say(pieces=("I", "am"), stall_after=2), Say(pieces=("Done.",))
    monkeypatch.setenv("HOSTED_VLLM_API_KEY", "planted")
    with serving(stalls, done) as stub:
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", stub.base)
        trial, _ = run_trial(job(replace(BASE, model="hosted_vllm/stub"), wiring=Wiring(stall_seconds=3.0)))
    assert (trial.status, trial.reason, trial.steps, trial.retries) == ("completed", "replied", 1, 1)
    assert 2.0 <= (trial.waited_seconds or 0.0) <= 3.0, "two seconds and up to one of jitter"
    assert json.loads(trial.provenance_json)["cassette"] is None


def test_a_scripted_trial_has_no_retries_and_no_waiting_time(job):
    trial, _ = run_trial(job())
    assert (trial.retries, trial.waited_seconds) == (0, 0.0)


CALLS = (
    *((f"toolu_{number}", "execute_command", json.dumps({"command": f"echo {number}"})) for number in range(51)),
    ("toolu_51", "write_file", json.dumps({"path": "conf.txt", "content": "port=4005\n"})),
)
"""52 tool calls, the last of which does what the task asks for."""


def list_openai_ids(asked: dict[str, Any]) -> tuple[int, list[str], list[str]]:
    """Return the number of messages of a request without the system message, and the ids of its calls and results."""
    messages = [message for message in asked["messages"] if message["role"] != "system"]
    calls = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    return len(messages), calls, [message["tool_call_id"] for message in messages if message["role"] == "tool"]


def list_anthropic_ids(asked: dict[str, Any]) -> tuple[int, list[str], list[str]]:
    blocks = [block for message in asked["messages"] for block in message["content"] if isinstance(block, dict)]
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    return len(asked["messages"]), calls, [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]


@pytest.mark.slow  # litellm takes seconds to import
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_trial_of_more_than_fifty_calls_finishes_under_a_cap_of_thirty_messages(job, provider, monkeypatch):
    """S4.6, S4.7: in the tool loop of both providers, whose requests never exceed the cap by more than one turn."""
    with ExitStack() as stack:
        if provider == "anthropic":
            stub: Any = stack.enter_context(anthropic_stub.serving(*CALLS, input_tokens=9))
            name, list_ids = "anthropic/claude-3-5-sonnet", list_anthropic_ids
        else:
            says = (Say(calls=(call,), finish="tool_calls") for call in CALLS)
            stub = stack.enter_context(serving(*says, Say(pieces=("ok",))))
            name, list_ids = "openai/gpt-4o", list_openai_ids
        monkeypatch.setenv(f"{provider.upper()}_API_BASE", stub.base)
        monkeypatch.setenv(f"{provider.upper()}_API_KEY", "planted-0123456789")
        policy = MessageWindow(max_messages=30)
        trial, _ = run_trial(job(replace(BASE, policy=policy, model=name, window_tokens=None, max_steps=60)))
    assert (trial.status, trial.reason, trial.success) == ("completed", "replied", True)
    assert trial.steps == len(stub.asked) == len(CALLS) + 1
    assert trial.compactions > 5
    counts = []
    for number, asked in enumerate(stub.asked):
        count, calls, results = list_ids(asked)
        newest = [call_id for call_id, _, _ in CALLS[:number]][-9:]
        assert calls == results, "no call without its result, and no result without its call"
        assert calls[len(calls) - len(newest) :] == newest, "the newest 20 messages stay"
        assert "Write `port=N` into conf.txt" in json.dumps(asked["messages"][: 1 + (provider == "openai")]), (
            "and so does the request"
        )
        counts.append(count)
    assert 28 <= max(counts) <= 30 + 2
    assert counts[-1] >= 20


def read_rows(path, table):
    with Journal.open(path, read_only=True) as journal:
        return [row for batch in read_batches(journal, table) for row in batch.to_pylist()]


def read_results(journal, session_id):
    events = [entry.event for entry in journal.read_entries(session_id)]
    return {result.name: result.output for event in events if event.kind == "message-added" for result in event.message.results}


@pytest.mark.parametrize("explore_model", ["same", "scripted:typical"])
def test_an_agent_that_explores_is_answered_and_what_its_sub_agent_took_is_counted_apart(job, explore_model):
    """S3.20."""
    one = job(replace(BASE, task=HIDDEN, explore=True, explore_model=explore_model))
    trial, _ = run_trial(one)
    assert (trial.success, trial.error, trial.steps, trial.explorations, trial.sub_agent_steps) == (True, "", 4, 1, 2)
    child = f"{trial.trial_id}.000001"
    with Journal.open(one.journal, read_only=True) as journal:
        assert sorted(journal.list_session_ids()) == [trial.trial_id, child]
        asked, looked = read_results(journal, trial.trial_id), read_results(journal, child)
        of_agent, of_sub_agent = (inspect_session(journal.read_entries(name)) for name in (trial.trial_id, child))
    own, its = of_agent.totals, of_sub_agent.totals
    assert asked["explore"] == f"The port is 4005.\n[2 steps, session {child}]"
    assert asked["read_file"].endswith(EXPLORE_PROPOSAL)
    assert "The port is" not in asked["read_file"], "the agent knows the port from the sub-agent alone"
    assert looked == {"execute_command": "exit code 0\nThe port is 4005."}
    assert (trial.sub_agent_prompt_tokens, trial.sub_agent_output_tokens) == (its.prompt_tokens, its.output_tokens)
    assert trial.sub_agent_cost_usd == pytest.approx(its.total_cost_usd)
    assert (trial.prompt_tokens, trial.output_tokens) == (own.prompt_tokens, own.output_tokens), "without those of the sub-agent"
    assert own.total_cost_usd == pytest.approx((trial.cost_usd or 0) + (trial.sub_agent_cost_usd or 0))
    assert of_sub_agent.model == f"scripted/hidden:{'attentive' if explore_model == 'same' else 'typical'}"
    [row] = read_rows(one.journal, "trials")
    names = [name for name in row if name.startswith("sub_agent") or name == "explorations"]
    assert len(names) == 5
    assert {name: row[name] for name in names} == {name: getattr(trial, name) for name in names}
    assert len(read_rows(one.journal, "steps")) == 6


def test_a_trial_without_the_tool_explores_nothing(job):
    trial, _ = run_trial(job(replace(BASE, task=HIDDEN)))
    assert (trial.success, trial.explorations, trial.sub_agent_steps, trial.sub_agent_cost_usd) == (True, 0, 0, 0.0)


def test_a_sub_agent_that_finds_nothing_says_so_and_costs_as_well(job):
    one = job(replace(BASE, task=HIDDEN.replace(":hidden", ":lost"), explore=True))
    trial, _ = run_trial(one)
    with Journal.open(one.journal, read_only=True) as journal:
        assert read_results(journal, trial.trial_id)["explore"].startswith("I did not find the port.\n[1 steps")
    assert (trial.success, trial.explorations, trial.sub_agent_steps) == (False, 1, 1)


def test_the_sub_agent_of_a_trial_is_the_same_in_every_run(job, tmp_path):
    trial = replace(BASE, task=HIDDEN, explore=True)
    contents = []
    for name in ("one", "two"):
        one = replace(job(trial), journal=tmp_path / f"{name}.sqlite")
        run_trial(one)
        with Journal.open(one.journal, read_only=True) as journal:
            child = f"{trial.trial_id}.000001"
            contents.append([entry.event for entry in journal.read_entries(child) if entry.event.kind == "message-added"])
    assert contents[0] == contents[1] != []


@pytest.mark.slow  # litellm takes seconds to import
def test_a_scripted_agent_sends_a_real_sub_agent_whose_price_is_unknown(job, monkeypatch):
    """S3.20: a model of its own, which is called for the sub-agent alone."""
    look = Say(calls=(("c1", "execute_command", json.dumps({"command": "grep port log.txt"})),), finish="tool_calls")
    monkeypatch.setenv("HOSTED_VLLM_API_KEY", "planted")
    with serving(look, Say(pieces=("The port is ", "4005."))) as stub:
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", stub.base)
        trial, _ = run_trial(job(replace(BASE, task=HIDDEN, explore=True, explore_model="hosted_vllm/stub")))
    assert (trial.success, trial.error, trial.explorations, trial.sub_agent_steps) == (True, "", 1, 2)
    assert (trial.sub_agent_prompt_tokens, trial.sub_agent_output_tokens) == (22, 14)
    assert trial.sub_agent_cost_usd is None
    assert trial.cost_usd is not None
    assert trial.level == "L1"
    assert json.loads(trial.provenance_json)["sub_agent_model"] == "hosted_vllm/stub"
    assert [request["model"] for request in stub.asked] == ["stub", "stub"]
