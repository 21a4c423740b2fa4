"""Large experiments: finished journals that are written through the real writer, and the time and memory to use them.

`write_experiment` makes the folder of an experiment as a run leaves it, without running an agent: the plan, and a journal in
which each trial of the plan has a session, its checks, its metrics and its record. Texts are random pieces of this repository's
files, so that they differ from each other and compress like real ones. As a program, `python -m tests.bench.large FOLDER TRIALS`
writes one experiment.
"""

import json
import math
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner

from harness.cli import main as command_line
from harness.compaction.description import inspect_abilities
from harness.compaction.scaling import FittedPolicy
from harness.conversation.codec import to_canonical_json
from harness.conversation.events import (
    Compaction,
    Event,
    Insert,
    ItemId,
    MessageAdded,
    Patch,
    SessionEnded,
    SessionStarted,
    StepFinished,
)
from harness.conversation.messages import ToolCall, ToolResult, assistant, system, tool, user
from harness.conversation.tokens import Estimated, Measured, Usage
from harness.experiment.experiment import Experiment
from harness.experiment.grid import Cell
from harness.experiment.job import Ending, Job, Provenance, TrialRun
from harness.experiment.preflight import FirstTokens, check_trials
from harness.experiment.run_trial import WRITE_INTERVAL_SECONDS
from harness.experiment.trial import Trial
from harness.inspection.loading import load
from harness.reporting.experiment_report import report
from harness.reporting.page.document import write_page
from harness.session.grading import GradedCheck
from harness.store.journal import Journal
from harness.store.records import FactRecord, ProbeRecord, Probes, SessionMetrics
from harness.store.results import Results
from harness.store.sessions.lookup import JOURNAL_FILE
from harness.store.tables import export
from harness.tasks import make_task
from tests.bench.figure import Figure
from tests.store.samples import count_calls

CHECKOUT = Path(__file__).parents[2]
ARMS = 20
"""Number of arms in the plan: a grid of sixteen policies, and four extra arms."""
STEPS = 24
"""Mean number of steps of a session."""
COMPACT_EVERY_STEPS = 10
FACTS = 6
PLAN = """\
[trial]
task = "flashcards"
model = "scripted"
window_tokens = 32_768
max_steps = 300

[trial.policy]
kind = "keep-last"
summarizer = "scripted/extractive"

[axes]
seed = [{seeds}]
policy.threshold = [0.5, 0.65, 0.8, 0.95]
policy.keep_last = [4, 6, 10, 20]

[[arms]]
name = "control: no compaction"
trial = {{ policy = {{ kind = "none" }} }}

[[arms]]
name = "oracle"
trial = {{ policy = {{ kind = "oracle" }} }}

[[arms]]
name = "codex"
trial = {{ policy = {{ kind = "codex" }} }}

[[arms]]
name = "A/A: base again"
trial = {{ replicate = 1 }}
"""


def write_experiment(folder: Path, trials: int, *, steps: int = STEPS) -> Experiment:
    """Write an experiment whose trials are all finished, and return it; `trials` is a multiple of the number of arms."""
    write_plan(folder, trials)
    experiment = Experiment.from_toml(folder)
    with Journal.open(experiment.output / JOURNAL_FILE) as journal:
        for number, cell in enumerate(experiment.grid):
            write_trial(journal, cell, experiment.name, random.Random(number), steps)
    return experiment


def write_plan(folder: Path, trials: int) -> None:
    """Write a plan with this number of trials, which is a multiple of the number of arms."""
    assert trials % ARMS == 0, f"{trials} trials are no multiple of {ARMS} arms"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.toml").write_text(PLAN.format(seeds=", ".join(map(str, range(trials // ARMS)))))


def write_trial(journal: Journal, cell: Cell, experiment: str, draw: random.Random, steps: int = STEPS) -> None:
    """Write the session, the metrics and the record of one trial, with numbers and texts that are drawn at random."""
    job = Job(
        trial=cell.trial,
        trial_id=cell.trial.trial_id,
        experiment=experiment,
        arm=cell.arm,
        axes=cell.axes,
        backend="bubblewrap",
        provenance=_PROVENANCE,
        journal=journal.path,
    )
    started_at = 1_700_000_000 + draw.randrange(10**6)
    clock = Clock(started_at)
    run = TrialRun(started_at=started_at, session_id=job.trial_id)
    run.fitted_policy = FittedPolicy(policy=cell.trial.policy, scale=1.0)
    can_compact = inspect_abilities(cell.trial.policy).can_act
    session = SessionWriter(job.trial_id, cell.trial, draw, can_compact=can_compact)
    log = journal.open_session_log(
        job.trial_id, created_at_ms=int(started_at * 1_000), clock=clock, write_interval_seconds=WRITE_INTERVAL_SECONDS
    )
    with closing(log):
        for events in session.generate(max(2, round(draw.gauss(steps, steps / 6)))):
            for entry in log.append(events):
                run.totals(entry)
    journal.record_metrics(job.trial_id, *session.draw_metrics())
    task = _make_task_once(cell.trial.task, cell.trial.seed)
    passes = [draw.random() < 0.9 for _ in task.checks]
    run.graded_checks = tuple(
        GradedCheck(check=check, passed=passed, detail="" if passed else cut_text(draw, 60))
        for check, passed in zip(task.checks, passes, strict=True)
    )
    run.ending = Ending(status="completed", reason="replied")
    finished = run.build_finished_trial(job, clock())
    journal.record_trial(finished.record, finished.checks)


class Clock:
    """Clock that goes on by a tenth of a second each time it is read."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __call__(self) -> float:
        self._seconds += 0.1
        return self._seconds


class SessionWriter:
    """Writer of the events of one session, in the batches in which a scripted trial logs them."""

    def __init__(self, session_id: str, trial: Trial, draw: random.Random, *, can_compact: bool) -> None:
        self._session_id, self._trial, self._draw, self._can_compact = session_id, trial, draw, can_compact
        self._view: list[tuple[int, int]] = []  # event and tokens of each message in view
        self._seq = 0
        self._compactions: list[int] = []
        self._steps = 0

    def generate(self, steps: int) -> Iterator[Sequence[Event]]:
        draw, trial = self._draw, self._trial
        yield self._number(
            SessionStarted(
                session_id=self._session_id,
                task=trial.task,
                model="scripted",
                policy_json=to_canonical_json(trial.policy),
                window_tokens=trial.window_tokens or 0,
                threshold_tokens=20_000 if self._can_compact else None,
                budget_rule="0.8 of what is free",
                sandbox="bubblewrap",
            ),
            MessageAdded(step=0, message=system("You are an agent. " * 20)),
            MessageAdded(step=0, message=user(cut_text(draw, 1_500))),
        )
        for step in range(1, steps + 1):
            self._steps = step
            if self._can_compact and step % COMPACT_EVERY_STEPS == 0:
                yield self._number(self._compact(step))
            call = ToolCall(
                call_id=f"call-{step}", name="execute_command", arguments_json=f'{{"command": "cat part-{draw.random()}.py"}}'
            )
            output = ToolResult(
                call_id=call.call_id, name=call.name, output=cut_text(draw, min(8_000, int(draw.lognormvariate(6.5, 1))))
            )
            tokens = sum(size for _, size in self._view)
            yield self._number(
                MessageAdded(step=step, message=assistant(cut_text(draw, draw.randrange(40, 400)), call)),
                MessageAdded(step=step, message=tool(output)),
                self._finish(step, tokens),
            )
        yield self._number(SessionEnded(status="completed", reason="replied"))

    def _number(self, *events: Event) -> Sequence[Event]:
        for event in events:
            self._seq += 1
            if isinstance(event, MessageAdded):
                self._view.append((self._seq, sum(len(str(part)) for part in event.message.parts) // 4))
        return events

    def _compact(self, step: int) -> Compaction:
        removed = self._view[2:-4]
        summary = cut_text(self._draw, 1_200)
        tokens = sum(size for _, size in self._view)
        self._view = [*self._view[:2], (self._seq + 1, 300), *self._view[-4:]]
        self._compactions.append(self._seq + 1)
        stands_for = tuple(ItemId(event) for event, _ in removed)
        return Compaction(
            round=len(self._compactions),
            step=step,
            moment="step",
            status="applied",
            reason=f"{tokens:,} tokens ≥ 20,000",
            patch=Patch(forget=stands_for, insert=(Insert(message=assistant(summary), after=ItemId(3), stands_for=stands_for),)),
            tokens_before=Estimated(tokens),
            tokens_after=Estimated(sum(size for _, size in self._view)),
            messages_before=len(removed) + 6,
            messages_after=7,
            summary=summary,
            summarizer="scripted/extractive",
            summarizer_usage=Usage(input_tokens=Measured(tokens), output_tokens=Measured(300)),
            summarizer_cost_usd=0.01,
            summarizer_seconds=2.0,
            wall_seconds=0.01,
        )

    def _finish(self, step: int, tokens: int) -> StepFinished:
        draw = self._draw
        return StepFinished(
            step=step,
            view_tokens=Estimated(tokens),
            view_messages=len(self._view),
            usage=Usage(input_tokens=Measured(tokens), output_tokens=Measured(draw.randrange(20, 200))),
            cost_usd=tokens * 1e-6,
            request_digest=f"{draw.getrandbits(256):064x}",
            kept_prefix_messages=max(0, len(self._view) - 2),
            kept_prefix_tokens=Estimated(tokens * 9 // 10),
            calls=1,
            call_errors=int(draw.random() < 0.1),
            model_seconds=draw.random(),
            tool_seconds=draw.random() / 10,
            finish_reason="tool-calls",
        )

    def draw_metrics(self) -> tuple[SessionMetrics, Probes]:
        """Return metrics and probes of the session, with numbers that are drawn at random."""
        draw = self._draw
        steps = tuple(
            count_calls(step, executions=draw.randrange(2), retrievals=draw.randrange(2), repeats=int(draw.random() < 0.2))
            for step in range(1, self._steps + 1)
        )
        kinds = ("constraint", "goal", "decision", "artifact", "value", "error")
        facts = tuple(
            FactRecord(number=number, name=f"fact-{number}", kind=kinds[number], said_in="prompt", reacquisition_calls=None)
            for number in range(FACTS)
        )
        probes = tuple(
            ProbeRecord(event=event, fact=fact, version=1, seen_before=True, seen_after=draw.random() < 0.7)
            for event in self._compactions
            for fact in range(FACTS)
        )
        metrics = SessionMetrics(
            evicted_tokens=draw.randrange(20_000),
            fact_uses=FACTS,
            wrong_uses=draw.randrange(3),
            stale_uses=draw.randrange(3),
            steps=steps,
        )
        return metrics, Probes(facts=facts, rows=probes)


def cut_text(draw: random.Random, characters: int) -> str:
    """Return a random piece of the source code and documentation of this repository."""
    corpus = _read_corpus()
    start = draw.randrange(len(corpus) - characters)
    return corpus[start : start + characters]


@cache
def _read_corpus() -> str:
    paths = sorted([*CHECKOUT.glob("harness/**/*.py"), *CHECKOUT.glob("docs/**/*.md")])
    return "".join([path.read_text("utf-8") for path in paths])


_make_task_once = cache(make_task)
_PROVENANCE = Provenance(git_commit=None, python="3", platform="Linux", packages=(), price_table="none")


FEW_TRIALS = 260
SIZES = (1_000, 10_000)
"""Numbers of trials of the experiments that are measured; the growth of a figure is its value for the second by the first."""
GROWTH_BAR = 1.2 * SIZES[1] * math.log(SIZES[1]) / (SIZES[0] * math.log(SIZES[0]))
"""Growth in proportion to n·log n, with a fifth for the noise of measurements."""


def large() -> Iterator[Figure]:
    """Measure CPU time and peak memory of what a user does with a finished experiment, and their growth."""
    with tempfile.TemporaryDirectory() as folder:
        measured = []
        for trials in SIZES:
            write_experiment(Path(folder) / str(trials), trials)
            measured.append({action: measure(action, Path(folder) / str(trials)) for action in ACTIONS})
        write_plan(Path(folder) / "plan", DRY_RUN_TRIALS)
        dry_run = measure("dry run", Path(folder) / "plan")
        first_tokens = FirstTokens()
        check_trials(Experiment.from_toml(Path(folder) / "plan").grid.iter_trials(), first_tokens=first_tokens)
        write_experiment(Path(folder) / "few", FEW_TRIALS)
        few = measure("text of the report", Path(folder) / "few")
    small, large = measured
    yield Figure(name=f"{FEW_TRIALS} finished trials: text of the report", value=few.cpu_seconds, unit="CPU s", bar=6.0)
    for action, bars in ACTIONS.items():
        name = f"{SIZES[1]:,} finished trials: {action}"
        yield Figure(name=name, value=large[action].cpu_seconds, unit="CPU s", bar=bars.cpu_seconds)
        memory = "memory of the process" if action in COMMANDS else "memory above the idle process"
        yield Figure(name=f"{name}, {memory}", value=large[action].peak_mb, unit="MB", bar=bars.peak_mb)
        growth = large[action].cpu_seconds / max(small[action].cpu_seconds, LEAST_SECONDS)
        yield Figure(name=f"{name}: growth from {SIZES[0]:,} trials", value=growth, unit="×", bar=GROWTH_BAR)
    name = f"dry run of {DRY_RUN_TRIALS:,} trials"
    yield Figure(name=name, value=dry_run.cpu_seconds, unit="CPU s", bar=40.0)
    yield Figure(name=f"{name}, memory above the idle process", value=dry_run.peak_mb, unit="MB", bar=400.0)
    yield Figure(name=f"{name}: first requests counted", value=len(first_tokens), unit="requests", bar=1)


class Cost(NamedTuple):
    """CPU time and peak memory of an action; both may be None in the limits of an action."""

    cpu_seconds: Any
    peak_mb: Any


DRY_RUN_TRIALS = 1_000_000
PAGE_ACTION = "text and page of the report"
PAGE_FILE = "page.html"
LEAST_SECONDS = 0.05
"""CPU time below which an action counts as this long in a growth, since such times are mostly noise."""
ACTIONS = {
    "export": Cost(None, 300.0),
    "export with nothing new": Cost(1.0, None),
    "a query over trials": Cost(1.0, None),
    "steps as a frame": Cost(1.5, 500.0),
    "quantiles of token curves": Cost(0.2, None),
    "text of the report": Cost(30.0, 1_000.0),
    PAGE_ACTION: Cost(40.0, 1_000.0),
    "harness run that writes the report": Cost(None, 1_000.0),
    "harness run with nothing left to do": Cost(3.0, None),
}
"""Limits of each action on a finished experiment, in the order in which the actions are measured."""
COMMANDS = ("harness run that writes the report", "harness run with nothing left to do")
"""Actions that are commands. Their cost is that of the whole process, with its start and its imports."""
QUANTILES = "SELECT step, quantile_cont(view_tokens, [0.1, 0.5, 0.9]) FROM steps GROUP BY step ORDER BY step"


def measure(action: str, folder: Path) -> Cost:
    """Return the cost of an action in a process of its own: without its start and its imports, unless the action is a command."""
    command = [sys.executable, "-m", "tests.bench.large", str(folder), action]
    return Cost(
        *json.loads(subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    )


def perform(action: str, folder: Path) -> Cost:
    """Perform an action in this process and return its cost."""
    if action in COMMANDS:
        return run_command("run", str(folder), "--progress", "off")
    output = folder / "output"
    results = load(output) if output.is_dir() else None
    if results is not None and action == "quantiles of token curves":
        results.sql("SELECT step FROM steps LIMIT 1")  # the quantiles are not the first query of a notebook
    idle_kib = read_status_kib("VmRSS")
    began = time.process_time()
    match action:
        case "export" | "export with nothing new":
            export(output / JOURNAL_FILE, output / "results")
        case "dry run":
            done = CliRunner().invoke(command_line, ["run", str(folder), "--dry-run"])
            assert done.exit_code == 0, done.output
        case _:
            assert results is not None
            read_results(action, results)
    return Cost(time.process_time() - began, (read_status_kib("VmHWM") - idle_kib) * 1024 / 1e6)


def read_results(action: str, results: Results) -> None:
    match action:
        case "a query over trials":
            assert len(results.sql("SELECT arm, avg(score) FROM trials GROUP BY arm")) == ARMS
        case "steps as a frame":
            assert len(results.steps) > 0
        case "quantiles of token curves":
            assert len(results.sql(QUANTILES)) > 0
        case "text of the report":
            assert report(results).render_text(full=True)
        case "text and page of the report":
            document = report(results)
            assert document.render_text(full=True)
            write_page(results, results.output / PAGE_FILE, document=document)


def run_command(*arguments: str) -> Cost:
    """Return the cost of a command as a whole, with its start and its imports; it is the first child of this process."""
    script = str(Path(sys.executable).with_name("harness"))
    subprocess.run([sys.executable, script, *arguments], stdout=subprocess.DEVNULL, check=True)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(ended.ru_utime + ended.ru_stime, ended.ru_maxrss * 1024 / 1e6)


def read_status_kib(name: str) -> int:
    """Return a memory size of this process from the kernel, such as `VmRSS` (now) or `VmHWM` (peak), in KiB."""
    (size,) = re.findall(rf"^{name}:\s+(\d+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(size)


def main() -> None:
    if not sys.argv[2].isdecimal():
        print(json.dumps(perform(sys.argv[2], Path(sys.argv[1]))))
        return
    began = time.process_time()
    experiment = write_experiment(Path(sys.argv[1]), int(sys.argv[2]))
    print(f"{len(experiment.grid):,} trials in {time.process_time() - began:.0f} s: {experiment.output}")


if __name__ == "__main__":
    main()
