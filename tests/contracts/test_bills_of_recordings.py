"""Bills of recorded sessions agree with what providers reported, and traces have the prefixes and pauses that others counted.

`python -m tests.contracts.test_bills_of_recordings` prints the error of each session. The second half of a recording is judged;
what the provider reported of its first half is known. Costs are in tokens of input: a read counts 0.1, a write 1.25 or, for an
hour, 2, output 5.
"""

import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

from harness.conversation.events import Entry, StepFinished
from harness.conversation.tokens import Measured
from harness.conversation.view import drop_rolled_back
from harness.errors import HarnessError
from harness.inspection.request_chain import build_session_requests
from harness.prices.cache import split_prompts
from harness.prices.requests import Block, Request, count_shared_blocks
from harness.prices.rules import PriceRule, find_rule
from harness.recordings.reading import read_recordings
from harness.recordings.recording import Recording
from harness.recordings.session_log import build_timed_log
from tests.recordings.formats.test_weka import TRACES, iter_traces

PLACE = Path(os.environ.get("HARNESS_TRAJECTORIES", Path(__file__).parents[3] / "shared" / "data" / "trajectories"))
RULES = {"gpt": "openai-2025-08", "deepseek": "deepseek-2026-10", "gemini": "gemini-2026-10"}
needs_recordings = pytest.mark.skipif(
    not PLACE.is_dir(), reason="the recorded sessions are not here; HARNESS_TRAJECTORIES names their folder"
)
MIN_CALLS = 6
"""Number of calls with reported cache reads in its second half from which a session is judged."""
PAUSE_SECONDS = 300


MISSED_SHARE = 0.5
"""Share of a prompt from which a read that the model expected and the provider did not report counts as a miss."""


class BillErrors(NamedTuple):
    """Relative errors of the cost of a session's second half.

    Args:
        session: File and model.
        cost: Reported cost, in tokens of input.
        misses: Number of calls that read far less than the model expected, given the reported sizes.
        split: Error of the simulated split into reads and writes, given the reported sizes.
        sizes: Error of the estimated sizes, given the reported split.
        both: Error of both together.
        simple: Error of taking the whole prompt before as read, unless there was a longer pause than the cache remembers, given
            the reported sizes.
        simple_both: Error of this simple split with the estimated sizes.
    """

    session: str
    cost: float
    misses: int
    split: float
    sizes: float
    both: float
    simple: float
    simple_both: float


def iter_recordings() -> Iterator[tuple[Path, Recording]]:
    for file in sorted(PLACE.rglob("*.json*")):
        try:
            yield from ((file, recording) for recording in read_recordings(file))
        except HarnessError:
            continue  # an index of the data, or a file without a session


def find_terms(recording: Recording, model: str) -> tuple[PriceRule, str]:
    """Return the rule and the lifetime of a recorded session's provider."""
    rule = find_rule(next((name for word, name in RULES.items() if word in model), "anthropic-2025-09"))
    keeps_hour = any(message.hour_write_tokens for message in recording.messages)
    return rule, "1h" if keeps_hour else next(iter(rule.lifetimes_seconds))


def build_requests(recording: Recording, known_calls: int | None = None) -> tuple[str, Sequence[Request]]:
    """Return the model and the requests of a recorded session, as if only the first calls had reported what the cache did."""
    log = build_timed_log(recording, reading="recorded")
    entries = [timed.entry for timed in log]
    if known_calls is not None:
        steps = [entry.event.step for entry in drop_rolled_back(entries) if isinstance(entry.event, StepFinished)]
        entries = [hide_cache(entry, steps[known_calls:]) for entry in entries]
    session = build_session_requests(entries, [timed.at_ms for timed in log])
    return session.model, session.requests


def hide_cache(entry: Entry, steps: Sequence[int]) -> Entry:
    """Return an event of a log without the tokens read from and written to the cache, if it is the end of one of the steps."""
    if not isinstance(entry.event, StepFinished) or entry.event.step not in steps:
        return entry
    usage = entry.event.usage
    hidden = replace(usage, input_tokens=usage.prompt_tokens, cache_read_tokens=Measured(0), cache_write_tokens=Measured(0))
    return Entry(entry.seq, replace(entry.event, usage=hidden))


def measure_pause(before: Request, request: Request) -> float:
    """Return the seconds from the answer to a request to the next one."""
    return (request.at_seconds or 0) - (before.at_seconds or 0) - before.answer_seconds


def judge_bill(file: Path, recording: Recording) -> BillErrors | None:
    """Compare the bill of a recording with what its provider reported; None if it reported too little."""
    model, requests = build_requests(recording)
    half = math.ceil(len(requests) / 2)
    judged = [index for index, request in enumerate(requests) if request.reported and index >= half]
    if len(judged) < MIN_CALLS:
        return None
    rule, lifetime = find_terms(recording, model)
    _, known = build_requests(recording, half)
    sized = split_prompts(known, rule, lifetime)
    estimated = split_prompts(
        [*known[:half], *(replace(request, prompt_tokens=None) for request in known[half:])], rule, lifetime
    )
    costs = dict.fromkeys(("reported", "split", "sizes", "both", "simple", "simple_both"), 0.0)
    misses = 0
    for index in judged:
        request, guess, usage = requests[index], estimated[index], requests[index].reported
        assert usage is not None
        is_held = measure_pause(requests[index - 1], request) <= rule.find_lifetime_seconds(lifetime)
        misses += sized[index].read_tokens - usage.cache_read_tokens > MISSED_SHARE * usage.prompt_tokens
        for name, read, prompt in (
            ("reported", usage.cache_read_tokens, usage.prompt_tokens),
            ("split", sized[index].read_tokens, usage.prompt_tokens),
            ("sizes", usage.cache_read_tokens / usage.prompt_tokens * guess.prompt_tokens, guess.prompt_tokens),
            ("both", guess.read_tokens, guess.prompt_tokens),
            ("simple", is_held * min(sized[index - 1].prompt_tokens, usage.prompt_tokens), usage.prompt_tokens),
            ("simple_both", is_held * min(estimated[index - 1].prompt_tokens, guess.prompt_tokens), guess.prompt_tokens),
        ):
            costs[name] += compute_cost(read, prompt, request.output_tokens, rule, lifetime)
    whole = costs.pop("reported")
    name = f"{file.relative_to(PLACE).as_posix()} ({model})"
    return BillErrors(name, whole, misses, **{key: cost / whole - 1 for key, cost in costs.items()})


def compute_cost(read: float, prompt: int, output: int, rule: PriceRule, lifetime: str) -> float:
    write_share = (2.0 if lifetime == "1h" else 1.25) if rule.bills_writes else 1.0
    return 0.1 * read + write_share * (prompt - read) + 5 * output


def judge_all() -> list[BillErrors]:
    return [errors for file, recording in iter_recordings() if (errors := judge_bill(file, recording))]


def pool_errors(judged: Sequence[BillErrors], name: str) -> float:
    """Return the mean of the absolute errors of sessions, weighted by their costs."""
    errors: list[float] = [abs(getattr(one, name)) * one.cost for one in judged]
    return sum(errors) / sum(one.cost for one in judged)


@needs_recordings
def test_bills_agree_with_what_providers_reported():
    judged = judge_all()
    assert len(judged) >= 10
    for name in ("split", "sizes", "both"):
        assert median(abs(getattr(one, name)) for one in judged) < 0.05
    assert pool_errors(judged, "split") < pool_errors(judged, "simple")
    assert pool_errors(judged, "both") < pool_errors(judged, "simple_both")


@needs_recordings
def test_what_is_written_after_an_edit_is_predicted():
    """Given the length of the prompt and what was reported before; without the length, what agents add again is unknown."""
    errors, blind_errors = list[float](), list[float]()
    for _, recording in iter_recordings():
        model, requests = build_requests(recording)
        rule, lifetime = find_terms(recording, model)
        for index, (before, request) in enumerate(pairwise(requests), start=1):
            usage = request.reported
            if usage is None or request.kept_blocks == before.kept_blocks + len(before.blocks):
                continue
            _, known = build_requests(recording, index)
            written = usage.prompt_tokens - usage.cache_read_tokens
            for last, missed in ((known[index], errors), (replace(known[index], prompt_tokens=None), blind_errors)):
                split = split_prompts([*known[:index], last], rule, lifetime)[-1]
                missed.append((split.prompt_tokens - split.read_tokens) / written - 1)
    assert len(errors) == 14
    assert median(map(abs, errors)) < 0.1
    assert median(map(abs, blind_errors)) < 0.4


@needs_recordings
def test_a_lifetime_ends_five_minutes_after_the_answer():
    """Of the pauses between four and eight minutes, counting from the request explains fewer."""
    explained = {"answer": 0, "request": 0}
    pauses = 0
    for _, recording in iter_recordings():
        model, requests = build_requests(recording)
        rule, lifetime = find_terms(recording, model)
        if rule.provider != "anthropic" or lifetime != "5m":
            continue
        for before, request in pairwise(requests):
            pause, usage = measure_pause(before, request), request.reported
            if usage is None or request.at_seconds is None or before.prompt_tokens is None or request.kept_blocks <= 3:
                continue
            if 240 < pause + before.answer_seconds < 480:
                pauses += 1
                was_read = usage.cache_read_tokens > before.prompt_tokens / 2
                explained["answer"] += was_read == (pause <= PAUSE_SECONDS)
                explained["request"] += was_read == (pause + before.answer_seconds <= PAUSE_SECONDS)
    assert (pauses, explained) == (26, {"answer": 24, "request": 20})


@needs_recordings
def test_an_edit_far_back_leaves_only_the_instructions_in_the_cache():
    """All clearings of old results in warm sessions of Claude Code; a second mark would have saved half of the prompt."""
    read_shares = []
    for file, recording in iter_recordings():
        if "claude-code" not in file.as_posix():
            continue
        _, requests = build_requests(recording)
        blocks = 0
        for before, request in pairwise(requests):
            blocks = before.kept_blocks + len(before.blocks)
            is_far = 3 < request.kept_blocks < blocks and len(request.blocks) > 20
            if is_far and request.reported and measure_pause(before, request) < PAUSE_SECONDS:
                read_shares.append(request.reported.cache_read_tokens / request.reported.prompt_tokens)
    assert len(read_shares) >= 3
    assert max(read_shares) < 0.3


@pytest.mark.slow
@pytest.mark.skipif(not TRACES.is_file(), reason="the traces are not here; HARNESS_WEKA names their folder")
def test_traces_have_the_prefixes_and_pauses_that_were_counted():
    """Calls of type `n` alone, each beside the one before it in its file; a pause is the time since the answer before."""
    rule = replace(find_rule("anthropic-2025-09"), marks=None, look_back_blocks=None, least_prefix_tokens=1)
    shared = own = former = calls = pauses = 0
    rewarmed, written = dict.fromkeys(rule.lifetimes_seconds, 0), dict.fromkeys(rule.lifetimes_seconds, 0)
    for trace in map(json.loads, iter_traces()):
        requests, before = list[Request](), list[Block]()
        edits = list[bool]()
        for call in [call for call in trace["requests"] if call["type"] == "n"]:
            chain = [Block(digest, trace["block_size"], "") for digest in call["hash_ids"]]
            kept = count_shared_blocks(before, chain)
            if requests:
                shared, own, former, calls = shared + kept, own + len(chain), former + len(before), calls + 1
                pauses += call["think_time"] > PAUSE_SECONDS
            edits.append(bool(requests) and kept < len(before) - 1)  # the last block of a prompt is seldom full
            requests.append(Request(kept_blocks=kept, blocks=tuple(chain[kept:]), at_seconds=call["t"], prompt_tokens=call["in"]))
            before = chain
        for lifetime in rule.lifetimes_seconds:
            for split, is_edit in list(zip(split_prompts(requests, rule, lifetime), edits, strict=True))[1:]:
                rewarmed[lifetime] += split.rewarmed_tokens
                written[lifetime] += split.rewarmed_tokens + (0 if is_edit else split.new_tokens)
    assert shared / own == pytest.approx(0.973, abs=0.001)
    assert shared / former == pytest.approx(0.982, abs=0.001)
    assert pauses / calls == pytest.approx(0.049, abs=0.001)
    assert rewarmed["5m"] / written["5m"] == pytest.approx(0.777, abs=0.005)
    assert rewarmed["1h"] / written["1h"] == pytest.approx(0.268, abs=0.005)


if __name__ == "__main__":
    names = ("split", "sizes", "both", "simple", "simple_both")
    rows = judge_all()
    print(" ".join(f"{name:>11}" for name in (*names, "misses")))
    for row in rows:
        print(" ".join(f"{getattr(row, name):11.1%}" for name in names), f"{row.misses:11} {row.session}")
    print(
        " ".join(f"{median(abs(getattr(row, name)) for row in rows):11.1%}" for name in names),
        " " * 11,
        "median of absolute values",
    )
    print(" ".join(f"{pool_errors(rows, name):11.1%}" for name in names), " " * 11, "pooled")
