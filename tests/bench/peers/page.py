"""Page of the documentation with the comparison, made from the file of results."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.peers.drivers.measuring import EDITING_KEPT_RESULTS, EDITING_TRIGGER_TOKENS
from tests.bench.peers.systems import EDITING_SYSTEMS, FLOOR, OURS, OURS_EDITING, SYSTEMS, System

DOCS = Path(__file__).parents[3] / "docs"
RESULTS, PAGE = DOCS / "peers.json", DOCS / "peers.md"
RANKED_WITHOUT_LOG_FROM_STEPS = 200

PAGE_TEXT = """\
# Speed beside other agent programs

The same session runs in each system: {steps} steps, in each of which a scripted model writes about 100 characters and calls a
tool. The tool answers at once with 2 KB of text that differs from step to step and compresses like the output of programs.
Nothing is compacted, except in the section on clearing. `make bench-peers` measures this and writes this page. The environments
of the other systems are pinned in `tests/peers/locks`. Speed is not everything:
[what others do better](guide/footguns.md#what-others-do-better) names what maf-cachebench, the evaluations of Hermes Agent and
Inspect do better than this program.

- **CPU** is the processor time of all threads from the beginning of the session to the closed log.
- **Memory** is the peak of the resident memory during the session, above that of the process before it.
- **Disk** is the size of the log after the session.
- Imports are not counted, because a session of five steps precedes each measurement. Python's logging is off.
- Each measurement has its own process, and the systems take turns. Each number is {median} on
  {date}, on a machine with {machine}, whose load was {load_from} to {load_to}.
- Columns with × show the CPU time divided by that of harness in the same run. Only these ratios compare with other machines.

## A session

{sessions}

The plain loop is no agent program: it shows what the work itself costs. {order}

## A session in which old results are cleared

{editing}

## Reading results

Twenty sessions of 200 steps are read from their closed logs as pandas frames, in a new process. Only harness and Inspect AI have
functions for this; for the other systems, the driver builds the frame from the log in a few lines.

{frames}

A frame of messages has one row per message with its text, and a frame of steps has one row per model call with its tokens. The
frames of harness and Inspect AI have more columns than the others. harness is read here from the journals of its trials; after a
run, it reads Parquet files, which is faster.

## Finding out that nothing is to be compacted

CPU time in microseconds of the check before a model call, when the last two messages are new. The check is that of `keep-last` in
harness, of `CompactionTrim` in Inspect AI {inspect_check}, and of `SummarizationMiddleware` in LangChain {langchain_check}.

{checks}

## Versions

{versions}
"""


def build_page(results: dict[str, Any]) -> str:
    """Return the text of the page."""
    load_from, load_to = results["load"]
    repeats = results["repeats"]
    return PAGE_TEXT.format(
        steps=_join([f"{int(steps):,}" for steps in results["sessions"][OURS.key]]),
        median=describe_repeats(repeats),
        date=results["date"], machine=results["machine"], load_from=load_from, load_to=load_to,
        sessions=build_sessions(results, SYSTEMS), editing=build_editing(results.get("editing")),
        order=describe_order(results), frames=build_frames(results),
        checks=build_checks(results), versions=build_versions(results),
        inspect_check=results["versions"]["checks"]["inspect"], langchain_check=results["versions"]["checks"]["langchain"],
    )  # fmt: skip


EDITING_TEXT = """\
Before a request of more than {trigger:,} tokens, all tool results but the newest {kept} are cleared: by the policy
`langchain-clear-tool-uses` in harness, and by LangChain's own middleware. mini-swe-agent has no compaction, so its rows show what
it does instead: it sends its whole history. Each number is {median} on
{date}, on a machine with {machine}, whose load was {load_from} to {load_to}.

{table}"""


def build_editing(results: dict[str, Any] | None) -> str:
    """Return the section about sessions in which old results are cleared."""
    if results is None:
        return "Not measured."
    load_from, load_to = results["load"]
    return EDITING_TEXT.format(
        trigger=EDITING_TRIGGER_TOKENS, kept=EDITING_KEPT_RESULTS, median=describe_repeats(results["repeats"]),
        date=results["date"], machine=results["machine"], load_from=load_from, load_to=load_to,
        table=build_sessions(results, EDITING_SYSTEMS),
    )  # fmt: skip


def describe_repeats(repeats: int) -> str:
    return "one measurement" if repeats == 1 else f"the median of {repeats} measurements"


def build_sessions(results: dict[str, Any], systems: Sequence[System]) -> str:
    """Return a table of systems, of which the first is the one that the others are compared with."""
    first = systems[0]
    lengths = list(results["sessions"][first.key])
    longest = lengths[-1]
    header = ["system", "log", *(f"CPU ms per step, {steps} steps" for steps in lengths), *(f"×, {steps}" for steps in lengths)]
    header += [f"memory MB, {longest} steps", f"disk KB per step, {longest} steps"]
    ours = [compute_cpu_ms(results, first, steps) for steps in lengths]
    rows = []
    for one in systems:
        own = [compute_cpu_ms(results, one, steps) for steps in lengths]
        ratios = ["" if one is first else format_number(mine / base, 2) for mine, base in zip(own, ours, strict=True)]
        memory = compute_median(results["sessions"][one.key][longest], "memory_bytes") / 1e6
        disk = compute_median(results["sessions"][one.key][longest], "disk_bytes") / int(longest) / 1e3
        numbers = [*map(format_number, own), *ratios, format_number(memory), format_number(disk) if disk else "–"]
        rows.append([one.title, {"durable": "yes", "none": "no", "floor": "yes"}[one.log], *numbers])
    return build_table(header, rows)


def build_frames(results: dict[str, Any]) -> str:
    if not results["frames"]:
        return "Not measured in this run, which was stopped before."
    rows = []
    for one in SYSTEMS:
        for kind, runs in results["frames"].get(one.key, {}).items():
            base = compute_median(results["frames"][OURS.key][kind], "cpu_seconds")
            seconds, memory = compute_median(runs, "cpu_seconds"), compute_median(runs, "memory_bytes") / 1e6
            ratio = "" if one is OURS else format_number(seconds / base, 2)
            rows.append([one.title, kind, f"{int(runs[0]['rows']):,}", format_number(seconds), ratio, format_number(memory)])
    return build_table(["system", "frame", "rows", "CPU s", "×", "memory MB"], rows)


def build_checks(results: dict[str, Any]) -> str:
    checks, names = results["checks"], ("harness", "inspect", "langchain")
    rows = [
        [steps, *(format_number(1e6 * median(checks[name][steps])) for name in names)] for steps in results["sessions"][OURS.key]
    ]
    return build_table(["steps", "harness", "Inspect AI", "LangChain"], rows)


def build_versions(results: dict[str, Any]) -> str:
    versions = results["versions"] | results.get("editing", {"versions": {}})["versions"]
    rows = [
        [one.title, ", ".join(f"{name} {version}" for name, version in versions[one.key].items()), one.how]
        for one in dict.fromkeys((*SYSTEMS, *EDITING_SYSTEMS))
        if one.key in versions
    ]
    return build_table(["system", "versions", "what runs"], rows)


def describe_order(results: dict[str, Any]) -> str:
    """Return a sentence about the other systems, as the numbers of this run have it."""
    longest = list(results["sessions"][OURS.key])[-1]
    others = {one: compute_cpu_ms(results, one, longest) for one in SYSTEMS if one is not OURS and one.log == "durable"}
    nearest = min(others, key=lambda one: others[one])
    ratio = others[nearest] / compute_cpu_ms(results, OURS, longest)
    times = format_number(ratio, 2)
    return f"Of the others with a log, {nearest.title} is the nearest at {longest} steps, with {times} times the CPU time."


def list_violations(results: dict[str, Any]) -> list[str]:
    """Return where a system takes less CPU time than this package although it must not.

    This package must be ahead of every system with a durable log at every length, and of the others from 200 steps on.
    """
    violations = []
    for one in (one for one in SYSTEMS if one not in (OURS, FLOOR)):
        for steps in results["sessions"][OURS.key]:
            ours, theirs = (compute_cpu_ms(results, system, steps) for system in (OURS, one))
            ranked = one.log == "durable" or int(steps) >= RANKED_WITHOUT_LOG_FROM_STEPS
            if ranked and ours >= theirs:
                violations.append(f"behind {one.title} at {steps} steps: {ours:.3f} and {theirs:.3f} ms per step")
    editing = results.get("editing")
    if editing is None:
        return violations
    for one in (one for one in EDITING_SYSTEMS if one is not OURS_EDITING):
        for steps in editing["sessions"][OURS_EDITING.key]:
            ours, theirs = (compute_cpu_ms(editing, system, steps) for system in (OURS_EDITING, one))
            ranked = one.log == "durable" or (one.edits and int(steps) >= RANKED_WITHOUT_LOG_FROM_STEPS)
            if ranked and ours >= theirs:
                violations.append(f"clearing, behind {one.title} at {steps} steps: {ours:.3f} and {theirs:.3f} ms per step")
    return violations


def compute_cpu_ms(results: dict[str, Any], one: System, steps: str) -> float:
    """Return the CPU milliseconds per step of sessions of a length."""
    return 1e3 * compute_median(results["sessions"][one.key][steps], "cpu_seconds") / int(steps)


def compute_median(runs: Sequence[dict[str, float]], name: str) -> float:
    return median(run[name] for run in runs)


def format_number(value: float, digits: int = 3) -> str:
    """Return a number with two or three significant digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.{digits}g}" if value >= 1 else f"{value:.2g}"


def build_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown, whose columns of numbers are aligned to the right."""
    rows = list(rows)
    is_number: Callable[[str], bool] = lambda text: not text.strip("0123456789.,–e+")  # noqa: E731
    aligns = ["--:" if all(is_number(row[place]) for row in rows) else "---" for place in range(len(header))]
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, aligns, *rows))


def _join(texts: Sequence[str]) -> str:
    return f"{', '.join(texts[:-1])} or {texts[-1]}"
