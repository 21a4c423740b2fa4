"""Law 8: more fidelity never hurts on average, and it matters; and on the default grid every axis moves something.

Runs real experiments through the runner. All comparisons are paired: the same tasks and seeds in each arm.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from harness.compaction.presets.keep_last import KeepLast
from harness.experiment.experiment import Experiment
from harness.experiment.grid import Arm
from harness.experiment.trial import SandboxChoice, Trial

pytestmark = [pytest.mark.laws, pytest.mark.bubblewrap, pytest.mark.xdist_group("law 8")]

SEEDS = list(range(10))
SUMMARIZERS = ["scripted/oracle", "scripted/extractive", "scripted/empty"]
THRESHOLDS = [0.5, 0.8, 0.95]
KEPT = [4, 10, 20]


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """Ten seeds at each end of each axis around the default, with its A/A arm."""
    base = Trial(
        task="flashcards", window_tokens=32_768, max_steps=300, policy=KeepLast(summarizer="scripted/extractive"),
        sandbox=SandboxChoice(backend="bubblewrap"),
    )  # fmt: skip
    arms = [
        *(Arm(name=f"summarizer={name}", set={"policy.summarizer": name}, axes={"seed": SEEDS}) for name in SUMMARIZERS),
        *(Arm(name=f"threshold={value}", set={"policy.threshold": value}, axes={"seed": SEEDS}) for value in THRESHOLDS),
        *(Arm(name=f"keep_last={value}", set={"policy.keep_last": value}, axes={"seed": SEEDS}) for value in KEPT),
        Arm(name="A/A", set={"replicate": 1}, axes={"seed": SEEDS}),
    ]
    experiment = Experiment(name="law-8", base=base, arms=arms)
    folder: Path = tmp_path_factory.mktemp("law-8")
    return experiment.run(folder, workers=2, progress="off").trials
