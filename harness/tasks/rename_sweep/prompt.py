"""The request: nine things that stand on no page."""

from collections.abc import Mapping

from harness.tasks.facts import make_rng
from harness.tasks.kit import prompts as orders
from harness.tasks.kit.prompts import Constraint
from harness.tasks.rename_sweep.workspace import load_template

CONSTRAINTS = (
    Constraint(
        "The function is called `${new_name}` from now on.",
        "Twelve captains, two harbour masters and a linguist sat together for a whole evening, and in the end the oldest captain "
        "simply said how everybody calls it anyway.",
    ),
    Constraint(
        "The folder `${excluded_folder}` is left alone, whatever it imports.",
        "There is code in the harbour that went through a court case as evidence, and the court wants to find it as it was, "
        "letter by letter, until the appeal is decided.",
    ),
    Constraint(
        "The module `${alias_module}` keeps the old name as an alias.",
        "Programs of shipping companies that nobody here has ever seen call the package from outside, and one of them steers a "
        "ferry with four hundred people.",
    ),
    Constraint(
        "That alias goes away in release ${removal_release}, and its line says so.",
        "Aliases have a way of living for ever in this house; the last one was older than the youngest member of the crew.",
    ),
    Constraint(
        "The first batch is the folder `${first_folder}`.",
        "Some officials fetch a fresh copy at noon and read every line of what concerns them, so their part has to be through "
        "by then.",
    ),
    Constraint(
        "The last batch is the folder `${last_folder}`.",
        "Not everybody is on land while the sweep goes on; one crew comes back with the evening tide and wants to look on.",
    ),
    Constraint(
        "The ticket is ${ticket}; change log and hand-over name it.",
        "Work without a number is not paid, as the divers learned when they had mended the sluice out of kindness.",
    ),
    Constraint(
        "The goal is that at most ${goal_left} files still hold the old name; the hand-over states it.",
        "The council of the port was promised a figure, and it likes to compare figures with promises, in public.",
    ),
    Constraint(
        "The entry in the change log begins with the word `${verb}`.",
        "Somebody in the office sorts entries by their first word, and has bought coloured binders for every one of them.",
    ),
)


def render_prompt(values: Mapping[str, str], task_seed: int) -> str:
    """The prompt under a seed."""
    return orders.render_prompt(
        load_template("agent/prompt.md"), CONSTRAINTS, make_rng("rename-sweep", task_seed, "order"), values
    )
