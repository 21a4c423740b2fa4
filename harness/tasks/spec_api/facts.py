"""Facts (values to remember) of the task `spec-api`: patterns that find each value, and the random draw of the values.

Eleven facts are stated only in the prompt and needed late. Fifteen facts are stated on pages that can be read again, for 2,000 to
3,000 tokens per page. Five facts are printed by commands, of which two do harm if they are repeated.
"""

from collections.abc import Sequence

from harness.task import Fact
from harness.tasks.kit.agreements import draw_agreements
from harness.tasks.kit.draws import compute_digest, draw_choices
from harness.tasks.kit.facts import make_file_fact, make_output_fact, make_prompt_fact, make_tool_fact

READ_END_COMMAND = "tail -n 45 spec/06-resources.md"
"""Shell command that prints the end of the specification page on resources, which is too long for one tool output."""


FACTS: tuple[Fact, ...] = (
    make_prompt_fact("client_name", "constraint", "depot-client", r"client introduces itself as `([a-z-]+)`"),
    make_prompt_fact("env_prefix", "constraint", "DEPOT", r"environment variable begins with `([A-Z]+)_`"),
    make_prompt_fact("timeout_seconds", "constraint", "30", r"waits (\d+) seconds for an answer and no longer"),
    make_prompt_fact("batch_size", "decision", "100", r"one batch carries (\d+) parcels at most"),
    make_prompt_fact("redaction_mark", "preference", "***", r"secret is shown as `([^`\s]+)`"),
    make_prompt_fact("unavailable_status", "constraint", "1", r"exit status is (\d+) when the depot cannot be reached"),
    make_prompt_fact("ticket", "value", "API-1", r"runs under the ticket ([A-Z]{2}-\d{4})\b"),
    make_prompt_fact("cache_minutes", "decision", "60", r"list of tariffs is kept for (\d+) minutes"),
    make_prompt_fact("skew_seconds", "constraint", "5", r"clocks may differ by (\d+) seconds"),
    make_prompt_fact("goal_version", "goal", "1.0.0", r"goal is version (\d+\.\d+\.\d+) of the client"),
    make_prompt_fact(
        "signature_seconds",
        "superseded",
        "300",
        r"a signature is good for (\d+) seconds from now on",
        former_patterns=(r"signatures aged within (\d+) seconds",),
    ),
    make_file_fact(
        "version_header", "value", "spec/01-conventions.md", "X-Api-Version", r"edition of the interface in the header `([\w-]+)`"
    ),
    make_file_fact(
        "signature_header", "value", "spec/02-authentication.md", "X-Signature", r"signature travels in the header `([\w-]+)`"
    ),
    make_file_fact("modulus", "constraint", "spec/03-identifiers.md", "97", r"weighted sum is taken modulo (\d+)\b"),
    make_file_fact(
        "page_limit", "constraint", "spec/04-collections.md", "100", r"page of a collection holds at most (\d+) entries"
    ),
    make_file_fact(
        "cursor_field", "value", "spec/04-collections.md", "next_cursor", r"cursor of the next page stands in the field `(\w+)`"
    ),
    make_file_fact(
        "retry_status",
        "value",
        "spec/05-reliability.md",
        "503",
        r"^[-* ]*\| (\d{3}) \|[^|\n]*\| the same request again, later \|",
    ),
    make_file_fact("backoff_ms", "value", "spec/05-reliability.md", "500", r"first pause lasts (\d+) milliseconds"),
    make_file_fact("body_kib", "constraint", "spec/06-resources.md", "64", r"^[-* ]*\| `POST /parcels` \|[^|\n]*\| (\d+) KiB \|"),
    make_file_fact(
        "conflict_code",
        "error",
        "spec/07-errors.md",
        "CONFLICT",
        r"number that is known already is refused with the code `(\w+)`",
    ),
    make_file_fact(
        "delivered_event",
        "artifact",
        "spec/08-webhooks.md",
        "parcel.delivered",
        r"hand-over is announced by the event `([\w.]+)`",
    ),
    make_file_fact("label_width", "constraint", "spec/10-labels.md", "40", r"line of a label takes (\d+) characters"),
    make_file_fact("sum_line", "artifact", "spec/11-statements.md", "SUM", r"sum stands on the line that begins with `([A-Z]+)`"),
    make_file_fact(
        "attempts",
        "superseded",
        "spec/09-errata.md",
        "5",
        r"request is now sent (\d+) times at most",
        former_patterns=(r"clients tried (\d+) times",),
    ),
    make_file_fact(
        *("weight_field", "artifact", "spec/06-resources.md", "weight"),
        r"^[-* ]*\| `(\w+)` \|[^|\n]*\| weight of the parcel with its wrapping \|",
        command=READ_END_COMMAND,
    ),
    make_tool_fact("revision", "value", "tools/contract.py", "r0", r"^\W*revision of the contract: (r\d+)$"),
    make_tool_fact(
        "rounding", "error", "tools/check_money.py", "ROUND_HALF_UP", r"amounts .{0,30}the depot rounds by (ROUND_\w+)"
    ),
    make_tool_fact(
        "next_profile",
        "next-step",
        "tools/conform.py basic",
        "full",
        r"[Nn]ext profile that this client has to pass: ([a-z]+-\d)\b",
    ),
    make_output_fact(
        "client_key", "artifact", "", "K-000000", r"enrolled with the key (K-[0-9a-f]{6})\b", also_in=("study/keys.log",)
    ),
    make_output_fact("push_mark", "progress", "", "begin", r"[Pp]ush the rest with --after ([0-9a-f]{6})\b"),
)

PROMPT_FACTS: tuple[str, ...] = tuple(fact.name for fact in FACTS if fact.said_in == "prompt")
"""Names of the facts (values to remember) that only the request states."""

CHOICES: dict[str, Sequence[object]] = {
    "client_name": ("parcelkin", "quayside", "stowaway", "lorry-line", "crate-mate", "waybill", "carrier-pigeon", "haulier"),
    "env_prefix": ("QUAY", "STOW", "HAUL", "CRATE", "FERRY", "WAGON", "BERTH", "CARGO"),
    "timeout_seconds": tuple(str(seconds) for seconds in (*range(7, 30, 2), *range(33, 60, 2))),
    "batch_size": range(22, 96, 3),
    "redaction_mark": ("[hidden]", "(secret)", "<withheld>", "[kept-back]", "<blackened>", "(not-shown)"),
    "unavailable_status": range(3, 60),
    "cache_minutes": range(12, 58, 5),
    "skew_seconds": range(11, 88, 4),
    "goal_version": tuple(f"{major}.{minor}.{patch}" for major in (2, 3, 4) for minor in range(1, 8) for patch in range(1, 5)),
    "signature_seconds": tuple(str(seconds) for seconds in (*range(95, 290, 15), *range(335, 590, 15))),
    "version_header": ("Depot-Edition", "X-Depot-Level", "Interface-Edition", "X-Contract-Edition", "Depot-Contract"),
    "signature_header": ("Depot-Seal", "X-Depot-Proof", "Request-Seal", "X-Wax-Seal", "Depot-Stamp", "Request-Proof"),
    "modulus": ("59", "61", "67", "71", "73", "79", "83", "89"),
    "page_limit": tuple(str(count) for count in (*range(35, 100, 5), *range(110, 190, 10))),
    "cursor_field": ("resume_at", "go_on_with", "after_this", "page_mark", "continue_from", "bookmark"),
    "retry_status": ("423", "425", "418", "449", "420", "507"),
    "backoff_ms": tuple(str(ms) for ms in (*range(120, 490, 30), *range(520, 900, 40))),
    "body_kib": range(12, 62, 4),
    "conflict_code": tuple(f"D{number}" for number in range(411, 480, 3)),
    "delivered_event": ("parcel.handed", "parcel.received", "parcel.signed", "parcel.taken", "parcel.arrived", "parcel.left"),
    "label_width": tuple(str(width) for width in (*range(21, 40), *range(41, 60))),
    "sum_line": ("TOTAL", "ALTOGETHER", "WHOLE", "BALANCE", "CARRIED", "CLOSING"),
    "attempts": ("3", "4", "6", "7", "8", "9"),
    "weight_field": ("mass_grams", "gross_g", "load_g", "heft", "scale_g", "grams_total"),
    "revision": tuple(f"r{number}" for number in range(112, 990, 7)),
    "rounding": ("ROUND_HALF_EVEN", "ROUND_HALF_DOWN", "ROUND_DOWN", "ROUND_UP"),
    "next_profile": tuple(f"{word}-{number}" for word in ("harbour", "customs", "island", "winter") for number in (2, 3, 5, 7)),
}


def draw_values(task_seed: int) -> dict[str, str]:
    """Draw the values that the agent must remember, and the secret `salt` of the tools.

    All facts about the organisation (agreements) get a value, whether or not the task states them.
    """
    values = draw_agreements("spec-api", task_seed) | draw_choices(
        "spec-api", task_seed, FACTS, CHOICES, ("PD", "LG", "QX", "TR")
    )
    return {
        **values,
        "client_key": f"K-{compute_digest(values['salt'], 'key:0')[:6]}",  # as in tools/enroll.py
        "push_mark": compute_digest(values["salt"], "push:25")[:6],  # as in tools/push.py
    }
