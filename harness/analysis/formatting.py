"""Formatting of numbers, intervals and arm names as plain strings."""

from collections.abc import Iterable, Mapping
from math import isnan
from textwrap import wrap

from harness.analysis.intervals import Interval
from harness.text import escape_control_characters

MAX_DIGITS = 6
"""Maximum number of decimals of the bounds of an interval."""
ESTIMAND_NOTE = "Intervals are about tasks like these or, with fewer than six tasks, about these tasks only."
"""Sentence of charts and cells on the tasks to which their intervals apply."""
MAX_LABEL_CHARACTERS = 300
"""Largest length of the label of an arm."""
LEVEL_LABELS: Mapping[str, str] = {
    "L0": "L0 simulated",
    "L1": "L1 scripted agent, real summarizer",
    "L0 and L1": "L0 simulated (a) against L1 real summarizer (b), same scripted agent",
    "L1 and L0": "L1 real summarizer (a) against L0 simulated (b), same scripted agent",
    "L2-open": "L2 open-loop replay",
    "L2-fork": "L2 forked sessions",
    "L3": "L3 real model",
}
"""Labels that tables and charts show for the fidelity levels. A fidelity level states which parts of a run are real and which
simulated."""


def describe_level(level: str) -> str:
    """Return the label of a fidelity level for tables and charts, e.g. `L0 simulated` for `L0`.

    A fidelity level says how much of a run is real.
    """
    return LEVEL_LABELS.get(level, level)


_SCRIPTED = "scripted"
_LEVEL_WORDS: Mapping[str, str] = {
    "L0": "{agent} and a simulated summarizer",
    "L1": "{agent} and a real summarizer",
    "L2-open": "recorded actions of {agent}",
    "L2-fork": "sessions that were forked, of {agent}",
    "L3": "{agent}",
}
"""Words for the parts of a run that are real or simulated, by fidelity level."""
_PROFILE_WORDS: Mapping[str, str] = {"": "", "attentive": "", "typical": "overlooks some visible facts"}
_OPTION_WORDS: Mapping[str, str] = {"tolerant": "also finds facts in other words", "notes": "writes notes"}


def describe_agent(model: str) -> str:
    """Return in words what the name of a model says of the agent.

    The name follows in parentheses unless it is that of the plain scripted agent.

    Args:
        model: Name of the model, e.g. `scripted:typical`; several names joined by a comma and a space; empty if it is unknown.
    """
    kind, *options = model.split("+")
    kind, _, profile = kind.partition(":")
    if not model or ", " in model:
        return f"agents of several models ({format_label(model)})" if model else "an agent of an unknown model"
    if kind != _SCRIPTED:
        return f"the real model {format_label(model)}"
    habit = _PROFILE_WORDS.get(profile, "overlooks visible facts with a probability of its own")
    habits = [habit] * bool(habit) + [_OPTION_WORDS.get(option, option) for option in options]
    if not habits:
        return "a simulated agent"
    return f"a simulated agent that {' and '.join(habits)} ({format_label(model)})"


def describe_what_ran(level: str, model: str) -> str:
    """Return what was simulated and what was real, in words, with the name of the fidelity level.

    Args:
        level: Fidelity level, e.g. `L0`.
        model: Name of the agent's model, as `describe_agent` takes it.
    """
    words = _LEVEL_WORDS.get(level)
    if words is None:
        return describe_level(level)
    name = model or (_SCRIPTED if level in ("L0", "L1") else "")  # the agent of these levels is simulated in any case
    return f"{words.format(agent=describe_agent(name))} (level {level})"


def format_short_number(value: float) -> str:
    """Format a number with three significant digits and, from 1000 on, the suffix k or M: 900, 12k, 1.2M."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def format_usd(amount: float) -> str:
    """Format an amount of US dollars without a currency sign, e.g. `1.25`; an unknown one becomes `?`."""
    return "?" if isnan(amount) else f"{amount:.2f}" if amount == 0 or amount >= 0.01 else f"{amount:.2g}"


def format_interval(interval: Interval, *, signed: bool = False) -> str:
    """Format an interval such as ` [0.95, 1.20]` with a leading space; an unknown one becomes empty.

    With `signed`, both bounds have a sign and three decimals. Narrow intervals have more decimals, so that their bounds differ.
    """
    if isnan(interval.low):
        return ""
    sign, digits = ("+", 3) if signed else ("", 2)
    while digits < MAX_DIGITS and f"{interval.low:.{digits}f}" == f"{interval.high:.{digits}f}":
        digits += 1
    return f" [{interval.low:{sign}.{digits}f}, {interval.high:{sign}.{digits}f}]"


def format_points(interval: Interval) -> str:
    """Format an interval for the difference of two rates in percentage points, such as `[-5, +20]`."""
    return f"[{100 * interval.low:+.0f}, {100 * interval.high:+.0f}]"


def format_p(p_value: float) -> str:
    """Format a p-value with three significant digits.

    A value below 0.0001 becomes `<0.0001`, and an unknown one becomes a dash.
    """
    return "–" if isnan(p_value) else "<0.0001" if p_value < 1e-4 else f"{p_value:.3g}"


def format_relation(p_value: float) -> str:
    """Format a p-value with its sign of relation, e.g. `= 0.03` or `< 0.0001`."""
    text = format_p(p_value)
    return f"< {text[1:]}" if text.startswith("<") else f"= {text}"


def format_label(text: object, max_characters: int = 60) -> str:
    """Return a name as a label for a chart: on one line and cut to the given length.

    Control characters are escaped.
    """
    line = escape_control_characters(str(text))
    return line if len(line) <= max_characters else f"{line[: max_characters - 1]}…"


def label_arms(arms: Iterable[str], line_characters: int = 44) -> dict[str, str]:
    """Return a label for each arm that shows what differs, without cutting a value.

    The name of an arm that combines settings becomes their values, e.g. `keep_last 4, oracle` for `keep_last=4 reader=oracle`:
    numbers keep the name of their setting. Long labels continue on further lines; only labels of more than 300 characters lose
    their middle. All labels are different.

    Args:
        arms: Names of arms. Control characters in them are escaped.
        line_characters: Maximum length of a line.
    """
    names = {arm: escape_control_characters(arm) for arm in arms}
    labels = {arm: _describe_grid_arm(name) for arm, name in names.items()}
    if len(set(labels.values())) < len(labels):
        labels = names
    wrapped = {arm: "\n".join(wrap(_shorten_middle(label), line_characters)) or label for arm, label in labels.items()}
    if len(set(wrapped.values())) == len(wrapped):
        return wrapped
    return {arm: f"{number}: {label}" for number, (arm, label) in enumerate(wrapped.items(), start=1)}


def _shorten_middle(label: str) -> str:
    """Return a label without the middle of a text that no plan needs, so that it fits on a page."""
    half = MAX_LABEL_CHARACTERS // 2
    return label if len(label) <= MAX_LABEL_CHARACTERS else f"{label[:half]} … {label[-half:]}"


def _describe_grid_arm(name: str) -> str:
    """Return the values in the name of an arm of a grid, such as `keep_last=4 reader=oracle`; other names stay as they are."""
    parts = [part.split("=", 1) for part in name.split(" ")]
    if any(len(part) < 2 or not all(part) for part in parts):
        return name
    return ", ".join(f"{path.rsplit('.', 1)[-1]} {value}" if _is_number(value) else value for path, value in parts)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text in {"True", "False", "None", "true", "false"}
    return True
