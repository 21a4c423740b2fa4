"""Grader of the task `spec-api`: checks the agent's documents, and what its modules answer when they are called."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from harness.task import Submission
from harness.tasks.kit.explanations import list_names
from harness.tasks.kit.graders import check_tests, compare
from harness.tasks.spec_api.program import PROGRAM

MIN_TESTS = 30
"""Minimum number of tests that the agent has to write."""
INVOICE_AMOUNTS = (1000, 1020, 1060, 1018, 1022)
"""Amounts to which the agent's code adds a surcharge of 2.5 %; the results show which rounding mode the code uses."""

WORDS: Mapping[str, str | tuple[str, ...]] = {
    "edition": ("header with the edition", "its value"),
    "agent": ("name in the header User-Agent", "seconds until a request is given up"),
    "signing": ("header of the signature", "seconds after which a signature is too old"),
    "clocks": "largest difference of clocks that is allowed, in seconds",
    "numbers": "number by which the check value is the remainder",
    "paging": ("entries on each page", "entries in all", "field that says where the next page begins"),
    "insisting": ("statuses after which a request is sent again", "attempts in all", "milliseconds until the second attempt"),
    "fields": "fields of a parcel",
    "limit": "largest body in bytes",
    "batches": "parcels in the largest batch",
    "codes": "kind of error for each code",
    "rounding": f"surcharges of 2.5 % on {list_names([f'{amount:,}' for amount in INVOICE_AMOUNTS])}",
    "tariffs": "minutes until tariffs are fetched again",
    "webhooks": ("headers in which a signature is accepted", "messages that count as a hand-over"),
    "labels": "longest line of a label, in characters",
    "statements": "word before the sum of a statement",
    "redaction": "a logged line without its secret",
    "environment": "prefix of the variables with the settings",
    "unavailable": "exit status when the depot is absent",
    "stand_in": (
        *("entries on a page of the stand-in", "field that says where the next page begins", "code for a repeated parcel"),
        *("field with the weight", "250 parcels are taken", "status when busy"),
    ),
    "about": ("version", "contract"),
}
"""Words for each answer or its parts, by name of the question."""


def judge(submission: Submission) -> Iterator[tuple[str, bool, str]]:
    """Grade the agent's work: yield the name of each check, whether it passes, and what was found."""
    yield from PROGRAM.judge_papers(submission)
    yield from _judge_answers(submission.ask(), submission.expected)


def _judge_answers(answers: Mapping[str, Any], values: Mapping[str, str]) -> Iterator[tuple[str, bool, str]]:
    limit, cursor, code, weight = (
        int(values["page_limit"]),
        values["cursor_field"],
        values["conflict_code"],
        values["weight_field"],
    )
    kinds = dict.fromkeys(("D101", *map(str, PROGRAM.values["conflict_code"])), "Refused") | {code: "Duplicate"}
    surcharges = (Decimal("0.025") * amount for amount in INVOICE_AMOUNTS)
    rounded = [int(amount.quantize(Decimal(1), rounding=values["rounding"])) for amount in surcharges]
    statuses = sorted((429, int(values["retry_status"])))
    expected: dict[str, tuple[str, object]] = {
        "edition_header": ("edition", [values["version_header"], "2"]),
        "introduces_itself": ("agent", [values["client_name"], int(values["timeout_seconds"])]),
        "signing": ("signing", [values["signature_header"], int(values["signature_seconds"])]),
        "clocks": ("clocks", int(values["skew_seconds"])),
        "check_value": ("numbers", int(values["modulus"])),
        "paging": ("paging", [[limit, limit, 1], limit * 2 + 1, [cursor]]),
        "insisting": ("insisting", [statuses, int(values["attempts"]), int(values["backoff_ms"])]),
        "parcel_fields": ("fields", sorted(("number", "recipient", weight, "declared", "fragile"))),
        "body_limit": ("limit", int(values["body_kib"]) * 1024),
        "batches": ("batches", int(values["batch_size"])),
        "error_codes": ("codes", kinds),
        "rounding": ("rounding", rounded),
        "tariffs_kept": ("tariffs", int(values["cache_minutes"])),
        "webhooks": ("webhooks", [[values["signature_header"]], [values["delivered_event"]]]),
        "labels": ("labels", int(values["label_width"])),
        "statements": ("statements", [values["sum_line"]]),
        "redaction": ("redaction", f"{values['redaction_mark']} said"),
        "environment": ("environment", [values["env_prefix"]]),
        "unavailable": ("unavailable", int(values["unavailable_status"])),
        "stand_in": ("stand_in", [limit, cursor, code, [weight], True, 429]),
        "about": ("about", [values["goal_version"], values["revision"]]),
    }
    yield "own_tests", *check_tests(answers, MIN_TESTS)
    for check, (question, answer) in expected.items():
        yield check, *compare(answers, question, answer, about=WORDS[question])
