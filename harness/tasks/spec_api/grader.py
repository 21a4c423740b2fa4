"""Grader of the task `spec-api`: checks the agent's documents, and what its modules answer when they are called."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from harness.task import FunctionChange, Grader, Submission
from harness.tasks.kit.graders import (
    check_tests,
    compare,
    compare_words,
    list_new_lines,
    make_interviews,
    read_json_object,
)
from harness.tasks.kit.sheets import judge_sheets
from harness.tasks.kit.texts import fill_text
from harness.tasks.spec_api.facts import CHOICES
from harness.tasks.spec_api.structure import Structure

MIN_TESTS = 30
"""Minimum number of tests that the agent has to write."""
INVOICE_AMOUNTS = (1000, 1020, 1060, 1018, 1022)
"""Amounts to which the agent's code adds a surcharge of 2.5 %; the results show which rounding mode the code uses."""
QUESTIONS = (
    *("edition", "agent", "signing", "clocks", "numbers", "paging", "insisting", "fields", "limit", "batches", "codes"),
    *("rounding", "tariffs", "webhooks", "labels", "statements", "redaction", "environment", "unavailable", "stand_in", "about"),
)
"""Names of the questions that the grader asks the agent's modules, in order."""
CANDIDATES = ("conflict_code", "cursor_field", "delivered_event", "env_prefix", "signature_header", "sum_line", "weight_field")
"""Names of facts for which the grader tries every value that a seed can draw, to find out which one the agent's code uses."""
CHANGES = (
    FunctionChange(path="depot/identifiers.py", function="complete", kind="text", wrong=("value[1:]", "value[:-1]")),
    FunctionChange(path="depot/retry.py", function="insisted", kind="object", wrong=("None",), attributes=("status",)),
    FunctionChange(path="depot/parcels.py", function="coded", kind="object", wrong=("None", "{}"), attributes=("items", "keys")),
    FunctionChange(
        path="depot/codes.py", function="fault", kind="object", wrong=("None",), attributes=("args", "with_traceback")
    ),
    FunctionChange(path="depot/signing.py", function="signature", kind="text", wrong=("value[1:]",)),
    FunctionChange(path="depot/clock.py", function="is_borne", kind="number", wrong=("not value",)),
    FunctionChange(path="depot/batches.py", function="batches", kind="list", wrong=("[*value][1:]", "[*value, *value]")),
    FunctionChange(path="depot/redaction.py", function="redacted", kind="text", wrong=("value[1:]", "value.upper()")),
    FunctionChange(path="depot/labels.py", function="wrapped", kind="list", wrong=("[*value][1:]", "[*value, *value]")),
    FunctionChange(path="depot/statements.py", function="difference", kind="number", wrong=("value + 1", "value - 1")),
    FunctionChange(path="depot/settings.py", function="load", kind="object", wrong=("None",), attributes=("url", "key")),
    FunctionChange(path="depot/cli.py", function="main", kind="number", wrong=("value + 1", "value + 2")),
)
"""Functions that are wrong in some runs of the agent's tests, of which one must then fail."""


def build_grader(values: Mapping[str, str], structure: Structure, initial_files: Mapping[str, str]) -> Grader:
    """Build the grader, with the right values and the programs that call the agent's code (interviews).

    Args:
        values: Values drawn from the seed, by name.
        structure: Choices that the seed makes, e.g. which documents the agent has to write.
        initial_files: Text of each file in the initial workspace, by path.
    """
    samples = initial_files["samples/parcels.csv"].splitlines()[1:]
    expected: dict[str, Any] = {**values, "entries": initial_files["CHANGELOG.md"].splitlines(), "rows": samples}
    expected |= {"sheets": structure.work.sheets.expected, "pushes_samples": structure.work.has_option}
    source = fill_text(__package__, "grader/observe.py", {name: repr(CHOICES[name]) for name in CANDIDATES})
    return Grader(judge=judge, expected=expected, interviews=make_interviews(source, QUESTIONS, CHANGES))


def judge(submission: Submission) -> Iterator[tuple[str, bool, str]]:
    """Grade the agent's work: yield the name of each check, whether it passes, and what was found."""
    yield from _judge_papers(submission)
    yield from judge_sheets(submission, submission.expected["sheets"])
    yield from _judge_answers(submission.ask(), submission.expected)


def _judge_papers(submission: Submission) -> Iterator[tuple[str, bool, str]]:
    values = submission.expected
    expected = {"agent": values["client_name"], "prefix": values["env_prefix"], "key": values["client_key"]}
    expected |= {name: int(values[name]) for name in ("timeout_seconds", "batch_size", "cache_minutes")}
    settings = read_json_object(submission, "settings.example.json")
    yield "settings", settings == expected, f"settings are {settings!r:.187}"
    readme = (values["goal_version"], f"{values['env_prefix']}_KEY", values["client_name"])
    quoted = [f"`{values[name]}`" for name in ("unavailable_status", "sum_line")]
    yield "readme", *compare_words(submission, "README.md", *readme, *quoted, choices=CHOICES)
    names = ("body_kib", "batch_size", "timeout_seconds", "signature_seconds", "skew_seconds", "cache_minutes")
    quoted = [f"`{values[name]}`" for name in (*names, "redaction_mark", "label_width")]
    words = (values["version_header"], values["rounding"])
    yield "integration", *compare_words(submission, "docs/integration.md", *words, *quoted, choices=CHOICES)
    wanted = ("ticket", "goal_version", "revision", "client_key", "rounding", "next_profile", "delivered_event")
    phrases = (f"{values['backoff_ms']} ms", f"{values['attempts']} attempts", f"{values['retry_status']} is")
    mark = f"`{values['redaction_mark']}`"
    yield (
        "handover",
        *compare_words(submission, "HANDOVER.md", *(values[name] for name in wanted), *phrases, mark, choices=CHOICES),
    )
    entries = list_new_lines(submission, "CHANGELOG.md", values["entries"], "- version ")
    beginning = f"- version {values['goal_version']} (ticket {values['ticket']}): "
    yield "changelog", len(entries) == 1 and entries[0].startswith(beginning), f"{len(entries)} entries: {entries[:2]!r}"
    profiles = set(submission.read_text("study/profiles.log").split())
    yield "profiles", profiles == {"basic", values["next_profile"]}, "the profiles were not compared"
    keys = submission.read_text("study/keys.log").split()
    yield "one_key", keys == [values["client_key"]], f"{len(keys)} keys"
    if values["pushes_samples"]:
        pushed = submission.read_text("study/hall.csv").splitlines()
        detail = f"{len(pushed)} pushed, {len(set(pushed))} different, {len(values['rows'])} expected"
        yield "pushed_once", sorted(pushed) == sorted(values["rows"]), detail


def _judge_answers(answers: Mapping[str, Any], values: Mapping[str, str]) -> Iterator[tuple[str, bool, str]]:
    limit, cursor, code, weight = (
        int(values["page_limit"]),
        values["cursor_field"],
        values["conflict_code"],
        values["weight_field"],
    )
    kinds = dict.fromkeys(("D101", *map(str, CHOICES["conflict_code"])), "Refused") | {code: "Duplicate"}
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
        yield check, *compare(answers, question, answer)
