"""Facts of the task `changing-requirements`: patterns that find each value, and their random draw.

The user's later messages change three rules for the timetable, one of them twice; only the last value of a rule is right.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from harness.task import Fact
from harness.tasks.changing_requirements.structure import STOPS, Addition
from harness.tasks.kit.agreements import draw_agreements
from harness.tasks.kit.calls import run, view_image
from harness.tasks.kit.draws import draw_choices, draw_values, make_rng
from harness.tasks.kit.facts import make_file_fact, make_output_fact, make_prompt_fact

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
_QUALITIES = ("amber", "cobalt", "crimson", "ivory", "olive", "russet", "silver", "umber")
_SKILL_FACTS: tuple[Fact, ...] = tuple(
    replace(make_prompt_fact(name, "constraint", prior, pattern, also_in=("skills/papers/SKILL.md",)), said_in="file")
    for name, prior, pattern in (
        ("seal", "none", r"seventh line, `seal: ([a-z]+)`"),
        ("register", "NO-000", r"begins with the line `file: ([A-Z]{2}-\d{3})`"),
        ("imprint", "none given", r"ends with the line `imprint: ([a-z]+ [a-z]+)`"),
    )
)
"""Rules of the skill.

An agent that has forgotten a rule does not know that there is one, so it has no reason to load the skill again.
"""
_DELEGATED_FACTS: tuple[Fact, ...] = tuple(
    replace(make_output_fact(name, "artifact", "", prior, pattern), delegated=run("sh tools/assess.sh"))
    for name, prior, pattern in (
        ("assessment_number", "A-0000", r"assessment of the road has number (A-\d{4})"),
        ("speed_limit", "50", r"buses may go at (\d+) km/h"),
        ("axle_load", "11500", r"one axle carries (\d+) kg"),
    )
)
"""Values that a sub-agent finds out, with a tool that must not run twice."""
ADDED_FACTS: Mapping[Addition, tuple[Fact, ...]] = {
    "none": (),
    "images": (),
    "skill": _SKILL_FACTS,
    "delegation": _DELEGATED_FACTS,
}
"""Facts of each variant besides those of the task."""


def find_photo(stop: str) -> str:
    """Return the path of the photo of a stop."""
    return f"photos/{stop}.svg"


def make_bay_fact(stop: str, addition: Addition) -> Fact:
    """Return the fact that is the number of the bay at a stop, which the survey states or, in a variant, only the photo."""
    fact, path = BAY_FACTS[stop], find_photo(stop)
    return replace(fact, recover=view_image(path), source=path) if addition == "images" else fact


CHOICES = {
    "hotline": range(200_000, 1_000_000),
    "rest_day": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"),
    "operator": ("wagtail", "linnet", "plover", "dunlin", "siskin", "merlin", "bittern", "curlew"),
    "greeting": ("Neighbours", "Friends", "Citizens", "Travellers", "Commuters", "Villagers"),
}
_SKILL_CHOICES = {
    "seal": ("anchor", "acorn", "beehive", "compass", "lantern", "millstone", "pinecone", "sickle", "thistle", "windmill"),
    "register": tuple(f"{letters}-{number}" for letters in ("HB", "LN", "TV", "WK") for number in range(101, 1_000, 7)),
    "imprint": tuple(f"{quality} {noun}" for quality in _QUALITIES for noun in ("press", "room", "desk", "cellar")),
}
_DELEGATED_CHOICES = {
    "assessment_number": tuple(f"A-{number}" for number in range(1_100, 9_100)),
    "speed_limit": range(27, 97),
    "axle_load": range(7_130, 16_130),
}
_ASSESSMENT_STEPS = {"assessment_number": 41, "speed_limit": 7, "axle_load": 130}
"""Difference between the numbers of two assessments, by name of the fact; a second one does not confirm the first."""
_MONTHS = ("March", "April", "May", "June", "July", "August")


def draw_all_values(task_seed: int, addition: Addition) -> dict[str, str]:
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
    if addition == "skill":
        values |= draw_values("changing-requirements", task_seed, _SKILL_FACTS, _SKILL_CHOICES)
    if addition == "delegation":
        values |= draw_values("changing-requirements", task_seed, _DELEGATED_FACTS, _DELEGATED_CHOICES)
        for name, step in _ASSESSMENT_STEPS.items():
            values[f"{name}_base"] = str(int(values[name].removeprefix("A-")) - step)
            values[f"{name}_step"] = str(step)
    return values
