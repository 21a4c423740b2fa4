"""Electricity prices in the task `bug-hunt`: the twelve stages (items) of an invoice, meter readings, and correct amounts.

Six items have two rates: one for the first kilowatt hours and one for the rest. A decree has changed the prices, but the program
still has the old ones for some of the six items; these are the bugs. The seed decides how many and which items.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from harness.tasks.kit.draws import make_rng


@dataclass(frozen=True, slots=True)
class Stage:
    """Item on an electricity invoice (a stage of its computation), computed by a Python module of its own."""

    name: str
    """Name of the Python module that computes the invoice item."""
    title: str
    """Title of the documentation page about the invoice item."""
    story: str
    """Description of what the customer is charged for, used in the documentation page and the Python module of the item."""
    letter: str
    """Words that begin the sentence about the item in a letter to a customer, e.g. `your levy`."""
    field: str = ""
    """Field of a meter reading that an item with two rates charges for, e.g. `peak_kwh`; empty for an item with one price."""
    formula: str = ""
    """Python expression for the amount of an item with one price, which it calls `FIGURE`; empty for an item with two rates."""
    unit: str = ""
    """Unit of the price of an item with one price, e.g. `cents a quarter`; empty for an item with two rates."""
    min_figure: int = 7
    """Smallest price that a seed can draw for the invoice item; the largest price is twice as large."""


TIERED_STAGES = (
    Stage("levy", "Levy", "what the state takes for the growth of renewable energy", "your levy", "kwh"),
    Stage("grid", "Grid", "the fee of whoever owns the wires by day", "use of the grid", "day_kwh"),
    Stage("night", "Night", "the second register of old meters", "used by night", "night_kwh"),
    Stage("peak", "Peak", "the hours in which everybody cooks", "used in the peak", "peak_kwh"),
    Stage("weekend", "Weekend", "two days with a register of their own", "at weekends", "weekend_kwh"),
    Stage("heating", "Heating", "heat pumps behind their own meter", "for heating", "heating_kwh"),
)
"""Invoice items with two rates, one for the first kilowatt hours and one for the rest. The seed decides which have a bug."""

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
"""All stages (items) of an invoice, in the order in which the invoice program computes them."""
READING_FIELDS = ("day_kwh", "night_kwh", "peak_kwh", "weekend_kwh", "heating_kwh", "exported_kwh", "prepaid_cents", "years")
OLD_TIER_KWH = 400
INVOICE_COUNT = 60
HALF_CENT_SPACING = 6
"""For each item with a bug, one in this number of invoices has an amount for the item that ends in half a cent."""
RATES = tuple(rate for rate in range(21, 60, 2) if rate % 5)
"""Rates that a seed can draw: odd numbers not divisible by 5, so that amounts have every possible fraction of a cent."""

Reading = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """Correct prices and rounding mode of the invoices in the task `bug-hunt`, as decided by a seed."""

    tier: int
    """Number of kilowatt hours on an invoice that are charged at the base rate; the rest is charged at a second rate."""
    mode: str
    """Name of the rounding mode for fractions of a cent, e.g. `half_even`, as accepted by the function `settle`."""
    base: Mapping[str, int]
    """Price of each item on an invoice, by item name; for an item with two rates, the price of the first kilowatt hours."""
    rate: Mapping[str, int]
    """Second rate of each invoice item with two rates, for the kilowatt hours above the tier, by item name."""

    def compute_stage_cents(self, reading: Reading) -> dict[str, int]:
        """Return the correct amount in cents of each invoice item for a meter reading, by name of the item."""
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
    """Return the number of kilowatt hours in a meter reading that an invoice item with two rates charges for."""
    return reading["day_kwh"] + reading["night_kwh"] if stage.field == "kwh" else reading[stage.field]


def settle(hundredths: int, mode: str) -> int:
    """Round an amount in hundredths of a cent to whole cents in the given rounding mode, e.g. `half_even`."""
    if hundredths < 0:
        return -settle(-hundredths, mode)
    whole, rest = divmod(hundredths, 100)
    if mode == "up":
        return whole + (rest > 0)
    at_half = {"half_up": 1, "half_down": 0, "half_even": whole % 2, "half_odd": 1 - whole % 2}
    return whole + (at_half[mode] if rest == 50 else rest > 50)


def draw_tariff(values: Mapping[str, str], culprits: Sequence[str], task_seed: int) -> Tariff:
    """Draw the correct prices for the invoices at random.

    Args:
        values: Values drawn from the seed, with the correct rate of each item that has a bug.
        culprits: Names of the items that have a bug, in the order of their numbers.
        task_seed: Seed of the task.
    """
    rng = make_rng("bug-hunt", task_seed, "tariff")
    base = {stage.name: rng.randint(stage.min_figure, 2 * stage.min_figure) for stage in STAGES}
    rate = {stage.name: rng.choice(RATES) for stage in TIERED_STAGES}
    base["deposit"] = 1
    rate |= {culprit: int(values[f"final_rate_{number}"]) for number, culprit in enumerate(culprits, start=1)}
    return Tariff(tier=int(values["decree_tier"]), mode=values["rounding"], base=base, rate=rate)


def draw_readings(
    values: Mapping[str, str], culprits: Sequence[str], correct_tariff: Tariff, task_seed: int
) -> dict[str, dict[str, int]]:
    """Draw a random meter reading for each invoice, and return its fields by number of the invoice.

    For each item that has a bug, the correct amount ends in half a cent on every sixth invoice, which reveals a wrong rounding
    mode.
    """
    rng = make_rng("bug-hunt", task_seed, "readings")
    first = int(values["complaint"]) - rng.randrange(INVOICE_COUNT)
    counts_by_invoice = {str(number): _draw_reading(rng) for number in range(first, first + INVOICE_COUNT)}
    for number, culprit in enumerate(culprits):
        stage = next(stage for stage in TIERED_STAGES if stage.name == culprit)
        for counts in list(counts_by_invoice.values())[number::HALF_CENT_SPACING]:
            _add_until_half_cent(stage, counts, correct_tariff)
    return counts_by_invoice


def _add_until_half_cent(stage: Stage, counts: dict[str, int], correct_tariff: Tariff) -> None:
    field = "day_kwh" if stage.field == "kwh" else stage.field
    below = correct_tariff.base[stage.name] * correct_tariff.tier
    while (below + correct_tariff.rate[stage.name] * (count_kwh(stage, counts) - correct_tariff.tier)) % 100 != 50:
        counts[field] += 1


def _draw_reading(rng: random.Random) -> dict[str, int]:
    ranges = ((700, 2400), (650, 1800), (640, 1500), (660, 1600), (640, 2000), (0, 900), (0, 20_000), (0, 14))
    return {name: rng.randint(*limits) for name, limits in zip(READING_FIELDS, ranges, strict=True)}
