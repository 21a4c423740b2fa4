"""Generator of pages that hide the values to remember among meaningless filler sentences."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from string import Template
from typing import NamedTuple

from harness.tasks.kit.texts import load_text

_VERBS = (
    *("keeps", "passes on", "never changes", "compares", "looks up", "writes down", "may leave out", "counts", "answers with"),
    *("does not depend on", "orders", "hands out", "repeats", "checks", "ignores", "reads", "stores a copy of", "never invents"),
)
_QUALITIES = (
    *("old", "open", "first", "empty", "numbered", "regional", "unsorted", "plain", "weekly", "nightly", "combined", "local"),
    *("signed", "missing", "second", "archived", "temporary", "shared", "former", "foreign"),
)
_TAILS = (
    *("until the end of the working day", "unless a contract says otherwise", "in the order in which it came in"),
    *("whatever the region", "as it did in the pilot", "without telling anybody", "before anything else is done"),
    *("even at night and on holidays", "as long as the office is open", "only if it was asked to", "for reasons of bookkeeping"),
    *("because auditors look for it", "and logs that it did", "in every hall but the oldest", "although hardly anybody uses it"),
)
_OPENINGS = (
    *("", "", "", "As a rule, ", "In practice, ", "Since the last audit, ", "On Mondays, ", "Strictly speaking, ", "By habit, "),
)


class Section(NamedTuple):
    """Section of a generated page: a heading, sentences with values to remember, and rows of a table."""

    heading: str
    """Heading of the section, as shown on the generated page."""
    facts: tuple[str, ...] = ()
    """Sentences that state values to remember; each is placed inside a paragraph of filler text in the section."""
    rows: tuple[str, ...] = ()
    """Rows of a Markdown table in the section. The first two rows (header and separator) stay first; the rest is shuffled."""


class Writer:
    """Generator of meaningless English text about given nouns.

    Random generators with the same seed yield the same text.
    """

    def __init__(self, rng: random.Random, nouns: Sequence[str]) -> None:
        """Create a writer of text about `nouns`, which are singular nouns that take an article, e.g. `parcel`."""
        self._rng, self._nouns = rng, nouns

    def write_sentence(self) -> str:
        """Return a random English sentence without meaning, of 8 to 20 words."""
        rng = self._rng
        subject, noun = rng.sample(self._nouns, 2)
        opening, quality = rng.choice(_OPENINGS), rng.choice(_QUALITIES)
        text = f"{opening}the {rng.choice(_QUALITIES)} {subject} {rng.choice(_VERBS)} the {quality} {noun} {rng.choice(_TAILS)}."
        return text[0].upper() + text[1:]

    def write_paragraph(self, fact: str = "") -> str:
        """Return a paragraph of two to four meaningless sentences.

        If the sentence `fact` is given, the paragraph has one or two meaningless sentences, and `fact` follows one of them.
        """
        sentences = [self.write_sentence() for _ in range(self._rng.randint(1, 2) if fact else self._rng.randint(2, 4))]
        if fact:
            sentences.insert(self._rng.randint(1, len(sentences)), fact)
        return " ".join(sentences)

    def write_page(self, title: str, sections: Sequence[Section], min_characters: int) -> str:
        """Return a page of at least `min_characters` characters, filled up with meaningless text.

        The text is spread evenly over the sections.
        """
        parts = [list(self._write_section(section)) for section in sections]
        while sum(len(text) + 2 for part in parts for text in part) < min_characters:
            part = min(parts, key=lambda texts: sum(map(len, texts)))
            part.insert(self._rng.randint(1, len(part)), self.write_paragraph())
        return "\n\n".join([f"# {title}", *(text for part in parts for text in part)]) + "\n"

    def _write_section(self, section: Section) -> Iterator[str]:
        yield f"## {section.heading}"
        yield self.write_paragraph()
        for fact in section.facts:
            yield self.write_paragraph(fact)
        if section.rows:
            rows = list(section.rows[2:])
            self._rng.shuffle(rows)
            yield "\n".join([*section.rows[:2], *rows])


def write_specification(
    package: str,
    folder: str,
    page_sizes: Mapping[str, int],
    nouns: Sequence[str],
    rng_for: Callable[[str], random.Random],
    values: Mapping[str, str],
) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each page of a specification, which is filled up with meaningless text.

    The values to remember are each stated once.

    Args:
        package: Package of the task; its folder `files` has an outline of each page with title, headings, facts and tables.
        folder: Name of the folder that contains the outlines within `files`, and the pages within the workspace.
        page_sizes: Minimum number of characters of each page, by name of the page.
        nouns: Nouns about which the filler text is written.
        rng_for: Function that takes the name of a page and returns the random generator for its filler text.
        values: Values of the placeholders in the outlines, by name.
    """
    for name, min_characters in page_sizes.items():
        path = f"{folder}/{name}.md"
        title, *outlines = load_text(package, path).removeprefix("# ").strip().split("\n\n## ")
        sections = [_parse_section(outline) for outline in outlines]
        text = Writer(rng_for(name), nouns).write_page(title, sections, min_characters)
        yield path, Template(text).substitute(values)


def _parse_section(outline: str) -> Section:
    heading, *lines = filter(None, outline.split("\n"))
    rows = tuple(line for line in lines if line.startswith("|"))
    return Section(heading, tuple(line for line in lines if line not in rows), rows)
