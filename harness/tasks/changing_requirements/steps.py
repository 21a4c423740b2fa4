"""What a competent agent does: sheet after sheet, all sheets anew after each change, then the papers."""

from functools import cache

from harness.task import Script
from harness.tasks.changing_requirements.bus_line import BAYS, BEFORE_FIRST, BEFORE_SECOND, STOPS
from harness.tasks.step_specs import Row, completed, look, look_into, read, run, write

_SHEET = "stop: {}\noperator: ${{operator}}\ninterval: ${{interval}}\nfirst: ${{first_bus}}\nzone: ${{zone}}\nset: by hand\n"
_POSTER = (
    "The new line, by ${operator}: from early to late every ${interval} minutes!\nNo service on ${rest_day}.\n"
    "Questions: call ${hotline}.\n"
)
_OVERVIEW = (
    "# The new line\n\nOpening: ${opening}. Ticket: ${ticket}.\n"
    "All sheets: zone ${zone}, from ${first_bus}, every ${interval} min.\n"
)
_LETTER = "${greeting},\n\na new line serves you, under permit ${permit}.\nFor all questions dial ${hotline}.\n"


def _sheet(stop: str) -> tuple[Row, Row]:
    reading = Row(name=f"survey-{stop}", says=f"The survey of {stop} first.", calls=(read(f"surveys/{stop}.md"),))
    writing = write(f"sheets/{stop}.txt", _SHEET.format(stop))
    return reading, Row(name=f"sheet-{stop}", says=f"Now the sheet of {stop}.", calls=(writing,))


def _revised(number: int, stop: str, fields: str) -> Row:
    command = f"sh tools/revise.sh {number} {stop} {fields}"
    return Row(name=f"revise-{number}-{stop}", says=f"The sheet of {stop} follows change {number}.", calls=(run(command),))


def _looked(stop: str) -> Row:
    return look(f"check-{stop}", f"How does the sheet of {stop} look?", run(f"sh tools/check.sh {stop}"))


FIRST = (
    look("orient", "Let me look around.", *(look_into(folder) for folder in (".", "surveys", "sheets", "plan"))),
    *(row for stop in STOPS[:BEFORE_FIRST] for row in _sheet(stop)),
    Row(
        name="permit",
        says="The permit is asked for once.",
        calls=(run("sh tools/permit.sh"),),
        named=r"has permit number P-\d{4}",
        about="permit number",
        once=True,
    ),
    *map(_looked, ("abbey", "bridge", "cinema")),
)
"""Until the user changes the rules."""
SECOND = (
    *(_revised(1, stop, "interval ${interval} first ${first_bus}") for stop in STOPS[:BEFORE_FIRST]),
    *(row for stop in STOPS[BEFORE_FIRST:BEFORE_SECOND] for row in _sheet(stop)),
    *map(_looked, ("bakery", "castle", "forge", "mill")),
)
"""Until they are changed again."""
THIRD = (
    *(_revised(2, stop, "interval ${interval} zone ${zone}") for stop in STOPS[:BEFORE_SECOND]),
    *(row for stop in STOPS[BEFORE_SECOND:] for row in _sheet(stop)),
    *map(_looked, ("harbour", "market", "school", "theatre", "vineyard")),
    Row(name="overview", says="The papers: first the overview.", calls=(write("plan/overview.md", _OVERVIEW),)),
    Row(name="poster", says="The poster.", calls=(write("plan/poster.txt", _POSTER),)),
    Row(name="letter", says="The letter to those who live there.", calls=(write("plan/letter.md", _LETTER),)),
    Row(
        name="bays",
        says="Which bay at which stop.",
        calls=(write("plan/bays.md", "".join(f"- {stop}=${{bay_{stop}}}\n" for stop in BAYS)),),
    ),
)


def heard() -> tuple[int, int]:
    """The steps before which the two changes are told: the first that follow them."""
    return len(FIRST) + 1, len(FIRST) + len(SECOND) + 1


@cache
def script() -> Script:
    """All steps in order."""
    return Script(steps=completed((*FIRST, *SECOND, *THIRD), ("sheets/", "plan/")), farewell="Sheets and papers are done.")
