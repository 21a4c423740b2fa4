"""What must be remembered, and the values of a seed. Three rules are changed by later messages, one of them twice."""

from functools import partial

from harness.task import Fact
from harness.tasks.changing_requirements.bus_line import BAYS
from harness.tasks.facts import drawn, printed, stated, written

FACTS: tuple[Fact, ...] = (
    stated("interval", "superseded", "10", r"bus runs every (\d+) minutes", r"let (\d+) minutes pass between"),
    stated("first_bus", "superseded", "06:00", r"first one leaves at (\d\d:\d\d)", r"day with a departure at (\d\d:\d\d)"),
    stated("zone", "superseded", "A", r"sheets show zone ([A-Z])\b", r"valley now belongs to area ([A-Z])\b"),
    stated("hotline", "constraint", "110110", r"people can grumble at (\d{6})"),
    stated("rest_day", "decision", "Sunday", r"there is no service on (\w+day)"),
    stated("operator", "constraint", "citybus", r"operator is called `([a-z]+)`"),
    stated("opening", "goal", "1 January", r"line opens on (\d+ [A-Z][a-z]+)"),
    stated("ticket", "value", "BL-1", r"ticket is ([A-Z]{2}-\d{4})\b"),
    stated("greeting", "preference", "Hello", r"letter to greet with `([A-Z][a-z]+)`"),
    printed("permit", "artifact", "", "P-0000", r"has permit number (P-\d{4})"),
    *(
        written(f"bay_{stop}", "value", f"surveys/{stop}.md", "0", rf"The buses of {stop} leave from bay (\d+)\b")
        for stop in BAYS
    ),
)
_OPERATORS = ("wagtail", "linnet", "plover", "dunlin", "siskin", "merlin", "bittern", "curlew")
_GREETINGS = ("Neighbours", "Friends", "Citizens", "Travellers", "Commuters", "Villagers")
_MONTHS = ("March", "April", "May", "June", "July", "August")


def draw(task_seed: int) -> dict[str, str]:
    """The value of every fact under a seed, and what was said before the changes as `NAME_1` and `NAME_2`."""
    source = partial(drawn, "changing-requirements", task_seed)
    values: dict[str, str] = {}
    intervals = source("interval").sample(("8", "9", "11", "12", "14", "16", "18", "22", "24", "25"), 3)
    values["interval_1"], values["interval_2"], values["interval"] = intervals
    times = [f"{hour:02}:{minute:02}" for hour in (4, 5) for minute in range(5, 60, 5)]
    values["first_bus_1"], values["first_bus"] = source("first_bus").sample(times, 2)
    values["zone_1"], values["zone"] = source("zone").sample("BCDEFGHK", 2)
    values["hotline"] = str(source("hotline").randrange(200_000, 1_000_000))
    values["rest_day"] = source("rest_day").choice(("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"))
    values["operator"] = source("operator").choice(_OPERATORS)
    values["opening"] = f"{source('day').randrange(2, 29)} {source('month').choice(_MONTHS)}"
    values["ticket"] = f"{source('team').choice(('TP', 'RW', 'VK', 'ND'))}-{source('ticket').randrange(1000, 10_000)}"
    values["greeting"] = source("greeting").choice(_GREETINGS)
    base = source("permit").randrange(1000, 9000)
    values["permit_base"], values["permit"] = str(base), f"P-{base + 37}"
    values |= {f"bay_{stop}": str(source(f"bay/{stop}").randrange(2, 60)) for stop in BAYS}
    return values
