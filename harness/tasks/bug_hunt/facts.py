"""Facts of the task `bug-hunt`: patterns that find each value, and the random draw of the values.

The request states nine facts. Files, log lines and the agent's own notes state facts that can be read again. The bench (the tool
`tools/ci.py`, which tests a patch) must not be asked twice; it prints the correct rate of a stage whose first patch it refuses,
the number of each accepted attempt, and the desk at which the agent has to announce the fix.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from harness.task import Fact
from harness.tasks.bug_hunt.stages import OLD_TIER_KWH, RATES, TIERED_STAGES
from harness.tasks.bug_hunt.structure import SUSPICIONS, Structure
from harness.tasks.kit.agreements import draw_agreements
from harness.tasks.kit.draws import compute_digest, derive_number, draw_choices, make_rng
from harness.tasks.kit.facts import make_file_fact, make_output_fact, make_prompt_fact

CULPRIT_NOTE = "notes/04-stages.md"
NIGHTLY_LOG = "logs/nightly.log"
MAX_BUGS = 3
"""Maximum number of stages (items of an invoice) that have a bug."""

_PROMPT_FACTS: tuple[Fact, ...] = (
    make_prompt_fact("ticket", "value", "WB-1", r"ticket is ([A-Z]{2}-\d{4})\b"),
    make_prompt_fact("complaint", "value", "10001", r"complaint is about invoice (\d{5})\b"),
    make_prompt_fact(
        *("entry_point", "constraint", "bill", r"[Pp]artners import the function `(\w+)`"),
        also_in=("tests/test_engine.py", "tests/test_reference.py", "wattbook/__init__.py"),
    ),
    make_prompt_fact("owner_tag", "constraint", "[wattbook]", r"docstring begins with the tag `(\[[\w-]+\])`"),
    make_prompt_fact("test_prefix", "constraint", "Regression", r"class of a regression test begins with `([A-Z]\w+)`"),
    make_prompt_fact("channel", "constraint", "stable", r"entry of the change log goes to the channel `([a-z-]+)`"),
    make_prompt_fact("severity", "preference", "high", r"severity of the case is called `([a-z]+)`"),
    make_prompt_fact("frozen", "constraint", "none", r"module `(\w+)` is frozen until the audit"),
    make_prompt_fact("drift_goal", "goal", "0", r"case counts as closed at a drift of at most (\d+) cents a year"),
)


def make_facts(structure: Structure) -> tuple[Fact, ...]:
    """Return all facts of a task with the given structure, wherever they are stated."""
    facts = (
        *_PROMPT_FACTS,
        *_make_page_facts(structure),
        *_make_suspicion_facts(structure),
        *(fact for number in structure.bug_numbers for fact in _make_bug_facts(structure, number)),
        make_output_fact("desk", "next-step", "", "office", r"announce it at the desk `(\w+)`"),
    )
    return (*structure.sheets.add_sources(facts), *structure.sheets.facts)


def _make_page_facts(structure: Structure) -> Iterator[Fact]:
    page = structure.find_page("decree_tier")
    tier_words, former_words = r"tier of all stages begins at `(\d+)` kWh", (r"^TIER_KWH = (\d+)",)
    yield make_file_fact("decree_tier", "value", page, str(OLD_TIER_KWH), tier_words, former_patterns=former_words)
    yield make_file_fact("rounding", "decision", structure.find_page("rounding"), "half_up", r"settled in the mode `(\w+)`")
    search = f"grep -n 'first drift' {NIGHTLY_LOG}"
    yield make_file_fact("drift_since", "value", NIGHTLY_LOG, "2024-01-01", r"first drift on (\d{4}-\d\d-\d\d)", command=search)


def _make_suspicion_facts(structure: Structure) -> Iterator[Fact]:
    """Yield the facts about the stages that somebody blames without reason.

    They are the name of each blamed stage and, if the report needs it, the agent's own note that the stage is ruled out.
    """
    paths = {"operator": NIGHTLY_LOG, "council": structure.minutes_path, "customer": structure.letter_path}
    for accuser in structure.suspicions:
        search = f"grep -n '{accuser} blames' {paths[accuser]}"
        yield make_file_fact(
            f"{accuser}_suspect", "value", paths[accuser], "usage", rf"{accuser} blames the stage `(\w+)`", command=search
        )
        if "stages" not in structure.sections:
            continue
        note = f"notes/03-{accuser}.md"
        words = rf"suspicion of the {accuser} is refuted, ruled out for good: `(\w+)`"
        yield replace(make_file_fact(f"{accuser}_ruled_out", "decision", note, "nothing", words), said_in="own")


def _make_bug_facts(structure: Structure, number: int) -> Iterator[Fact]:
    """Yield the facts about stage `number` among those with a bug, e.g. its name and its correct rate."""
    search = f"grep -h 'stale stage {number} is' {CULPRIT_NOTE} || python3 tools/compare.py --stale"
    words = rf"stale stage {number} is `(\w+)`"
    yield make_output_fact(f"culprit_{number}", "artifact", search, "vat", words, source="tools/compare.py")
    words = rf"page {number}: .*rate beyond the tier is `(\d+)`"
    page_fact = partial(make_output_fact, command=f"grep 'page {number}:' {CULPRIT_NOTE}", prior="30", source=CULPRIT_NOTE)
    if structure.refusals[number - 1]:
        yield replace(page_fact(f"provisional_rate_{number}", "superseded"), patterns=(words,))
        answer = rf"After patches/{number}a\.sed the regulator says: .*the invoices imply a rate of `(\d+)`"
        yield make_output_fact(f"final_rate_{number}", "error", "", "20", answer, former_patterns=(words,))
    else:
        yield replace(page_fact(f"page_rate_{number}", "value"), patterns=(words,))
    if "attempts" in structure.sections:
        words = rf"patches/{number}[ab]\.sed was accepted and is registered as attempt (A-\d{{4}})"
        yield make_output_fact(f"attempt_{number}", "artifact", "", "A-0000", words)


def name_rate(structure: Structure, number: int) -> str:
    """Return the name of the fact that is the correct rate of stage `number` among those with a bug."""
    return f"{'final' if structure.refusals[number - 1] else 'page'}_rate_{number}"


DESKS = ("harbour", "mill", "viaduct", "foundry", "orchard", "quarry", "lighthouse")
_CHOICES: dict[str, Sequence[object]] = {
    "entry_point": ("invoice_for", "settled_invoice", "statement_of", "account_of", "charged", "owed_for"),
    "owner_tag": ("[north-desk]", "[meters]", "[tariff-team]", "[blue-room]", "[quarterly]", "[kilowatt]"),
    "test_prefix": ("Relapse", "Never", "Again", "Echo", "Scar", "Witness"),
    "channel": ("quarter-end", "early-birds", "partners-first", "slow-lane", "west-region"),
    "severity": ("amber", "crimson", "violet", "ochre", "teal"),
    "frozen": ("money", "ledger", "reading", "engine", "text"),
    "drift_goal": range(3, 40),
    "decree_tier": range(420, 640, 20),
    "rounding": ("half_even", "half_down", "half_odd", "up"),
    "drift_since": tuple(f"2024-03-{day:02}" for day in range(4, 20)),
}


def draw_values(structure: Structure, task_seed: int) -> dict[str, str]:
    """Draw the values that the agent must remember, outdated prices, and the secret `key` of the tools.

    The result has them by name. The stages with a bug are numbered in the order of the tariff.
    """
    rng_for = partial(make_rng, "bug-hunt", task_seed)
    values = draw_choices("bug-hunt", task_seed, make_facts(structure), _CHOICES, ("WB", "KW", "TR", "QU"), salt_name="key")
    values |= draw_agreements("bug-hunt", task_seed)
    names = [stage.name for stage in TIERED_STAGES]
    stages = rng_for("stages").sample(names, len(names))
    suspects = stages[MAX_BUGS:]
    for accuser, suspect in zip(SUSPICIONS, suspects, strict=True):
        values[f"{accuser}_suspect"] = values[f"{accuser}_ruled_out"] = suspect
    for number, culprit in enumerate(sorted(stages[: len(structure.refusals)], key=names.index), start=1):
        stale, page, final = map(str, rng_for(f"rates {number}").sample(RATES, 3))
        values |= {f"culprit_{number}": culprit, f"stale_rate_{number}": stale, f"final_rate_{number}": final}
        values[f"provisional_rate_{number}"] = values[f"page_rate_{number}"] = page if structure.refusals[number - 1] else final
        values[f"attempt_{number}"] = compute_attempt(values["key"], structure.find_patch(number))
    values["stale_tier"] = str(OLD_TIER_KWH)
    values["complaint"] = str(rng_for("complaint").randrange(21_000, 98_000))
    return {**values, "desk": DESKS[int(compute_digest(values["key"], "desk")[:8], 16) % len(DESKS)]}


def compute_attempt(key: str, patch: str) -> str:
    """Return the number that the tool `tools/ci.py` prints when it accepts a patch, e.g. `A-4711`.

    Args:
        key: Secret of the tools, so that the agent cannot compute the number itself.
        patch: Name of the patch, e.g. `1a.sed`.
    """
    return derive_number(compute_digest(key, patch)[:8], "A")


def list_culprits(values: Mapping[str, str]) -> list[str]:
    """Return the names of the stages (items of an invoice) that have a bug, in the order of their numbers."""
    return [values[name] for number in range(1, MAX_BUGS + 1) if (name := f"culprit_{number}") in values]
