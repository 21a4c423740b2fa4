"""Record of the margins, up to which an arm is called not worse, that the runs of an experiment declared.

Each trial stores the margin under which it ran. The record also shows a change of the margin after the last trial: it is the file
`margins.json` in the output folder, with the margin of each run that declared another one than the run before.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from harness.errors import StoreError, UsageError
from harness.experiment.contrasts import parse_margin
from harness.files.bounded_input import read_input
from harness.store.database import replace_file

MARGINS_FILE = "margins.json"
"""Name of the file in an output folder that lists the declared margins."""
MAX_RECORD_BYTES = 2**20


def record_margin(folder: Path, margin: float | None) -> None:
    """Record the margin that a run declares, unless the run before declared the same.

    Args:
        folder: Output folder of the experiment.
        margin: Largest loss in success or score up to which an arm is called not worse; None if the run declares none.

    Raises:
        OSError: The folder cannot be written.
        StoreError: The record exists but cannot be read.
    """
    margins = read_margins(folder)
    if margins[-1:] != [margin]:
        with replace_file(folder / MARGINS_FILE) as unfinished:
            unfinished.write_text(json.dumps([*margins, margin]) + "\n", encoding="utf-8")


def read_margins(folder: Path) -> Sequence[float | None]:
    """Return the margins that the runs of an experiment declared, in their order; empty without a record.

    Args:
        folder: Output folder of the experiment.

    Raises:
        StoreError: The record exists but cannot be read.
    """
    path = folder / MARGINS_FILE
    try:
        margins = json.loads(read_input(path, MAX_RECORD_BYTES))
        if not isinstance(margins, list):
            raise TypeError("it is not a list")
        return [parse_margin(margin) for margin in margins]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, RecursionError, UsageError) as error:
        raise StoreError(f"cannot read the record of margins {str(path)!r} ({error}); restore or delete the file") from error
