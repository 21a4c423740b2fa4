"""Bills of recorded sessions agree with what providers reported, and traces have the prefixes and pauses that others counted.

`python -m tests.contracts.test_bills_of_recordings` prints the error of each session. The second half of a recording is judged;
its sizes are calibrated on the first. Costs are in tokens of input: a read counts 0.1, a write 1.25 or, for an hour, 2, output 5.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

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
MIN_CALLS = 6
"""Number of calls with reported cache reads in its second half from which a session is judged."""
PAUSE_SECONDS = 300


class BillErrors(NamedTuple):
    """Relative errors of the cost of a session's second half.

    Args:
        session: File and model.
        cost: Reported cost, in tokens of input.
        split: Error of the simulated split into reads and writes, given the reported sizes.
        sizes: Error of the estimated sizes, given the reported split.
        both: Error of both together.
        simple: Error of taking the whole prompt before as read, unless there was a longer pause than the cache remembers.
    """

    session: str
    cost: float
    split: float
    sizes: float
    both: float
    simple: float


def iter_recordings() -> Iterator[tuple[Path, Recording]]:
    for file in sorted(PLACE.rglob("*.json*")):
        try:
            yield from ((file, recording) for recording in read_recordings(file))
        except HarnessError:
            continue  # an index of the data, or a file without a session


def judge_bill(file: Path, recording: Recording) -> BillErrors | None:
    """Compare the bill of a recording with what its provider reported; None if it reported too little."""
    log = build_timed_log(recording, reading="recorded")
    session = build_session_requests([timed.entry for timed in log], [timed.at_ms for timed in log])
    requests, half = session.requests, len(session.requests) / 2
    judged = [index for index, request in enumerate(requests) if request.reported and index >= half]
    if len(judged) < MIN_CALLS:
        return None
    rule = find_rule(next((name for word, name in RULES.items() if word in session.model), "anthropic-2025-09"))
    lifetime = "1h" if any(message.hour_write_tokens for message in recording.messages) else next(iter(rule.lifetimes_seconds))
    sized = split_prompts(requests, rule, lifetime)
    estimated = split_prompts([replace(request, prompt_tokens=None) for request in requests], rule, lifetime)
    costs = dict.fromkeys(("reported", "split", "sizes", "both", "simple"), 0.0)
    for index in judged:
        request, before = requests[index], requests[index - 1]
        usage = request.reported
        assert usage is not None
        pause = (request.at_seconds or 0) - (before.at_seconds or 0)
        held = 0 if pause > rule.find_lifetime_seconds(lifetime) else sized[index - 1].prompt_tokens
        guess = estimated[index]
        for name, read, prompt in (
            ("reported", usage.cache_read_tokens, usage.prompt_tokens),
            ("split", sized[index].read_tokens, usage.prompt_tokens),
            ("sizes", usage.cache_read_tokens / usage.prompt_tokens * guess.prompt_tokens, guess.prompt_tokens),
            ("both", guess.read_tokens, guess.prompt_tokens),
            ("simple", min(held, usage.prompt_tokens), usage.prompt_tokens),
        ):
            costs[name] += compute_cost(read, prompt, request.output_tokens, rule, lifetime)
    whole = costs.pop("reported")
    name = f"{file.relative_to(PLACE).as_posix()} ({session.model})"
    return BillErrors(name, whole, **{key: cost / whole - 1 for key, cost in costs.items()})


def compute_cost(read: float, prompt: int, output: int, rule: PriceRule, lifetime: str) -> float:
    write_share = (2.0 if lifetime == "1h" else 1.25) if rule.bills_writes else 1.0
    return 0.1 * read + write_share * (prompt - read) + 5 * output


def judge_all() -> list[BillErrors]:
    return [errors for file, recording in iter_recordings() if (errors := judge_bill(file, recording))]


@pytest.mark.slow
@pytest.mark.skipif(not PLACE.is_dir(), reason="the recorded sessions are not here; HARNESS_TRAJECTORIES names their folder")
def test_bills_agree_with_what_providers_reported():
    judged = judge_all()
    assert len(judged) >= 10
    errors = {name: [abs(getattr(one, name)) for one in judged] for name in ("split", "sizes", "both", "simple")}
    pooled = {
        name: sum(error * one.cost for error, one in zip(values, judged, strict=True)) / sum(one.cost for one in judged)
        for name, values in errors.items()
    }
    assert median(errors["split"]) < 0.055
    assert median(errors["sizes"]) < 0.05
    assert median(errors["both"]) < 0.07
    assert pooled["split"] < pooled["simple"]


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
    print(f"{'split':>7} {'sizes':>7} {'both':>7} {'simple':>7}")
    for row in judge_all():
        print(f"{row.split:7.1%} {row.sizes:7.1%} {row.both:7.1%} {row.simple:7.1%}  {row.session}")
