"""Generator of mostly irrelevant files for the task `bug-hunt`: logs, minutes of meetings, and letters of customers."""

import random
from collections.abc import Iterator, Mapping
from datetime import date, timedelta

from harness.tasks.bug_hunt.stages import INVOICE_COUNT
from harness.tasks.bug_hunt.structure import LETTER_COUNT, MONTHS, Structure
from harness.tasks.kit.draws import make_rng

NIGHT_COUNT = 26
_REMARK = "the operator blames the stage `{}`, whose page was edited that week"
_QUIET_REMARK = "the operator has no idea and goes home"
_FIGURES = {
    "decree_tier": "From the first of March on the tier of all stages begins at `{}` kWh.",
    "rounding": "Since the first of March amounts are settled in the mode `{}`, by each stage for itself.",
}
"""Sentence that states each figure that invoices must use (the tier and the rounding mode), by name of the fact."""
MINUTE_ITEMS = (
    "{name} reports that {count} letters came back because the street was renamed. The addresses are mended by hand.",
    "The lift is out of order for {count} days. Whoever carries paper upstairs may write it down as overtime.",
    "{name} asks whether invoices of less than {count} cents should be sent at all. They should, the law knows no small sums.",
    "A school wants to see the computers. {name} shows them round, in groups of {count}, and not in the last week of a quarter.",
    "The heating stage was questioned by {count} customers with heat pumps. {name} explained the second meter to each of them.",
    "The ledger of one day was closed {count} minutes too late. Nothing was booked in between; {name} has looked.",
    "{name} proposes to print on both sides. The printers can do it, the folding machine cannot. Put off for {count} weeks.",
    "The collectors found {count} meters behind locked doors. Their readings are estimated as last year and marked.",
    "{name} was asked by the council how much a recount of all invoices would cost. About {count} working days, without errors.",
    "Of {count} invoices that customers doubted, all were right. {name} collects the letters of thanks, so far one.",
    "The auditors want a room of their own from spring on. {name} gives up the archive, which has {count} boxes.",
    "A new kettle for the third floor, by {count} votes. {name} abstains and drinks cold water.",
)
CLERK_NAMES = ("Ms Aydin", "Mr Berger", "Ms Castell", "Mr Dvorak", "Ms Eriksen", "Mr Fontane")
LETTER_PARTS = (
    "my invoice {number} is higher than the one before, although nobody was at home for {count} days",
    "I have read the meter myself, on {count} evenings, and my figures agree with yours, so I do not complain",
    "the line about the grid takes up {count} letters of small print and my eyes are not what they were",
    "a neighbour with the same flat pays {count} cents less and tells everybody on the stairs",
    "please send the next invoice to my daughter, who has a computer and {count} years less to lose",
    "I paid invoice {number} twice by mistake and would like the second payment back, or half of it",
    "what is a tier, and why does mine begin where it begins? I asked on the telephone and waited for {count} minutes",
    "your collector rang at noon, took {count} seconds and was friendly, which I mention because nobody ever does",
    "the heat pump was switched off from the {count}th on, and still there is a line for heating",
    "thank you for the money that you returned last year for invoice {number}; I bought a kettle",
)


def generate_logs(structure: Structure, values: Mapping[str, str], task_seed: int) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of three logs: on invoice runs, on printers, and on readers of meters."""
    rng = make_rng("bug-hunt", task_seed, "logs")
    nights = [date(2024, 3, 1) + timedelta(days=day) for day in range(NIGHT_COUNT)]
    remark = _REMARK.format(values["operator_suspect"]) if "operator" in structure.suspicions else _QUIET_REMARK
    nightly = (line for night in nights for line in _generate_night(night, values["drift_since"], remark, rng))
    yield "logs/nightly.log", "".join(f"{line}\n" for line in nightly)
    yield "logs/printers.log", "".join(f"{night} {line}\n" for night in nights for line in _generate_printer_lines(rng))
    yield "logs/collectors.log", "".join(f"{night} {line}\n" for night in nights for line in _generate_collector_lines(rng))


def _generate_night(night: date, drift_since: str, remark: str, rng: random.Random) -> Iterator[str]:
    """Yield the log lines of one nightly invoice run, which report wrong amounts from `drift_since` on.

    Two days after the first error, the log also contains `remark`, a remark of the operator.
    """
    drift_start = date.fromisoformat(drift_since)
    yield f"{night} 02:00 INFO  night run begins, {rng.randint(3, 9)} ledgers open"
    for batch in range(rng.randint(9, 15)):
        first = rng.randrange(20_000, 98_000)
        booked = f"invoices {first} to {first + INVOICE_COUNT} booked, {rng.randint(20, 90)} pages"
        yield f"{night} 02:{batch + 3:02} INFO  batch {batch}: {booked}"
    if rng.random() < 0.3:
        yield f"{night} 02:31 WARN  printer {rng.randint(1, 4)} was out of paper, {rng.randint(2, 60)} pages were printed again"
    if night < drift_start:
        yield f"{night} 02:40 INFO  drift check: all {INVOICE_COUNT} reference invoices agree"
        return
    if night == drift_start:
        yield f"{night} 02:40 ERROR drift check: first drift on {night}, {INVOICE_COUNT} reference invoices were looked at"
    yield f"{night} 02:41 ERROR drift check: {-rng.randint(20_000, 90_000)} cents in the sum of all invoices"
    if (night - drift_start).days == 2:
        yield f"{night} 09:15 NOTE  {remark}"


def _generate_printer_lines(rng: random.Random) -> Iterator[str]:
    for tray in range(1, 5):
        yield f"tray {tray}: {rng.randint(100, 900)} pages, {rng.randint(0, 3)} jams, toner at {rng.randint(5, 99)} percent"


def _generate_collector_lines(rng: random.Random) -> Iterator[str]:
    for district in ("east", "west", "hill", "docks"):
        counts = f"{rng.randint(900, 2400)} meters read, {rng.randint(0, 9)} doors closed"
        yield f"{district}: {counts}, receipt {rng.getrandbits(32):08x}"


def generate_minutes(structure: Structure, values: Mapping[str, str], task_seed: int) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of the minutes of each monthly meeting.

    Those of one month may state facts to remember.
    """
    for month in MONTHS:
        rng = make_rng("bug-hunt", task_seed, month)
        items = rng.sample(MINUTE_ITEMS, rng.randint(7, len(MINUTE_ITEMS)))
        texts = [item.format(name=rng.choice(CLERK_NAMES), count=rng.randint(2, 60)) for item in items]
        if month == MONTHS[structure.month]:
            for statement in _list_decisions(structure, values):
                texts.insert(rng.randint(1, len(texts)), statement)
        numbered = "\n\n".join(f"{number}. {text}" for number, text in enumerate(texts, start=1))
        yield f"docs/minutes/{month}.md", f"# Minutes of {month}\n\n{numbered}\n"


def _list_decisions(structure: Structure, values: Mapping[str, str]) -> Iterator[str]:
    if "council" in structure.suspicions:
        yield f"The council blames the stage `{values['council_suspect']}`, since its members are asked about it at the market."
    for fact, page in structure.pages:
        if page == "minutes":
            yield f"{CLERK_NAMES[len(fact) % len(CLERK_NAMES)]} reads out a letter. {render_figure(fact, values)}"


def render_figure(fact: str, values: Mapping[str, str]) -> str:
    """Return the sentence that states the rounding mode or the tier, which all invoices must use.

    Args:
        fact: Name of the figure: `rounding` or `decree_tier`.
        values: Values drawn from the seed, by name.
    """
    return _FIGURES[fact].format(values[fact])


def generate_letters(structure: Structure, values: Mapping[str, str], task_seed: int) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each customer's letter; one of them may blame a stage."""
    for letter in range(1, LETTER_COUNT + 1):
        rng = make_rng("bug-hunt", task_seed, f"letter {letter}")
        chosen = rng.sample(LETTER_PARTS, 7)
        parts = [part.format(number=rng.randrange(20_000, 98_000), count=rng.randint(2, 28)) for part in chosen]
        if letter == structure.letter and "customer" in structure.suspicions:
            parts.insert(3, f"whoever sends you this customer blames the stage `{values['customer_suspect']}`, and not the meter")
        body = ".\n\n".join(part[0].upper() + part[1:] for part in parts)
        text = f"Dear {rng.choice(CLERK_NAMES)},\n\n{body}.\n\nYours faithfully, a customer of the office\n"
        yield f"letters/{letter:02}.txt", text
