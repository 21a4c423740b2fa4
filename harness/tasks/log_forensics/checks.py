"""What must hold in the end, and the program that looks whether it does. No code of the agent runs: files are compared."""

import hashlib
from collections.abc import Mapping

from harness.task import Check, Grader
from harness.tasks.kit import graders
from harness.tasks.kit.graders import make_check
from harness.tasks.kit.texts import fill_text
from harness.tasks.log_forensics.facts import COMPONENTS
from harness.tasks.log_forensics.workspace import render_config

CHECKS: tuple[Check, ...] = (
    make_check("requests", "the first request and the gateway that gave up are named", "first_request", "gateway_host"),
    make_check("cause", "code and shard are named", "error_code", "shard"),
    make_check("change", "the setting and its former value are named", "setting", "former_value"),
    make_check("intruder", "address and key of the intruder are named", "address", "fingerprint"),
    make_check("damage", "offset, dump and loss are named", "damage_offset", "dump_name", "lost_orders"),
    make_check(
        "timeline", "the timeline has its two events in the agreed form", "alarm_time", "healthy_time", "time_suffix", "separator"
    ),
    make_check("blocklist", "the block-list refuses the right network in the right words", "deny_word", "address", "mask"),
    make_check("suspects", "the release is ruled out in the agreed word", "ruled_out", "cleared_word"),
    make_check("people", "the account is shown as agreed and named nowhere", "account", "person_mark"),
    make_check("retention", "evidence is kept as long as agreed", "keep_days"),
    make_check("heading", "the report has the promised heading", "heading"),
    make_check("reader", "the report names its reader and its ticket", "audience", "ticket"),
    make_check("filing", "the report names class, desk, case and cause", "incident_class", "desk", "case_number", "error_code"),
    make_check(
        "correction", "the setting is as before, under the ticket, and nothing else changed", "setting", "former_value", "ticket"
    ),
    make_check(
        *("handover", "the hand-over says where to go on and where not", "case_number", "error_code", "dump_name", "setting"),
        *("ruled_out", "cleared_word", "keep_days"),
    ),
    make_check("notes", "the notes name every component and nothing that was found"),
    make_check("one_case", "exactly one case was opened"),
    make_check("sealed_once", "every log was sealed once, as it was", "seal_mark"),
)


def build_grader(values: Mapping[str, str], text_by_path: Mapping[str, str]) -> Grader:
    """Build the program that judges a workspace under these values.

    Args:
        values: values of the facts.
        text_by_path: the logs as the agent finds them.
    """
    config = render_config({values["setting"]: f"{values['former_value']}  # {values['ticket']}"})
    digests = {name: hashlib.sha256(text_by_path[f"logs/{name}.log"].encode()).hexdigest() for name in COMPONENTS}
    words = {**values, "config": repr(config), "digests": repr(digests)}
    return graders.build_grader(fill_text(__package__, "grader/judge.py", words))
