"""Explanations of failed checks for people: what was expected and what was found, in words.

An explanation stands beside the title of the check, in reports and widgets. It has at most 300 printable ASCII characters (see
`harness.session.grading`), so long values are cut here, where the important part is known. No function raises an exception,
whatever values the agent's code answered.
"""

import re
from collections.abc import Mapping, Sequence

MAX_VALUE_CHARACTERS = 120
"""Maximum length in characters of the description of one value."""
MAX_LISTED_ITEMS = 6
"""Maximum number of items of a list that are listed one by one."""
MAX_DEPTH = 3
"""Maximum depth of nested lists that are described."""
_ERROR = re.compile(r"[A-Z]\w*(Error|Exception|Exit|Interrupt|Iteration|Message|Warning)(: |$)")
"""Beginning of an answer that is an exception of the agent's code, with type and message."""


def describe_value(value: object) -> str:
    """Return a value in words: texts in quotation marks, the items of a list one after another."""
    return cut(_describe(value, 0), MAX_VALUE_CHARACTERS)


def list_names(names: Sequence[str], max_count: int = MAX_LISTED_ITEMS) -> str:
    """Return names with `and` before the last; of many, the first and the number of the others; `nothing` if there are none."""
    listed = [*names[:max_count], *([f"{len(names) - max_count:,} more"] if len(names) > max_count else [])]
    return " and ".join(filter(None, (", ".join(listed[:-1]), *listed[-1:]))) or "nothing"


def cut(text: str, max_characters: int) -> str:
    """Return a text that is not longer than a number of characters; `...` stands for a missing end."""
    return text if len(text) <= max_characters else f"{text[: max_characters - 3]}..."


def explain_difference(expected: object, found: object, label: str = "") -> str:
    """Return what was expected and what was found, after a label that says of what."""
    if isinstance(found, str) and _ERROR.match(found):
        text = f"expected {describe_value(expected)}, but the agent's code ended with {cut(found, MAX_VALUE_CHARACTERS)}"
    else:
        text = f"expected {describe_value(expected)}, found {describe_value(found)}"
    return f"{label}: {text}" if label else text


def explain_parts(expected: Sequence[object], found: object, labels: Sequence[str]) -> str:
    """Return which parts of an answer differ from the expected ones.

    Args:
        expected: Right value of each part.
        found: Answer of the agent's code, which may be anything.
        labels: Words for each part, e.g. `longest interval in days`.
    """
    if not isinstance(found, list) or len(found) != len(expected):
        named = ", ".join(f"{label} {describe_value(value)}" for label, value in zip(labels, expected, strict=True))
        if isinstance(found, str) and _ERROR.match(found):
            return f"the agent's code ended with {cut(found, MAX_VALUE_CHARACTERS)}; expected {named}"
        return f"expected {cut(named, MAX_VALUE_CHARACTERS)}; found {describe_value(found)}"
    return "; ".join(
        explain_difference(right, actual, label)
        for label, right, actual in zip(labels, expected, found, strict=True)
        if right != actual
    )


def explain_statements(path: str, expected: Mapping[str, object], found: Mapping[str, object]) -> str:
    """Return which statements of a document are wrong, missing or not asked for.

    Args:
        path: Path of the document.
        expected: Right value by the label of each statement.
        found: Value in the document by label; a list of values if the document makes the statement several times.
    """
    if not found:
        return f"{path} is empty or missing, or states nothing in the agreed form; it should state {list_names([*expected])}"
    wrong = [
        f"{label} should be {describe_value(value)}, but is {describe_value(found[label]) if label in found else 'missing'}"
        for label, value in expected.items()
        if label not in found or found[label] != value
    ]
    further = [label for label in found if label not in expected]
    also = [f"it also states {list_names(further)}, which it should not"] if further else []
    return f"{path}: {'; '.join([*wrong, *also])}"


def explain_lines(path: str, expected: Sequence[str], found: Sequence[str]) -> str:
    """Return which lines a file should have and which it has."""
    if not found:
        return f"{path} is empty or missing; it should have {_count_lines(expected)}"
    missing, further = (
        [line for line in lines if line not in others] for lines, others in ((expected, found), (found, expected))
    )
    parts = [f"lacks {_count_lines(missing)}"] * bool(missing) + [f"has {_count_lines(further)}, not asked for"] * bool(further)
    return f"{path} {' and '.join(parts) or 'has the right lines, but not each of them once and in order'}"


def explain_new_line(path: str, lines: Sequence[str], wanted: str) -> str:
    """Return that a file should have exactly one new line of a form, and how many new lines it has.

    Args:
        path: Path of the file.
        lines: New lines of the file.
        wanted: Description of the expected line, such as `begins with 'a'`.
    """
    found = describe_value(lines[0]) if len(lines) == 1 else f"{len(lines)}: {describe_value([*lines])}" if lines else "none"
    return f"{path} should have one new line that {wanted}; found {found}"


def _count_lines(lines: Sequence[str]) -> str:
    return f"the line {describe_value(lines[0])}" if len(lines) == 1 else f"{len(lines)} lines: {describe_value([*lines])}"


def _describe(value: object, depth: int) -> str:
    if value is None or (isinstance(value, list | tuple | Mapping) and not value):
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return repr(value) if value else "an empty text"
    if depth == MAX_DEPTH:
        return "..."
    if isinstance(value, list | tuple):
        text = list_names([_describe(item, depth + 1) for item in value], 2 * MAX_LISTED_ITEMS)
        return f"({text})" if depth else text
    if isinstance(value, Mapping):
        text = ", ".join(f"{name} {_describe(item, depth + 1)}" for name, item in value.items())
        return f"({text})" if depth else text
    return repr(value)
