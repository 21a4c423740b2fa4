"""Description of the task `spec-api`, read from `program.toml`, with the sample parcels of its workspace."""

from harness.tasks import kit
from harness.tasks.kit.draws import make_rng
from harness.tasks.kit.program import load_program
from harness.tasks.kit.texts import load_text

SAMPLE_COUNT = 70
STREETS = ("Mill Lane", "Harbour Row", "Long Acre", "Kiln Street", "Ash Walk", "Fish Market", "Tower Hill", "Weir Road")


def _add_files(task_seed: int) -> dict[str, str]:
    """Return the sample parcels, and the program that runs the tests."""
    rng = make_rng("spec-api", task_seed, "samples")
    serials = rng.sample(range(10**8, 10**9), SAMPLE_COUNT)
    rows = [f"{serial},{rng.randint(1, 99)} {rng.choice(STREETS)},{rng.randint(80, 9000)}" for serial in serials]
    return {
        "samples/parcels.csv": "\n".join(["serial,recipient,grams", *rows]) + "\n",
        "tools/run_tests.py": load_text(kit.__name__, "run_tests.py"),
    }


PROGRAM = load_program(__package__, add_files=_add_files)
