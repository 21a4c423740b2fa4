"""Command `harness compare`, which compares arms of two experiments on the tasks and seeds that both ran."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from harness.analysis.comparison import compare
from harness.cli import options
from harness.cli.terminal import print_line
from harness.errors import UnknownName, UsageError
from harness.inspection.loading import load
from harness.reporting.page.document import write_page
from harness.store.results import Results


@click.command("compare")
@click.argument("first", type=options.FOLDER)
@click.argument("second", type=options.FOLDER)
@click.option("--arm-a", metavar="ARM", help="Arm of FIRST.  [default: each arm whose name SECOND has, or the only one]")
@click.option("--arm-b", metavar="ARM", help="Arm of SECOND that is compared with --arm-a.  [default: the arm of the same name]")
@click.option("--html", "page", type=click.Path(path_type=Path, dir_okay=False), help="Also write both as one page to this file.")
def command(first: Path, second: Path, arm_a: str | None, arm_b: str | None, page: Path | None) -> None:
    """Compare arms of the experiments FIRST and SECOND on the tasks and seeds that both ran.

    Arms of different fidelity levels are not compared, nor are arms between which a part has changed, such as a task or the
    scripted agent: the difference would not be that of the arms.

    With --html, the report page of both experiments together is written, too: its tables compare each arm with the arm of SECOND,
    and a click on a number lists the trials behind it.

    Example: `harness compare experiments/first experiments/second`
    """
    parts = [load(folder) for folder in (first, second)]
    for folder, part in zip((first, second), parts, strict=True):
        if part.trials["experiment"].isna().any():
            raise UsageError(f"{str(folder)!r} is no experiment: it holds sessions without tasks and seeds to compare")
    if first.resolve() == second.resolve():
        raise UsageError(f"{str(first)!r} is named twice; `harness report {first}` compares the arms of one experiment")
    joined = load([first, second])
    places = _map_arms(parts, list(joined.trials["arm"]))
    pairs = _choose_pairs(places, arm_a, arm_b)
    for name_a, name_b in pairs:
        print_line(str(compare(joined, places[0][name_a], places[1][name_b])))
    if page is not None:
        print_line(f"wrote {write_page(joined, page, against=places[1][pairs[0][1]])}")


def _map_arms(parts: Sequence[Results], joined_arms: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return for each arm of each experiment its name in the joined results."""
    count = len(parts[0].trials)
    first, second = (
        dict(zip(part.trials["arm"], names, strict=True))
        for part, names in zip(parts, (joined_arms[:count], joined_arms[count:]), strict=True)
    )
    return first, second


def _choose_pairs(
    places: tuple[Mapping[str, str], Mapping[str, str]], arm_a: str | None, arm_b: str | None
) -> Sequence[tuple[str, str]]:
    """Return the names of the arms to compare, one from each experiment."""
    for name, known in zip((arm_a, arm_b), places, strict=True):
        if name is not None and name not in known:
            raise UnknownName("arm", name, tuple(known))
    if arm_a is None and arm_b is None:
        shared = [name for name in places[0] if name in places[1]]
        if shared or len(places[0]) == len(places[1]) == 1:
            return [(name, name) for name in shared] or [(next(iter(places[0])), next(iter(places[1])))]
    elif (arm_a or arm_b) in places[0] and (arm_b or arm_a) in places[1]:
        return [(str(arm_a or arm_b), str(arm_b or arm_a))]
    arms = [", ".join(known) for known in places]
    raise UsageError(f"no arm is in both experiments: {arms[0]} and {arms[1]}; name one of each with --arm-a and --arm-b")
