"""Description of the task `flashcards`, read from `program.toml`, with the values that are no drawn facts."""

import zlib
from collections.abc import Mapping

from harness.tasks.kit.draws import make_rng
from harness.tasks.kit.program import load_program
from harness.tasks.kit.texts import fill_text


def _add_deck(task_seed: int, values: Mapping[str, str]) -> dict[str, str]:
    """Return the last row of the sample deck, and the checksum of the deck."""
    shelf = make_rng("flashcards", task_seed, "row").randrange(100, 1000)
    last_row = f"taxon,named group of related organisms,shelf {shelf} of a library,system"
    deck = fill_text(__package__, "workspace/decks/biology.csv", {**values, "last_row": last_row})
    return {"last_row": last_row, "deck_checksum": f"{zlib.crc32(deck.encode()):08x}"}


PROGRAM = load_program(__package__, add_values=_add_deck)
