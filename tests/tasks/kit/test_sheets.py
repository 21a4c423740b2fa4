"""Sheets differ between instances, state facts that were stated before, and pass their checks only with the right values."""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from string import Template

import pytest

from harness.task import DIFFICULTIES, Difficulty
from harness.tasks.kit.agreements import NAMES, draw_agreements, load_agreements
from harness.tasks.kit.calls import read
from harness.tasks.kit.facts import make_output_fact, make_prompt_fact
from harness.tasks.kit.sheets import SheetSet, draw_sheets, judge_sheets, make_label
from harness.tasks.kit.statements import FactText
from harness.tasks.kit.structure import StructureDraws

OWN = {"port": FactText("The port is ${port}.", "It was long."), "mode": FactText("The mode is ${mode}.", "It was dark.")}
PARTS = {"begin": "at the beginning", "middle": "in the middle", "end": "at the end"}
SEEDS = range(30)


def plan(seed: int, difficulty: Difficulty = "standard") -> SheetSet:
    return draw_sheets(StructureDraws("march", seed, difficulty), tuple(OWN), tuple(PARTS), OWN)


class Work:
    """Sheets as they were written, with the values that are expected."""

    def __init__(self, files: Mapping[str, str], expected: Mapping[str, str]) -> None:
        self.files, self.expected = files, expected

    def read_text(self, path: str) -> str:
        return self.files.get(path, "")


def verdicts(sheet_set: SheetSet, files: Mapping[str, str], values: Mapping[str, str]) -> dict[str, bool]:
    return {name: passed for name, passed, _ in judge_sheets(Work(files, values), sheet_set.expected)}  # type: ignore[arg-type]


def written(sheet_set: SheetSet, values: Mapping[str, str]) -> dict[str, str]:
    calls = [step.calls[0].arguments for part in PARTS for step in sheet_set.write_sheets(part)]
    return {path[1]: Template(content[1]).substitute(values) for path, content in calls}


def test_instances_ask_for_different_sheets_with_different_facts() -> None:
    plans = [plan(seed) for seed in SEEDS]
    assert len({tuple(sheet.name for sheet in one.sheets) for one in plans}) == len(plans)
    assert len({len(one.sheets) for one in plans}) > 2
    assert len({one.statements for one in plans}) == len(plans)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_agreement_is_stated_once_and_needed_by_a_sheet(seed: int) -> None:
    sheet_set = plan(seed)
    stated = [statement.fact for statement in sheet_set.statements if not statement.is_misleading]
    assert len(stated) == len(set(stated))
    needed = {fact for sheet in sheet_set.sheets for fact in sheet.facts}
    assert {fact.name for fact in sheet_set.facts} <= needed <= set(stated)
    assert all(sheet.facts and len(set(sheet.facts)) == len(sheet.facts) for sheet in sheet_set.sheets)


def test_a_higher_difficulty_asks_for_more_and_asks_later() -> None:
    def measure(difficulty: Difficulty) -> tuple[float, float, float]:
        plans = [plan(seed, difficulty) for seed in SEEDS]
        late = [[*PARTS].index(sheet.slot) for one in plans for sheet in one.sheets]
        return sum(len(one.sheets) for one in plans), sum(len(one.facts) for one in plans), sum(late) / len(late)

    easy, standard, hard = map(measure, DIFFICULTIES)
    assert all(low < middle < high for low, middle, high in zip(easy, standard, hard, strict=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_right_values_pass_and_a_wrong_one_fails_the_sheets_that_state_it(seed: int) -> None:
    sheet_set, values = plan(seed), {**draw_agreements("march", seed), "port": "8443", "mode": "night"}
    assert all(verdicts(sheet_set, written(sheet_set, values), values).values())
    assert not any(verdicts(sheet_set, {}, values).values())
    for name in {fact for sheet in sheet_set.sheets for fact in sheet.facts}:
        passed = verdicts(sheet_set, written(sheet_set, {**values, name: "wrong"}), values)
        assert {sheet for sheet, good in passed.items() if not good} == {
            f"sheet_{sheet.name}" for sheet in sheet_set.sheets if name in sheet.facts
        }


def test_a_sheet_that_lists_guesses_fails() -> None:
    sheet_set, values = plan(1), {**draw_agreements("march", 1), "port": "8443", "mode": "night"}
    files = {path: text + text.replace("`", "`not-") for path, text in written(sheet_set, values).items()}
    assert not any(verdicts(sheet_set, files, values).values())


@pytest.mark.parametrize("seed", SEEDS)
def test_the_list_of_sheets_follows_the_structure_and_says_where_agreements_are_stated(seed: int) -> None:
    sheet_set, values = plan(seed), draw_agreements("march", seed)
    files = dict(sheet_set.render_files(PARTS, {**OWN, **load_agreements()}, values))
    index = files.pop("sheets/README.md")
    assert files == {path: text for path, text in files.items() if path in index}
    assert dict(plan(seed).render_files(PARTS, {**OWN, **load_agreements()}, values))["sheets/README.md"] == index
    rows = re.findall(r"^\| (\S+\.md) \| (.+) \| .+ \|$", index, re.MULTILINE)
    assert rows == [(sheet.path, PARTS[sheet.slot]) for sheet in sheet_set.sheets]
    for fact in sheet_set.facts:
        if fact.recover:
            assert values[fact.name] in files[fact.source]


@pytest.mark.parametrize("seed", SEEDS)
def test_an_easy_task_repeats_the_request_on_a_page_except_for_one_fact(seed: int) -> None:
    sheet_set, values = plan(seed, "easy"), {**draw_agreements("march", seed), "port": "8443", "mode": "night"}
    files = dict(sheet_set.render_files(PARTS, {**OWN, **load_agreements()}, values))
    page, index = files["sheets/order.md"], files["sheets/README.md"]
    own = sheet_set.add_sources(make_prompt_fact(name, "value", "none", rf"The {name} is (\w+)\.") for name in OWN)
    facts = [fact for fact in (*own, *sheet_set.facts) if fact.said_in == "prompt"]
    once = {fact.name for fact in facts if fact.recover is None}
    assert len(once) == 1
    assert f"except for: {', '.join(map(make_label, sheet_set.once_facts))}." in index
    for fact in facts:
        stated = {match[1] for line in page.splitlines() for pattern in fact.patterns if (match := re.search(pattern, line))}
        assert stated == (set() if fact.name in once else {values[fact.name]})


def test_only_an_easy_task_has_a_page_that_repeats_the_request() -> None:
    assert {len(plan(seed, "easy").once_facts) for seed in SEEDS} == {1}
    for difficulty in ("standard", "hard"):
        sheet_set = plan(1, difficulty)
        assert "sheets/order.md" not in dict(
            sheet_set.render_files(PARTS, {**OWN, **load_agreements()}, draw_agreements("march", 1))
        )
        assert sheet_set.keep_output("tools/ask.sh", "echo 3\n") == "echo 3\n"
        assert sheet_set.add_sources([TOLD]) == (TOLD,)


TOLD = make_output_fact("number", "value", "", "0", r"the number is (\d+)")


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("tools/ask.py", '"""Ask."""\n\nimport sys\n\nprint("the number is", sys.argv[1])\nprint("it is billed")\n'),
        ("tools/ask.sh", '#!/bin/sh\n# Ask.\necho "the number is $1"\necho it is billed\n'),
    ],
)
def test_an_easy_task_keeps_the_output_of_a_tool_that_must_not_run_twice(path: str, source: str, tmp_path: Path) -> None:
    sheet_set = plan(1, "easy")
    (tmp_path / "sheets").mkdir()
    (tmp_path / "ask").write_text(sheet_set.keep_output(path, source))
    program = sys.executable if path.endswith(".py") else "sh"
    printed = [subprocess.check_output([program, "ask", number], cwd=tmp_path, text=True) for number in ("7", "8")]
    assert printed == [f"the number is {number}\nit is billed\n" for number in (7, 8)]
    (fact,) = sheet_set.add_sources([TOLD])
    assert fact.recover == read(fact.source)
    assert (tmp_path / fact.source).read_text() == "".join(printed)


def test_agreements_are_stated_in_every_place() -> None:
    assert {fact.said_in for seed in SEEDS for fact in plan(seed).facts} == {"prompt", "file", "output"}
    assert {fact.name for seed in SEEDS for fact in plan(seed).facts} == set(NAMES)
