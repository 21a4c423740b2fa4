"""The help text of a class lists its own fields and those that it inherits, each once."""

import dataclasses
import inspect

import pytest

from harness.compaction.field_help import add_entries, inherit_field_help, read_entries
from harness.compaction.pipeline import OwnPreset, SummarizingPreset, ThresholdPreset
from harness.policies import PRESETS, KeepLast, NoCompaction

TEXT = """Do something.

More about it.

Attributes:
    size: Size in tokens, which may be long enough to
        need two lines. Default: `3`.
    name: Name of it. Required.

Example:
    >>> 1 + 1
    2"""


@pytest.mark.parametrize("kind", PRESETS)
def test_the_help_of_a_policy_lists_every_field_once(kind):
    names = {field.name for field in dataclasses.fields(PRESETS[kind]) if field.init and field.name != "kind"}
    text = inspect.getdoc(PRESETS[kind]) or ""
    assert {name: text.count(f"\n    {name}: ") for name in names} == dict.fromkeys(names, 1)


def test_an_inherited_entry_is_that_of_the_nearest_class_which_has_one():
    entries = read_entries(KeepLast.__doc__ or "")
    assert entries["clip_characters"] == read_entries(OwnPreset.__doc__ or "")["clip_characters"]
    assert entries["clip_characters"] != read_entries(SummarizingPreset.__doc__ or "")["clip_characters"]
    assert entries["output_reserve_tokens"] == read_entries(ThresholdPreset.__doc__ or "")["output_reserve_tokens"]
    assert entries["summary_max_tokens"] != read_entries(SummarizingPreset.__doc__ or "")["summary_max_tokens"]


def test_a_class_without_fields_of_its_own_gets_a_section_before_its_example():
    text = inspect.getdoc(NoCompaction) or ""
    assert text.index("\nAttributes:\n    clip_characters: ") < text.index("\nExample:\n")


def test_entries_are_read_with_all_their_lines():
    assert read_entries(TEXT) == {
        "size": "    size: Size in tokens, which may be long enough to\n        need two lines. Default: `3`.",
        "name": "    name: Name of it. Required.",
    }


def test_entries_are_added_at_the_end_of_their_section_and_nothing_else_changes():
    entry = "    more: One more. Default: `0`."
    assert add_entries(TEXT, [entry]) == TEXT.replace("Required.", f"Required.\n{entry}")
    assert add_entries(TEXT, []) == TEXT
    assert add_entries("Do it.", [entry]) == f"Do it.\n\nAttributes:\n{entry}"


def test_a_class_without_a_docstring_stays_without_one():
    class Silent(SummarizingPreset):
        pass

    inherit_field_help(Silent)
    assert Silent.__doc__ is None


def test_the_help_is_completed_once():
    before = KeepLast.__doc__
    inherit_field_help(KeepLast)
    assert KeepLast.__doc__ == before
