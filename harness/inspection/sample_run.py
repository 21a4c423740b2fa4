"""Run of a compaction policy on an artificial sample session, in the real agent loop but without a real model.

In the sample session an agent reads, changes and tests files of a small library, without end. Each step is derived from its
number, so the session is the same everywhere. Sizes of tool outputs follow a typical distribution: most are short, some are long,
and a few exceed the output limit. The agent continues with its next step whatever a compaction removed, so all policies meet the
same session. The context window counts as full if the tokens estimated by the policy's counter exceed it.

The sample shows how a policy works; the cost of a policy is measured on tasks instead.
"""

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from harness.agent.loop import Outcome
from harness.compaction.description import choose_truncation, inspect_abilities, name_policy
from harness.compaction.presets.none import NoCompaction
from harness.conversation.events import Compaction, Entry, EventListener, TextDelta, TransientEvent
from harness.conversation.messages import Message, ToolCall, ToolResult, assistant
from harness.conversation.tokens import UNLIMITED_WINDOW, Budget, Counter, Measured, QuarterOfCharacters, Usage, Window
from harness.conversation.truncation import Truncation
from harness.conversation.view import View, fold
from harness.errors import ContextOverflow
from harness.models.factory import open_summarizer
from harness.protocols import Model, Need, Oracle, Policy, Reply, Request, ToolSpec, ignore
from harness.session.assembly import AssembledSession, SessionResources, assemble_session
from harness.session.spec import SessionSpec
from harness.session.totals import SessionTotals
from harness.store.log import MemoryLog, MemoryOutputs
from harness.store.records import Activity
from harness.tools.function_tool import FunctionTool
from harness.tools.standard import find_essentials

SAMPLE_PROMPT = """\
The library under ledger/ books payments. Make it settle invoices in several currencies.
All amounts stay whole numbers of the smallest unit; never use floating point.
Rates come from rates.csv and are read once. Keep the public names of every module as they are.
Add a test beside every module that you change, and leave the tests passing."""

NOUNS = (
    *("account", "balance", "booking", "currency", "entry", "invoice", "journal", "ledger", "payment", "rate"),
    *("receipt", "total"),
)
VERBS = ("adds", "books", "checks", "converts", "copies", "finds", "joins", "keeps", "reads", "settles", "splits", "writes")
OUTPUT_SIZES = (400, 900, 1_500, 2_500, 4_500, 9_000, 16_000)
SIZE_WEIGHTS = (6, 6, 5, 4, 3, 2, 1)
"""Relative frequencies of the sizes of tool outputs in the sample session, in the order of `OUTPUT_SIZES`."""
REWRITE_AFTER_STEPS = 7
"""Number of steps after which the sample session writes a file that it has read."""
CALL_ID_PATTERN = re.compile(r"step-(\d+)")


@dataclass(frozen=True, slots=True)
class SampleStep:
    """Step of the artificial sample session: the model's answer and the output of its tool call."""

    answer: Message
    output: str
    """Full output of the step's tool call, before it is truncated to the output limit."""


@lru_cache(maxsize=2_000)
def make_sample_step(number: int) -> SampleStep:
    """Return the step of the artificial sample session with the given number, from 1."""
    rng = random.Random(f"sample/{number}")
    (size,) = rng.choices(OUTPUT_SIZES, SIZE_WEIGHTS)
    kind_number = number % 3
    if kind_number == 1:
        return _make_step(number, rng, "read_file", {"path": _choose_path(number)}, _write_code(rng, size))
    if kind_number == 2 and number > REWRITE_AFTER_STEPS:
        path = _choose_path(number - REWRITE_AFTER_STEPS)
        content = _write_code(rng, min(size, OUTPUT_SIZES[-2]))
        return _make_step(number, rng, "write_file", {"path": path, "content": content}, f"wrote {len(content)} bytes to {path}")
    command = f"pytest tests/test_{_choose_name(number)}.py"
    return _make_step(number, rng, "execute_command", {"command": command}, _write_report(rng, size))


def _make_step(number: int, rng: random.Random, tool: str, arguments: dict[str, str], output: str) -> SampleStep:
    text = f"{_write_sentence(rng)} {_write_sentence(rng)}"
    call = ToolCall(call_id=f"step-{number}", name=tool, arguments_json=json.dumps(arguments))
    return SampleStep(assistant(text, call), output)


def _choose_name(number: int) -> str:
    first, second = random.Random(f"file/{number % 60}").sample(NOUNS, 2)
    return f"{first}_{second}"


def _choose_path(number: int) -> str:
    return f"ledger/{_choose_name(number)}.py"


def _write_sentence(rng: random.Random) -> str:
    first, second, third = rng.sample(NOUNS, 3)
    return f"The {first} of step {rng.randrange(1_000)} {rng.choice(VERBS)} the {second} before the {third}."


def _write_code(rng: random.Random, characters: int) -> str:
    lines = ['"""Part of the ledger."""', ""]
    while sum(map(len, lines)) < characters:
        first, second = rng.sample(NOUNS, 2)
        name = f"{rng.choice(VERBS)}_{first}_{rng.randrange(100)}"
        lines += [
            f"def {name}({first}: int, {second}: int) -> int:",
            f'    """{_write_sentence(rng)}"""',
            f"    return {first} - {second}",
        ]
    return "\n".join(lines)


def _write_report(rng: random.Random, characters: int) -> str:
    lines: list[str] = []
    while sum(map(len, lines)) < characters:
        test_name = f"tests/test_{rng.choice(NOUNS)}.py::test_it_{rng.choice(VERBS)}"
        lines.append(f"{test_name} {rng.choice(('PASSED', 'PASSED', 'FAILED'))}")
    return "\n".join(("exit code 1", *lines))


def find_last_use(number: int) -> int | None:
    """Return the last step of the sample session that needs the output of step `number`; None if none does."""
    return number + REWRITE_AFTER_STEPS if number % 3 == 1 else None


@dataclass(frozen=True, slots=True)
class SampleOracle:
    """Prediction, for a sample session, of the number of steps after which each message is needed again.

    The user's request is always needed. In the artificial session, a file that was read is needed until it is written again.
    """

    find_last_use: Callable[[int], int | None] = find_last_use
    """Function that takes the number of a step and returns the number of the last step that needs its output, or None."""

    def predict_needs(self, messages: Sequence[Message]) -> Sequence[Need | None]:
        """Return for each message in how many steps the sample session needs it again; None if it never does."""
        numbers = [self._parse_number(message) for message in messages]
        now = max((number for number in numbers if number is not None), default=0)
        return [self._compute_need(message, number, now) for message, number in zip(messages, numbers, strict=True)]

    @staticmethod
    def _parse_number(message: Message) -> int | None:
        call_ids = [call.call_id for call in message.calls] + [result.call_id for result in message.results]
        match = CALL_ID_PATTERN.fullmatch(call_ids[0]) if call_ids else None
        return int(match[1]) if match else None

    def _compute_need(self, message: Message, number: int | None, now: int) -> Need | None:
        if number is None:
            return Need(0, lost_for_good=True) if message.role == "user" else None
        last = self.find_last_use(number)
        return Need(last - now) if last is not None and last >= now else None


SYSTEM_PROMPT = "You are a coding agent. You work in a sandbox, with tools to run commands and to read and write files. " * 12
WINDOW_TOKENS = 200_000
"""Default context window in tokens; the constants of most published policies were chosen for this size."""
DEFAULT_SUMMARIZER = "scripted/extractive"
LENGTH_IN_WINDOWS = 1.5
"""Length of the sample session in tokens without compaction, as a multiple of the context window."""
TOOL_NAMES = ("execute_command", "read_file", "write_file")
DEFAULT_COUNTER = QuarterOfCharacters()


@dataclass(frozen=True, slots=True)
class CompactionAttempt:
    """Compaction that a policy attempted, with the messages that the model sees before and after it."""

    event: Compaction
    before: View
    after: View


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRun:
    """Result of running a compaction policy on the artificial sample session."""

    policy: Policy
    budget: Budget
    attempts: tuple[CompactionAttempt, ...]
    """All compactions that the policy attempted, including those that were not applied."""
    activity: Activity
    steps: int
    has_overflowed: bool
    """Whether the sample session ended because the context window was full and the policy did not shorten the conversation."""
    was_stopped_early: bool = False
    """Whether the session was ended because it had reached the number of compactions that the caller asked for."""
    entries: tuple[Entry, ...] = ()
    """Complete log of the sample session, as it was run with the policy."""

    @property
    def applied_attempts(self) -> tuple[CompactionAttempt, ...]:
        """Compactions that were applied, i.e. that changed the view."""
        return tuple(change for change in self.attempts if change.event.status == "applied")


def run_on_sample(
    policy: Policy, window_tokens: int = WINDOW_TOKENS, summarizer: Model | None = None, max_compactions: int | None = None
) -> SampleRun:
    """Run a compaction policy on the artificial sample session in the real agent loop, without a real model.

    Args:
        policy: Compaction policy to run. A policy that needs a prediction of later needs (an oracle) gets that of the sample.
        window_tokens: Context window in tokens.
        summarizer: Model that writes the summaries; None uses `scripted/extractive`.
        max_compactions: Number of applied compactions after which the session is ended; None for no limit.

    Raises:
        UsageError: The policy does not work in this context window.
        IllegalPlan: The policy planned an invalid compaction, for example one that evicts a tool call but not its result.
    """
    recorder = _CompactionRecorder(policy.counter, SessionTotals())
    model = _SampleModel(window=Window(tokens=window_tokens, source="configuration"), counter=policy.counter)
    model.should_stop = lambda: recorder.totals.compactions == max_compactions
    session = _assemble_sample(policy, model, summarizer or open_sample_summarizer(DEFAULT_SUMMARIZER), recorder)
    outcome = _run_sample(session)
    return SampleRun(
        policy=policy,
        budget=session.agent.compactor.budget,
        attempts=tuple(recorder.attempts),
        activity=recorder.totals.classify_activity(inspect_abilities(policy)),
        steps=outcome.steps,
        has_overflowed=outcome.reason == "overflow",
        was_stopped_early=model.should_stop(),
        entries=tuple(session.agent.log.entries()),
    )


def build_sample_log(length_tokens: int = int(LENGTH_IN_WINDOWS * WINDOW_TOKENS)) -> tuple[Entry, ...]:
    """Return the log of the artificial sample session without compaction, cut off at about `length_tokens`."""
    model = _SampleModel(window=UNLIMITED_WINDOW, counter=DEFAULT_COUNTER)
    model.should_stop = lambda: model.emitted_tokens >= length_tokens
    session = _assemble_sample(NoCompaction(), model)
    _run_sample(session)
    return tuple(session.agent.log.entries())


def _assemble_sample(
    policy: Policy, model: "_SampleModel", summarizer: Model | None = None, on_event: EventListener = ignore
) -> AssembledSession:
    spec = SessionSpec(request=SAMPLE_PROMPT, policy=policy, max_steps=UNLIMITED_WINDOW.tokens)
    resources = SessionResources(
        session_id="sample",
        log=MemoryLog(),
        clock=lambda: 0.0,
        outputs=MemoryOutputs(),
        on_event=on_event,
        model=model,
        summarizer=summarizer,
        oracle=SampleOracle(),
        tools=[_SampleTool(name, choose_truncation(policy)) for name in TOOL_NAMES],
    )
    session = assemble_session(spec, resources)
    session.agent.logs_steps_at_once = True  # as in a trial of a scripted model, so that messages have the same ids
    session.agent.stopwatch = session.agent.clock  # no time passes, so that equal runs have equal logs
    return session


def _run_sample(session: AssembledSession) -> Outcome:
    return session.agent.run(session.make_start_event(name_policy(session.spec.policy)), SYSTEM_PROMPT)


def open_sample_summarizer(name: str) -> Model:
    """Return a scripted summarizer (model that writes summaries) for the sample session, by its name.

    Raises:
        UnknownName: There is no summarizer of that name.
    """
    agent = _SampleModel(window=Window(tokens=WINDOW_TOKENS, source="configuration"), counter=DEFAULT_COUNTER)
    # unlimited, so that the window of the summarizer shortens no summary
    return open_summarizer(name, agent=agent, task=None, seed=0, window_tokens=UNLIMITED_WINDOW.tokens)


@dataclass(slots=True)
class _CompactionRecorder:
    """Event listener that records each attempted compaction, with what the model sees before and after it."""

    counter: Counter
    totals: SessionTotals
    view: View = field(default_factory=View)
    attempts: list[CompactionAttempt] = field(default_factory=list)

    def __call__(self, item: Entry | TransientEvent) -> None:
        self.totals(item)
        if not isinstance(item, Entry):
            return
        before, self.view = self.view, fold(self.view, item, self.counter)
        if isinstance(item.event, Compaction):
            self.attempts.append(CompactionAttempt(item.event, before, self.view))


@dataclass(slots=True)
class _SampleModel:
    """Model that answers with the steps of the sample session and rejects requests that exceed its window."""

    window: Window
    counter: Counter
    name: str = "puppet"
    should_stop: Callable[[], bool] = lambda: False
    """Function that is called before each answer; if it returns True, the model ends the sample session."""
    emitted_tokens: int = 0
    _steps: Iterator[int] = field(default_factory=lambda: iter(range(1, 10**9)))
    _counts_by_id: dict[int, tuple[Message, int]] = field(default_factory=dict)
    """Each message and its number of tokens, by Python's `id()` of the message.

    The message is stored as well, so that Python does not give its id to another object.
    """

    def reply(self, request: Request, on_delta: Callable[[TextDelta], None] = ignore) -> Reply:
        """Return the answer of the next step, or a final answer if the session has to end.

        Raises:
            ContextOverflow: The request exceeds the context window.
        """
        prompt_tokens = self._count_tokens(request.messages)
        if prompt_tokens > self.window.tokens:
            raise ContextOverflow(self.name, prompt_tokens, self.window.tokens)
        step = make_sample_step(next(self._steps))
        is_over = self.emitted_tokens >= LENGTH_IN_WINDOWS * self.window.tokens or self.should_stop()
        answer = assistant("All done.") if is_over else step.answer
        self.emitted_tokens += self._count_tokens((answer,)) + len(step.output) // 4
        usage = Usage(input_tokens=Measured(prompt_tokens), output_tokens=Measured(self._count_tokens((answer,))))
        return Reply(message=answer, usage=usage, seconds=0.0)

    def _count_tokens(self, messages: Sequence[Message]) -> int:
        for message in messages:
            if id(message) not in self._counts_by_id:
                self._counts_by_id[id(message)] = message, self.counter.count(message)
        return sum(self._counts_by_id[id(message)][1] for message in messages)


@dataclass(frozen=True, slots=True)
class _SampleTool:
    """Tool whose outputs are taken from the sample session and truncated like the outputs of real tools."""

    name: str
    truncation: Truncation

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(name=self.name, description="", parameters_json="{}")

    def run(self, call: ToolCall) -> ToolResult:
        step = make_sample_step(int(call.call_id.removeprefix("step-")))
        tool = FunctionTool(self.spec, lambda _: step.output, (), self.truncation)
        return (replace(tool, find_essentials=find_essentials) if self.name == "execute_command" else tool).run(call)


if TYPE_CHECKING:
    _: type[Oracle] = SampleOracle
