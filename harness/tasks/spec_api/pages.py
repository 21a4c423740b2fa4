"""The specification: eleven pages of generated prose and tables, among which each fact stands once."""

from collections.abc import Mapping
from string import Template
from typing import NamedTuple

from harness.tasks.facts import make_rng
from harness.tasks.kit.prose import Section, Writer

NOUNS = (
    *("parcel", "depot", "carrier", "shelf", "gateway", "ledger", "label", "lorry", "tariff", "customs form", "pallet", "clerk"),
    *("contract", "sorting hall", "receipt", "region", "note", "seal", "cage", "timetable", "scanner", "recipient", "sender"),
)


class _PageSpec(NamedTuple):
    name: str
    title: str
    min_characters: int
    sections: tuple[Section, ...]


PAGES = (
    _PageSpec(
        *("01-conventions", "Conventions", 8_900),
        (
            Section("Words"),
            Section("Editions", ("Every request names the edition of the interface in the header `${version_header}`.",)),
            Section("Dates and numbers", ("Dates are written as in ISO 8601, amounts in hundredths of a crown.",)),
            Section(
                "Hosts",
                rows=("| host | purpose | rate |", "| --- | --- | --- |"),
                more_rows=tuple(
                    f"| `{name}.depot.example` | {what} | {rate} a minute |"
                    for name, what, rate in (
                        ("api", "live parcels", 240),
                        ("try", "trials without goods", 60),
                        ("img", "labels as pictures", 90),
                        ("old", "the first edition, read only", 12),
                        ("eu", "the eastern halls", 180),
                        ("books", "invoices", 30),
                    )
                ),
            ),
        ),
    ),
    _PageSpec(
        *("02-authentication", "Authentication", 9_300),
        (
            Section("Keys", ("A key belongs to one client and is never sent; it signs.",)),
            Section(
                "What is signed",
                ("Method, path, time and body are joined by line feeds and signed with HMAC-SHA256, in hexadecimal digits.",),
            ),
            Section("Transport", ("The signature travels in the header `${signature_header}`.",)),
            Section("Age", ("When this page was written, signatures aged within 300 seconds.",)),
        ),
    ),
    _PageSpec(
        *("03-identifiers", "Identifiers", 8_700),
        (
            Section("Parcel numbers", ("A number is the letter P, nine digits, a hyphen and a check value of two digits.",)),
            Section("Weights", ("The digits are weighted 2, 3, 4 and so on from the left.",)),
            Section("Check value", ("The weighted sum is taken modulo ${modulus} and written with two digits.",)),
            Section("Other identifiers"),
        ),
    ),
    _PageSpec(
        *("04-collections", "Collections and pages", 8_800),
        (
            Section("Order"),
            Section("Size", ("A page of a collection holds at most ${page_limit} entries, whatever is asked for.",)),
            Section("Going on", ("The cursor of the next page stands in the field `${cursor_field}`, null on the last page.",)),
            Section("Filters"),
        ),
    ),
    _PageSpec(
        *("05-reliability", "Reliability", 9_200),
        (
            Section("Pauses", ("The first pause lasts ${backoff_ms} milliseconds, every further one twice as long.",)),
            Section("Attempts", ("In the first edition clients tried 5 times.",)),
            Section(
                "Status codes",
                rows=("| status | meaning | what the client sends |", "| --- | --- | --- |"),
                more_rows=(
                    "| 200 | done | nothing |",
                    "| 400 | the request makes no sense | nothing, it reports |",
                    "| 404 | no such thing | nothing, it reports |",
                    "| 409 | it contradicts what is known | nothing, it reports |",
                    "| 413 | the body is too large | a smaller body |",
                    "| ${retry_status} | the halls are being moved | the same request again, later |",
                ),
            ),
            Section("Duplicates"),
        ),
    ),
    _PageSpec(
        *("06-resources", "Resources", 12_600),
        (
            Section("Parcels"),
            Section(
                "Limits",
                rows=("| endpoint | rate | body |", "| --- | --- | --- |"),
                more_rows=(
                    "| `GET /parcels` | 120 a minute | 0 KiB |",
                    "| `POST /parcels` | 60 a minute | ${body_kib} KiB |",
                    "| `POST /labels` | 30 a minute | 9 KiB |",
                    "| `GET /tariffs` | 4 a minute | 0 KiB |",
                    "| `DELETE /parcels` | never | 0 KiB |",
                ),
            ),
            Section("Labels"),
            Section("Tariffs"),
            Section("Halls"),
            Section(
                "Fields of a parcel",
                rows=("| field | type | what it holds |", "| --- | --- | --- |"),
                more_rows=(
                    "| `number` | text | parcel number with its check value |",
                    "| `recipient` | text | name on the label |",
                    "| `${weight_field}` | integer | weight of the parcel with its wrapping |",
                    "| `declared` | integer | value in hundredths of a crown |",
                    "| `fragile` | boolean | whether it must not be stacked |",
                ),
            ),
        ),
    ),
    _PageSpec(
        *("07-errors", "Errors", 9_000),
        (
            Section("Form", ("An error is an object with the fields `code` and `message`.",)),
            Section(
                "Codes",
                rows=("| code | meaning |", "| --- | --- |"),
                more_rows=(
                    "| `D101` | a field is missing |",
                    "| `D118` | the check value is wrong |",
                    "| `D202` | the body is too large |",
                    "| `D307` | the signature is too old or wrong |",
                ),
            ),
            Section("Repeated numbers", ("A number that is known already is refused with the code `${conflict_code}`.",)),
            Section("Messages"),
        ),
    ),
    _PageSpec(
        *("08-webhooks", "Webhooks", 8_600),
        (
            Section("Delivery", ("A message is signed like a request and carries the same header.",)),
            Section("Events", ("The hand-over is announced by the event `${delivered_event}` and by no other.",)),
            Section("Repetition"),
        ),
    ),
    _PageSpec(
        *("10-labels", "Labels", 8_900),
        (
            Section("Paper"),
            Section("Text", ("A line of a label takes ${label_width} characters, and a label six lines.",)),
            Section("Printers"),
            Section(
                "Formats",
                rows=("| format | height | used for |", "| --- | --- | --- |"),
                more_rows=("| A | 12 | letters |", "| B | 24 | parcels |", "| C | 48 | pallets |", "| D | 96 | cages |"),
            ),
        ),
    ),
    _PageSpec(
        *("11-statements", "Statements", 9_100),
        (
            Section("Form", ("A line holds a number and an amount in crowns, with a semicolon between them.",)),
            Section("Sum", ("The sum stands on the line that begins with `${sum_line}`, which may be anywhere.",)),
            Section("Corrections"),
            Section("Time"),
        ),
    ),
    _PageSpec(
        *("09-errata", "Errata", 8_300),
        (
            Section("To the conventions", ("Erratum 2: the crown has a hundred parts, not a thousand.",)),
            Section("To reliability", ("Erratum 5: a request is now sent ${attempts} times at most, the first one included.",)),
            Section("To the webhooks", ("Erratum 7: messages are repeated for two days, not for three.",)),
        ),
    ),
)

INDEX = "\n".join(
    ["# The depot's interface, second edition", "", "One page a subject; what is corrected stands in the errata.", ""]
    + [f"- spec/{page.name}.md: {page.title}" for page in PAGES]
    + ["", "An output shows 10,000 characters at most: the end of a longer page has to be asked for with `tail`.", ""]
)


def generate_pages(values: Mapping[str, str], task_seed: int) -> tuple[tuple[str, str], ...]:
    """Path and text of each page under a seed."""
    files = [("spec/README.md", INDEX)]
    for page in PAGES:
        writer = Writer(make_rng("spec-api", task_seed, page.name), NOUNS)
        text = writer.write_page(page.title, page.sections, page.min_characters)
        files.append((f"spec/{page.name}.md", Template(text).substitute(values)))
    return tuple(files)
