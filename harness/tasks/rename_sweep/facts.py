"""Facts of the task `rename-sweep`: patterns that find each value, and the random draw of the values."""

from dataclasses import replace
from functools import partial

from harness.task import Fact
from harness.tasks.kit.agreements import draw_agreements
from harness.tasks.kit.draws import compute_digest, derive_number, draw_choices, make_rng
from harness.tasks.kit.facts import make_file_fact, make_output_fact, make_prompt_fact, make_tool_fact
from harness.tasks.rename_sweep.structure import Structure

PROPOSED_PATTERN = r"plan proposed the name `(\w+)`"
PLAN_PAGE, LEDGER_PAGE = "docs/plan.md", "docs/ledger.md"

_FACTS: tuple[Fact, ...] = (
    make_prompt_fact(
        *("new_name", "constraint", "resolve", r"is called `(\w+)` from now on"), former_patterns=(PROPOSED_PATTERN,)
    ),
    make_prompt_fact("excluded_folder", "constraint", "legacy", r"folder `(\w+)` is left alone"),
    make_prompt_fact("alias_module", "constraint", "deprecated", r"module `(\w+)` keeps the old name as an alias"),
    make_prompt_fact("removal_release", "value", "2.0", r"alias goes away in release (\d+\.\d+)\b"),
    make_prompt_fact("first_folder", "constraint", "core", r"first batch is the folder `(\w+)`"),
    make_prompt_fact("last_folder", "constraint", "main", r"last batch is the folder `(\w+)`"),
    make_prompt_fact("ticket", "value", "HQ-1", r"ticket is ([A-Z]{2}-\d{4})\b"),
    make_prompt_fact("goal_left", "goal", "0", r"goal is that at most (\d+) files still hold the old name"),
    make_prompt_fact("verb", "preference", "Renamed", r"entry in the change log begins with the word `(\w+)`"),
    make_file_fact("old_name", "value", PLAN_PAGE, "lookup", r"function to be renamed is `(\w+)`"),
    make_file_fact("proposed_name", "superseded", PLAN_PAGE, "lookup_berth", PROPOSED_PATTERN),
    make_file_fact("ledger_book", "artifact", LEDGER_PAGE, "default", r"sweep is kept in the book `([a-z]+-\d+)`"),
    make_tool_fact("registry_key", "error", "tools/check_registry.py", "berths", r"entry has to be called `([a-z-]+)`"),
    make_output_fact("voucher", "progress", "", "none", r"voucher of this sweep is ([0-9a-f]{6})\b"),
    make_output_fact("collision_name", "decision", "", "helper", r"helpers in its way are called `(\w+)`"),
    make_output_fact("receipt", "artifact", "", "Q-0000", r"closed under the receipt (Q-\d{4})"),
    make_output_fact("desk", "next-step", "", "office", r"next the desk `(\w+)` has to be told"),
)

OPTIONAL_FACTS = ("receipt", "desk")
"""Names of the facts that a task has only if the agent has to state them in the hand-over document."""


def make_facts(structure: Structure) -> tuple[Fact, ...]:
    """Return all facts of a task with the given structure, wherever they are stated."""
    unused_facts = {*OPTIONAL_FACTS} - {*structure.result_facts}
    helper_paths = tuple(f"quay/{folder}/stays.py" for folder in structure.collision_folders)
    facts = (
        replace(fact, also_in=helper_paths) if fact.name == "new_name" else fact
        for fact in _FACTS
        if fact.name not in unused_facts
    )
    return (*structure.sheets.add_sources(facts), *structure.sheets.facts)


DESKS = ("gatehouse", "signals", "stores", "chandlery", "chartroom", "boathouse")
HELPERS = ("spot_of", "place_by_hand", "rough_place", "guessed_spot", "chalked_place", "near_enough")
CHOICES: dict[str, tuple[str, ...]] = {
    "old_name": ("get_slot", "fetch_slot", "slot_of", "find_slot", "pick_slot"),
    "new_name": ("berth_for", "mooring_of", "assigned_berth", "berth_of_ship", "place_at_quay"),
    "proposed_name": ("quay_slot", "harbour_slot", "slot_for_ship", "slot_v2"),
    "excluded_folder": ("museum", "oldtown", "relics"),
    "alias_module": ("compat", "facade", "outside", "bridge"),
    "first_folder": ("customs", "quarantine", "passports"),
    "last_folder": ("salvage", "weather", "shipyard"),
    "removal_release": tuple(f"{major}.{minor}" for major in (3, 4, 5) for minor in range(1, 9)),
    "goal_left": ("5", "6", "7", "8", "9"),
    "verb": ("Moved", "Rebaptised", "Swept", "Relabelled"),
    "registry_key": ("mooring-table", "quay-book", "berth-index", "harbour-map"),
}


def draw_values(task_seed: int) -> dict[str, str]:
    """Draw the values that the agent must remember, and the secret `key` of the tools."""
    rng_for = partial(make_rng, "rename-sweep", task_seed)
    values = draw_choices("rename-sweep", task_seed, _FACTS, CHOICES, ("HB", "QY", "PT", "MR"), salt_name="key")
    book = rng_for("book").choice(("sweep", "tide", "broom", "spring"))
    values["ledger_book"] = f"{book}-{rng_for('number').randrange(10, 99)}"
    values["voucher"] = compute_digest(values["key"], "voucher:1")[:6]
    values["collision_name"] = HELPERS[int(compute_digest(values["key"], "name:1")[:8], 16) % len(HELPERS)]
    closing_seal = compute_digest(values["key"], "close")
    values["receipt"] = derive_number(closing_seal[:8], "Q")
    values["desk"] = DESKS[int(closing_seal[8:12], 16) % len(DESKS)]
    return values | draw_agreements("rename-sweep", task_seed)
