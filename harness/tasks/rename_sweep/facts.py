"""What must be remembered: the facts, how each is read out of visible text, and the values that a seed gives them."""

import hashlib
from functools import partial

from harness.task import Fact
from harness.tasks.facts import drawn, outdated, printed, stated, written

PROPOSED = r"plan proposed the name `(\w+)`"
PLAN, LEDGER = "docs/plan.md", "docs/ledger.md"

FACTS: tuple[Fact, ...] = (
    outdated(stated("new_name", "constraint", "resolve", r"is called `(\w+)` from now on"), PROPOSED),
    stated("excluded_folder", "constraint", "legacy", r"folder `(\w+)` is left alone"),
    stated("alias_module", "constraint", "deprecated", r"module `(\w+)` keeps the old name as an alias"),
    stated("removal_release", "value", "2.0", r"alias goes away in release (\d+\.\d+)\b"),
    stated("first_folder", "constraint", "core", r"first batch is the folder `(\w+)`"),
    stated("last_folder", "constraint", "main", r"last batch is the folder `(\w+)`"),
    stated("ticket", "value", "HQ-1", r"ticket is ([A-Z]{2}-\d{4})\b"),
    stated("goal_left", "goal", "0", r"goal is that at most (\d+) files still hold the old name"),
    stated("verb", "preference", "Renamed", r"entry in the change log begins with the word `(\w+)`"),
    written("old_name", "value", PLAN, "lookup", r"function to be renamed is `(\w+)`"),
    written("proposed_name", "superseded", PLAN, "lookup_berth", PROPOSED),
    written("ledger_book", "artifact", LEDGER, "default", r"sweep is kept in the book `([a-z]+-\d+)`"),
    printed(
        *("registry_key", "error", "python3 tools/check_registry.py", "berths"),
        *(r"entry has to be called `([a-z-]+)`",),
        source="tools/check_registry.py",
    ),
    printed("voucher", "progress", "", "none", r"voucher of this sweep is ([0-9a-f]{6})\b"),
    printed("collision_name", "decision", "", "helper", r"helpers in its way are called `(\w+)`"),
    printed("receipt", "artifact", "", "Q-0000", r"closed under the receipt (Q-\d{4})"),
    printed("desk", "next-step", "", "office", r"next the desk `(\w+)` has to be told"),
)

DESKS = ("gatehouse", "signals", "stores", "chandlery", "chartroom", "boathouse")
HELPERS = ("spot_of", "place_by_hand", "rough_place", "guessed_spot", "chalked_place", "near_enough")
FIRST, LAST, EXCLUDED = (
    ("customs", "quarantine", "passports"),
    ("salvage", "weather", "shipyard"),
    ("museum", "oldtown", "relics"),
)
ALIASES = ("compat", "facade", "outside", "bridge")
CHOICES: dict[str, tuple[str, ...]] = {
    "old_name": ("get_slot", "fetch_slot", "slot_of", "find_slot", "pick_slot"),
    "new_name": ("berth_for", "mooring_of", "assigned_berth", "berth_of_ship", "place_at_quay"),
    "proposed_name": ("quay_slot", "harbour_slot", "slot_for_ship", "slot_v2"),
    "excluded_folder": EXCLUDED,
    "alias_module": ALIASES,
    "first_folder": FIRST,
    "last_folder": LAST,
    "removal_release": tuple(f"{major}.{minor}" for major in (3, 4, 5) for minor in range(1, 9)),
    "goal_left": ("5", "6", "7", "8", "9"),
    "verb": ("Moved", "Rebaptised", "Swept", "Relabelled"),
    "registry_key": ("mooring-table", "quay-book", "berth-index", "harbour-map"),
}


def draw(task_seed: int) -> dict[str, str]:
    """The value of every fact under a seed; `key` is the workspace's own."""
    source = partial(drawn, "rename-sweep", task_seed)
    values = {name: source(name).choice(choices) for name, choices in CHOICES.items()}
    values["ticket"] = f"{source('team').choice(('HB', 'QY', 'PT', 'MR'))}-{source('ticket').randrange(1000, 10_000)}"
    values["ledger_book"] = f"{source('book').choice(('sweep', 'tide', 'broom', 'spring'))}-{source('number').randrange(10, 99)}"
    values["key"] = f"{source('key').getrandbits(48):012x}"
    values["voucher"] = seal(values["key"], "voucher:1")[:6]
    values["collision_name"] = HELPERS[int(seal(values["key"], "name:1")[:8], 16) % len(HELPERS)]
    closing = seal(values["key"], "close")
    values["receipt"] = f"Q-{int(closing[:8], 16) % 9000 + 1000}"
    values["desk"] = DESKS[int(closing[8:12], 16) % len(DESKS)]
    return values


def seal(key: str, what: str) -> str:
    """As tools/ledger.py computes it."""
    return hashlib.sha256(f"{key}:{what}".encode()).hexdigest()
