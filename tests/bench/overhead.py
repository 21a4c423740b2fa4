"""Time of a step without the time of tools: policy, digests, journal, metrics and snapshots.

A trivial model shows the cost of the harness itself. Its sessions are whole trials, measured from their first step until their
journal is closed, with the metrics and the record of the trial. The tool outputs are unique and compress no better than those of
recorded sessions (zstd at level 3 shrinks 2 KB of a recorded output to 43 %, in the median of 1,993 outputs).

For the scripted model, one session is recorded in a sandbox, and its tool results are then replayed without delay. Growth is the
CPU time around step 800 divided by the CPU time around step 50 of the same sessions. Of several sessions the smallest value
counts, because other load on the machine can only increase it; of whole trials, the median counts.
"""

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import median

from harness.agent.prompts import SYSTEM_PROMPT
from harness.analysis.overhead import measure_overhead
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.compaction.presets.three_tiers import ThreeTiers
from harness.conversation.events import Compaction, Entry, MessageAdded, StepFinished, TextDelta, TransientEvent
from harness.conversation.messages import ToolCall, ToolResult, assistant, system, tool, user
from harness.conversation.overhead import OverheadPart
from harness.conversation.tokens import Measured, Usage, Window
from harness.conversation.truncation import preview_output
from harness.conversation.view import View, fold
from harness.experiment.job import Ending, Job, TrialRun, collect_provenance
from harness.experiment.run_trial import WRITE_INTERVAL_SECONDS
from harness.experiment.trial import Trial
from harness.inspection.loading import load
from harness.metrics.session_metrics import measure_session
from harness.metrics.template_matcher import build_template_matcher
from harness.models.factory import open_model, open_summarizer
from harness.models.rule_prices import find_terms
from harness.models.scripted.patterns import compile_fact_patterns
from harness.models.scripted.summarizers import build_oracle_summarize, choose_lines
from harness.models.scripted.visible_state import build_message_reader
from harness.prices.terms import Terms
from harness.protocols import Model, Policy, Reply, Request, Tool, ToolSpec, ignore
from harness.sandboxes import open_sandbox
from harness.sandboxes.backends import SandboxChoice
from harness.session.assembly import SessionResources, assemble_session
from harness.session.compactor import SessionCompactor
from harness.session.execution import execute_session
from harness.session.spec import SessionSpec
from harness.session.totals import TrialTotals
from harness.store.journal import Journal
from harness.store.records import TrialRecord
from harness.task import CallTemplate, Evidence, Fact, Script, Step, Task
from harness.tasks import load_task, make_shared_task
from harness.tools import make_standard_tools
from tests.bench.figure import Figure
from tests.bench.peers.drivers import plain_driver
from tests.bench.workload import FINAL_TEXT, TOOL, command, make_outputs, think, words

HUGE = 8_000_000
STEPS = 820
PROVENANCE = collect_provenance("none")
SESSIONS = 8
RULE = "anthropic-2025-09"
"""Price rule of the sessions that are priced."""


class TrivialModel:
    """Model that makes one tool call per step, with about 100 characters of text and 90 characters of arguments."""

    name, window = "trivial", Window(tokens=HUGE, source="configuration")

    def __init__(self, steps: int) -> None:
        self._numbers = iter(range(steps))

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        number = next(self._numbers, None)
        usage = Usage(input_tokens=Measured(1), output_tokens=Measured(1))
        if number is None:
            return Reply(message=assistant(FINAL_TEXT), usage=usage, seconds=0.0)
        call = ToolCall(call_id=f"call_{number}", name=TOOL, arguments_json=json.dumps({"command": command(number)}))
        return Reply(message=assistant(think(number), call), usage=usage, seconds=0.0)


class InstantTool:
    """Tool that returns prepared outputs, whatever its arguments."""

    def __init__(self, name: str, outputs: Iterator[str]) -> None:
        self.spec = ToolSpec(name=name, description=name, parameters_json="{}")
        self._outputs = outputs

    def run(self, call: ToolCall) -> ToolResult:
        return ToolResult(call_id=call.call_id, name=call.name, output=next(self._outputs))


def run_session(
    model: Model,
    tools: Sequence[Tool],
    path: Path,
    steps: int,
    *,
    task: Task | None = None,
    summarizer: Model | None = None,
    session_id: str = "bench",
    price_terms: Terms | None = None,
) -> tuple[list[float], list[Entry]]:
    """Run a session with the default policy; return the CPU seconds at the end of each step, and the log."""
    marks: list[float] = []
    totals = TrialTotals()

    def listen(heard: Entry | TransientEvent) -> None:
        totals(heard)
        if isinstance(heard, Entry) and isinstance(heard.event, StepFinished):
            marks.append(time.process_time())

    with Journal.open(path) as journal, closing(journal.open_session_log(session_id, created_at_ms=0, clock=time.time)) as log:
        spec = SessionSpec(request=task.prompt if task else "Measure", policy=KeepLast(), max_steps=steps)
        resources = SessionResources(
            session_id=session_id, log=log, clock=time.time, on_event=listen, model=model, summarizer=summarizer, tools=tools,
            price_terms=price_terms,
        )  # fmt: skip
        session = assemble_session(spec, resources)
        session.agent.run(session.start_event, SYSTEM_PROMPT, spec.session_context)
        return marks, list(log.entries())


def per_step_ms(marks: list[float], first: int, last: int) -> float:
    return 1_000 * (marks[last] - marks[first]) / (last - first)


def least(sessions: list[list[float]], first: int, last: int) -> float:
    return min(per_step_ms(marks, first, last) for marks in sessions)


def trivial() -> Iterator[Figure]:
    sessions, sizes = [], []
    for number in range(SESSIONS):
        forget()
        prepared = iter([words(number * STEPS + step) for step in range(STEPS)])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "journal.sqlite"
            marks, _ = run_session(TrivialModel(STEPS - 1), [InstantTool("execute_command", prepared)], path, STEPS)
            sessions.append(marks)
            sizes.append(path.stat().st_size / 1024 / STEPS)
    yield Figure(name="CPU of a step, trivial model", value=least(sessions, 10, 200), unit="ms", bar=0.5)
    yield growth("trivial", sessions)
    yield Figure(name="disk for a step with 2 KB of output", value=max(sizes), unit="KiB", bar=3.0)


WHOLE_STEPS = (50, 200, 800)
LONG_STEPS, LONG_SESSIONS = 10_000, 5
PLAIN_STEPS = (200, 3_000)
"""Lengths of the sessions in which whole trials are compared with a plain loop, which is `plain_driver` of the peers."""


def whole() -> Iterator[Figure]:
    """Measure whole trials, with metrics and the trial's record, of the workload that `tests/peers` runs in other systems.

    Lengths take turns, because the speed of a machine can change within a minute.
    """
    run_whole_trial(50)  # import what a worker imports once
    rounds = [[run_whole_trial(steps, number) for steps in WHOLE_STEPS] for number in range(SESSIONS)]
    for steps, values_ms in zip(WHOLE_STEPS, zip(*rounds, strict=True), strict=True):
        bar = 0.75 if steps == 200 else None
        yield Figure(name=f"CPU of a step of a whole trial, {steps} steps, median", value=median(values_ms), unit="ms", bar=bar)
    ratio = median(run_whole_trial(LONG_STEPS, number) / run_whole_trial(800, number) for number in range(LONG_SESSIONS))
    yield Figure(name="CPU of a step of a whole trial: 10,000 ÷ 800 steps", value=ratio, unit="×", bar=1.1)
    for steps in PLAIN_STEPS:
        ratio = median(run_whole_trial(steps, number) / run_plain_loop(steps, number) for number in range(SESSIONS))
        yield Figure(name=f"CPU of a step: whole trial ÷ plain loop, {steps:,} steps", value=ratio, unit="×", bar=7.0)


def run_whole_trial(steps: int, number: int = 0) -> float:
    """Run a trial with the trivial model and return the CPU milliseconds per step, from its beginning to the closed journal."""
    outputs = make_outputs(steps, number)
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        run_trial_session(outputs, Path(folder) / "journal.sqlite", "bench")
        return 1_000 * (time.process_time() - began) / steps


def run_plain_loop(steps: int, number: int = 0) -> float:
    """Run the plain loop on the outputs of `run_whole_trial` and return the CPU milliseconds per step."""
    outputs = make_outputs(steps, number)
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        plain_driver.run(outputs, Path(folder))
        return 1_000 * (time.process_time() - began) / steps


def run_trial_session(outputs: Sequence[str], path: Path, trial_id: str, policy: Policy | None = None) -> TrialRecord:
    """Run a whole trial with the trivial model into a journal, and return its record; None stands for `keep-last`."""
    forget()
    trial = Trial(task="flashcards", policy=policy or KeepLast(), seed=1)
    task = make_shared_task(trial.task, trial.seed)
    job = Job(
        trial=trial, trial_id=trial_id, experiment="bench", arm="whole", axes={}, backend="bubblewrap", provenance=PROVENANCE,
        journal=path,
    )  # fmt: skip
    run, entries = TrialRun(started_at=time.time(), session_id=trial_id), list[Entry]()

    def listen(heard: Entry | TransientEvent) -> None:
        run.totals(heard)
        if isinstance(heard, Entry):
            entries.append(heard)

    steps = len(outputs) + 1
    with Journal.open(job.journal, is_scratch=True) as journal:
        log = journal.open_session_log(trial_id, created_at_ms=0, clock=time.time, write_interval_seconds=WRITE_INTERVAL_SECONDS)
        with closing(log):
            spec = SessionSpec(request=task.prompt, policy=trial.policy, max_steps=steps)
            tool = InstantTool(TOOL, iter(outputs))
            resources = SessionResources(
                session_id=trial_id, log=log, clock=time.time, on_event=listen, model=TrivialModel(steps - 1), tools=[tool]
            )
            session = assemble_session(spec, resources)
            session.agent.logs_steps_at_once = True
            outcome = session.agent.run(session.start_event, SYSTEM_PROMPT, spec.session_context)
        journal.record_metrics(trial_id, *measure_session(entries, task, trial.policy.counter))
        run.fitted_policy, run.ending = session.fitted_policy, Ending(status=outcome.status, reason=outcome.reason)
        finished = run.build_finished_trial(job, time.time())
        journal.record_trial(finished.record, finished.checks)
    assert (finished.record.status, finished.record.steps) == ("completed", steps)
    return finished.record


def growth(model: str, sessions: list[list[float]]) -> Figure:
    """Return the growth of CPU time, from windows of 60 steps around step 50 and step 800."""
    ratio = least(sessions, 755, 815) / least(sessions, 20, 80)
    return Figure(name=f"CPU of a step, {model} model: step 800 ÷ step 50", value=ratio, unit="×", bar=1.3)


def scripted() -> Iterator[Figure]:
    """Measure a session of flashcards with recorded tool results, and a long session."""
    task = load_task("flashcards")(1)
    with closing(open_sandbox("bubblewrap", session_id="bench")) as sandbox:
        sandbox.start()
        for path, text in task.workspace:
            sandbox.write(path, text.encode())
        tools = make_standard_tools(sandbox)
        _, entries = scripted_session(task, tools, Timed())
    added = [entry.event for entry in entries if isinstance(entry.event, MessageAdded)]
    results = [result for event in added for result in event.message.results]
    steps_ms, all_in_ms, summaries_ms, priced_ms = [], [], [], []
    for _ in range(SESSIONS):
        given = iter(results)
        marks, _ = scripted_session(task, [ReplayTool(tool.spec, given) for tool in tools], Timed(), find_terms(RULE, "scripted"))
        priced_ms.append(per_step_ms(marks, 0, len(marks) - 1))
        given = iter(results)
        timed = Timed()
        marks, _ = scripted_session(task, [ReplayTool(tool.spec, given) for tool in tools], timed)
        steps_ms.append(1_000 * (marks[-1] - marks[0] - timed.seconds) / (len(marks) - 1))
        all_in_ms.append(per_step_ms(marks, 0, len(marks) - 1))
        summaries_ms.append(1_000 * timed.seconds / timed.calls)
    yield Figure(name="CPU of a step, scripted model, summaries included", value=min(all_in_ms), unit="ms", bar=1.5)
    yield Figure(name="the same under a price rule", value=min(priced_ms), unit="ms", bar=1.5)
    yield Figure(name="the same without its extractive summaries", value=min(steps_ms), unit="ms", bar=None)
    yield Figure(name="CPU of an extractive summary", value=min(summaries_ms), unit="ms", bar=None)
    yield from long_script(task)


class Timed:
    """Model that measures the CPU time of the summarizer that it wraps."""

    model: Model

    def __init__(self) -> None:
        self.calls, self.seconds = 0, 0.0

    def before(self, model: Model) -> "Timed":
        self.model, self.name, self.window = model, model.name, model.window
        return self

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        began = time.process_time()
        reply = self.model.reply(request, listen)
        self.seconds += time.process_time() - began
        self.calls += 1
        return reply


def forget() -> None:
    """Clear the caches of the scripted models, so that each session is measured like the first one of a process."""
    cached = (compile_fact_patterns, build_message_reader, build_template_matcher, build_oracle_summarize, choose_lines)
    for remembering in cached:
        remembering.cache_clear()


def scripted_session(
    task: Task, tools: Sequence[Tool], timed: Timed, price_terms: Terms | None = None
) -> tuple[list[float], list[Entry]]:
    forget()
    model = open_model("scripted", task=task, seed=1, window_tokens=32_768)
    summarizer = timed.before(open_summarizer("scripted/extractive", agent=model, task=task, seed=1, window_tokens=None))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.sqlite"
        return run_session(model, tools, path, 300, task=task, summarizer=summarizer, price_terms=price_terms)


class ReplayTool:
    """Tool that returns recorded results in the order of all calls of a session.

    Its definition is that of the recorded tool, because prompts contain definitions and compaction depends on their length.
    """

    def __init__(self, spec: ToolSpec, results: Iterator[ToolResult]) -> None:
        self.spec, self._results = spec, results

    def run(self, call: ToolCall) -> ToolResult:
        recorded = next(self._results)
        return ToolResult(call_id=call.call_id, name=call.name, output=recorded.output, status=recorded.status)


def long_script(task: Task) -> Iterator[Figure]:
    """Run a long script in a very large window, so that nothing is compacted and every request contains the whole session."""
    steps = tuple(
        Step(
            name=f"look-{number}",
            text=f"Looking at part {number} with limit ${{limit}}.",
            calls=(CallTemplate(tool="execute_command", arguments=(("command", f"grep -n part_{number} src/a.py"),)),),
            required_facts=("limit",),
            done=Evidence(receipts=(("execute_command", rf"part_{number} "),)),
        )
        for number in range(STEPS)
    )
    facts = (Fact(name="limit", kind="constraint", said_in="prompt", patterns=(r"limit is (\d+)",), prior="3"),)
    script = Script(steps=steps, final_text="Done.")
    task = replace(task, name="long", prompt="The limit is 12.", facts=facts, script=script)
    sessions, priced = list[list[float]](), list[list[float]]()
    for number in range(SESSIONS):
        for kind, terms in ((sessions, None), (priced, find_terms(RULE, "scripted"))):
            forget()
            prepared = iter([words(number * STEPS + step) for step in range(STEPS)])
            with tempfile.TemporaryDirectory() as folder:
                model = open_model("scripted", task=task, seed=number, window_tokens=HUGE)
                tools = [InstantTool("execute_command", prepared)]
                kind.append(run_session(model, tools, Path(folder) / "j.sqlite", STEPS, task=task, price_terms=terms)[0])
    yield Figure(name="CPU of a step, scripted model, 820 steps uncompacted", value=least(sessions, 10, 815), unit="ms", bar=1.5)
    yield Figure(name="the same under a price rule", value=least(priced, 10, 815), unit="ms", bar=1.5)
    yield growth("scripted", sessions)
    yield growth("scripted and priced", priced)


OPERATION_ROUNDS = 20


def operations() -> Iterator[Figure]:
    """Measure single operations whose latency the design document of `three-tiers` states, with its largest values as limits."""
    policy = ThreeTiers(summarizer="scripted/empty")
    compactor = SessionCompactor(policy=policy, window=Window(tokens=200_000, source="configuration"), summarizer=None)
    view = View()
    messages = [system("You are an agent."), user("Do it.")]
    for number in range(100):
        call = ToolCall(call_id=f"call_{number}", name="execute_command", arguments_json="{}")
        result = ToolResult(call_id=call.call_id, name=call.name, output=words(number, 6_000))
        messages += [assistant(f"Step {number}.", call), tool(result), *([user("And now?")] if number >= 97 else ())]
    for seq, message in enumerate(messages, start=1):
        view = fold(view, Entry(seq, MessageAdded(message=message, step=0)), policy.counter)
    event = compactor.compact(view, None, 101, "turn", ignore)
    if event is None or event.status != "applied":
        raise RuntimeError("nothing was cleared, so the measurement means nothing")
    output = words(0, 1_000_000)
    yield operation("truncation of 1 MB of output", 5.0, lambda: preview_output(output, policy.truncation))
    yield operation("clearing of 100 outputs", 50.0, lambda: compactor.compact(view, None, 101, "turn", ignore))
    with tempfile.TemporaryDirectory() as folder, closing(open_sandbox("bubblewrap", session_id="bench")) as sandbox:
        sandbox.start()
        for number in range(50):
            sandbox.write(f"src/module_{number}.py", words(number, 6_000).encode())
        numbers = iter(range(10_000, 20_000))

        def save_workspace() -> None:
            sandbox.write("src/module_0.py", words(next(numbers), 6_000).encode())
            sandbox.snapshot()

        yield operation("change and snapshot of 50 files", 50.0, save_workspace)
        with (
            Journal.open(Path(folder) / "j.sqlite") as journal,
            closing(journal.open_session_log("bench", created_at_ms=0, clock=time.time)) as log,
        ):

            def write_message() -> None:
                log.append([MessageAdded(message=user(words(next(numbers), 6_000)), step=0)])

            yield operation("write of a message to the journal", 10.0, write_message)


def operation(name: str, bar_ms: float, run: Callable[[], object]) -> Figure:
    """Return the least wall time of an operation in several rounds."""
    seconds = []
    for _ in range(OPERATION_ROUNDS):
        began = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - began)
    return Figure(name=name, value=1_000 * min(seconds), unit="ms", bar=bar_ms)


INFERENCE_SECONDS = 2.0
"""Shortest duration of a model call in the design document of `three-tiers`, against which it promises an overhead below 5 %."""
LONG_COMMANDS = tuple(f"seq {number} {12_000 + number} && echo part-{number}-" for number in range(30))
"""Commands whose outputs are truncated, and of which more than 20,000 tokens are cleared every other step."""
MANAGEMENT_ROUNDS = 5
PART_BARS_MS: Mapping[OverheadPart, float | None] = {
    "truncation": 10.0,
    "planning": None,
    "compaction": 50.0,
    "snapshot": 50.0,
    "writing": 50.0,
}
"""Largest times of the parts of a step in the design document.

It counts planning as part of pruning. Truncation includes the write of the whole output, which the design counts like that of a
part, 10 ms. Its step writes ten parts in 50 ms.
"""


def management() -> Iterator[Figure]:
    """Measure what management of the context adds to a step: its parts in one session, and whole steps with and without it.

    The parts are columns of the session's steps, so that they add up to the first total. The second total is the difference of
    whole steps: sessions with and without management (truncation, clearing, snapshots and the journal) take turns, after one of
    each that does not count, and the median of the rounds with is compared with the median of the rounds without.
    """
    steps = tuple(
        Step(
            name=f"part {number}",
            text=f"Now part {number}.",
            calls=(CallTemplate(tool="execute_command", arguments=(("command", command),)),),
            done=Evidence(receipts=(("execute_command", f"part-{number}-"),)),
        )
        for number, command in enumerate(LONG_COMMANDS)
    )
    task = replace(load_task("flashcards")(1), name="parts", prompt="Count.", facts=(), later_messages=(), workspace=())
    task = replace(task, script=Script(steps=steps, final_text="Done."))
    managed, unmanaged, parts = [], [], []
    for number in range(MANAGEMENT_ROUNDS + 1):
        with tempfile.TemporaryDirectory() as folder:
            journal = Path(folder) / "journal.sqlite"
            policy = ThreeTiers(prune_at="step", summarizer="scripted/extractive")
            managed_seconds = measure_step_seconds(task, policy, journal)
            unmanaged_seconds = measure_step_seconds(task, NoCompaction(), None)
            if number:  # the first sessions warm up
                managed.append(managed_seconds)
                unmanaged.append(unmanaged_seconds)
                parts.append(measure_overhead(load(journal)).iloc[0])
    for part, bar in PART_BARS_MS.items():
        value = median(float(row[f"{part}_ms"]) for row in parts)
        yield Figure(name=f"{part} in a step of three-tiers", value=value, unit="ms", bar=bar)
    yield Figure(name="one clearing", value=median(float(row["pruning_ms"]) for row in parts), unit="ms", bar=50.0)
    total = median(float(row["total_ms"]) for row in parts)
    yield Figure(name="sum of these parts", value=total, unit="ms", bar=120.0)
    yield Figure(name="the sum, of a step of 2 s", value=total / (10 * INFERENCE_SECONDS), unit="%", bar=5.0)
    difference = 100 * (median(managed) - median(unmanaged)) / INFERENCE_SECONDS
    yield Figure(name="whole steps, three-tiers minus no management, of 2 s", value=difference, unit="%", bar=5.0)
    whole = 1_000 * median(unmanaged)
    yield Figure(name="a step without management, command included", value=whole, unit="ms", bar=None)


def measure_step_seconds(task: Task, policy: Policy, journal: Path | None) -> float:
    """Run a task in a sandbox, and return the mean wall time of a step; without a journal, no snapshots are taken either."""
    forget()
    marks: list[float] = []
    compactions: list[Compaction] = []

    def listen(heard: Entry | TransientEvent) -> None:
        if isinstance(heard, Entry) and isinstance(heard.event, StepFinished):
            marks.append(time.perf_counter())
        if isinstance(heard, Entry) and isinstance(heard.event, Compaction):
            compactions.append(heard.event)

    spec = SessionSpec(
        request=task.prompt,
        task=task,
        policy=policy,
        window_tokens=200_000,
        sandbox=SandboxChoice(backend="bubblewrap"),
        journal=journal,
    )
    execute_session(spec, "bench", on_event=listen)
    if len(marks) != len(LONG_COMMANDS) + 1 or bool(compactions) == isinstance(policy, NoCompaction):
        raise RuntimeError(f"{len(marks)} steps and {len(compactions)} compactions are not the session to measure")
    return (marks[-1] - marks[0]) / (len(marks) - 1)
