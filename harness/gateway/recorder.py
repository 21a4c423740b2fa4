"""Sessions of the agents that use the gateway: which session a request belongs to, what goes upstream, and its record.

Agents send their whole history with each request. A session is told by the header with which an agent names it, by the digest of
its tools, and by the history that it continues. The record is that of `Compactor`, which reads only what is new.

The answer of a model is logged when the agent sends it back, in the agent's own form, with the time at which it was given. The
last answer is logged at the end of the session.
"""

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeVar

from harness.agent.loop import Stop
from harness.compaction.description import name_policy
from harness.conversation.codec import to_canonical_json
from harness.conversation.endings import infer_ending
from harness.conversation.events import SessionEnded, SessionStarted, StopReason
from harness.conversation.shapes.recognition import recognize_shape
from harness.conversation.shapes.shape import Raw, Shape
from harness.conversation.tokens import Usage
from harness.errors import CompactionError, HarnessError, UsageError, format_count
from harness.gateway.agent_protocols import (
    PROTOCOLS,
    count_answer_messages,
    extract_text,
    is_answer,
    list_call_ids,
    read_system,
)
from harness.integrations.compactor import Compactor, Moment
from harness.integrations.message_checks import check_list
from harness.integrations.summarizers import SummarizerChoice
from harness.integrations.usage import read_usage
from harness.models.overflows import is_overflow
from harness.models.registry import look_up_window
from harness.policies import resolve_policy
from harness.protocols import Clock, Log, Policy
from harness.session.ids import TIME_ORDERED_IDS
from harness.store.journal import Journal
from harness.text import replace_control_characters

MAX_SESSIONS = 64
"""Number of sessions that are kept open; beyond it, the one that was longest without a request ends."""
MAX_CALLS = 10_000
"""Number of requests without an answer that are remembered."""
REPORT_SECONDS = 1.0
"""Time in seconds for which a failure of the upstream that repeats is counted and not reported again."""
SESSION_HEADERS = ("x-session-id", "session-id", "session_id", "thread-id", "conversation_id", "x-litellm-session-id")
"""Headers with which agents name their session, beside `x-VENDOR-session-id`: of OpenCode, Codex CLI and litellm."""
MALFORMED_STATUS, FAILED_STATUS = 422, 500
"""HTTP statuses for requests that cannot be recorded, and for policies that fail. Clients do not repeat the former."""
_Drawn = TypeVar("_Drawn")
_CONTEXT_ERRORS = frozenset(("ContextWindowExceededError",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """Treatment of sessions: a policy and its name in the record."""

    name: str
    policy: Policy


@dataclass(slots=True)
class _Answer:
    """Answer of the upstream that the agent has not sent back yet."""

    messages: Sequence[Raw]
    usage: Usage | None
    at_seconds: float
    model_seconds: float
    is_logged: bool = False
    """Whether the answer is in the log, because the agent sent it back in a request that was refused."""


@dataclass(slots=True)
class _Session:
    """Open session of an agent."""

    key: tuple[str, str]
    """Name that the agent gives its session, and the digest of its tools."""
    arm: Arm
    compactor: Compactor
    clock: "SettableClock"
    history: list[Raw] = field(default_factory=list)
    """Messages of the last request as `normalize` returns them."""
    answer: _Answer | None = None
    requests: int = 0
    own_compactions: int = 0
    has_overflowed: bool = False
    failure: SessionEnded | None = None
    """End of the session if no further request comes, because the newest one failed or was refused; None otherwise."""
    lock: threading.Lock = field(default_factory=threading.Lock)


class OpenedLog(NamedTuple):
    """Log for a new session, which the caller who opened it closes."""

    session_id: str
    log: Log
    clock: "SettableClock"
    """Clock that gives the time of each event in the log."""


class SettableClock:
    """Clock of a session's log, which can be set to the time of an answer that is logged later."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.set_seconds: float | None = None

    def __call__(self) -> float:
        """Return the time in seconds since the epoch."""
        return self._clock() if self.set_seconds is None else self.set_seconds

    @contextmanager
    def stop_at(self, seconds: float) -> Iterator[None]:
        """Give the same time within the context."""
        self.set_seconds = seconds
        try:
            yield
        finally:
            self.set_seconds = None


class SessionRecorder:
    """Recorder of the sessions of all agents that use one gateway. Thread-safe.

    Args:
        arms: Treatments, of which each new session gets one at random. A journal that exists is continued with the next draws.
        journal: Journal file with one session for each conversation. None keeps each log in memory. Default: `None`.
        open_log: Function that opens the log of a new session in place of the journal, given whether the agent offers tools.
            Default: `None`.
        window_tokens: Context window of the agents' models in tokens; None looks it up by the name of the model.
        summarizer: Model that writes summaries, as for `Compactor`. Default: `None`.
        model: Name of the upstream's model, if that is not what agents name. Default: `''`.
        session_header: Further header that names a session. Default: `''`.
        seed: Seed of the random assignment. Default: 0.
        report: Function that is called with a line for each event that a person should know. Default: none.
        clock: Source of the time of each event, in seconds since the epoch. Default: `time.time`.

    Raises:
        UsageError: A policy needs a summarizer or an oracle, or cannot work in the window.
    """

    def __init__(
        self,
        arms: Sequence[Arm],
        *,
        journal: Path | None = None,
        open_log: Callable[[bool], OpenedLog] | None = None,
        window_tokens: int | None,
        summarizer: SummarizerChoice = None,
        model: str = "",
        session_header: str = "",
        seed: int = 0,
        report: Callable[[str], None] = lambda _: None,
        clock: Clock = time.time,
    ) -> None:
        self._arms, self._journal, self._window_tokens, self._summarizer = tuple(arms), journal, window_tokens, summarizer
        self._model, self._header, self._report, self._clock = model, session_header.lower(), report, clock
        self._open_log = open_log
        self._seed = seed
        self._draws = islice(draw_arms(self._arms, seed), self._count_draws(), None)
        self._open: list[_Session] = []  # the session of the last request is the last one
        self._calls: dict[str, _Session] = {}
        self._lock = threading.Lock()
        self.sessions = self._refused = self._unfinished = 0
        self._last_refusal = self._last_failure = ""
        self._failed = self._unreported = 0
        self._failure_seconds = 0.0
        for arm in self._arms:  # refuses invalid settings before the first request
            Compactor(arm.policy, window_tokens=window_tokens or 1_000_000, summarizer=summarizer).close()

    def _count_draws(self) -> int:
        """Return how many sessions in the journal drew one of these arms by this seed, as a gateway before this one did."""
        if self._journal is None or len(self._arms) < 2 or not self._journal.is_file():
            return 0
        names = [arm.name for arm in self._arms]
        with Journal.open(self._journal, read_only=True) as journal:
            starts = (
                event
                for session_id in journal.list_session_ids()
                if "." not in session_id  # a side call has the arm of its session
                for _, event in journal.read_entries(session_id, kinds=("session-started",))
            )
            drawn = [json.loads(event.setup_json or "{}") for event in starts if isinstance(event, SessionStarted)]
        assignments = [setup.get("gateway") or {} for setup in drawn]
        return sum((assignment.get("arms"), assignment.get("seed")) == (names, self._seed) for assignment in assignments)

    def answer(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the answer to a question of the hook in the proxy; nothing is raised.

        The answer to a request has the key `messages`, a list with the index of each message that goes upstream as it is, and
        other messages themselves; or `error` and `status`.
        """
        try:
            match question["kind"]:
                case "request":
                    return {"messages": self.take_request(question)}
                case "answer":
                    self.take_answer(question)
                case "failure":
                    self.take_failure(question)
        except UsageError as error:
            text = re.sub(r"^messages(?=[\[:])", PROTOCOLS[question.get("protocol", "chat")].field, str(error))
            return self._refuse(MALFORMED_STATUS, text)
        except HarnessError as error:
            return self._refuse(FAILED_STATUS, f"{type(error).__name__}: {error}")
        except Exception as error:  # noqa: BLE001, the agent must get an error, and nothing may go upstream unrecorded
            return self._refuse(FAILED_STATUS, f"{type(error).__name__}: {error}")
        return {}

    def _refuse(self, status: int, text: str) -> Mapping[str, Any]:
        """Return the answer to a refused request; an agent that tries again and again is reported once."""
        line = f"refused a request with status {status}: {replace_control_characters(text)[:500]}"
        self._refused += 1
        if line != self._last_refusal:
            self._report(line)
        self._last_refusal = line
        return {"status": status, "error": f"harness gateway: {text}"}

    def close(self) -> None:
        """End all sessions and close their journal; may be called more than once."""
        with self._lock:
            while self._open:
                self._end(self._open.pop(0))

    def describe(self) -> str:
        """Return how many sessions were recorded, in a sentence, with advice if there was none."""
        if not self.sessions and self._refused:
            return f"no session was recorded: {format_count(self._refused, 'request')} arrived; {self._last_refusal}"
        if not self.sessions:
            return (
                "no request arrived: check that the agent uses the printed address as its base URL, and that no other setting or "
                "environment variable of the agent names its provider's own address"
            )
        unfinished = f"; {self._unfinished} did not end by the agent's own answer" if self._unfinished else ""
        failed = f"; {format_count(self._failed, 'request')} failed upstream" if self._failed else ""
        return f"{format_count(self.sessions, 'session')} recorded in {self._journal}{unfinished}{failed}"

    def take_request(self, question: Mapping[str, Any]) -> list[int | Raw]:
        """Return what goes upstream: the index of each message that goes as it is, and other messages themselves.

        Raises:
            UsageError: The messages are invalid, or the window of the model is unknown.
            IllegalPlan: The policy proposed messages that providers would refuse.
            StoreError: The journal cannot be written.
        """
        protocol = PROTOCOLS[question.get("protocol", "chat")]
        given = check_list(question.get("messages"))
        recognize_shape(given, known=protocol.shape)  # refuses what is no message
        messages = [normalize(raw) for raw in given]
        system = read_system(question.get("system"), protocol)
        key = (self._find_name(question.get("headers") or {}), digest_tools(question.get("tools")))
        model = self._model or str(question.get("model") or "unknown")
        with self._lock:
            session, is_own_compaction = self._find(key, messages)
            if session is None:
                session = self._begin(key, messages, model, system=system, shape=protocol.shape)
            else:
                self._open.remove(session)
            self._open.append(session)
        with session.lock:
            sent = self._compact(session, messages, is_own_compaction=is_own_compaction)
            self._calls[str(question.get("call_id"))] = session
            places = {id(raw): index for index, raw in enumerate(session.history)}
        while len(self._calls) > MAX_CALLS:  # of agents that left before their answer
            self._calls.pop(next(iter(self._calls)), None)
        return [places.get(id(raw), raw) for raw in sent]

    def _compact(self, session: _Session, messages: list[Raw], *, is_own_compaction: bool) -> list[dict[str, Any]]:
        answer = session.answer
        usage = None if answer is None else answer.usage
        compactor = session.compactor
        if is_own_compaction:
            if answer is not None:
                self._log_answer(session, answer)
                session.answer = None
            reason = self._describe_own_compaction(session, messages)
            event = compactor.replace(messages, usage, reason=reason)
            session.own_compactions += 1
            before, after = f"{event.tokens_before:,}", format_count(event.tokens_after, "token")
            self._report(f"session {compactor.session_id}: {reason} (from {before} to {after})")
            session.history, usage = messages, None
        else:
            known = len(session.history)
            history = [*session.history, *messages[known:]]
            count = count_answer_messages(messages, known)
            if answer is not None and count:
                with session.clock.stop_at(answer.at_seconds):
                    compactor.record(history[: known + count], usage, model_seconds=answer.model_seconds)
                answer.is_logged = True
            session.history = history
        moment: Moment = "overflow" if session.has_overflowed else "step"
        session.has_overflowed, session.failure = False, None
        session.requests += 1
        try:
            sent = compactor.compact(session.history, usage, moment=moment).messages
            session.answer = None  # a refused request leaves it to the next one
            return sent
        except Exception as error:
            session.failure = _make_refusal(error)
            raise
        finally:
            session.history = session.history[: compactor.messages]  # fewer if the new ones were refused

    def _describe_own_compaction(self, session: _Session, messages: Sequence[Raw]) -> str:
        if continues(messages, session.history):
            return "the agent took its newest messages back"
        reason = "the agent's own compaction"
        if name_policy(session.arm.policy) == "none":
            return reason
        return f"{reason}; two policies act in this session, the agent's and the gateway's {session.arm.name}"

    def _find(self, key: tuple[str, str], messages: Sequence[Raw]) -> tuple[_Session | None, bool]:
        """Return the session that a request continues, and whether the agent has compacted its history; None for a new one."""
        candidates = [session for session in self._open if session.key == key and session.history]
        continued = [session for session in candidates if continues(session.history, messages)]
        if not key[0]:  # without a name, an equal first request that was answered before is that of a second agent
            continued = [
                session
                for session in continued
                if not (session.answer and len(session.history) == len(messages) and not _has_answer(messages))
            ]
        if continued:  # the session that was used last comes first, because an earlier run may have the same messages
            return max(reversed(continued), key=lambda session: (_fits_answer(session, messages), len(session.history))), False
        if not key[0] and not _has_answer(messages) and any(continues(messages, session.history) for session in candidates):
            return None, False  # the task begins once more
        size = sum(len(str(raw)) for raw in messages)
        shrunk = [
            session
            for session in candidates
            if find_first_request(session.history) == find_first_request(messages)
            and size < sum(len(str(raw)) for raw in session.history)
            and _has_answer(session.history)
        ]
        return (shrunk[-1], True) if shrunk else (None, False)

    def _begin(self, key: tuple[str, str], messages: Sequence[Raw], model: str, *, system: str, shape: Shape | None) -> _Session:
        window_tokens = self._window_tokens or look_up_window(model).tokens
        if not window_tokens:
            raise UsageError(f"the context window of model {model!r:.200} is unknown; start the gateway with --window TOKENS")
        siblings = [session for session in self._open if key[0] and session.key[0] == key[0]]
        arm = siblings[0].arm if siblings else None
        settings: dict[str, Any] = {"window_tokens": window_tokens, "summarizer": self._summarizer, "model": model}
        settings |= {"system": system, "shape": shape}
        # refuses invalid messages before a draw, and before the journal has the session
        Compactor((arm or self._arms[0]).policy, **settings).record(messages)
        arm = arm or next(self._draws)
        clock = SettableClock(self._clock)
        # a title or another side call of a session that the agent names belongs to the session, as a sub-agent does
        session_id, log = TIME_ORDERED_IDS.make_descending(), None
        if siblings:
            session_id = f"{siblings[0].compactor.session_id.partition('.')[0]}.{session_id}"
        if self._open_log is not None:
            session_id, log, clock = self._open_log(bool(key[1]))
        assignment = {"arm": arm.name, "arms": [one.name for one in self._arms], "seed": self._seed, "number": self.sessions + 1}
        setup_json = to_canonical_json({"gateway": assignment}, object) if len(self._arms) > 1 else ""
        compactor = Compactor(
            arm.policy, journal=self._journal, log=log, session_id=session_id, setup_json=setup_json, clock=clock, **settings
        )
        while len(self._open) >= MAX_SESSIONS:
            self._end(self._open.pop(0))
        self.sessions += 1
        chosen = f", arm {arm.name}" if len(self._arms) > 1 else ""
        first_request = find_first_request(messages)
        task = replace_control_characters(extract_text([first_request])[:60]).replace("\n", " ") if first_request else ""
        self._report(f"session {session_id}{chosen}: {task}")
        return _Session(key, arm, compactor, clock)

    def take_answer(self, question: Mapping[str, Any]) -> None:
        """Remember the answer to a request, which is logged when the agent sends it back or the session ends."""
        session = self._calls.pop(str(question.get("call_id")), None)
        messages = question.get("messages")
        if session is not None and isinstance(messages, list) and all(isinstance(raw, Mapping) for raw in messages) and messages:
            try:
                usage = read_usage(question.get("usage"))
            except UsageError:  # of a server that reports something else; the answer counts all the same
                usage = None
            with session.lock:
                session.answer = _Answer(messages, usage, self._clock(), float(question.get("seconds") or 0.0))

    def take_failure(self, question: Mapping[str, Any]) -> None:
        """Take in that a request failed; after an overflow, the session is compacted at its next request."""
        session = self._calls.pop(str(question.get("call_id")), None)
        status, text = question.get("status"), str(question.get("message"))
        self._report_failure(session, *(question.get("explained") or (status, text)))
        if session is None:
            return
        with session.lock:
            session.has_overflowed = is_overflow(status, text, is_known=question.get("name") in _CONTEXT_ERRORS)
            if session.has_overflowed:
                session.compactor.record_overflow(text[:2_000])
            detail = f"the newest request failed{'' if status is None else f' with status {status}'}: {text[:2_000]}"
            reason: StopReason = "overflow" if session.has_overflowed else "model_error"
            session.failure = SessionEnded(status="failed", reason=reason, detail=detail)

    def _report_failure(self, session: _Session | None, status: int | None, text: str) -> None:
        """Report a request that failed upstream; the same failure again at most once in `REPORT_SECONDS`, with a count."""
        place = "a request" if session is None else f"session {session.compactor.session_id}: a request"
        code = "" if status is None else f" with status {status}"
        line = f"{place} failed upstream{code}: {' '.join(replace_control_characters(text).split())[:500]}"
        with self._lock:
            now = time.monotonic()
            self._failed += 1
            self._unreported += 1
            if line == self._last_failure and now - self._failure_seconds < REPORT_SECONDS:
                return
            again = f" ({self._unreported} times since the last such line)" if line == self._last_failure else ""
            self._unreported, self._last_failure, self._failure_seconds = 0, line, now
        self._report(line + again)

    def _find_name(self, headers: Mapping[str, Any]) -> str:
        """Return the name that the agent gives its session in a header; empty if it gives none."""
        lower = {name.lower(): str(value) for name, value in headers.items()}
        vendors = sorted(name for name in lower if name.startswith("x-") and name.endswith("-session-id"))
        return next((lower[name] for name in (self._header, *vendors, *SESSION_HEADERS) if lower.get(name)), "")

    def _end(self, session: _Session) -> None:
        with session.lock:
            if session.answer is not None:
                self._log_answer(session, session.answer)
            ending = session.failure or infer_ending([item.message for item in session.compactor.view.items])
            self._unfinished += ending.status == "failed"
            session.compactor.close(ending)

    def _log_answer(self, session: _Session, answer: _Answer) -> None:
        """Log an answer that the agent did not send back."""
        if answer.is_logged:
            return
        session.history = [*session.history, *map(normalize, answer.messages)]
        with session.clock.stop_at(answer.at_seconds):
            session.compactor.record(session.history, answer.usage, model_seconds=answer.model_seconds)


def draw_arms(arms: Sequence[_Drawn], seed: int) -> Iterator[_Drawn]:
    """Yield the arm of each new session without end: all arms in random order, again and again.

    Few sessions are so divided as equally as many, and a change of the agent's work over time meets all arms alike.
    """
    random = Random(seed)
    while True:
        yield from random.sample(tuple(arms), len(arms))


def make_arms(policies: Mapping[str, Policy | str]) -> tuple[Arm, ...]:
    """Return the arms with the given names and policies."""
    return tuple(Arm(name=name, policy=resolve_policy(policy)) for name, policy in policies.items())


def normalize(raw: Raw) -> Raw:
    """Return a message without what agents change from request to request: cache marks, and a list that holds a single text."""
    message = {key: value for key, value in raw.items() if key != "cache_control"}
    content = message.get("content")
    if isinstance(content, list):
        blocks = [
            {key: value for key, value in block.items() if key != "cache_control"} if isinstance(block, Mapping) else block
            for block in content
        ]
        is_text = len(blocks) == 1 and isinstance(blocks[0], Mapping) and blocks[0].keys() == {"type", "text"}
        message["content"] = blocks[0]["text"] if is_text and blocks[0]["type"] == "text" else blocks
    return message


def digest_tools(tools: object) -> str:
    """Return the digest of the tools of a request; empty if it has none."""
    return hashlib.sha256(to_canonical_json(tools, object).encode()).hexdigest() if tools else ""


def continues(history: Sequence[Raw], messages: Sequence[Raw]) -> bool:
    """Return whether messages begin with a history, whose system message may have changed."""
    if len(messages) < len(history):
        return False
    start = 1 if all(_is_system(listed[0]) for listed in (history, messages)) else 0
    return list(messages[start : len(history)]) == list(history[start:])


def find_first_request(messages: Sequence[Raw]) -> Raw | None:
    """Return the first message of the user; None if there is none."""
    return next((raw for raw in messages if raw.get("role") == "user"), None)


def _is_system(raw: Raw) -> bool:
    return raw.get("role") in {"system", "developer"}


def _has_answer(messages: Sequence[Raw]) -> bool:
    return any(map(is_answer, messages))


def _make_refusal(error: Exception) -> SessionEnded:
    """Return the end of a session whose newest request the gateway refused, if no further one comes."""
    if isinstance(error, UsageError):
        return SessionEnded(status="failed", reason="broken_off", detail=f"the gateway refused the newest request: {error}")
    stop = Stop("illegal_plan", str(error)) if isinstance(error, CompactionError) else Stop.from_error(error)
    return SessionEnded(status=stop.status, reason=stop.reason, detail=stop.detail)


def _fits_answer(session: _Session, messages: Sequence[Raw]) -> bool:
    """Return whether the first new message is the answer that the session was given."""
    if session.answer is None or len(messages) <= len(session.history):
        return False
    start = len(session.history)
    both = (session.answer.messages, messages[start : start + count_answer_messages(messages, start)])
    given_ids, sent_ids = map(list_call_ids, both)
    given_text, sent_text = map(extract_text, both)
    return given_ids == sent_ids and (bool(given_ids) or given_text == sent_text)
