"""Facts of the task `changing-requirements`: patterns that find each value, and their random draw.

The user's later messages change three rules for the timetable, one of them twice; only the last value of a rule is right.
"""

from collections.abc import Mapping
from functools import partial

from harness.task import Fact
from harness.tasks.kit.agreements import draw_agreements
from harness.tasks.kit.draws import draw_choices, make_rng
from harness.tasks.kit.facts import make_file_fact, make_output_fact, make_prompt_fact

STOPS = (
    *("abbey", "bakery", "bridge", "castle", "cemetery", "cinema", "college", "depot", "ferry", "forge", "garden", "harbour"),
    *("hospital", "lighthouse", "market", "mill", "museum", "orchard", "quarry", "school", "station", "stadium", "theatre"),
    "vineyard",
)
"""Names of all bus stops; the seed decides at which of them the bus line stops, and in which order."""
FACTS: tuple[Fact, ...] = (
    make_prompt_fact("interval", "superseded", "10", r"bus runs every (\d+) minutes", r"let (\d+) minutes pass between"),
    make_prompt_fact(
        "first_bus", "superseded", "06:00", r"first one leaves at (\d\d:\d\d)", r"day with a departure at (\d\d:\d\d)"
    ),
    make_prompt_fact("zone", "superseded", "A", r"sheets show zone ([A-Z])\b", r"valley now belongs to area ([A-Z])\b"),
    make_prompt_fact("hotline", "constraint", "110110", r"people can grumble at (\d{6})"),
    make_prompt_fact("rest_day", "decision", "Sunday", r"there is no service on (\w+day)"),
    make_prompt_fact("operator", "constraint", "citybus", r"operator is called `([a-z]+)`"),
    make_prompt_fact("opening", "goal", "1 January", r"line opens on (\d+ [A-Z][a-z]+)"),
    make_prompt_fact("ticket", "value", "BL-1", r"ticket is ([A-Z]{2}-\d{4})\b"),
    make_prompt_fact("greeting", "preference", "Hello", r"letter to greet with `([A-Z][a-z]+)`"),
    make_output_fact("permit", "artifact", "", "P-0000", r"has permit number (P-\d{4})"),
)
"""Facts of the task for every seed."""
BAY_FACTS: Mapping[str, Fact] = {
    stop: make_file_fact(f"bay_{stop}", "value", f"surveys/{stop}.md", "0", rf"The buses of {stop} leave from bay (\d+)\b")
    for stop in STOPS
}
"""Fact that is the number of the bay (the place from which the buses leave) at each bus stop, by name of the stop."""
CHOICES = {
    "hotline": range(200_000, 1_000_000),
    "rest_day": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"),
    "operator": ("wagtail", "linnet", "plover", "dunlin", "siskin", "merlin", "bittern", "curlew"),
    "greeting": ("Neighbours", "Friends", "Citizens", "Travellers", "Commuters", "Villagers"),
}
_MONTHS = ("March", "April", "May", "June", "July", "August")


def draw_values(task_seed: int) -> dict[str, str]:
    """Draw at random the values that the agent must remember, and return them by name.

    Names such as `zone_1` are those of values that the user states first and changes later.
    """
    rng_for = partial(make_rng, "changing-requirements", task_seed)
    values = draw_agreements("changing-requirements", task_seed) | draw_choices(
        "changing-requirements", task_seed, FACTS, CHOICES, ("TP", "RW", "VK", "ND")
    )
    intervals = rng_for("interval").sample(("8", "9", "11", "12", "14", "16", "18", "22", "24", "25"), 3)
    values["interval_1"], values["interval_2"], values["interval"] = intervals
    times = [f"{hour:02}:{minute:02}" for hour in (4, 5) for minute in range(5, 60, 5)]
    values["first_bus_1"], values["first_bus"] = rng_for("first_bus").sample(times, 2)
    values["zone_1"], values["zone"] = rng_for("zone").sample("BCDEFGHK", 2)
    values["opening"] = f"{rng_for('day').randrange(2, 29)} {rng_for('month').choice(_MONTHS)}"
    base = rng_for("permit").randrange(1000, 9000)
    values["permit_base"], values["permit"] = str(base), f"P-{base + 37}"
    values |= {f"bay_{stop}": str(rng_for(f"bay/{stop}").randrange(2, 60)) for stop in STOPS}
    return values
