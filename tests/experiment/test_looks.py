"""Record of looks: a look is a distinct set of trials, and a folder without a record from the start is not trusted."""

import json

import pytest

from harness.errors import StoreError
from harness.experiment.looks import LOOKS_FILE, begin_record, find_look, record_look


def test_the_same_trials_are_the_same_look_in_any_order(tmp_path):
    begin_record(tmp_path)
    looks = [record_look(tmp_path, ids) for ids in (["a"], ["a", "b"], ["b", "a", "a"], ["a"], ["a", "b", "c"])]
    assert [look.number for look in looks] == [1, 2, 2, 1, 3]
    assert all(look.is_recorded_from_start for look in looks)
    begin_record(tmp_path)
    assert record_look(tmp_path, ["a", "b", "c"]).number == 3


def test_a_look_can_be_numbered_without_being_taken(tmp_path):
    begin_record(tmp_path)
    assert [find_look(tmp_path, ids).number for ids in (["a"], ["b"])] == [1, 1]
    record_look(tmp_path, ["a"])
    assert [(one.number, one.is_recorded) for one in (find_look(tmp_path, ["a"]), find_look(tmp_path, ["b"]))] == [
        (1, True),
        (2, False),
    ]


def test_a_folder_whose_first_looks_were_not_recorded_says_so(tmp_path):
    assert [record_look(tmp_path, ids) for ids in (["a"], ["b"])][1].number == 2
    assert not record_look(tmp_path, ["a"]).is_recorded_from_start


@pytest.mark.parametrize("text", ["[]", "{", json.dumps({"from_start": True, "looks": [{}]})])
def test_a_broken_record_is_an_error(tmp_path, text):
    (tmp_path / LOOKS_FILE).write_text(text)
    with pytest.raises(StoreError, match="cannot read the record of looks"):
        record_look(tmp_path, ["a"])
