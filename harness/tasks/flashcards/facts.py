"""Facts (values to remember) of the task `flashcards`: patterns that find each value, and the random draw of the values.

Ten facts are stated only in the prompt and needed late. Eight facts are stated on pages that can be read again. Five facts are
printed by commands: two of these commands can be repeated, one prints the value only as long as a check fails, and two do harm if
they are repeated.
"""

import zlib
from collections.abc import Sequence
from functools import partial

from harness.task import Fact
from harness.tasks.kit.agreements import draw_agreements
from harness.tasks.kit.draws import compute_digest, derive_number, draw_choices, make_rng
from harness.tasks.kit.facts import make_file_fact, make_output_fact, make_prompt_fact, make_tool_fact
from harness.tasks.kit.texts import fill_text

FACTS: tuple[Fact, ...] = (
    make_prompt_fact("program_name", "constraint", "flashcards", r"calls itself `([a-z]+)`"),
    make_prompt_fact("max_interval_days", "constraint", "365", r"[Ii]nterval may exceed (\d+) days"),
    make_prompt_fact("card_id_prefix", "constraint", "card-", r"card id starts with `([a-z]+-)`"),
    make_prompt_fact("new_per_day", "constraint", "20", r"[Aa]t most (\d+) new cards on one day"),
    make_prompt_fact("ticket", "value", "FC-1", r"ticket is ([A-Z]{2}-\d{4})\b"),
    make_prompt_fact("idle_exit_code", "constraint", "1", r"exit status (\d+) when no card is due"),
    make_prompt_fact("leech_lapses", "decision", "8", r"card with (\d+) lapses counts as a leech"),
    make_prompt_fact("removed_column", "constraint", "deleted_at", r"date of removal goes into the column `(\w+)`"),
    make_prompt_fact("export_delimiter", "constraint", ",", r"separate their fields with the character `([^\w\s])`"),
    make_prompt_fact("draft_tag", "constraint", "draft", r"card of a generator carries the tag `([\w-]+)`"),
    make_file_fact("initial_ease", "value", "docs/scheduling.md", "2.50", r"initial ease of a card\W{1,5}(\d\.\d\d)\b"),
    make_file_fact("ease_floor", "value", "docs/scheduling.md", "1.30", r"ease never falls below (\d\.\d\d)\b"),
    make_file_fact(
        "second_interval_days", "value", "docs/scheduling.md", "6", r"second success in a row brings the card back after (\d+)"
    ),
    make_file_fact("cards_table", "artifact", "docs/storage.md", "cards", r"[Cc]ards live in the table `(\w+)`"),
    make_file_fact("hint_column", "value", "docs/import-export.md", "hint", r"its header is `(\w+)`"),
    make_file_fact("cloze_marker", "preference", "docs/generation.md", "[...]", r"gap is written `([^`\n]+)`"),
    make_file_fact("tie_break", "decision", "docs/decisions.md", "card_id", r"due on the same day are ordered by `(\w+)`"),
    make_file_fact("mature_days", "value", "docs/statistics.md", "21", r"mature once its interval has reached (\d+) days"),
    make_tool_fact("schema_version", "value", "tools/schema_version.py", "1", r"^\W*schema version: (\d+)$"),
    make_tool_fact(
        "deck_checksum", "value", "tools/checksum.py decks/biology.csv", "00000000", r"crc32 of decks/biology\.csv: ([0-9a-f]{8})"
    ),
    make_tool_fact("journal_mode", "error", "tools/check_storage.py", "wal", r"journal mode must be `(\w+)`"),
    make_output_fact("release_id", "artifact", "", "R-0000", r"reserved release (R-\d{4})", also_in=("study/releases.log",)),
    make_output_fact("ingest_token", "progress", "", "start", r"[Ff]eed the rest of the deck with --resume ([0-9a-f]{6})"),
)
PROMPT_FACTS: tuple[str, ...] = tuple(fact.name for fact in FACTS if fact.said_in == "prompt")
"""Names of the facts (values to remember) that only the request states."""

CHOICES: dict[str, Sequence[object]] = {
    "program_name": ("mnemo", "recollect", "engram", "cardamom", "retain", "memoria", "anamnesis", "keepsake"),
    "max_interval_days": range(120, 340, 7),
    "card_id_prefix": ("kb-", "mx-", "qz-", "fk-", "rc-", "lrn-", "stk-", "note-"),
    "new_per_day": range(7, 19),
    "idle_exit_code": range(3, 60),
    "leech_lapses": ("4", "5", "6", "7", "9", "10", "11"),
    "removed_column": ("retired_on", "withdrawn_on", "archived_on", "shelved_on", "laid_aside_on", "revoked_on"),
    "export_delimiter": ("|", "~", "^", ";", "#", "!"),
    "draft_tag": ("unread", "machine-made", "to-approve", "raw-ai", "unchecked", "proposal"),
    "initial_ease": tuple(f"{hundredths / 100:.2f}" for hundredths in range(205, 246, 3)),
    "ease_floor": tuple(f"{hundredths / 100:.2f}" for hundredths in range(135, 166, 3)),
    "second_interval_days": ("3", "4", "5", "7", "8", "9"),
    "cards_table": ("study_cards", "memory_items", "recall_items", "learning_units", "flash_notes", "prompts_known"),
    "hint_column": ("clue", "nudge", "pointer", "cue", "help_text", "reminder"),
    "cloze_marker": ("<blank>", "(blank)", "_blank_", "{blank}", "=blank=", "#blank#"),
    "tie_break": ("front", "back", "ease", "added_on", "hint"),
    "mature_days": tuple(str(days) for days in (*range(14, 20), *range(23, 35))),
    "schema_version": range(11, 90),
    "journal_mode": ("truncate", "delete", "memory"),
}


def draw_values(task_seed: int) -> dict[str, str]:
    """Draw the values that the agent must remember, a row of a deck, and the secret `salt` of the tools.

    All facts about the organisation (agreements) get a value, whether or not the task states them.
    """
    rng_for = partial(make_rng, "flashcards", task_seed)
    values = draw_agreements("flashcards", task_seed) | draw_choices(
        "flashcards", task_seed, FACTS, CHOICES, ("LE", "KB", "SR", "ED")
    )
    values["last_row"] = f"taxon,named group of related organisms,shelf {rng_for('row').randrange(100, 1000)} of a library,system"
    values["deck_checksum"] = f"{zlib.crc32(fill_text(__package__, 'workspace/decks/biology.csv', values).encode()):08x}"
    values["release_id"] = derive_number(compute_digest(values["salt"], "release:0")[:8], "R")  # as in tools/reserve.py
    values["ingest_token"] = compute_digest(values["salt"], "ingest:20")[:6]  # as in tools/ingest.py
    return values
