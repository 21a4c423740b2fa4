"""Record of how often the outcomes of an experiment were shown while trials were still being added.

The record matters for experiments that declare comparisons in advance, because frequent inspection produces false findings.
Each set of finished trials whose outcomes are shown is one analysis; showing the same trials again is the same analysis. The
record is the file `looks.json` in the output folder. The first run of such an experiment creates it, so that no interim analysis
is missing.
"""

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import StoreError
from harness.files.bounded_input import read_input
from harness.store.database import replace_file

INTERIM_ANALYSES_FILE = "looks.json"
"""Name of the file in an output folder that lists each set of finished trials whose outcomes were shown."""
MAX_RECORD_BYTES = 16 * 2**20
"""Maximum size of that file; an interim analysis takes about a hundred bytes."""

TRANSCRIPTS_NOTE = "Transcripts of single trials stay open, so that faults can be found; they are no result."
"""Note that is shown beside the progress of an experiment as long as its outcomes are withheld."""


def explain_withheld(looks: int) -> str:
    """Return a text that says why outcomes of an unfinished experiment are not shown, and how to see them early.

    Args:
        looks: Declared number of times that the results are inspected.
    """
    why = (
        "Progress only: the plan declares contrasts, and to see outcomes before all trials have finished would be a look at them."
    )
    if looks > 1:
        advice = "`harness report` or the button of GridWidget takes one"
        return f"{why} The plan declares {looks} looks, the last of them at all trials; {advice}."
    return f"{why} A new plan can declare interim looks in advance, e.g. `looks = 2` under [experiment]."


@dataclass(frozen=True, slots=True, kw_only=True)
class InterimAnalysis:
    """One inspection of the outcomes of a set of finished trials."""

    number: int
    """Number of this inspection among all recorded ones, from 1; a set of trials that was shown before keeps its number."""
    is_recorded_from_start: bool
    """Whether inspections were recorded from the first run on, so that no earlier one is missing."""
    is_recorded: bool = False
    """Whether the outcomes of the same trials were shown before."""


def begin_record(folder: Path) -> None:
    """Create the file that records how often outcomes are shown, in an output folder without results.

    An existing file is kept.

    Raises:
        OSError: The folder cannot be written.
    """
    path = folder / INTERIM_ANALYSES_FILE
    if not path.exists():
        _write(path, {"from_start": True, "looks": []})


def find_interim_analysis(folder: Path, trial_ids: Iterable[str]) -> InterimAnalysis:
    """Return the interim analysis that showing the outcomes of these trials would be, without recording it.

    Args:
        folder: Output folder of the experiment.
        trial_ids: Ids of all finished trials.

    Raises:
        StoreError: The record exists but cannot be read.
    """
    record, digest = _read(folder / INTERIM_ANALYSES_FILE), _digest(trial_ids)
    known = [analysis["trials_sha256"] for analysis in record["looks"]]
    number = known.index(digest) + 1 if digest in known else len(known) + 1
    return InterimAnalysis(number=number, is_recorded_from_start=bool(record["from_start"]), is_recorded=digest in known)


def record_interim_analysis(folder: Path, trial_ids: Iterable[str]) -> InterimAnalysis:
    """Record that the outcomes of a set of trials are shown, and return this interim analysis with its number.

    In a folder that cannot be written, e.g. of published results, the inspection is counted but not recorded.

    Args:
        folder: Output folder of the experiment.
        trial_ids: Ids of all finished trials.

    Raises:
        StoreError: The record exists but cannot be read.
    """
    path, ids = folder / INTERIM_ANALYSES_FILE, set(trial_ids)
    analysis = find_interim_analysis(folder, ids)
    if analysis.is_recorded:
        return analysis
    record = _read(path)
    record["looks"].append({"trials": len(ids), "trials_sha256": _digest(ids)})
    with suppress(OSError):  # the folder of published results may be read-only
        _write(path, record)
    return analysis


def _digest(trial_ids: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(set(trial_ids))).encode()).hexdigest()


def _read(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(read_input(path, MAX_RECORD_BYTES))
        if not isinstance(record["from_start"], bool) or not all(
            isinstance(analysis["trials_sha256"], str) for analysis in record["looks"]
        ):
            raise TypeError("it does not have the fields of such a record")
    except FileNotFoundError:
        return {"from_start": False, "looks": []}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"cannot read the record of looks {str(path)!r} ({error}); restore the file, since findings depend on it"
        ) from error
    return dict(record)


def _write(path: Path, record: dict[str, Any]) -> None:
    with replace_file(path) as unfinished:
        unfinished.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
