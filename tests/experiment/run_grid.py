"""Script that runs a small real grid in a folder, as a user would: `python -m tests.experiment.run_grid FOLDER`."""

import sys
from pathlib import Path

from harness.compaction.presets.keep_last import KeepLast
from harness.experiment.experiment import Experiment
from harness.experiment.grid import Arm
from harness.experiment.trial import Trial
from harness.sandboxes.backends import SandboxChoice

TINY = f"{Path(__file__).with_name('tiny_task.py')}:tiny"
POLICY = KeepLast(
    threshold=0.3,
    keep_last=2,
    summarizer="scripted/oracle",
    system_reserve_tokens=100,
    output_reserve_tokens=100,
    safety_reserve_tokens=100,
)
SMALL = Experiment(
    name="small",
    base=Trial(task=TINY, policy=POLICY, window_tokens=7_000, max_steps=60, sandbox=SandboxChoice(backend="bubblewrap")),
    axes={"seed": [0, 1, 2], "policy.summarizer": ["scripted/oracle", "scripted/empty"]},
    arms=(Arm(name="control", trial={"policy": {"kind": "none"}}),),
)

if __name__ == "__main__":
    SMALL.run(sys.argv[1], workers=2, progress="plain")
    print("whole")
