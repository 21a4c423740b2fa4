"""Wall time that the harness itself adds to a step, beside the model and the tools, in parts that can be added up.

The parts are measured where they happen (tools, compactor, saver of the workspace, log), and meet in one `OverheadClock` for each
session. It is apart from these packages because none of them may import another.
"""

import threading
from typing import Literal, NamedTuple, TypeAlias, get_args

OverheadPart: TypeAlias = Literal["truncation", "planning", "compaction", "snapshot", "writing"]
"""Part of the time that the harness adds to a step.

- `truncation`: shortening long tool outputs and saving them whole.
- `planning`: asking the policy what to compact, whether or not anything is due.
- `compaction`: carrying out the plans of the policy, without waiting for the summarizer.
- `snapshot`: taking and saving snapshots of the workspace.
- `writing`: writing events and results of tools to the log.
"""


class StepOverhead(NamedTuple):
    """Seconds of wall time of each part of the work of the harness in one step; the parts do not overlap."""

    truncation_seconds: float
    planning_seconds: float
    compaction_seconds: float
    snapshot_seconds: float
    writing_seconds: float


class OverheadClock:
    """Sums of the wall times of each part since the last step was logged. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: dict[OverheadPart, float] = dict.fromkeys(get_args(OverheadPart), 0.0)

    def add(self, part: OverheadPart, seconds: float) -> None:
        """Add a duration in seconds to a part; a negative one takes back what was counted too much."""
        with self._lock:
            self._seconds[part] += seconds

    def take(self) -> StepOverhead:
        """Return the sums of all parts, and begin anew at zero."""
        with self._lock:
            seconds, self._seconds = self._seconds, dict.fromkeys(self._seconds, 0.0)
        return StepOverhead(*seconds.values())
