"""Controls of all policies: the policy accepts the extreme values or explains why not."""

import pytest

from harness.errors import UsageError
from harness.policies import PRESETS, policy_from_plain
from harness.widgets.controls import IGNORED_FIELDS, build_controls


def refusal(policy, field, value):
    """Return the error with which a policy rejects a value, or the name of the field if the value is accepted."""
    try:
        policy_from_plain({"kind": policy, field: value})
    except UsageError as refused:
        return str(refused)
    return field


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_control_can_be_turned_to_its_ends_and_begins_at_the_default(name):
    default = PRESETS[name]()
    for control in build_controls(PRESETS[name]):
        assert control["value"] == getattr(default, control["name"])
        assert policy_from_plain({"kind": name, control["name"]: control["value"]}) == default
        ends = control["choices"] if control["kind"] == "choice" else [control["least"], control["most"]]
        values = [bool(end) if control["kind"] == "switch" else end for end in ends] + [None] * control["optional"]
        for value in values:
            assert control["name"] in refusal(name, control["name"], value)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_default_lies_between_its_ends(name):
    for control in build_controls(PRESETS[name]):
        if control["kind"] in {"share", "count", "amount"} and control["value"] is not None:
            assert control["least"] <= control["value"] <= control["most"]


def test_threshold_and_kept_messages_of_keep_last_are_seen_at_once():
    first = {control["name"] for control in build_controls(PRESETS["keep-last"]) if control["first"]}
    assert {"threshold", "keep_last"} <= first


def test_fields_without_an_effect_here_are_not_offered():
    offered = {control["name"] for kind in PRESETS.values() for control in build_controls(kind)}
    assert not offered & IGNORED_FIELDS
    assert {"threshold", "keep_results", "adapted", "max_messages"} <= offered
