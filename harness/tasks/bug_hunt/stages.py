"""The tariff of a seed: its twelve stages, the readings of a quarter, and what the regulator makes of them.

Six stages are tiered and built alike; the seed draws which of them was forgotten when the decree came.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from harness.tasks.facts import drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One step of an invoice, as its module is generated."""

    name: str
    title: str
    story: str
    letter: str
    field: str = ""
    """Of a reading; only tiered stages have one."""
    formula: str = ""
    """Of a plain stage, in Python, with `FIGURE` and `MODE`."""
    unit: str = ""
    least: int = 7
    """Smallest figure, or base of a tiered stage, that a seed draws; the largest is twice that."""


TIERED = (
    Stage(
        name="levy",
        title="Levy",
        story="what the state takes for the growth of renewable energy",
        letter="your levy",
        field="kwh",
    ),
    Stage(name="grid", title="Grid", story="the fee of whoever owns the wires by day", letter="use of the grid", field="day_kwh"),
    Stage(name="night", title="Night", story="the second register of old meters", letter="used by night", field="night_kwh"),
    Stage(name="peak", title="Peak", story="the hours in which everybody cooks", letter="used in the peak", field="peak_kwh"),
    Stage(
        name="weekend", title="Weekend", story="two days with a register of their own", letter="at weekends", field="weekend_kwh"
    ),
    Stage(name="heating", title="Heating", story="heat pumps behind their own meter", letter="for heating", field="heating_kwh"),
)
"""Any of them may hold the bug."""

PLAIN = (
    Stage(
        name="usage", title="Usage", story="the energy itself", letter="energy used", unit="hundredths of a cent a kilowatt hour",
        formula="settle(FIGURE * reading.kwh, MODE)", least=900,
    ),
    Stage(
        name="metering", title="Metering", story="the lease of the meter, whether it turns or not", letter="lease of the meter",
        unit="cents a quarter", formula="FIGURE", least=450,
    ),
    Stage(
        name="feed_in", title="Feed-in", story="what a roof gave back to the grid", letter="fed into the grid",
        unit="hundredths of a cent a kilowatt hour", formula="-settle(FIGURE * reading.exported_kwh, MODE)", least=300,
    ),
    Stage(
        name="loyalty", title="Loyalty", story="half a percent a year, for ten years at most", letter="for your loyalty",
        unit="hundredths of the amount, times a hundred, a year", least=30,
        formula="-settle(FIGURE * min(reading.years, 10) * amount // 100, MODE)",
    ),
    Stage(
        name="deposit", title="Deposit", story="what was paid before", letter="paid before", unit="always one",
        formula="-FIGURE * reading.prepaid_cents", least=1,
    ),
    Stage(
        name="vat", title="Taxes", story="the part of the tax office", letter="value added tax",
        unit="percent", formula="settle(FIGURE * amount, MODE)", least=12,
    ),
)  # fmt: skip

ORDER = (*PLAIN[:2], *TIERED, *PLAIN[2:])
"""As an invoice passes them."""
FIELDS = ("day_kwh", "night_kwh", "peak_kwh", "weekend_kwh", "heating_kwh", "exported_kwh", "prepaid_cents", "years")
OLD_TIER = 400
INVOICES = 60
RATES = tuple(rate for rate in range(21, 60, 2) if rate % 5)
"""Odd and no multiples of five: each remainder of a cent occurs, so every mode of settling shows."""

Reading = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """The right figures of a seed."""

    tier: int
    mode: str
    base: Mapping[str, int]
    """Base or figure of each stage."""
    rate: Mapping[str, int]
    """Beyond the tier, of the tiered stages."""

    def steps(self, reading: Reading) -> dict[str, int]:
        """Cents that each stage adds, as the regulator computes them."""
        added: dict[str, int] = {}
        for stage in ORDER:
            added[stage.name] = self._added(stage, reading, sum(added.values()))
        return added

    def _added(self, stage: Stage, reading: Reading, amount: int) -> int:
        settled, base = partial(settle, mode=self.mode), self.base[stage.name]
        if stage in TIERED:
            kwh = counted(stage, reading)
            beyond = max(0, kwh - self.tier)
            return settled(base * (kwh - beyond) + self.rate[stage.name] * beyond)
        exported, years, prepaid = (reading[name] for name in ("exported_kwh", "years", "prepaid_cents"))
        return {
            "usage": settled(base * counted(TIERED[0], reading)),
            "metering": base,
            "feed_in": -settled(base * exported),
            "loyalty": -settled(base * min(years, 10) * amount // 100),
            "deposit": -base * prepaid,
            "vat": settled(base * amount),
        }[stage.name]


def counted(stage: Stage, reading: Reading) -> int:
    """Kilowatt hours that a tiered stage looks at."""
    return reading["day_kwh"] + reading["night_kwh"] if stage.field == "kwh" else reading[stage.field]


def settle(hundredths: int, mode: str) -> int:
    """Whole cents, as `money.py` of the package settles them."""
    if hundredths < 0:
        return -settle(-hundredths, mode)
    whole, rest = divmod(hundredths, 100)
    if mode == "up":
        return whole + (rest > 0)
    at_half = {"half_up": 1, "half_down": 0, "half_even": whole % 2, "half_odd": 1 - whole % 2}
    return whole + (at_half[mode] if rest == 50 else rest > 50)


def tariff(values: Mapping[str, str], task_seed: int) -> Tariff:
    """The right figures under a seed; the stage with the bug has the final rate."""
    draw = drawn("bug-hunt", task_seed, "tariff")
    base = {stage.name: draw.randint(stage.least, 2 * stage.least) for stage in ORDER}
    rate = {stage.name: draw.choice(RATES) for stage in TIERED}
    base["deposit"], rate[values["culprit"]] = 1, int(values["final_rate"])
    return Tariff(tier=int(values["decree_tier"]), mode=values["rounding"], base=base, rate=rate)


def readings(values: Mapping[str, str], right: Tariff, task_seed: int) -> dict[str, dict[str, int]]:
    """Counts by invoice; every sixth reading meets the half of a cent in the stage with the bug."""
    draw = drawn("bug-hunt", task_seed, "readings")
    stage = next(stage for stage in TIERED if stage.name == values["culprit"])
    first = int(values["complaint"]) - draw.randrange(INVOICES)
    made = {str(number): _reading(draw) for number in range(first, first + INVOICES)}
    for counts in list(made.values())[::6]:
        field = "day_kwh" if stage.field == "kwh" else stage.field
        while (right.base[stage.name] * right.tier + right.rate[stage.name] * (counted(stage, counts) - right.tier)) % 100 != 50:
            counts[field] += 1
    return made


def _reading(draw: random.Random) -> dict[str, int]:
    ranges = ((700, 2400), (650, 1800), (640, 1500), (660, 1600), (640, 2000), (0, 900), (0, 20_000), (0, 14))
    return {name: draw.randint(*limits) for name, limits in zip(FIELDS, ranges, strict=True)}
