"""Alerts of the kind that monitors a production service, measured in one session, running or finished.

A session has its own clock: the time of its model calls, tools and summaries, which is virtual for a scripted model. Therefore
alerts do not depend on how many trials run at once, or on the pauses of a user.

- *overflow rate*: fires if the number of summaries within 5 minutes exceeds 10 % of the number of model calls. Each window of 5
  minutes ends with a model call; a session shorter than 5 minutes is one window.
- *cache hit rate*: fires if the provider read less than 70 % of a session's prompt tokens from its cache, as the column
  `cache_hit_share` of the table of trials says. A value that no provider reports is simulated and marked as such.
- *summarization cost*: fires if summaries cost more than 10 US dollars within one hour.

A value equal to the threshold does not fire an alert. Terminal, widgets, inspection and the tables of an experiment all measure
with `AlertMonitor`.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf, isnan, nan
from typing import Literal, NamedTuple

from harness.conversation.events import Compaction, Entry, SessionStarted, StepFinished, TransientEvent
from harness.conversation.tokens import compute_cache_hits
from harness.text import format_percent


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Alert that fires if a measured value of a session crosses a threshold, with advice on the cause."""

    name: str
    label: str
    """Heading of the alert's column in the report."""
    severity: Literal["warning", "critical"] = "warning"
    threshold: float
    fires_above: bool = True
    """Whether the alert fires if the measured value is above its threshold (True) or below it (False)."""
    window_seconds: float = inf
    """Length of the time window over which the value is measured, in seconds; infinity means the whole session."""
    unit: Literal["share", "USD"] = "share"
    condition_text: str
    advice: str

    def should_fire(self, value: float) -> bool:
        """Return whether the alert fires for a measured value; False for an unknown value (NaN)."""
        return value > self.threshold if self.fires_above else value < self.threshold

    def format_value(self, value: float) -> str:
        """Format a measured value with its unit; an unknown one becomes `?`."""
        return "?" if isnan(value) else f"${value:.2f}" if self.unit == "USD" else format_percent(value, 1)


OVERFLOW_RATE = Alert(
    name="overflow rate",
    label="overflow rate > 10 %",
    threshold=0.1,
    window_seconds=300.0,
    condition_text="a summary before more than 10 % of the model calls within 5 minutes",
    advice="check the thresholds of pruning and what fills the context",
)
CACHE_HIT_RATE = Alert(
    name="cache hit rate",
    label="cache hits < 70 %",
    threshold=0.7,
    fires_above=False,
    condition_text="less than 70 % of the prompt tokens read from a cache",
    advice="check what changes early in the requests, such as the system prompt or masking at every step",
)
SUMMARIZATION_COST = Alert(
    name="summarization cost",
    label="summaries > $10/h",
    severity="critical",
    threshold=10.0,
    window_seconds=3600.0,
    unit="USD",
    condition_text="more than $10 for summaries within one hour",
    advice="check how often summaries are written, and by which model",
)
ALERTS = (OVERFLOW_RATE, CACHE_HIT_RATE, SUMMARIZATION_COST)

MIN_CALLS = 10
"""Number of model calls from which a running session announces an alert; a share of fewer calls says little."""


class AlertReading(NamedTuple):
    """Value of an alert in a session so far."""

    alert: Alert
    value: float
    """Worst value of all time windows; NaN if it is unknown."""
    step: int | None
    """Number of the last model call in the worst time window; None if there is none."""
    is_simulated: bool
    """Whether a cache was simulated, under the price rule of the session or because the provider reports none."""

    @property
    def fires(self) -> bool:
        """Whether the worst value is beyond the threshold of the alert."""
        return self.alert.should_fire(self.value)

    def describe(self) -> str:
        """Return what the alert says about the session and what to do, as one line of text."""
        alert = self.alert
        step = "" if self.step is None else f" at step {self.step}"
        simulated = ", of a simulated cache" if self.is_simulated else ""
        value = f"{alert.format_value(self.value)}{step}{simulated}"
        return f"{alert.severity}, {alert.name}: {alert.condition_text} ({value}); {alert.advice}"


class _WindowValue(NamedTuple):
    value: float
    step: int | None


@dataclass(slots=True)
class AlertMonitor:
    """Listener that measures all alerts of one session from its log entries.

    The alerts about summaries can also be measured from the numbers of the session's steps and summaries alone.
    """

    _seconds: float = 0.0
    """Time on the session's clock since its start."""
    _calls: int = 0
    _step: int | None = None
    """Number of the last model call."""
    _window: deque[tuple[float, int]] = field(default_factory=deque)
    """End time of each model call within the last 5 minutes, with the number of summaries before it."""
    _window_summaries: int = 0
    _new_summaries: int = 0
    """Number of summaries since the last model call."""
    _worst_rate: _WindowValue = field(default_factory=lambda: _WindowValue(-inf, None))
    """Highest overflow rate of all full time windows."""
    _paid: deque[tuple[float, float]] = field(default_factory=deque)
    """Time and cost in US dollars of each summary within the last hour."""
    _worst_cost: _WindowValue = field(default_factory=lambda: _WindowValue(0.0, None))
    _awaits_step_of_cost: bool = False
    """Whether the highest cost was reached since the last model call, so that its step is the next one."""
    _cache_read_tokens: int = 0
    _cache_write_tokens: int = 0
    _prompt_tokens: int = 0
    _kept_prefix_tokens: int = 0
    _view_tokens: int = 0
    _has_price_rule: bool = False

    def __call__(self, item: Entry | TransientEvent) -> None:
        """Update all values with the next log entry of the session; transient events are ignored."""
        match item:
            case Entry(event=StepFinished() as step):
                self._add_tokens(step)
                self.add_step(step.step, step.model_seconds + step.tool_seconds)
            case Entry(event=Compaction() as event):
                if event.summarizer or (event.status == "applied" and event.patch.insert):
                    self.add_summary(event.summarizer_seconds, event.summarizer_cost_usd if event.summarizer else 0.0)
            case Entry(event=SessionStarted() as start):
                self._has_price_rule = bool(start.price_rule)
            case _:
                pass

    def add_summary(self, seconds: float, cost_usd: float | None) -> None:
        """Record a summary, or another text that a compaction inserted, before the next model call.

        Args:
            seconds: Duration of the summarizer's call in seconds.
            cost_usd: Cost of the summary in US dollars; None or NaN if it is unknown.
        """
        self._new_summaries += 1
        self._seconds += seconds
        self._paid.append((self._seconds, nan if cost_usd is None else cost_usd))
        while self._paid[0][0] <= self._seconds - SUMMARIZATION_COST.window_seconds:
            self._paid.popleft()
        cost = sum(paid for _, paid in self._paid)
        if isnan(cost) or isnan(self._worst_cost.value):
            self._worst_cost = _WindowValue(nan, None)
        elif cost > self._worst_cost.value or self._worst_cost.step is None:
            self._worst_cost, self._awaits_step_of_cost = _WindowValue(cost, self._step), True

    def add_step(self, step: int, seconds: float) -> None:
        """Record a finished step.

        Args:
            step: Number of the step.
            seconds: Duration of its model call and its tool calls in seconds.
        """
        self._calls, self._step = self._calls + 1, step
        self._seconds += seconds
        if self._awaits_step_of_cost:
            self._worst_cost, self._awaits_step_of_cost = self._worst_cost._replace(step=step), False
        self._window.append((self._seconds, self._new_summaries))
        self._window_summaries, self._new_summaries = self._window_summaries + self._new_summaries, 0
        while self._window[0][0] <= self._seconds - OVERFLOW_RATE.window_seconds:
            self._window_summaries -= self._window.popleft()[1]
        if self._seconds >= OVERFLOW_RATE.window_seconds:
            self._worst_rate = self._find_worst_rate()

    def _find_worst_rate(self) -> _WindowValue:
        rate = (self._window_summaries + self._new_summaries) / len(self._window)
        return _WindowValue(rate, self._step) if rate > self._worst_rate.value else self._worst_rate

    def _add_tokens(self, step: StepFinished) -> None:
        self._cache_read_tokens += step.usage.cache_read_tokens
        self._cache_write_tokens += step.usage.cache_write_tokens
        self._prompt_tokens += step.usage.prompt_tokens
        self._kept_prefix_tokens += step.kept_prefix_tokens
        self._view_tokens += step.view_tokens

    def read(self) -> Iterator[AlertReading]:
        """Yield the value of each alert so far; nothing before the first model call."""
        if not self._calls:
            return
        yield from self.read_summaries()
        hits = compute_cache_hits(
            read_tokens=self._cache_read_tokens,
            write_tokens=self._cache_write_tokens,
            prompt_tokens=self._prompt_tokens,
            kept_prefix_tokens=self._kept_prefix_tokens,
            view_tokens=self._view_tokens,
            has_price_rule=self._has_price_rule,
        )
        yield AlertReading(CACHE_HIT_RATE, nan if hits.share is None else hits.share, None, hits.is_simulated)

    def read_summaries(self) -> Iterator[AlertReading]:
        """Yield the values of the alerts about summaries so far; nothing before the first model call."""
        if self._calls:
            yield AlertReading(OVERFLOW_RATE, *self._find_worst_rate(), is_simulated=False)
            yield AlertReading(SUMMARIZATION_COST, *self._worst_cost, is_simulated=False)

    def list_firing(self) -> tuple[AlertReading, ...]:
        """Return the alerts that fire for the session so far."""
        return tuple(reading for reading in self.read() if reading.fires)


@dataclass(slots=True)
class AlertAnnouncer:
    """Listener that finds alerts of a running session at the moment at which they begin to hold.

    An alert is announced again if it stopped holding and begins anew. Before `MIN_CALLS` model calls nothing is announced.
    """

    monitor: AlertMonitor = field(default_factory=AlertMonitor)
    firing: tuple[AlertReading, ...] = ()
    """Alerts that hold after the last finished step, from `MIN_CALLS` model calls on."""
    _calls: int = 0

    def receive(self, item: Entry | TransientEvent) -> tuple[AlertReading, ...]:
        """Update all values with the next log entry, and return the alerts that begin to hold with it."""
        self.monitor(item)
        if not (isinstance(item, Entry) and isinstance(item.event, StepFinished)):
            return ()
        self._calls += 1
        if self._calls < MIN_CALLS:
            return ()
        before = {reading.alert.name for reading in self.firing}
        self.firing = self.monitor.list_firing()
        return tuple(reading for reading in self.firing if reading.alert.name not in before)
