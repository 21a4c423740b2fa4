"""Initial workspace of the task `flashcards-bun`: a specification, tools, two decks of flashcards, and empty folders."""

import json
from collections.abc import Mapping

from harness.tasks.flashcards_bun.structure import PARTS, WORK, Structure
from harness.tasks.kit.agreements import load_all_fact_texts
from harness.tasks.kit.prose import write_specification
from harness.tasks.kit.structure import StructureDraws
from harness.tasks.kit.texts import load_text

NOUNS = (
    *("crew", "station", "lifeboat", "watch", "coxswain", "instructor", "learner", "deck", "card", "box", "mess room"),
    *("log book", "boathouse", "exercise", "examination", "list", "label", "plotter", "radio", "slipway", "tender", "locker"),
)
TOOLS = ("audit.ts", "changelog.ts", "check_storage.ts", "feed.ts", "reserve.ts", "schema_version.ts", "test.sh")


def build_workspace(values: Mapping[str, str], structure: Structure, draws: StructureDraws) -> tuple[tuple[str, str], ...]:
    """Return the path and the text of each file in the workspace at the start of the task."""
    registry = {"salt": values["salt"], "schema": int(values["schema_version"]), "journal": values["journal_mode"]}
    return (
        *write_specification(__package__, "docs", dict(structure.page_sizes), NOUNS, draws.make_rng, values),
        *((f"tools/{name}", load_text(__package__, f"tools/{name}")) for name in TOOLS),
        ("tools/registry.json", json.dumps({**registry, "audit": values["next_audit"]}) + "\n"),
        ("README.md", "# Flashcards for the crews\n\nNothing is built yet. The specification is in docs/, helpers in tools/.\n"),
        ("CHANGELOG.md", "# Change log\n\n- version 0.1.0 (ticket XX-0001): cards of paper, in a box\n"),
        ("src/README.md", "The modules of the program; there are none yet.\n"),
        ("tests/README.md", "One file a module: NAME.test.ts.\n"),
        *((f"decks/{name}", load_text(__package__, f"decks/{name}")) for name in ("flags.csv", "passage.txt")),
        *structure.work.sheets.render_files(
            {part: f"after {words}" for part, words in PARTS.items()}, load_all_fact_texts(WORK.package), values
        ),
    )
