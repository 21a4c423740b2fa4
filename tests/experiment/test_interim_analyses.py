"""Record of interim analyses: each is a distinct set of trials, and a folder without a record from the start is not trusted."""

import json

import pytest

from harness.errors import StoreError
from harness.experiment.interim_analyses import (
    INTERIM_ANALYSES_FILE,
    begin_record,
    find_interim_analysis,
    record_interim_analysis,
)


def test_the_same_trials_are_the_same_interim_analysis_in_any_order(tmp_path):
    begin_record(tmp_path)
    analyses = [record_interim_analysis(tmp_path, ids) for ids in (["a"], ["a", "b"], ["b", "a", "a"], ["a"], ["a", "b", "c"])]
    assert [analysis.number for analysis in analyses] == [1, 2, 2, 1, 3]
    assert all(analysis.is_recorded_from_start for analysis in analyses)
    begin_record(tmp_path)
    assert record_interim_analysis(tmp_path, ["a", "b", "c"]).number == 3


def test_an_interim_analysis_can_be_numbered_without_being_recorded(tmp_path):
    begin_record(tmp_path)
    assert [find_interim_analysis(tmp_path, ids).number for ids in (["a"], ["b"])] == [1, 1]
    record_interim_analysis(tmp_path, ["a"])
    assert [
        (one.number, one.is_recorded) for one in (find_interim_analysis(tmp_path, ["a"]), find_interim_analysis(tmp_path, ["b"]))
    ] == [
        (1, True),
        (2, False),
    ]


def test_a_folder_whose_first_interim_analyses_were_not_recorded_says_so(tmp_path):
    assert [record_interim_analysis(tmp_path, ids) for ids in (["a"], ["b"])][1].number == 2
    assert not record_interim_analysis(tmp_path, ["a"]).is_recorded_from_start


@pytest.mark.parametrize("text", ["[]", "{", json.dumps({"from_start": True, "looks": [{}]})])
def test_a_broken_record_is_an_error(tmp_path, text):
    (tmp_path / INTERIM_ANALYSES_FILE).write_text(text)
    with pytest.raises(StoreError, match="cannot read the record of looks"):
        record_interim_analysis(tmp_path, ["a"])
