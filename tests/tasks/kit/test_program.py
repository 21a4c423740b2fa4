"""Descriptions of tasks in which the agent writes a program."""

from dataclasses import replace

import pytest

from harness.tasks.flashcards.program import PROGRAM as FLASHCARDS
from harness.tasks.flashcards_bun.program import PROGRAM as FLASHCARDS_BUN
from harness.tasks.kit.program import _list_values
from harness.tasks.kit.structure import StructureDraws
from harness.tasks.spec_api.program import PROGRAM as SPEC_API


def test_values_are_a_list_ranges_of_numbers_or_all_combinations_of_columns():
    assert _list_values(["a", "b"]) == ("a", "b")
    assert _list_values({"numbers": [[3, 9, 2]]}) == range(3, 9, 2)
    assert _list_values({"numbers": [[1, 3], [7, 8]], "form": "r{}"}) == ("r1", "r2", "r7")
    assert _list_values({"columns": [["x", "y"], [1, 2]], "form": "{}-{}"}) == ("x-1", "x-2", "y-1", "y-2")


def test_a_first_version_of_a_module_differs_from_the_later_one_and_a_replacement_of_a_missing_text_is_refused():
    program = FLASHCARDS.program
    first, second = (program.write_source("limits", edits) for edits in ([("NEW_PER_DAY", "MANY")], ()))
    assert first.arguments[1][1] == second.arguments[1][1].replace("NEW_PER_DAY", "MANY") != second.arguments[1][1]
    with pytest.raises(ValueError, match=r"'limits' of harness\.tasks\.flashcards does not contain 'no such text'"):
        program.write_source("limits", [("no such text", "")])


def test_a_step_of_an_unknown_kind_is_refused_with_the_step():
    task = replace(FLASHCARDS, description={**FLASHCARDS.description, "start": [{"kind": "dance", "text": "…"}]})
    with pytest.raises(ValueError, match=r"no such step: .*dance"):
        list(task.list_steps(task.draw_structure(StructureDraws("flashcards", 1))))


def test_shared_steps_come_before_the_first_and_after_the_last_of_their_parts():
    for seed in range(12):
        structure = FLASHCARDS.draw_structure(StructureDraws("flashcards", seed))
        parts, names = structure.work.parts, [step.name for step in FLASHCARDS.list_steps(structure)]
        assert names.count("write_ids") == names.count("feed_other_rows") == 1
        first = min(names.index("read_import_export"), names.index("read_generation"))
        assert names.index("write_ids") == first - 1
        last = max(("files", "review"), key=parts.index)
        assert names.index("feed_other_rows") > names.index({"files": "feed_first_rows", "review": "test_review"}[last])


KEYS = {
    "facts": "name kind prior pattern former_pattern page command tool secret number prefix also_in values",
    "checks": "name title facts paper words settings allows_others entry log line runs option",
    "changes": "path function kind wrong attributes",
    "steps": "kind effect name text run read page first_cut run_text error repair_text files summary_pattern required_text "
    "subject module path optional before_first after_last",
}
"""Keys that the tables of a description can have, by name of the array of tables."""


@pytest.mark.parametrize("program", [FLASHCARDS, FLASHCARDS_BUN, SPEC_API], ids=lambda program: program.name)
def test_a_description_has_no_key_that_nothing_reads(program):
    description = program.description
    steps = [
        *description["start"],
        *(step for part in description["parts"].values() for step in part["steps"]),
        *description.get("shared", ()),
        *description["end"],
        description["action"],
    ]
    for name, known in KEYS.items():
        tables = steps if name == "steps" else description[name]
        assert {key for table in tables for key in table} <= set(known.split())
