"""Tariff of the task `bug-hunt`: the twelve stages of an invoice, meter readings of a quarter, and the correct amounts.

Six stages have a tier and the same structure. The seed decides which of the six still has the figures from before the decree.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from harness.tasks.kit.draws import make_rng


@dataclass(frozen=True, slots=True)
class Stage:
    """Stage in the computation of an invoice, from which a module of the package in the workspace is generated."""

    name: str
    """Name of the Python module that computes the stage of the invoice."""
    title: str
    """Title of the documentation page about the stage of the invoice."""
    story: str
    """Description of what the stage charges for, used on its documentation page and in its module."""
    letter: str
    """Wording of the line in which an invoice states the amount of the stage."""
    field: str = ""
    """Field of a meter reading, e.g. `peak_kwh`, that a stage with two rates charges; empty for a plain stage."""
    formula: str = ""
    """Python expression that computes the amount of a plain stage from `FIGURE` and `MODE`; empty for a stage with two rates."""
    unit: str = ""
    """Unit of the figure with which a plain stage computes its amount."""
    min_figure: int = 7
    """Smallest figure (for a stage with two rates, its base rate) that a seed can draw; the largest is twice as large."""


TIERED_STAGES = (
    Stage("levy", "Levy", "what the state takes for the growth of renewable energy", "your levy", "kwh"),
    Stage("grid", "Grid", "the fee of whoever owns the wires by day", "use of the grid", "day_kwh"),
    Stage("night", "Night", "the second register of old meters", "used by night", "night_kwh"),
    Stage("peak", "Peak", "the hours in which everybody cooks", "used in the peak", "peak_kwh"),
    Stage("weekend", "Weekend", "two days with a register of their own", "at weekends", "weekend_kwh"),
    Stage("heating", "Heating", "heat pumps behind their own meter", "for heating", "heating_kwh"),
)
"""Stages with two rates, one up to a tier of kilowatt hours and one beyond it. The seed decides which of them has the bug."""

PLAIN_STAGES = (
    Stage(
        name="usage", title="Usage", story="the energy itself", letter="energy used", unit="hundredths of a cent a kilowatt hour",
        formula="settle(FIGURE * reading.kwh, MODE)", min_figure=900,
    ),
    Stage(
        name="metering", title="Metering", story="the lease of the meter, whether it turns or not", letter="lease of the meter",
        unit="cents a quarter", formula="FIGURE", min_figure=450,
    ),
    Stage(
        name="feed_in", title="Feed-in", story="what a roof gave back to the grid", letter="fed into the grid",
        unit="hundredths of a cent a kilowatt hour", formula="-settle(FIGURE * reading.exported_kwh, MODE)", min_figure=300,
    ),
    Stage(
        name="loyalty", title="Loyalty", story="half a percent a year, for ten years at most", letter="for your loyalty",
        unit="hundredths of the amount, times a hundred, a year", min_figure=30,
        formula="-settle(FIGURE * min(reading.years, 10) * amount // 100, MODE)",
    ),
    Stage(
        name="deposit", title="Deposit", story="what was paid before", letter="paid before", unit="always one",
        formula="-FIGURE * reading.prepaid_cents", min_figure=1,
    ),
    Stage(
        name="vat", title="Taxes", story="the part of the tax office", letter="value added tax",
        unit="percent", formula="settle(FIGURE * amount, MODE)", min_figure=12,
    ),
)  # fmt: skip

STAGES = (*PLAIN_STAGES[:2], *TIERED_STAGES, *PLAIN_STAGES[2:])
"""All stages of an invoice, in the order in which the program computes them."""
READING_FIELDS = ("day_kwh", "night_kwh", "peak_kwh", "weekend_kwh", "heating_kwh", "exported_kwh", "prepaid_cents", "years")
OLD_TIER_KWH = 400
INVOICE_COUNT = 60
RATES = tuple(rate for rate in range(21, 60, 2) if rate % 5)
"""Rates that a seed can draw. They are odd and not divisible by 5, so that every fraction of a cent occurs in amounts."""

Reading = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """Correct figures for the computation of invoices, as decided by a seed."""

    tier: int
    """Number of kilowatt hours up to which the base rate of a stage applies."""
    mode: str
    """Name of the mode in which fractions of a cent are rounded, as accepted by `settle`."""
    base: Mapping[str, int]
    """Base rate of each stage with two rates, and figure of each plain stage, by name of the stage."""
    rate: Mapping[str, int]
    """Rate beyond the tier of each stage with two rates, by name of the stage."""

    def compute_stage_cents(self, reading: Reading) -> dict[str, int]:
        """Return the correct amount in cents that each stage of an invoice charges, by name of the stage."""
        cents_by_stage: dict[str, int] = {}
        for stage in STAGES:
            cents_by_stage[stage.name] = self._compute_cents(stage, reading, sum(cents_by_stage.values()))
        return cents_by_stage

    def _compute_cents(self, stage: Stage, reading: Reading, amount: int) -> int:
        settle_cents, base = partial(settle, mode=self.mode), self.base[stage.name]
        if stage in TIERED_STAGES:
            kwh = count_kwh(stage, reading)
            beyond = max(0, kwh - self.tier)
            return settle_cents(base * (kwh - beyond) + self.rate[stage.name] * beyond)
        exported, years, prepaid = (reading[name] for name in ("exported_kwh", "years", "prepaid_cents"))
        return {
            "usage": settle_cents(base * count_kwh(TIERED_STAGES[0], reading)),
            "metering": base,
            "feed_in": -settle_cents(base * exported),
            "loyalty": -settle_cents(base * min(years, 10) * amount // 100),
            "deposit": -base * prepaid,
            "vat": settle_cents(base * amount),
        }[stage.name]


def count_kwh(stage: Stage, reading: Reading) -> int:
    """Return the number of kilowatt hours in a meter reading that a stage with two rates charges."""
    return reading["day_kwh"] + reading["night_kwh"] if stage.field == "kwh" else reading[stage.field]


def settle(hundredths: int, mode: str) -> int:
    """Round hundredths of a cent to whole cents, in the same way as `money.py` of the generated package."""
    if hundredths < 0:
        return -settle(-hundredths, mode)
    whole, rest = divmod(hundredths, 100)
    if mode == "up":
        return whole + (rest > 0)
    at_half = {"half_up": 1, "half_down": 0, "half_even": whole % 2, "half_odd": 1 - whole % 2}
    return whole + (at_half[mode] if rest == 50 else rest > 50)


def draw_tariff(values: Mapping[str, str], task_seed: int) -> Tariff:
    """Draw the correct figures of the tariff for a seed; for the stage with the bug, the rate in force is taken from `values`."""
    rng = make_rng("bug-hunt", task_seed, "tariff")
    base = {stage.name: rng.randint(stage.min_figure, 2 * stage.min_figure) for stage in STAGES}
    rate = {stage.name: rng.choice(RATES) for stage in TIERED_STAGES}
    base["deposit"], rate[values["culprit"]] = 1, int(values["final_rate"])
    return Tariff(tier=int(values["decree_tier"]), mode=values["rounding"], base=base, rate=rate)


def draw_readings(values: Mapping[str, str], correct_tariff: Tariff, task_seed: int) -> dict[str, dict[str, int]]:
    """Draw a meter reading for each invoice. Every sixth tests rounding: the stage with the bug charges exactly half a cent."""
    rng = make_rng("bug-hunt", task_seed, "readings")
    stage = next(stage for stage in TIERED_STAGES if stage.name == values["culprit"])
    first = int(values["complaint"]) - rng.randrange(INVOICE_COUNT)
    counts_by_invoice = {str(number): _draw_reading(rng) for number in range(first, first + INVOICE_COUNT)}
    for counts in list(counts_by_invoice.values())[::6]:
        field = "day_kwh" if stage.field == "kwh" else stage.field
        while (
            correct_tariff.base[stage.name] * correct_tariff.tier
            + correct_tariff.rate[stage.name] * (count_kwh(stage, counts) - correct_tariff.tier)
        ) % 100 != 50:
            counts[field] += 1
    return counts_by_invoice


def _draw_reading(rng: random.Random) -> dict[str, int]:
    ranges = ((700, 2400), (650, 1800), (640, 1500), (660, 1600), (640, 2000), (0, 900), (0, 20_000), (0, 14))
    return {name: rng.randint(*limits) for name, limits in zip(READING_FIELDS, ranges, strict=True)}
