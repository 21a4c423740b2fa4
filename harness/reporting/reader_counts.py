"""Counts, by hand, of what the scripted agent's reader finds in the summaries of each arm.

A reader that knows the style of one summarizer better than that of another makes differences between arms. So a declared contrast
with real summarizers and a scripted agent is claimed only if a person has counted, in summaries of both arms, how many facts the
summaries state and how many of these the reader reads, and if the gap between both shares could not explain the effect.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import expm1, hypot, log
from os import PathLike
from pathlib import Path

from harness.analysis.effects import Effect
from harness.analysis.intervals import compute_wilson_bounds
from harness.analysis.tables import Tables
from harness.errors import StoreError, UsageError, format_count
from harness.experiment.contrasts import Contrast
from harness.files.bounded_input import read_input

FILE_NAME = "reader-counts.json"
"""Name of the file with the counts in the output folder of an experiment."""
MIN_SUMMARIES = 20
"""Minimum number of summaries of an arm that a person has to read."""
READ_LEVEL = "L1"
"""Fidelity level at which a scripted agent reads summaries by real models."""
_MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderCounts:
    """Counts that a person made in summaries of one arm.

    Attributes:
        summaries: Number of summaries that were read. Required.
        stated: Number of facts that these summaries state. Required.
        read: Number of these facts that the reader reads as stated. Required.
    """

    summaries: int
    stated: int
    read: int


def store_reader_counts(output: str | PathLike[str], arm: str, *, summaries: int, stated: int, read: int) -> Path:
    """Store what a person counted in summaries of an arm, beside those of other arms, and return the path of the file.

    Args:
        output: Output folder of the experiment.
        arm: Name of the arm.
        summaries: Number of summaries of the arm that were read, at least 20.
        stated: Number of facts that these summaries state.
        read: Number of these facts that the reader of the arm's agent reads as stated.

    Raises:
        UsageError: A count is impossible, or too few summaries were read.
        StoreError: The file with the counts of other arms cannot be read.
    """
    if summaries < MIN_SUMMARIES:
        raise UsageError(f"summaries: read at least {MIN_SUMMARIES} summaries of arm {arm!r} (got {summaries})")
    if not 0 <= read <= stated or stated == 0:
        raise UsageError(f"read, stated: expected 0 <= read <= stated and stated > 0 for arm {arm!r} (got {read} of {stated})")
    path = Path(output) / FILE_NAME
    counts = {**_load(path), arm: ReaderCounts(summaries=summaries, stated=stated, read=read)}
    plain = {name: asdict(one) for name, one in sorted(counts.items())}
    part = path.with_suffix(".part")
    part.write_text(json.dumps(plain, indent=2) + "\n", encoding="utf-8")
    part.replace(path)
    return path


def load_reader_counts(results: Tables) -> Mapping[str, ReaderCounts]:
    """Return the stored counts by name of the arm; results without an output folder have none.

    Raises:
        StoreError: The file with the counts cannot be read.
    """
    output = getattr(results, "output", None)
    return _load(output / FILE_NAME) if isinstance(output, Path) else {}


def _load(path: Path) -> Mapping[str, ReaderCounts]:
    if not path.exists():
        return {}
    try:
        plain = json.loads(read_input(path, _MAX_BYTES))
        return {arm: ReaderCounts(**counts) for arm, counts in plain.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise StoreError(f"{path}: cannot read the counts of a reader ({error}); correct or delete the file") from error


def find_reading_gap(results: Tables, contrast: Contrast, effect: Effect) -> str:
    """Return the reason why differences of the reader could explain a contrast; empty if they could not.

    An arm without trials of real summarizers needs no counts, and its reader is taken to read everything, since scripted
    summarizers repeat the lines of the task. A gap could explain an effect that is not larger than the upper end of its 95 %
    interval, because a fact that is not read cannot change a share of facts by more than one.
    """
    trials = results.trials
    real_arms = [
        arm for arm in (contrast.a, contrast.b) if READ_LEVEL in set(trials.loc[trials["arm"] == arm, "level"].astype(str))
    ]
    if not real_arms:
        return ""
    counts = load_reader_counts(results)
    if missing := [arm for arm in real_arms if arm not in counts]:
        names = " and ".join(map(repr, missing))
        return (
            f"nobody has counted what the scripted agent reads in summaries of {names}. Read {MIN_SUMMARIES} summaries of each, "
            f"then call `harness.reporting.reader_counts.store_reader_counts(output, {missing[0]!r}, summaries={MIN_SUMMARIES}, "
            "stated=…, read=…)`"
        )
    gap_low, gap_high = _bound_gap(*(counts.get(arm) if arm in real_arms else None for arm in (contrast.a, contrast.b)))
    size = abs(expm1(log(effect.value))) if effect.scale == "ratio" else abs(effect.value)
    largest = max(-gap_low, gap_high)
    if size > largest:
        return ""
    shares = "; ".join(
        f"{arm}: {counts[arm].read} of {format_count(counts[arm].stated, 'fact')} in {counts[arm].summaries} summaries"
        for arm in real_arms
    )
    return f"the agent's reader may differ between the arms by up to {largest:.2f}, and the effect is {size:.2f} ({shares})"


def _bound_gap(a: ReaderCounts | None, b: ReaderCounts | None) -> tuple[float, float]:
    """Return the 95 % interval (Newcombe) of the difference of the shares read in two arms; without counts the share is 1."""
    (low_a, mid_a, high_a), (low_b, mid_b, high_b) = (_bound_share(one) for one in (a, b))
    gap = mid_a - mid_b
    return gap - hypot(mid_a - low_a, high_b - mid_b), gap + hypot(high_a - mid_a, mid_b - low_b)


def _bound_share(counts: ReaderCounts | None) -> tuple[float, float, float]:
    if counts is None:
        return 1.0, 1.0, 1.0
    bounds = compute_wilson_bounds(counts.read, counts.stated)
    return float(bounds.low), counts.read / counts.stated, float(bounds.high)
