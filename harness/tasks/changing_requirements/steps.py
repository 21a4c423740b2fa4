"""What a competent agent does: sheet after sheet, all sheets anew after each change, then the papers."""

from functools import cache

from harness.task import Script
from harness.tasks.changing_requirements.bus_line import BAYS, SHEETS_BEFORE_FIRST_CHANGE, SHEETS_BEFORE_SECOND_CHANGE, STOPS
from harness.tasks.step_specs import StepSpec, build_steps, list_directory, look, read, run, write

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


def _write_sheet(stop: str) -> tuple[StepSpec, StepSpec]:
    reading = StepSpec(name=f"survey-{stop}", says=f"The survey of {stop} first.", calls=(read(f"surveys/{stop}.md"),))
    writing = write(f"sheets/{stop}.txt", _SHEET.format(stop))
    return reading, StepSpec(name=f"sheet-{stop}", says=f"Now the sheet of {stop}.", calls=(writing,))


def _revise_sheet(number: int, stop: str, fields: str) -> StepSpec:
    command = f"sh tools/revise.sh {number} {stop} {fields}"
    return StepSpec(name=f"revise-{number}-{stop}", says=f"The sheet of {stop} follows change {number}.", calls=(run(command),))


def _check_sheet(stop: str) -> StepSpec:
    return look(f"check-{stop}", f"How does the sheet of {stop} look?", run(f"sh tools/check.sh {stop}"))


STEPS_BEFORE_FIRST_CHANGE = (
    look("orient", "Let me look around.", *(list_directory(folder) for folder in (".", "surveys", "sheets", "plan"))),
    *(row for stop in STOPS[:SHEETS_BEFORE_FIRST_CHANGE] for row in _write_sheet(stop)),
    StepSpec(
        name="permit",
        says="The permit is asked for once.",
        calls=(run("sh tools/permit.sh"),),
        named=r"has permit number P-\d{4}",
        about="permit number",
        once=True,
    ),
    *map(_check_sheet, ("abbey", "bridge", "cinema")),
)
"""Until the user changes the rules."""
STEPS_BEFORE_SECOND_CHANGE = (
    *(_revise_sheet(1, stop, "interval ${interval} first ${first_bus}") for stop in STOPS[:SHEETS_BEFORE_FIRST_CHANGE]),
    *(row for stop in STOPS[SHEETS_BEFORE_FIRST_CHANGE:SHEETS_BEFORE_SECOND_CHANGE] for row in _write_sheet(stop)),
    *map(_check_sheet, ("bakery", "castle", "forge", "mill")),
)
"""Until they are changed again."""
FINAL_STEPS = (
    *(_revise_sheet(2, stop, "interval ${interval} zone ${zone}") for stop in STOPS[:SHEETS_BEFORE_SECOND_CHANGE]),
    *(row for stop in STOPS[SHEETS_BEFORE_SECOND_CHANGE:] for row in _write_sheet(stop)),
    *map(_check_sheet, ("harbour", "market", "school", "theatre", "vineyard")),
    StepSpec(name="overview", says="The papers: first the overview.", calls=(write("plan/overview.md", _OVERVIEW),)),
    StepSpec(name="poster", says="The poster.", calls=(write("plan/poster.txt", _POSTER),)),
    StepSpec(name="letter", says="The letter to those who live there.", calls=(write("plan/letter.md", _LETTER),)),
    StepSpec(
        name="bays",
        says="Which bay at which stop.",
        calls=(write("plan/bays.md", "".join(f"- {stop}=${{bay_{stop}}}\n" for stop in BAYS)),),
    ),
)


def find_change_steps() -> tuple[int, int]:
    """The steps before which the two changes are told: the first that follow them."""
    return len(STEPS_BEFORE_FIRST_CHANGE) + 1, len(STEPS_BEFORE_FIRST_CHANGE) + len(STEPS_BEFORE_SECOND_CHANGE) + 1


@cache
def build_script() -> Script:
    """All steps in order."""
    return Script(
        steps=build_steps((*STEPS_BEFORE_FIRST_CHANGE, *STEPS_BEFORE_SECOND_CHANGE, *FINAL_STEPS), ("sheets/", "plan/")),
        final_text="Sheets and papers are done.",
    )
