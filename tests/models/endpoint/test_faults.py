"""Faults are parsed from their short form, and invalid ones are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UnknownName, UsageError
from harness.models.endpoint.faults import Fault, find_fault, parse_fault


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ("429@3", Fault(kind="429", first=3, last=3)),
        ("429:7.5@3-4", Fault(kind="429", first=3, last=4, value="7.5")),
        ("stall@5-", Fault(kind="stall", first=5, last=None)),
        ("unknown-tool@1", Fault(kind="unknown-tool", first=1, last=1)),
        ("overflow:llama.cpp@2", Fault(kind="overflow", first=2, last=2, value="llama.cpp")),
    ],
)
def test_a_fault_is_read_from_its_short_form(written, fault):
    assert parse_fault(written) == fault


@pytest.mark.parametrize(
    ("written", "error", "message"),
    [
        ("429", UsageError, "write KIND"),
        ("429@", UsageError, "write KIND"),
        ("429@x", UsageError, "write KIND"),
        ("429@0", UsageError, "must be 1 <= FIRST <= LAST"),
        ("500@4-2", UsageError, "must be 1 <= FIRST <= LAST"),
        ("529:3@1", UsageError, "takes no value"),
        ("429:soon@1", UsageError, "number of seconds"),
        ("stal@1", UnknownName, "did you mean 'stall'"),
        ("overflow:opnai@1", UnknownName, "did you mean 'openai'"),
    ],
)
def test_an_unknown_fault_is_refused(written, error, message):
    with pytest.raises(error, match=message):
        parse_fault(written)


@given(st.text(max_size=20))
def test_any_text_is_refused_or_parsed_as_a_fault_that_applies_to_its_first_request(written):
    try:
        fault = parse_fault(written)
    except UsageError:
        return
    assert fault.applies_to(fault.first)


def test_the_first_fault_that_covers_a_request_counts():
    faults = [parse_fault("500@2-3"), parse_fault("stall@3-")]
    met = [find_fault(faults, number) for number in range(1, 5)]
    assert [fault and fault.kind for fault in met] == [None, "500", "500", "stall"]
