"""Measures how well the scripted agent's readers read summaries in many styles, as larger models write them.

Every text states facts of one instance of a task in the form of one template, and ends with sentences that mention values without
stating them. Templates and the words for facts stand in `style_texts/`. Each set after
`tuned` was written without running the reader on it; its first reading is in the README, and rules were changed with it in view
afterwards. `python -m experiments.reader_quality.styles` prints a table and writes `style_texts/figures.json`.
"""

import argparse
import json
import random
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from experiments.reader_quality.judge import Rate, estimate_rate, load
from harness.conversation.messages import assistant
from harness.models.scripted.profiles import READERS, Reader
from harness.models.scripted.visible_state import FactReader
from harness.task import Fact, Task
from harness.tasks import SUITE

FOLDER = Path(__file__).parent / "style_texts"
FIGURES = FOLDER / "figures.json"
SETS = {
    "tuned": ("templates.toml", "wordings.toml"),
    "second": ("second_templates.toml", "second_wordings.toml"),
    "first-kept-back": ("kept_back_templates.toml", "kept_back_wordings.toml"),
    "third": ("third_templates.toml", "third_wordings.toml"),
    "fourth": ("fourth_templates.toml", "fourth_wordings.toml"),
    "fifth": ("fifth_templates.toml", "fourth_wordings.toml"),
    "sixth": ("sixth_templates.toml", "sixth_wordings.toml"),
    "seventh": ("seventh_templates.toml", "seventh_wordings.toml"),
    "eighth": ("eighth_templates.toml", "seventh_wordings.toml"),
    "ninth": ("ninth_templates.toml", "ninth_wordings.toml"),
    "tenth": ("tenth_templates.toml", "tenth_wordings.toml"),
}
"""Files of templates and of words for facts, by name of the set."""
NEGATIVES = frozenset(
    (
        *("superseded", "refused", "suggested", "hypothetical", "elsewhere", "undecided", "failed"),
        *("question", "conditional", "negated", "past", "comparison", "range", "planned", "default", "claimed"),
    )
)
"""Groups of templates of sentences with a value that must not be read."""
STRUCTURED = ("bullets", "table", "equals", "yaml", "json", "heading", "bold", "backticks")
WORDED = ("arrows", "units", "words")
TEXTS_PER_TEMPLATE = 12
FACTS_PER_TEXT = 5
FIRST_SEED = {"tuned": 6_000, "second": 7_000, "first-kept-back": 8_000, "third": 9_000, "fourth": 10_000, "fifth": 11_000}
FIRST_SEED |= {"sixth": 12_000, "seventh": 13_000, "eighth": 14_000, "ninth": 15_000, "tenth": 16_000}
OLDER_SEEDS = 500
"""Distance to the seed whose values serve as older and as wrong values."""
ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen"),
    *("fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
SMALLER = {"seconds": (1_000, "milliseconds"), "minutes": (60, "seconds"), "hours": (60, "minutes"), "days": (24, "hours")}
SMALLER |= {"years": (12, "months")}
LARGER = {"seconds": (60, "minute"), "minutes": (60, "hour"), "hours": (24, "day"), "days": (7, "week")}
LARGER |= {"milliseconds": (1_000, "second"), "years": (10, "decade")}
"""Smaller and larger unit of each unit, with the number of smaller units in a larger one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StyledText:
    """Summary in one style, with the values that it states and those that it only mentions."""

    style: str
    template: int
    task: str
    seed: int
    text: str
    stated: Mapping[str, str]
    """Current value by name of the fact."""
    negatives: tuple[str, ...]
    """Groups of the sentences at the end that must not be read."""


def spell_number(number: int) -> str:
    """Return a number below 10,000 in English words."""
    if number < 20:
        return ONES[number]
    if number < 100:
        return TENS[number // 10] + (f"-{ONES[number % 10]}" if number % 10 else "")
    size, name = (100, "hundred") if number < 1_000 else (1_000, "thousand")
    rest = f" and {spell_number(number % size)}" if number % size else ""
    return f"{spell_number(number // size)} {name}{rest}"


def convert(value: str, unit: str, draws: random.Random) -> str:
    """Return a quantity in another unit, in which it has at most one decimal place."""
    number, options = int(value), list[str]()
    if unit in LARGER:
        count, larger = LARGER[unit]
        if 10 * number % count == 0 and number >= count:
            amount = f"{number / count:g}"
            options.append(f"{amount} {larger}{'' if amount == '1' else 's'}")
    if unit in SMALLER:
        count, smaller = SMALLER[unit]
        options += [f"{number * count} {smaller}", f"{number * count:,} {smaller}"]
    return draws.choice(options[:1] if len(options) == 3 else options) if options else ""


def list_fields(fact: Fact, value: str, old: str, words: Mapping[str, Any], draws: random.Random) -> dict[str, str]:
    """Return the placeholders of a template for one fact; those without a meaning for the fact are left out."""
    label = draws.choice([fact.name.replace("_", " "), words.get("label", fact.name.replace("_", " "))])
    is_code = "`" in fact.patterns[0] or not re.fullmatch(r"[\w.:-]+", value)
    key = label.replace(" ", "_")
    first, *others = key.split("_")
    bare = bool(re.fullmatch(r"\d+|\d+\.\d+", value)) and not value.startswith("0")
    fields = {
        "label": label,
        "Label": label[0].upper() + label[1:],
        "key": key,
        "KEY": key.upper(),
        "camel": first + "".join(word.capitalize() for word in others),
        "value": value,
        "marked": f"`{value}`" if is_code else value,
        "json": value if bare else json.dumps(value),
    }
    if old and old != value:
        fields["old"] = f"`{old}`" if is_code else old
    if words.get("sentences"):
        form = draws.choice(words["sentences"])
        fields["sentence"] = Template(form).safe_substitute(fields)
        unit = words.get("unit", "")
        if re.fullmatch(r"[1-9]\d*", value) and len(value) < 4:
            fields["words"] = spell_number(int(value))
            if form.count("${marked}") == 1:
                fields["words_sentence"] = form.replace("${marked}", fields["words"])
            if unit and (converted := convert(value, unit, draws)):
                fields["converted"] = converted
                if f"${{marked}} {unit}" in form:
                    fields["converted_sentence"] = form.replace(f"${{marked}} {unit}", converted)
            if unit:
                fields["words"] += f" {unit}"
    return fields


def list_identifiers(template: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the placeholders of a template."""
    return frozenset(Template(template["item"]).get_identifiers())


def draw_items(
    form: Mapping[str, Any], task: Task, older: Task, wordings: Mapping[str, Any], names: Iterable[str], draws: random.Random
) -> Iterator[tuple[str, str]]:
    """Yield the name of each fact that a template can state, with the text that states it."""
    facts = {fact.name: fact for fact in task.facts}
    for name in names:
        value = task.values[name]
        fields = list_fields(facts[name], value, older.values.get(name, ""), wordings.get(name, {}), draws)
        if list_identifiers(form) <= fields.keys():
            yield name, Template(form["item"]).substitute(fields)


def load_set(name: str) -> tuple[Mapping[str, list[Mapping[str, Any]]], Mapping[str, Any]]:
    """Return the templates by style and the words by fact of a set of texts."""
    templates, wordings = (tomllib.loads((FOLDER / file).read_text(encoding="utf-8")) for file in SETS[name])
    return templates, wordings


def write_texts(set_name: str) -> Iterator[StyledText]:
    """Yield the texts of a set, the same in each run."""
    templates, wordings = load_set(set_name)
    negatives = [(style, form) for style, forms in templates.items() if style in NEGATIVES for form in forms]
    tasks, turn = sorted(SUITE), 0
    for style, forms in templates.items():
        if style in NEGATIVES:
            continue
        for at, form in enumerate(forms):
            written = attempt = 0
            while written < TEXTS_PER_TEMPLATE and attempt < 20 * TEXTS_PER_TEMPLATE:
                name, seed = tasks[attempt % len(tasks)], FIRST_SEED[set_name] + attempt + 37 * at
                attempt += 1
                draws = random.Random(f"{set_name} {style} {at} {attempt}")
                text = _write_text(
                    form, name, seed, wordings, [negatives[(turn + 7 * k) % len(negatives)] for k in range(3)], draws
                )
                if text is None:
                    continue
                yield StyledText(style=style, template=at, task=name, seed=seed, **text)
                written, turn = written + 1, turn + 1


def _write_text(
    form: Mapping[str, Any],
    name: str,
    seed: int,
    wordings: Mapping[str, Any],
    negatives: list[tuple[str, Mapping[str, Any]]],
    draws: random.Random,
) -> dict[str, Any] | None:
    task, older = load(name, seed), load(name, seed + OLDER_SEEDS)
    names = [fact.name for fact in task.facts if "\n" not in task.values.get(fact.name, "\n")]
    draws.shuffle(names)
    items = dict(list(draw_items(form, task, older, wordings, names, draws))[:FACTS_PER_TEXT])
    if not items:
        return None
    stated = {fact: task.values[fact] for fact in items}
    body = form.get("before", "") + form.get("between", "\n").join(items.values()) + form.get("after", "")
    end = list[str]()
    for number, (_, negative) in enumerate(negatives):
        # one of the sentences is about a fact that the text states
        others = [fact for fact in names if fact not in stated] if number or "stated" in negative else list(items)
        for fact, sentence in list(draw_items(negative, task, older, wordings, others, draws))[:1]:
            end.append(f"- {sentence}")
            if "stated" in negative:
                stated[fact] = task.values[fact]
    text = "\n".join([body, "", "Notes:", *end, ""]) if end else f"{body}\n"
    return {"text": text, "stated": stated, "negatives": tuple(style for style, _ in negatives)}


@dataclass(frozen=True, slots=True, kw_only=True)
class StyledReading:
    """Result of one reader on one text."""

    text: StyledText
    read: Mapping[str, str]
    """Newest value that was read, by name of the fact."""

    @property
    def recalled(self) -> int:
        """Number of facts that are read as the text states them."""
        return sum(self.read.get(name) == value for name, value in self.text.stated.items())

    @property
    def misread(self) -> dict[str, str]:
        """Values that were read and that the text does not state as current, by name of the fact."""
        return {name: value for name, value in self.read.items() if self.text.stated.get(name) != value}


def read_texts(texts: Iterable[StyledText], reader: Reader) -> list[StyledReading]:
    """Return what a reader reads in each text."""
    readings = list[StyledReading]()
    for text in texts:
        found = FactReader(load(text.task, text.seed).facts, reader).find_newest(assistant(text.text))
        readings.append(StyledReading(text=text, read={match.name: match.value for match in found}))
    return readings


def estimate_misreadings(readings: Iterable[StyledReading]) -> Rate:
    """Return the share of misreadings among all values that were read, clustered by text."""
    return estimate_rate((len(one.misread), len(one.read)) for one in readings)


def summarize(readings: list[StyledReading]) -> dict[str, Any]:
    """Return recall by style and over all, and the share of misreadings with its upper bound."""
    by_style = defaultdict[str, list[StyledReading]](list)
    for one in readings:
        by_style[one.text.style].append(one)
    misread = estimate_misreadings(readings)
    counts = {
        style: {"stated": sum(len(one.text.stated) for one in rows), "recalled": sum(one.recalled for one in rows)}
        for style, rows in by_style.items()
    }
    return {
        "texts": len(readings),
        "templates": len({(one.text.style, one.text.template) for one in readings}),
        "stated": sum(row["stated"] for row in counts.values()),
        "recalled": sum(row["recalled"] for row in counts.values()),
        "readings": misread.cases,
        "misreadings": misread.events,
        "misreading_upper_bound": round(misread.bound, 4),
        "by_style": counts,
    }


def main() -> None:
    """Print recall by style and misreadings, and write them beside the texts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument(
        "--show", action="store_true", help="print unread and misread facts; change the first reading of no set after that"
    )
    parser.add_argument("--no-write", action="store_true", help="print only")
    chosen = parser.parse_args()
    figures: dict[str, Any] = {}
    for name in chosen.sets:
        texts = list(write_texts(name))
        for reader in READERS:
            readings = read_texts(texts, reader)
            figures.setdefault(name, {})[reader] = row = summarize(readings)
            print(
                f"{name} {reader}: recall {row['recalled']} of {row['stated']} ({row['recalled'] / row['stated']:.1%}), misread",
                end=" ",
            )
            print(f"{row['misreadings']} of {row['readings']} (bound {row['misreading_upper_bound']:.2%}), {row['texts']} texts")
            for style, counts in row["by_style"].items():
                print(f"  {style:10} {counts['recalled']:4} of {counts['stated']:4} {counts['recalled'] / counts['stated']:7.1%}")
            if chosen.show and reader == "tolerant":
                show(readings)
    if not chosen.no_write:
        FIGURES.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def show(readings: Iterable[StyledReading]) -> None:
    """Print facts that were not read or misread, with the lines that contain their values."""
    for one in readings:
        for name in one.text.stated.keys() - one.read.keys():
            print("unread", one.text.style, one.text.template, name, one.text.stated[name])
        for name, value in one.misread.items():
            lines = [line for line in one.text.text.splitlines() if value in line]
            print("MISREAD", one.text.style, one.text.template, name, value, one.text.stated.get(name), lines)


if __name__ == "__main__":
    main()
