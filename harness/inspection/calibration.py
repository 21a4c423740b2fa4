"""Calibration of a recorded session: how many tokens its provider counts for the texts that the recording holds.

A recording lacks the system prompt, tool schemas and reminders, and providers count more tokens than a quarter of the characters.
Both follow from the prompts that the provider reported: a prompt has a fixed overhead, and tokens per character for each kind of
text. They are fitted on the first half of the prompts before the first compaction, and judged on the second half.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import median, median_low
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.conversation.events import Compaction, Entry, MessageAdded, SessionStarted, StepFinished
from harness.conversation.messages import Message, Reasoning, ToolResult
from harness.conversation.tokens import count_characters
from harness.conversation.view import drop_rolled_back
from harness.recordings.recording import Recording
from harness.text import format_percent

MIN_PROMPTS = 8
"""Smallest number of reported prompts before the first compaction from which a calibration is fitted, half of them."""
MAX_FITTED_PROMPTS = 60
"""Largest number of prompts that are fitted; of more, evenly spaced ones are taken."""
RESET_SHARE = 0.5
"""Share of the prompt before below which a prompt ends the fit: the agent compacted, although nothing says so."""
MAX_TOKENS_PER_CHARACTER = 1.0
"""Largest possible number of tokens of a character of a text in a Latin alphabet."""
WARM_SECONDS = 300.0
"""Pause in seconds up to which every provider's cache is warm."""
LOOK_BACK_MESSAGES = 20
"""Number of messages before the end of a prompt in which a cache looks for a beginning that it holds."""
_ROUNDS = 15
_SETTLED = 1e-4
"""Share by which a number may change in a round that is the last one."""
_PULL = 0.01
"""Weight of the common tokens per character beside those of each kind: enough to settle kinds that grow together."""
_FIX = 1e6
"""Weight of the common tokens per character for a kind that gets them alone."""
_HUBER = 1.345
_SIGMA_OF_MEDIAN = 1.4826


class TextSizes(NamedTuple):
    """Numbers of characters of one or several messages, by kind of text, without reasoning."""

    typed: int = 0
    """Characters of the system prompt and of messages of the user."""
    answers: int = 0
    """Characters of answers with the names and arguments of their tool calls."""
    results: int = 0
    """Characters of tool results."""


class Prompt(NamedTuple):
    """Prompt of a model call: the texts of it that the recording holds, and its tokens as the provider reported them."""

    sizes: TextSizes
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCalibration:
    """Tokens of a prompt as a function of its texts.

    Attributes:
        overhead_tokens: Tokens of the system prompt, tool schemas and reminders that the recording does not hold.
        typed_tokens: Tokens per character of messages of the user.
        answer_tokens: Tokens per character of answers and tool calls.
        result_tokens: Tokens per character of tool results.
        prompts: Number of prompts from which it was fitted.
        error: Median error over prompts that were not used for the fit, as a share of their reported tokens.
        source: `session` if it was fitted on this session; `agent and model` if it is the median of other sessions.
    """

    overhead_tokens: float
    typed_tokens: float
    answer_tokens: float
    result_tokens: float
    prompts: int
    error: float
    source: Literal["session", "agent and model"] = "session"

    def describe(self) -> str:
        """Return what the calibration says, in one clause."""
        return (
            f"tokens of requests as the provider counts them: {self.overhead_tokens:,.0f} beside the recorded texts, and"
            f" {self.typed_tokens:.2f}, {self.answer_tokens:.2f} and {self.result_tokens:.2f} for each character of messages,"
            f" answers and results (fitted on {self.prompts} prompts; median error {format_percent(self.error, 1)} of later ones)"
        )

    def count(self, sizes: TextSizes) -> int:
        """Return the number of tokens of a prompt with texts of these sizes, overhead included."""
        return max(0, round(self.overhead_tokens + self.count_texts(sizes)))

    def count_rows(self, sizes: NDArray[np.int64]) -> list[int]:
        """Return what `count` returns for each row of an array whose columns are the fields of `TextSizes`."""
        texts = self.typed_tokens * sizes[:, 0] + self.answer_tokens * sizes[:, 1] + self.result_tokens * sizes[:, 2]
        counts: list[int] = np.maximum(0, np.rint(self.overhead_tokens + texts)).astype(np.int64).tolist()
        return counts

    def count_texts(self, sizes: TextSizes) -> float:
        """Return the number of tokens of texts of these sizes alone."""
        return self.typed_tokens * sizes.typed + self.answer_tokens * sizes.answers + self.result_tokens * sizes.results


class EditedRead(NamedTuple):
    """Use of the provider's cache by the first request after a compaction or clearing.

    Args:
        read_tokens: Tokens that it read.
        written_tokens: Tokens that it wrote to the cache; 0 if it does not report writes, as caches without marks do not.
        kept_messages: Number of messages at the beginning that the request before had, too.
        new_messages: Number of messages behind them.
        pause_seconds: Time since the answer before.
    """

    read_tokens: int
    written_tokens: int
    kept_messages: int
    new_messages: int
    pause_seconds: float


def find_instructions_tokens(reads: Iterable[EditedRead]) -> int | None:
    """Return the median length of instructions, definitions of tools included, that reads behind edits show; None if none does.

    A cache that is warm then holds nothing else of the prompt if the edit keeps the system message at most. Neither does a cache
    with marks if the edit is far back; a cache without marks also holds the messages before the edit.
    """
    shown = [
        read.read_tokens
        for read in reads
        if read.read_tokens > 0
        and read.pause_seconds <= WARM_SECONDS
        and (read.kept_messages <= 1 or (read.written_tokens > 0 and read.new_messages > LOOK_BACK_MESSAGES))
    ]
    return median_low(shown) if shown else None


def measure_texts(message: Message) -> TextSizes:
    """Return the sizes of the texts of a message."""
    if message.role == "assistant":
        return TextSizes(answers=count_characters(message))
    results = sum(len(part.output) for part in message.parts if isinstance(part, ToolResult))
    if not results and any(isinstance(part, Reasoning) for part in message.parts):
        return TextSizes()
    return TextSizes(typed=count_characters(message) - results, results=results)


def add_sizes(first: TextSizes, second: TextSizes) -> TextSizes:
    """Return the sizes of two texts together."""
    return TextSizes(first.typed + second.typed, first.answers + second.answers, first.results + second.results)


def is_recording(entries: Iterable[Entry]) -> bool:
    """Return whether a log is that of a recording of another agent."""
    start = next((entry.event for entry in entries if isinstance(entry.event, SessionStarted)), None)
    return start is not None and start.sandbox == "recorded"


def list_prompts(entries: Iterable[Entry]) -> list[Prompt]:
    """Return the reported prompts of a session before its first compaction or clearing, in order."""
    prompts: list[Prompt] = []
    sizes = at_request = TextSizes()
    for entry in drop_rolled_back(entries):
        match entry.event:
            case MessageAdded(message=message):
                if message.role == "assistant":
                    at_request = sizes
                sizes = add_sizes(sizes, measure_texts(message))
            case Compaction(status="applied"):
                break
            case StepFinished(usage=usage) if usage.prompt_tokens > 0:
                if prompts and usage.prompt_tokens < RESET_SHARE * prompts[-1].tokens:
                    break
                prompts.append(Prompt(at_request, usage.prompt_tokens))
    return prompts


def list_recorded_prompts(recording: Recording) -> list[Prompt]:
    """Return the reported prompts of a recording before its first compaction or clearing, in order."""
    end = min((event.position for event in recording.compactions), default=len(recording.messages))
    prompts: list[Prompt] = []
    sizes = TextSizes()
    for item in recording.messages[:end]:
        usage = item.usage if item.step is not None and not item.copied else None
        if usage is not None and usage.prompt_tokens > 0:
            if prompts and usage.prompt_tokens < RESET_SHARE * prompts[-1].tokens:
                break
            prompts.append(Prompt(sizes, usage.prompt_tokens))
        sizes = add_sizes(sizes, measure_texts(item.message))
    return prompts


def fit_calibration(prompts: Sequence[Prompt]) -> RecordedCalibration | None:
    """Return the calibration of a session, given its reported prompts before the first compaction.

    It is fitted on the first half of the prompts and judged on the rest. A straight line over all texts is the median of the
    slopes between all pairs (Theil and Sen). Then each kind of text gets its own slope, by least squares in which large residuals
    count less (Huber), and kinds are pulled to the common slope so weakly that only kinds that always grow together are.

    Args:
        prompts: Reported prompts in order, as `list_prompts` returns them.

    Returns:
        RecordedCalibration with its error; None if there are fewer than `MIN_PROMPTS` prompts or they do not grow.
    """
    if len(prompts) < MIN_PROMPTS:
        return None
    half = len(prompts) // 2
    used = [prompts[index * half // min(half, MAX_FITTED_PROMPTS)] for index in range(min(half, MAX_FITTED_PROMPTS))]
    points = [(sum(prompt.sizes), prompt.tokens) for prompt in used]
    slopes = [
        (later[1] - earlier[1]) / (later[0] - earlier[0]) for earlier, later in combinations(points, 2) if later[0] != earlier[0]
    ]
    common = median(slopes) if slopes else 0.0
    if common <= 0:
        return None
    overhead, typed, answers, results = _fit_kinds(used, common)
    fitted = RecordedCalibration(
        overhead_tokens=overhead, typed_tokens=typed, answer_tokens=answers, result_tokens=results, prompts=len(used), error=0.0
    )
    errors = [abs(fitted.count(prompt.sizes) - prompt.tokens) / prompt.tokens for prompt in prompts[half:]]
    return replace(fitted, error=median(errors))


def _fit_kinds(prompts: Sequence[Prompt], common: float) -> list[float]:
    """Return overhead and slope of each kind of text by robust least squares, with slopes pulled to a common one.

    A kind whose slope is impossible, below 0 or above `MAX_TOKENS_PER_CHARACTER`, gets the common slope, and the others are
    fitted again. Such slopes come from hidden texts that grow together with a kind of text.
    """
    fixed: set[int] = set()
    while True:
        solution = _fit_with_pulls(prompts, common, fixed)
        impossible = {index for index in (1, 2, 3) if not 0 <= solution[index] <= MAX_TOKENS_PER_CHARACTER} - fixed
        if not impossible:
            return solution
        fixed |= impossible


def _fit_with_pulls(prompts: Sequence[Prompt], common: float, fixed: set[int]) -> list[float]:
    """Return overhead and slopes, where the slopes in `fixed` are the common one."""
    rows = [(1.0, *map(float, prompt.sizes), float(prompt.tokens)) for prompt in prompts]
    spreads = [_variance([row[column] for row in rows]) for column in (1, 2, 3)]
    weights = [1.0] * len(rows)
    solution = [0.0, common, common, common]
    for _ in range(_ROUNDS):
        sums = [[0.0] * 5 for _ in range(4)]
        for weight, row in zip(weights, rows, strict=True):
            for place, value in enumerate(row[:4]):
                weighted, into = weight * value, sums[place]
                for other in range(place, 5):
                    into[other] += weighted * row[other]
        matrix = [[sums[min(i, j)][max(i, j)] for j in range(4)] for i in range(4)]
        right = [sums[i][4] for i in range(4)]
        for index, spread in enumerate(spreads, start=1):
            pull = (_FIX if index in fixed else _PULL) * sum(weights) * (spread + 1)
            matrix[index][index] += pull
            right[index] += pull * common
        before, solution = solution, np.linalg.solve(matrix, right).tolist()
        if all(abs(new - old) <= _SETTLED * abs(old) for new, old in zip(solution, before, strict=True)):
            break
        overhead, typed, answers, results = solution
        residuals = [
            abs(target - overhead - typed * first - answers * second - results * third)
            for _, first, second, third, target in rows
        ]
        limit = _HUBER * (_SIGMA_OF_MEDIAN * median(residuals) + 1)
        weights = [1.0 if residual <= limit else limit / residual for residual in residuals]
    return solution


def _variance(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / len(values)


def take_median(calibrations: Sequence[RecordedCalibration], error: float) -> RecordedCalibration:
    """Return the median of the calibrations of sessions of one agent and model, for a session without usage.

    Args:
        calibrations: Calibrations of other sessions, at least one.
        error: Error of such a median where it can be judged, see `judge_median`.
    """
    return RecordedCalibration(
        overhead_tokens=median(item.overhead_tokens for item in calibrations),
        typed_tokens=median(item.typed_tokens for item in calibrations),
        answer_tokens=median(item.answer_tokens for item in calibrations),
        result_tokens=median(item.result_tokens for item in calibrations),
        prompts=sum(item.prompts for item in calibrations),
        error=error,
        source="agent and model",
    )


def judge_median(calibrations: Sequence[RecordedCalibration], last_prompts: Sequence[Prompt]) -> float:
    """Return the median error of calibrating each session by the median of the others, as a share of its last prompt's tokens.

    Args:
        calibrations: Calibrations of the sessions of one agent and model, at least two.
        last_prompts: Last reported prompt before a compaction of each of these sessions.
    """
    errors = []
    for index, prompt in enumerate(last_prompts):
        others = take_median([item for place, item in enumerate(calibrations) if place != index], 0.0)
        errors.append(abs(others.count(prompt.sizes) - prompt.tokens) / prompt.tokens)
    return median(errors)
