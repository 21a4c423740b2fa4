"""What must hold in the end, and the program that looks whether it does. No code of the agent runs: files are compared."""

from collections.abc import Mapping
from string import Template

from harness.task import Check, Grader
from harness.tasks.kit import graders, load_text
from harness.tasks.log_forensics.steps import FILES_PACKAGE


def _make_check(name: str, title: str, *rests_on: str) -> Check:
    return Check(name=name, title=title, required_facts=rests_on)


CHECKS: tuple[Check, ...] = (
    _make_check("requests", "the first request and the gateway that gave up are named", "first_request", "gateway_host"),
    _make_check("cause", "code and shard are named", "error_code", "shard"),
    _make_check("change", "the setting and its former value are named", "setting", "former_value"),
    _make_check("intruder", "address and key of the intruder are named", "address", "fingerprint"),
    _make_check("damage", "offset, dump and loss are named", "damage_offset", "dump_name", "lost_orders"),
    _make_check(
        "timeline", "the timeline has its two events in the agreed form", "alarm_time", "healthy_time", "time_suffix", "separator"
    ),
    _make_check("blocklist", "the block-list refuses the right network in the right words", "deny_word", "address", "mask"),
    _make_check("suspects", "the release is ruled out in the agreed word", "ruled_out", "cleared_word"),
    _make_check("people", "the account is shown as agreed and named nowhere", "account", "person_mark"),
    _make_check("retention", "evidence is kept as long as agreed", "keep_days"),
    _make_check("heading", "the report has the promised heading", "heading"),
    _make_check("reader", "the report names its reader and its ticket", "audience", "ticket"),
    _make_check("filing", "the report names class, desk, case and cause", "incident_class", "desk", "case_number", "error_code"),
    _make_check(
        "correction", "the setting is as before, under the ticket, and nothing else changed", "setting", "former_value", "ticket"
    ),
    _make_check(
        *("handover", "the hand-over says where to go on and where not", "case_number", "error_code", "dump_name", "setting"),
        *("ruled_out", "cleared_word", "keep_days"),
    ),
    _make_check("notes", "the notes name every component and nothing that was found"),
    _make_check("one_case", "exactly one case was opened"),
    _make_check("sealed_once", "every log was sealed once, as it was", "seal_mark"),
)


def build_grader(values: Mapping[str, str], config: str, digests: Mapping[str, str]) -> Grader:
    """The program that judges a workspace under these values.

    Args:
        values: of the facts.
        config: the configuration as it must be in the end.
        digests: SHA-256 of each log by component.
    """
    judge = Template(load_text(FILES_PACKAGE, "grader/judge.py")).substitute(
        values, config=repr(config), digests=repr(dict(digests))
    )
    return graders.build_grader(judge)
