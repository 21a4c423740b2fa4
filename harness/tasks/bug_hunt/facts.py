"""Facts (values to remember) of the task `bug-hunt`: patterns that find each value, and the random draw of the values.

Nine facts are stated only in the prompt. Four are stated in files, two of these in a long log. Five are printed by commands: two
can later be read in the agent's own notes, three cannot be recovered. One fact is stated by the agent itself.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from harness.task import Fact, FactKind
from harness.tasks.bug_hunt.stages import OLD_TIER_KWH, RATES, TIERED_STAGES
from harness.tasks.kit.draws import compute_digest, derive_number, draw_choices, make_rng
from harness.tasks.kit.facts import make_file_fact, make_output_fact, make_prompt_fact

OWN_NOTE, CULPRIT_NOTE = "notes/03-ruled-out.md", "notes/04-culprit.md"
NIGHTLY_LOG = "logs/nightly.log"
PROVISIONAL_PATTERN = r"rate beyond the tier is `(\d+)` until further notice"
_SHOW_NOTES_COMMAND = "cat notes/0*.md"


def _make_log_fact(name: str, kind: FactKind, prior: str, pattern: str, words: str) -> Fact:
    """Make a fact (a value to remember) stated in a log too long to read as a whole; searching for `words` shows it again."""
    return make_file_fact(name, kind, NIGHTLY_LOG, prior, pattern, command=f"grep -n '{words}' {NIGHTLY_LOG}")


FACTS: tuple[Fact, ...] = (
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
    make_file_fact(
        "decree_tier",
        "value",
        "docs/decree.md",
        str(OLD_TIER_KWH),
        r"tier of all stages begins at `(\d+)` kWh",
        former_patterns=(r"^TIER_KWH = (\d+)",),
    ),
    make_file_fact("rounding", "decision", "docs/rounding.md", "half_up", r"settled in the mode `(\w+)`"),
    _make_log_fact("suspect", "value", "usage", r"operator blames the stage `(\w+)`", "operator blames"),
    _make_log_fact("drift_since", "value", "2024-01-01", r"first drift on (\d{4}-\d\d-\d\d)", "first drift"),
    make_output_fact(
        "culprit",
        "artifact",
        f"{_SHOW_NOTES_COMMAND}; python3 tools/compare.py | grep first",
        "vat",
        r"first difference is in the stage `(\w+)`",
        source="tools/compare.py",
    ),
    make_output_fact(*("provisional_rate", "superseded", _SHOW_NOTES_COMMAND, "30"), PROVISIONAL_PATTERN, source=CULPRIT_NOTE),
    make_output_fact(
        "final_rate", "error", "", "20", r"the invoices imply a rate of `(\d+)`", former_patterns=(PROVISIONAL_PATTERN,)
    ),
    make_output_fact("attempt_id", "artifact", "", "A-0000", r"registered as attempt (A-\d{4})"),
    make_output_fact("desk", "next-step", "", "office", r"announce it at the desk `(\w+)`"),
    replace(
        make_file_fact(
            *("ruled_out", "decision", OWN_NOTE, "nothing"), r"[Rr]uled out for good: `(\w+)`", command="cat notes/03-*.md"
        ),
        said_in="own",
    ),
)

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
    "culprit": tuple(stage.name for stage in TIERED_STAGES),
    "drift_since": tuple(f"2024-03-{day:02}" for day in range(4, 20)),
}


def draw_values(task_seed: int) -> dict[str, str]:
    """Draw at random the values that the agent must remember, the secret `key` of the tools, and two outdated prices."""
    rng_for = partial(make_rng, "bug-hunt", task_seed)
    values = draw_choices("bug-hunt", task_seed, FACTS, _CHOICES, ("WB", "KW", "TR", "QU"), salt_name="key")
    values["suspect"] = rng_for("suspect").choice([stage.name for stage in TIERED_STAGES if stage.name != values["culprit"]])
    values["ruled_out"] = values["suspect"]
    rates = rng_for("rates").sample(RATES, 3)
    values["stale_rate"], values["provisional_rate"], values["final_rate"] = map(str, rates)
    values["stale_tier"] = str(OLD_TIER_KWH)
    values["complaint"] = str(rng_for("complaint").randrange(21_000, 98_000))
    seal = compute_digest(values["key"], "second.sed")  # as in tools/ci.py
    return {**values, "attempt_id": derive_number(seal[:8], "A"), "desk": DESKS[int(seal[8:12], 16) % len(DESKS)]}
