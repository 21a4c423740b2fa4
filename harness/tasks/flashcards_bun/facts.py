"""Facts (values to remember) of the task `flashcards-bun`: patterns that find each value, and the random draw of the values.

Eleven facts are stated only in the prompt and needed late. Seven facts are stated on pages that can be read again, for 2,000
tokens per page. Five facts are printed by commands, of which two do harm if they are repeated.
"""

from collections.abc import Sequence

from harness.task import Fact, FactKind
from harness.tasks.kit.agreements import draw_agreements
from harness.tasks.kit.draws import compute_digest, derive_number, draw_choices
from harness.tasks.kit.facts import make_file_fact, make_output_fact, make_prompt_fact


def _ask_tool(name: str, kind: FactKind, tool: str, prior: str, pattern: str, *, arguments: str = "") -> Fact:
    """Make a fact (a value to remember) that a TypeScript program of the workspace prints."""
    path = f"tools/{tool}.ts"
    return make_output_fact(name, kind, f"bun {path}{arguments}", prior, pattern, source=path)


FACTS: tuple[Fact, ...] = (
    make_prompt_fact("program_name", "constraint", "flashcards", r"calls itself `([a-z]+)`"),
    make_prompt_fact("max_interval_days", "constraint", "365", r"stays away for more than (\d+) days"),
    make_prompt_fact("id_prefix", "constraint", "card-", r"card's id starts with `([a-z]+-)`"),
    make_prompt_fact("new_per_day", "constraint", "20", r"watch sees (\d+) new cards on one day"),
    make_prompt_fact("ticket", "value", "FB-1", r"ticket of this work is ([A-Z]{2}-\d{4})\b"),
    make_prompt_fact("idle_status", "constraint", "1", r"exit status is (\d+) when nothing is due"),
    make_prompt_fact("export_separator", "constraint", ",", r"exported deck stands the character `([^\w\s])`"),
    make_prompt_fact("draft_mark", "constraint", "draft", r"generator makes carries the tag `([\w-]+)`"),
    make_prompt_fact("goal_version", "goal", "1.0.0", r"goal is version (\d+\.\d+\.\d+) of the program"),
    make_prompt_fact("farewell", "preference", "done", r"session that is over says `([\w ]+)`"),
    make_prompt_fact(
        "mature_days",
        "superseded",
        "21",
        r"called mature after (\d+) days from this order on",
        former_patterns=(r"maturity began at an interval of (\d+) days",),
    ),
    make_file_fact(
        "initial_ease", "value", "docs/scheduling.md", "2.5", r"card that was never answered has an ease of (\d\.\d+)\b"
    ),
    make_file_fact("ease_floor", "value", "docs/scheduling.md", "1.3", r"ease never sinks below (\d\.\d+)\b"),
    make_file_fact("second_interval_days", "value", "docs/scheduling.md", "6", r"second success in a row gives (\d+) days"),
    make_file_fact("cards_table", "artifact", "docs/storage.md", "cards", r"[Cc]ards are rows of the table `(\w+)`"),
    make_file_fact("hint_column", "value", "docs/decks.md", "hint", r"learner's nudge stands in the column `(\w+)`"),
    make_file_fact("gap_mark", "preference", "docs/generation.md", "[...]", r"gap of a card is written `([^`\n]+)`"),
    make_file_fact("tie_break", "decision", "docs/sessions.md", "id", r"due on the same day are ordered by `(\w+)`"),
    _ask_tool("schema_version", "value", "schema_version", "1", r"^\W*schema version: (\d+)$"),
    _ask_tool("journal_mode", "error", "check_storage", "wal", r"journal mode must be `(\w+)`"),
    _ask_tool("next_audit", "next-step", "audit", "full", r"[Nn]ext audit .{0,40}has to pass: ([a-z]+-\d)\b", arguments=" first"),
    make_output_fact("release_id", "artifact", "", "R-0000", r"reserved release (R-\d{4})", also_in=("study/releases.log",)),
    make_output_fact("feed_mark", "progress", "", "start", r"[Ff]eed the rest of the deck with --resume ([0-9a-f]{6})\b"),
)

PROMPT_FACTS: tuple[str, ...] = tuple(fact.name for fact in FACTS if fact.said_in == "prompt")
"""Names of the facts (values to remember) that only the request states."""

CHOICES: dict[str, Sequence[object]] = {
    "program_name": ("halyard", "bosun", "beacon", "marlin", "fairlead", "leadline", "cleat", "binnacle"),
    "max_interval_days": range(120, 340, 7),
    "id_prefix": ("kn-", "sg-", "buoy-", "rsc-", "wv-", "hull-", "oar-", "tow-"),
    "new_per_day": range(7, 19),
    "idle_status": range(3, 60),
    "export_separator": ("|", "~", "^", ";", "#", "!"),
    "draft_mark": ("unseen", "machine-made", "to-approve", "unchecked", "proposal", "raw-ai"),
    "goal_version": tuple(f"{major}.{minor}.{patch}" for major in (2, 3, 4) for minor in range(1, 8) for patch in range(1, 5)),
    "farewell": ("Fair winds", "Well rowed", "Stand easy", "All secure", "Home and dry", "Lamps out"),
    "mature_days": tuple(str(days) for days in (*range(12, 20), *range(24, 40))),
    "initial_ease": tuple(f"{hundredths / 100:.2f}" for hundredths in range(206, 246, 3) if hundredths % 10),
    "ease_floor": tuple(f"{hundredths / 100:.2f}" for hundredths in range(136, 166, 3) if hundredths % 10),
    "second_interval_days": ("3", "4", "5", "7", "8", "9"),
    "cards_table": ("crew_cards", "memory_items", "drill_items", "learning_units", "deck_rows", "watch_cards"),
    "hint_column": ("clue", "nudge", "pointer", "cue", "help_text", "reminder"),
    "gap_mark": ("<blank>", "(blank)", "_blank_", "{blank}", "=blank=", "#blank#"),
    "tie_break": ("front", "back", "added", "hint", "deck"),
    "schema_version": range(11, 90),
    "journal_mode": ("truncate", "delete", "memory"),
    "next_audit": tuple(f"{word}-{number}" for word in ("harbour", "coastal", "winter", "night") for number in (2, 3, 5, 7)),
}


def draw_values(task_seed: int) -> dict[str, str]:
    """Draw the values that the agent must remember, and the secret `salt` of the tools.

    All facts about the organisation (agreements) get a value, whether or not the task states them.
    """
    values = draw_agreements("flashcards-bun", task_seed) | draw_choices(
        "flashcards-bun", task_seed, FACTS, CHOICES, ("SR", "LB", "CX", "HV")
    )
    return {
        **values,
        "release_id": derive_number(compute_digest(values["salt"], "release:0")[:8], "R"),  # as in tools/reserve.ts
        "feed_mark": compute_digest(values["salt"], "feed:12")[:6],  # as in tools/feed.ts
    }
