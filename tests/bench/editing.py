"""CPU time of a step and of one edit under policies that edit the conversation, in short and long trials.

`python -m tests.bench.editing` prints a table of all policies, or of those that are named; this takes about ten minutes. The
window has 65,536 tokens, in which every policy acts that acts at all, and a user message comes every 20 steps, since some
policies act only before a turn. The model counts its prompts, and answers of the summarizer always have the same length.

The time of a step grows with the length of a session for a reason that is no fault: in 200 steps, `inspect-edit` acts twice, in
3,000 more than 2,000 times. The time of one edit does not depend on this. It is the time that a session takes longer than one of
`none`, divided by its compactions, in a window so narrow that policies act often in short sessions, too.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import median

from harness.agent.prompts import SYSTEM_PROMPT
from harness.compaction.presets.none import NoCompaction
from harness.conversation.events import Compaction, Entry, MessageAdded, StepFinished, StepStarted, TextDelta, TransientEvent
from harness.conversation.messages import Message, ToolCall, assistant
from harness.conversation.tokens import Measured, QuarterOfCharacters, Usage, Window
from harness.inspection.counterfactual import CounterfactualRun, CounterfactualSpec, SessionTrace
from harness.inspection.recorded_session import RecordedSession
from harness.metrics.session_metrics import measure_session
from harness.policies import list_policy_names, load_policy_class
from harness.process import reduce_garbage_collection
from harness.protocols import Need, Reply, Request, ignore
from harness.sandboxes.backends import SandboxChoice
from harness.session.assembly import SessionResources, assemble_session
from harness.session.live_session import LiveSession
from harness.session.spec import SessionSpec
from harness.session.totals import TrialTotals
from harness.store.journal import Journal
from harness.store.log import MemoryLog, MemoryOutputs
from harness.task import CallTemplate, Evidence, LaterMessage, Script, Step
from harness.tasks import load_task
from tests.bench.figure import Figure
from tests.bench.overhead import InstantTool, forget
from tests.bench.workload import FINAL_TEXT, TOOL, command, make_outputs, make_typical_outputs, think

WINDOW_TOKENS = 65_536
STEPS_BETWEEN_TURNS = 20
SHORT, LONG = 200, 3_000
EDITING = ("keep-last", "swe-agent", "complexity-trap-mask", "langchain-clear-tool-uses", "message-window")
"""Policies that `make bench` measures; the last four edit the conversation at nearly every step once they are due."""
ROUNDS = 3
NARROW_WINDOW_TOKENS, NOMINAL_WINDOW_TOKENS = 16_384, 200_000
"""Window of sessions in which single edits are measured, and the window that the constants of policies are scaled down from."""
FREQUENT = ("swe-agent", "complexity-trap-mask", "langchain-clear-tool-uses", "cline-basic", "inspect-edit", "pydantic-clear")
"""Policies that act at least 20 times in 200 steps of the narrow window, and nearly always later on."""
FREQUENT_IN_TRIALS = ("swe-agent", "cline-basic", "message-window", "maf-anchored")
"""Policies of which single edits are measured in whole trials, too, which take ten times as long as counterfactual runs."""
LIVE_EDITING = ("keep-last", "swe-agent", "complexity-trap-mask", "langchain-clear-tool-uses")
LIVE_WINDOW_TOKENS = 262_144
"""Window of live sessions, which end when it is exceeded: in 65,536 tokens, `swe-agent` ends after about 900 steps."""


class CountingModel:
    """Model that makes one tool call per step and reports the estimated tokens of its prompts, which it reads from events."""

    name = "counting"

    def __init__(self, steps: int, window_tokens: int = WINDOW_TOKENS) -> None:
        self.window = Window(tokens=window_tokens, source="configuration")
        self._steps, self._number, self._prompt_tokens = steps, 0, 0

    def listen(self, heard: Entry | TransientEvent) -> None:
        """Add the tokens of a new message, or take those that a compaction left."""
        match heard:
            case Entry(_, MessageAdded(message=message)):
                self._prompt_tokens += QuarterOfCharacters().count(message)
            case Entry(_, Compaction(status="applied", tokens_after=tokens_after)):
                self._prompt_tokens = tokens_after

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        number, self._number = self._number, self._number + 1
        usage = Usage(input_tokens=Measured(self._prompt_tokens + 500), output_tokens=Measured(60))
        if number == self._steps - 1:
            return Reply(message=assistant(FINAL_TEXT), usage=usage, seconds=0.0)
        call = ToolCall(call_id=f"call_{number}", name=TOOL, arguments_json=json.dumps({"command": command(number)}))
        return Reply(message=assistant(think(number), call), usage=usage, seconds=0.0)


class InstantSummarizer:
    """Summarizer that always returns the same text of about 400 tokens."""

    name, window = "instant", Window(tokens=10**9, source="configuration")

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        usage = Usage(input_tokens=Measured(100), output_tokens=Measured(400))
        text = "## Objective\n" + "This line is part of the summary.\n" * 50  # `opencode` refuses a summary without headings
        return Reply(message=assistant(text), usage=usage, seconds=0.0, cost_usd=0.0)


class EverySeventh:
    """Oracle in which every seventh message is needed again."""

    def predict_needs(self, messages: Sequence[Message]) -> Sequence[Need | None]:
        return [Need(len(messages) - at, lost_for_good=False) if at % 7 == 0 else None for at in range(len(messages))]


def run_trial(
    policy_name: str, outputs: Sequence[str], window_tokens: int = WINDOW_TOKENS, nominal_window_tokens: int | None = None
) -> tuple[float, int]:
    """Run a trial with a journal and metrics; return the CPU milliseconds of a step and the number of compactions."""
    forget()
    steps, policy, totals = len(outputs) + 1, load_policy_class(policy_name)(), TrialTotals()
    task = replace(load_task("flashcards")(1), later_messages=make_user_messages(steps))
    entries, model = list[Entry](), CountingModel(steps, window_tokens)

    def listen(heard: Entry | TransientEvent) -> None:
        totals(heard)
        model.listen(heard)
        if isinstance(heard, Entry):
            entries.append(heard)

    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        with Journal.open(Path(folder) / "journal.sqlite") as journal:
            with closing(journal.open_session_log("bench", created_at_ms=0, clock=time.time, write_interval_seconds=1.0)) as log:
                spec = SessionSpec(
                    request=task.prompt, task=task, policy=policy, max_steps=steps, nominal_window_tokens=nominal_window_tokens
                )
                resources = SessionResources(
                    session_id="bench", log=log, clock=time.time, on_event=listen, model=model, summarizer=InstantSummarizer(),
                    tools=[InstantTool(TOOL, iter(outputs))], oracle=EverySeventh(), outputs=MemoryOutputs(),
                )  # fmt: skip
                session = assemble_session(spec, resources)
                session.agent.logs_steps_at_once = True
                outcome = session.agent.run(session.start_event, SYSTEM_PROMPT, spec.session_context)
            journal.record_metrics("bench", *measure_session(entries, task, policy.counter))
        milliseconds = 1_000 * (time.process_time() - began) / steps
    assert (outcome.reason, outcome.steps) == ("replied", steps), outcome
    return milliseconds, totals.compactions


def editing() -> Iterator[Figure]:
    """Measure short and long trials of some policies in turn, and compare medians; this takes about a minute."""
    outputs = {"short": make_outputs(SHORT), "long": make_outputs(LONG), "typical": make_typical_outputs(LONG)}
    run_trial("none", outputs["short"])  # import what a worker imports once
    names = ("none", *EDITING)
    rounds = [
        {(name, kind): run_trial(name, texts)[0] for name in names for kind, texts in outputs.items()} for _ in range(ROUNDS)
    ]
    for name in EDITING:
        own = median(times[name, "long"] / times[name, "short"] for times in rounds)
        yield Figure(name=f"CPU of a step, {name}: 3,000 ÷ 200 steps", value=own, unit="×", bar=3.0)
        for kind, addition in (("long", ""), ("typical", ", typical vocabulary")):
            other = median(times[name, kind] / times["none", kind] for times in rounds)
            yield Figure(name=f"CPU of a step at 3,000 steps{addition}: {name} ÷ none", value=other, unit="×", bar=4.0)


def make_user_messages(steps: int) -> tuple[LaterMessage, ...]:
    """Return the messages of the user in a session."""
    return tuple(LaterMessage(step=step, text=f"Now look at item {step}.") for step in range(20, steps, STEPS_BETWEEN_TURNS))


def record_session(steps: int) -> tuple[Entry, ...]:
    """Run a session in which nothing is compacted, and return its log."""
    task = replace(load_task("flashcards")(1), later_messages=make_user_messages(steps))
    model, log = CountingModel(steps), MemoryLog()
    resources = SessionResources(
        session_id="bench", log=log, clock=lambda: 0.0, on_event=model.listen, model=model,
        tools=[InstantTool(TOOL, iter(make_outputs(steps)))],
    )  # fmt: skip
    session = assemble_session(SessionSpec(request=task.prompt, task=task, policy=NoCompaction(), max_steps=steps), resources)
    session.agent.logs_steps_at_once = True
    session.agent.run(session.start_event, "You are an agent.")
    return tuple(log.entries())


def run_counterfactual(
    policy_name: str,
    entries: tuple[Entry, ...],
    window_tokens: int = WINDOW_TOKENS,
    nominal_window_tokens: int | None = None,
) -> tuple[float, int]:
    """Run a policy on a recorded session; return the CPU milliseconds of a step and the number of compactions."""
    began = time.process_time()
    policy = load_policy_class(policy_name)()
    spec = CounterfactualSpec(policy=policy, window_tokens=window_tokens, nominal_window_tokens=nominal_window_tokens)
    run = CounterfactualRun(RecordedSession(name="bench", entries=entries), SessionTrace(entries), spec)
    run.advance()
    milliseconds = 1_000 * (time.process_time() - began) / run.steps
    return milliseconds, sum(isinstance(event, Compaction) and event.status == "applied" for _, event in run.attempts)


def counterfactual() -> Iterator[Figure]:
    """Compare counterfactual runs on a short and a long session; this takes about half a minute."""
    recorded = {steps: record_session(steps) for steps in (SHORT, LONG)}
    names = ("none", *EDITING)
    rounds = [
        {(name, steps): run_counterfactual(name, entries)[0] for name in names for steps, entries in recorded.items()}
        for _ in range(ROUNDS)
    ]
    for name in EDITING:
        ratio = median(times[name, LONG] / times[name, SHORT] for times in rounds)
        yield Figure(name=f"CPU of a counterfactual step, {name}: 3,000 ÷ 200 steps", value=ratio, unit="×", bar=3.0)
        other = median(times[name, LONG] / times["none", LONG] for times in rounds)
        yield Figure(name=f"CPU of a counterfactual step at 3,000 steps: {name} ÷ none", value=other, unit="×", bar=4.0)


def edits() -> Iterator[Figure]:
    """Measure one edit in short and long trials and counterfactual runs, and compare; this takes some minutes.

    The time of an edit is that of what it changes, not that of the view, which is 15 times as long in a long session.
    """
    outputs = {steps: make_outputs(steps) for steps in (SHORT, LONG)}
    recorded = {steps: record_session(steps) for steps in outputs}
    narrow = NARROW_WINDOW_TOKENS, NOMINAL_WINDOW_TOKENS
    runs = {
        "a counterfactual run": (FREQUENT, ROUNDS, lambda name, steps: run_counterfactual(name, recorded[steps], *narrow)),
        "a trial": (FREQUENT_IN_TRIALS, 1, lambda name, steps: run_trial(name, outputs[steps], *narrow)),
    }
    for place, (names, rounds, run) in runs.items():
        run("none", SHORT)  # import what is imported once
        for name in names:
            pairs = [(measure_edit(run, name, SHORT), measure_edit(run, name, LONG)) for _ in range(rounds)]
            ratio, long_ms = median(long / short for short, long in pairs), median(long for _, long in pairs)
            yield Figure(name=f"CPU of an edit in {place}, {name}: 3,000 ÷ 200 steps", value=ratio, unit="×", bar=3.0)
            yield Figure(name=f"CPU of an edit in {place} of 3,000 steps, {name}", value=long_ms, unit="ms", bar=None)


def measure_edit(run: Callable[[str, int], tuple[float, int]], policy_name: str, steps: int) -> float:
    """Return the CPU milliseconds that one compaction adds to sessions of so many steps, of which 3,000 are run in all.

    Args:
        run: Function that runs a policy in a session of so many steps, and returns the CPU milliseconds of a step and the number
            of compactions.
        policy_name: Public name of the policy, which takes turns with `none`.
        steps: Number of steps of each session.

    Raises:
        RuntimeError: The policy acts less often than every tenth step, so that a difference of whole sessions says little.
    """
    added_ms, compactions = 0.0, 0
    for _ in range(LONG // steps):
        plain_ms, _ = run("none", steps)
        edited_ms, edits_in_session = run(policy_name, steps)
        added_ms += (edited_ms - plain_ms) * steps
        compactions += edits_in_session
    if compactions < LONG / 10:
        raise RuntimeError(f"{policy_name} acted {compactions} times in {LONG} steps, too seldom to measure one edit")
    return added_ms / compactions


def run_live_session(policy_name: str, steps: int) -> tuple[float, int]:
    """Run a live session with a journal, which reads a file in each step, in a sandbox.

    Return the CPU milliseconds of a step from the second one on, without the calls of the scripted model, and the number of
    compactions.
    """
    forget()
    script_steps = tuple(
        Step(
            name=f"part {number}",
            text=think(number),
            calls=(CallTemplate(tool="read_file", arguments=(("path", f"parts/{number}.txt"),)),),
            done=Evidence(in_output=True, count_pattern=r"finished (\d+) parts", minimum_count=number + 1),
        )
        for number in range(steps - 1)
    )
    files = tuple((f"parts/{at}.txt", f"finished {at + 1} parts\n{text}") for at, text in enumerate(make_outputs(steps)))
    task = replace(
        load_task("flashcards")(1), name="parts", facts=(), later_messages=make_user_messages(steps), workspace=files,
        script=Script(steps=script_steps, final_text=FINAL_TEXT),
    )  # fmt: skip
    totals, marks, model_seconds, call_began = TrialTotals(), list[float](), [0.0], [0.0]

    def listen(heard: Entry | TransientEvent) -> None:
        totals(heard)
        if isinstance(heard, StepStarted):
            call_began[0] = time.process_time()
        elif isinstance(heard, Entry) and isinstance(heard.event, MessageAdded) and heard.event.message.role == "assistant":
            model_seconds[0] += time.process_time() - call_began[0]
        elif isinstance(heard, Entry) and isinstance(heard.event, StepFinished):
            marks.append(time.process_time())
            if len(marks) == 1:
                model_seconds[0] = 0.0

    with tempfile.TemporaryDirectory() as folder:
        spec = SessionSpec(
            request=task.prompt, task=task, policy=load_policy_class(policy_name)(),
            window_tokens=2**22 if policy_name == "none" else LIVE_WINDOW_TOKENS,  # nothing shortens the session of `none`
            max_steps=steps, snapshots=False, repeated="continue", sandbox=SandboxChoice(backend="bubblewrap"),
            journal=Path(folder) / "journal.sqlite",
        )  # fmt: skip
        session = LiveSession(spec, on_event=listen).start()
        session.wait()
        outcome = session.close().outcome
    assert (outcome.reason, outcome.steps) == ("replied", steps), outcome
    return 1_000 * (marks[-1] - marks[0] - model_seconds[0]) / (steps - 1), totals.compactions


def live() -> Iterator[Figure]:
    """Compare short and long live sessions, without the time of their scripted model; this takes a minute."""
    times = {(name, steps): run_live_session(name, steps)[0] for name in ("none", *LIVE_EDITING) for steps in (SHORT, LONG)}
    for name in LIVE_EDITING:
        ratio = times[name, LONG] / times[name, SHORT]
        yield Figure(name=f"CPU of a live step, {name}: 3,000 ÷ 200 steps", value=ratio, unit="×", bar=3.0)
        other = times[name, LONG] / times["none", LONG]
        yield Figure(name=f"CPU of a live step at 3,000 steps: {name} ÷ none", value=other, unit="×", bar=4.0)


def print_table(names: Sequence[str]) -> None:
    """Print for each policy the CPU milliseconds of a step, with the number of compactions, in trials of several lengths.

    The last length is run once more with outputs of a typical vocabulary. Behind the times of a policy stand the ratio of long to
    short trials, and the ratios to trials of `none` that take turns with both kinds of long ones.
    """
    outputs = [*map(make_outputs, (SHORT, 1_000, LONG)), make_typical_outputs(LONG)]
    run_trial("none", outputs[0])
    columns = ("200 steps", "1,000 steps", "3,000 steps", "typical words", "÷ 200 steps", "÷ none", "÷ none, typical")
    print(f"{'policy':<28}", *[f"{column:>16}" for column in columns])
    for name in names:
        results = [run_trial(name, texts) for texts in outputs]
        plain = [run_trial("none", texts)[0] for texts in outputs[-2:]]
        times = [f"{milliseconds:.3f} ({compactions:,})" for milliseconds, compactions in results]
        others = [milliseconds / plain_ms for (milliseconds, _), plain_ms in zip(results[-2:], plain, strict=True)]
        ratios = [f"{ratio:.2f} ×" for ratio in (results[2][0] / results[0][0], *others)]
        print(f"{name:<28}", *[f"{cell:>16}" for cell in (*times, *ratios)], flush=True)


if __name__ == "__main__":
    reduce_garbage_collection()  # as in the workers of an experiment
    print_table(sys.argv[1:] or list_policy_names())
