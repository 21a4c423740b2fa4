"""Information sheets: small documents that the agent has to write during a task, each of which states a few facts.

The seed of a task decides which sheets the agent has to write, after which part of the work, and which facts each sheet states.
Each sheet has its own check. Two seeds thus test the memory of different facts, over different distances. The facts are the
task's own and agreements, i.e. facts about the organisation (see `harness.tasks.kit.agreements`).

At the difficulty `easy`, most of what is stated once can be read again: a page repeats facts of the request, and a file keeps the
output of tools that must not run twice. Success then depends on the fact of the request that the page leaves out.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from string import Template

from harness.task import Check, Fact, Submission, Task
from harness.tasks.kit.agreements import (
    ANSWERS_COMMAND,
    ANSWERS_PATH,
    NAMES,
    PAGE_PATH,
    load_agreements,
    make_agreements,
)
from harness.tasks.kit.calls import read, run, write
from harness.tasks.kit.explanations import explain_statements
from harness.tasks.kit.graders import make_check
from harness.tasks.kit.statements import (
    PROMPT_PLACEMENTS,
    FactText,
    Placement,
    Statement,
    add_notes,
    draw_statements,
    mislead,
    render_sentences,
)
from harness.tasks.kit.steps import StepSpec, do, look
from harness.tasks.kit.structure import Levels, StructureDraws
from harness.tasks.kit.texts import load_text

SHEETS_FOLDER = "sheets"
INDEX_PATH = f"{SHEETS_FOLDER}/README.md"
"""Path of the page that lists the sheets to write: when each one is due, and which facts it states."""
ORDER_PATH = f"{SHEETS_FOLDER}/order.md"
"""Path of the page that repeats facts of the request, if a task has such a page."""
PRINTED_PATH = f"{SHEETS_FOLDER}/printed.txt"
"""Path of the file that keeps the output of tools which must not run twice, if a task has a page `ORDER_PATH`."""
SHEET_NAMES = (
    *("announcement", "archive", "auditors", "calendar", "contacts", "helpdesk", "invoice", "management", "newcomers"),
    *("partners", "printing", "reception"),
)
"""Names of all information sheets (small documents that the agent writes), from which each seed of a task selects some."""
SHEET_COUNTS = Levels(easy=range(4, 6), standard=range(6, 11), hard=range(9, 13))
AGREEMENT_COUNTS = Levels(easy=range(3, 6), standard=range(6, 11), hard=range(10, 15))
FACTS_PER_SHEET = Levels(easy=range(1, 3), standard=range(1, 4), hard=range(2, 5))
DUE_SHARES = Levels(easy=(0.0, 0.4), standard=(0.15, 1.0), hard=(0.6, 1.0))
"""Earliest and latest point of the work at which the agent has to write a sheet, as shares of the work (0–1), by difficulty."""
MISLEADING_COUNTS = Levels(easy=range(3), standard=range(2, 9), hard=range(6, 13))
STATED_ONCE_COUNTS: Levels[Sequence[int] | None] = Levels(easy=(1,), standard=None, hard=None)
"""Possible numbers, by difficulty, of the facts of the request that no page repeats; None if no page repeats any.

Tasks may have other numbers.
"""
LINE_WEIGHT_BOUNDS = Levels(easy=(0.6, 0.9), standard=(0.1, 0.9), hard=(0.1, 0.5))
"""Bounds, by difficulty, of the share of facts that the request states in short lines, not in stories or rows of a table."""
NOTE_SHARE_BOUNDS = Levels(easy=(0.0, 0.2), standard=(0.0, 0.75), hard=(0.5, 1.0))
"""Bounds, by difficulty, of the share of statements of facts that are made longer by sentences without information (`NOTES`)."""
ELSEWHERE_WEIGHT = 0.12
"""Weight of a page, and of a command's output, in the random choice of where a fact about the organisation is stated.

The placements of statements in the user's request have the weight 1 together.
"""


@dataclass(frozen=True, slots=True)
class Sheet:
    """Small document that the agent has to write during its work, and that states a few facts."""

    name: str
    """Name of the sheet, which is one of `SHEET_NAMES`."""
    slot: str
    """Name of the part of the work after which the sheet is due."""
    facts: tuple[str, ...]
    """Names of the facts that the sheet states, in order."""

    @property
    def path(self) -> str:
        """Path of the sheet in the workspace."""
        return f"{SHEETS_FOLDER}/{self.name}.md"


@dataclass(frozen=True, slots=True)
class SheetSet:
    """Plan of the small documents (sheets) that the agent has to write.

    It also says where the task states the facts that the agent needs for them.
    """

    sheets: tuple[Sheet, ...]
    """Sheets in the order in which they are due."""
    statements: tuple[Statement, ...]
    """Statements of the facts, mixed with misleading sentences, in the order in which the texts of the task have them."""
    repeated_facts: tuple[str, ...] = ()
    """Names of the facts of the request that a page in the workspace repeats, in the order of the page."""
    once_facts: tuple[str, ...] = ()
    """Names of the facts of the request that this page leaves out; empty if there is no such page."""

    @property
    def facts(self) -> tuple[Fact, ...]:
        """Facts about the organisation that the task states, such as the room for questions."""
        return self.add_sources(make_agreements(self.statements))

    def add_sources(self, facts: Iterable[Fact]) -> tuple[Fact, ...]:
        """Return facts of which those can be read again that the files `ORDER_PATH` and `PRINTED_PATH` contain."""
        return tuple(map(self._add_source, facts))

    def _add_source(self, fact: Fact) -> Fact:
        is_printed_once = bool(self.repeated_facts) and fact.said_in == "output" and fact.recover is None
        if fact.name not in self.repeated_facts and not is_printed_once:
            return fact
        path = PRINTED_PATH if is_printed_once else ORDER_PATH
        return replace(fact, recover=read(path), source=path, also_in=())

    def keep_output(self, path: str, source: str) -> str:
        """Return the source of a tool that must not run twice, changed so that the file `PRINTED_PATH` keeps its output.

        Args:
            path: Path of the tool, which ends in `.py`, `.ts` or `.sh`.
            source: Source of the tool; unless it is a shell script, with at least one import, above which the change is inserted.
        """
        if not self.repeated_facts:
            return source
        if path.endswith(".sh"):
            return f"{{\n{source}}} | tee -a {PRINTED_PATH}\n"
        before, first_import, after = re.split(r"^(import |from )", source, maxsplit=1, flags=re.MULTILINE)
        return before + load_text(__package__, f"keep{path[-3:]}") + first_import + after

    @property
    def checks(self) -> tuple[Check, ...]:
        """One check for each information sheet: whether the sheet states the right values."""
        return tuple(
            make_check(f"sheet_{sheet.name}", f"the sheet {sheet.path} states what it must", *sheet.facts)
            for sheet in self.sheets
        )

    @property
    def expected(self) -> dict[str, tuple[str, ...]]:
        """Names of the facts that each sheet must state, by name of the sheet; `judge_sheets` takes them."""
        return {sheet.name: sheet.facts for sheet in self.sheets}

    def has_placement(self, placement: Placement) -> bool:
        """Return whether the task states any fact in the given placement, e.g. `row` for a row of a table."""
        return any(statement.placement == placement for statement in self.statements)

    def read_index(self, text: str) -> StepSpec:
        """Make the step `read_sheets`, in which the agent reads which information sheets it has to write.

        In this step the agent also reads the facts that only files or commands state.

        Args:
            text: Text of the agent's message in the step.
        """
        calls = [read(INDEX_PATH)]
        calls += [read(PAGE_PATH)] * self.has_placement("page") + [run(ANSWERS_COMMAND)] * self.has_placement("output")
        return look("read_sheets", text, *calls)

    def write_sheets(self, slot: str) -> Iterator[StepSpec]:
        """Yield the steps that write the sheets which are due after the part of the work named `slot`."""
        for sheet in self.sheets:
            if sheet.slot == slot:
                yield do(f"sheet_{sheet.name}", f"The sheet {sheet.name} is due now.", write(sheet.path, _render_sheet(sheet)))

    def render_files(
        self, titles: Mapping[str, str], fact_texts: Mapping[str, FactText], values: Mapping[str, object]
    ) -> Iterator[tuple[str, str]]:
        """Yield the path and the text of each file that lists the sheets or states facts about the organisation.

        Args:
            titles: Description of each part of the work, as in "after the storage", by name of the part.
            fact_texts: Sentences of the task's own facts and of all agreements, by name of the fact.
            values: Values of the facts.
        """
        yield INDEX_PATH, self._render_index(titles)
        if self.repeated_facts:
            lines = [f"- {fact_texts[fact].sentence}" for fact in self.repeated_facts]
            yield ORDER_PATH, Template("\n".join(["# The order once more", "", *lines, ""])).substitute(values)
        if self.has_placement("page"):
            lines = [f"- {sentence}" for sentence in render_sentences(self.statements, "page", fact_texts)]
            yield PAGE_PATH, Template("\n".join(["# What the house has settled", "", *lines, ""])).substitute(values)
        if self.has_placement("output"):
            lines = render_sentences(self.statements, "output", fact_texts)
            yield ANSWERS_PATH, Template("\n".join(["cat <<'END'", *lines, "END", ""])).substitute(values)

    def _render_index(self, titles: Mapping[str, str]) -> str:
        rows = [f"| {sheet.path} | {titles[sheet.slot]} | {', '.join(map(make_label, sheet.facts))} |" for sheet in self.sheets]
        sources = [f"`{PAGE_PATH}`"] * self.has_placement("page") + [f"the output of `{ANSWERS_COMMAND}`"] * self.has_placement(
            "output"
        )
        repetitions = (
            f"`{ORDER_PATH}` repeats the order, except for: {', '.join(map(make_label, self.once_facts))}.",
            f"`{PRINTED_PATH}` keeps what those tools print that must not run twice.",
        )
        return "\n".join(
            [
                "# Information sheets",
                "",
                "Write each sheet when it is due. It has one line for each subject, and no other line that begins with a dash:",
                "",
                "    - SUBJECT: `VALUE`",
                "",
                f"The values are those of the order{''.join(f', of {source}' for source in sources)}.",
                *repetitions * bool(self.repeated_facts),
                "",
                "| sheet | due | subjects |",
                "| --- | --- | --- |",
                *rows,
                "",
            ]
        )


def remove_page(task: Task) -> Task:
    """Return a task without the page `ORDER_PATH`, so that no fact can be read again there."""
    begin = f"`{ORDER_PATH}` repeats "
    texts = [(path, text) for path, text in task.workspace if path != ORDER_PATH]
    return replace(
        task,
        workspace=tuple(
            (path, "".join(line for line in text.splitlines(keepends=True) if not line.startswith(begin)))
            if path == INDEX_PATH
            else (path, text)
            for path, text in texts
        ),
        facts=tuple(replace(fact, recover=None, source="") if fact.source == ORDER_PATH else fact for fact in task.facts),
    )


def make_label(fact: str) -> str:
    """Return the name of a fact as an information sheet shows it, e.g. `support line` for `support_line`."""
    return fact.replace("_", " ")


def _render_sheet(sheet: Sheet) -> str:
    lines = [f"- {make_label(fact)}: `${{{fact}}}`" for fact in sheet.facts]
    return "\n".join([f"# {sheet.name.capitalize()}", "", *lines, ""])


def draw_sheets(
    draws: StructureDraws,
    own_facts: Sequence[str],
    slots: Sequence[str],
    fact_texts: Mapping[str, FactText],
    *,
    only_stated: Sequence[str] = (),
    stated_once: Levels[Sequence[int] | None] = STATED_ONCE_COUNTS,
) -> SheetSet:
    """Draw at random which information sheets a task asks for, and which facts each one states.

    The result also says in which placement the task itself states these facts.

    Args:
        draws: Source of the random choices for the structure of the task.
        own_facts: Names of the task's own facts that the request states; sheets may ask for them, too.
        slots: Names of the parts of the work, in order.
        fact_texts: Sentences that state the task's own facts, by name of the fact.
        only_stated: Names of facts that the request states and no sheet contains, e.g. values that the user changes later.
        stated_once: Possible numbers, by difficulty, of the facts of the request that no page repeats; None without such a page.
    """
    agreements = draws.draw_subset("agreements", NAMES, draws.draw_count("agreement count", AGREEMENT_COUNTS))
    names = draws.draw_order("sheets", SHEET_NAMES)[: draws.draw_count("sheet count", SHEET_COUNTS)]
    first, last = (round(share * (len(slots) - 1)) for share in draws.pick(DUE_SHARES))
    due_rng = draws.make_rng("due")
    slot_indexes = sorted(due_rng.randint(first, last) for _ in names)
    contents = _deal_facts(draws, agreements, own_facts, len(names))
    sheets = tuple(
        Sheet(name, slots[slot_index], facts) for name, slot_index, facts in zip(names, slot_indexes, contents, strict=True)
    )
    statements = _draw_statements(draws, agreements, (*own_facts, *only_stated), {**load_agreements(), **fact_texts})
    in_request = [
        statement.fact
        for statement in statements
        if statement.placement in PROMPT_PLACEMENTS and not statement.is_misleading and statement.fact not in only_stated
    ]
    once_counts = draws.pick(stated_once)
    if once_counts is None:
        return SheetSet(sheets, statements)
    once_facts = draws.draw_subset("stated once", in_request, draws.make_rng("stated once count").choice(once_counts))
    repeated_facts = draws.draw_order("order page", [fact for fact in in_request if fact not in once_facts])
    return SheetSet(sheets, statements, repeated_facts, once_facts)


def _deal_facts(
    draws: StructureDraws, agreements: Sequence[str], own_facts: Sequence[str], sheet_count: int
) -> list[tuple[str, ...]]:
    """Distribute facts to sheets at random; return the names of the facts of each sheet.

    Each sheet gets at least one fact, and each fact about the organisation is on at least one sheet.
    """
    rng = draws.make_rng("contents")
    hands: list[list[str]] = [[] for _ in range(sheet_count)]
    for index, fact in enumerate(rng.sample(agreements, len(agreements))):
        hands[index % sheet_count].append(fact)
    for hand in hands:
        fact_count = rng.choice(draws.pick(FACTS_PER_SHEET))
        other_facts = [fact for fact in (*agreements, *own_facts) if fact not in hand]
        hand.extend(rng.sample(other_facts, max(0, fact_count - len(hand))))
        rng.shuffle(hand)
    return [tuple(hand) for hand in hands]


def _draw_statements(
    draws: StructureDraws, agreements: Sequence[str], own_facts: Sequence[str], fact_texts: Mapping[str, FactText]
) -> tuple[Statement, ...]:
    line_share = draws.draw_share("line share", LINE_WEIGHT_BOUNDS)
    in_prompt: dict[Placement, float] = {"line": line_share, "story": 0.7 * (1 - line_share), "row": 0.3 * (1 - line_share)}
    anywhere: dict[Placement, float] = {**in_prompt, "page": ELSEWHERE_WEIGHT, "output": ELSEWHERE_WEIGHT}
    stated = (
        *draw_statements(draws, "own forms", own_facts, in_prompt),
        *draw_statements(draws, "agreement forms", agreements, anywhere),
        *mislead(draws, "misleading", fact_texts, draws.draw_count("misleading count", MISLEADING_COUNTS), in_prompt),
    )
    return draws.draw_order("statements", add_notes(draws, stated, draws.draw_share("note share", NOTE_SHARE_BOUNDS)))


def judge_sheets(submission: Submission, sheets: Mapping[str, Iterable[str]]) -> Iterator[tuple[str, bool, str]]:
    """Grade the information sheets that the agent wrote.

    Yield the name of each check, whether it passes, and what was found.

    Args:
        submission: Work of the agent. `submission.expected` contains the right value of each fact by its name.
        sheets: Names of the facts that each sheet must state, by name of the sheet.
    """
    for name, facts in sheets.items():
        text = submission.read_text(f"{SHEETS_FOLDER}/{name}.md")
        stated_lines = sorted(re.findall(r"^- .*", text, re.MULTILINE))
        values = {make_label(fact): submission.expected[fact] for fact in facts}
        lines = sorted(f"- {label}: `{value}`" for label, value in values.items())
        explanation = explain_statements(f"{SHEETS_FOLDER}/{name}.md", values, _read_statements(stated_lines))
        yield f"sheet_{name}", stated_lines == lines, explanation


def _read_statements(lines: Iterable[str]) -> dict[str, object]:
    """Return the values that an information sheet states, by label; a list if it states several for one label."""
    values: dict[str, list[str]] = {}
    for label, _, value in (line.removeprefix("- ").partition(": ") for line in lines):
        values.setdefault(label, []).append(value.strip("`"))
    return {label: stated[0] if len(stated) == 1 else stated for label, stated in values.items()}
