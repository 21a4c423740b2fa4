"""`make bench-peers`: measure all systems and write `docs/peers.json` and `docs/peers.md`; exit with 1 if this package is behind.

Each measurement has a process of its own. The systems take turns, so that other load on the machine meets all of them.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.compaction.presets.keep_last import KeepLast
from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, system, tool, user
from tests.bench.peers.page import PAGE, RESULTS, build_page, list_violations
from tests.bench.peers.systems import EDITING_SYSTEMS, SYSTEMS, System
from tests.bench.planning import idle_seconds
from tests.bench.workload import REQUEST, TOOL, command, make_outputs, think
from tests.peers.environments import ENVIRONMENTS, read_version
from tests.peers.original import Original
from tests.peers.walking import conversation_of

STEPS = (50, 200, 800)
REPEATS = 3
SESSIONS, SESSION_STEPS = 20, 200
CHECK_REPEATS = 5
CHECKED = ("inspect", "langchain")
"""Originals whose check before a model call is measured."""
LOGGING = tuple(one for one in SYSTEMS if one.log != "none")
"""Systems whose logs are read."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the speed of this package with other agent programs.")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--editing-only", action="store_true", help="measure only sessions in which old results are cleared")
    parser.add_argument("--page-only", action="store_true", help="write the page again from the file of results")
    options = parser.parse_args()
    if not options.page_only:
        with tempfile.TemporaryDirectory(prefix="harness-bench-peers-") as folder:
            if not options.editing_only:
                for results in Comparison(Path(folder)).measure(options.repeats):
                    RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
            results = json.loads(RESULTS.read_text("utf-8"))
            for results["editing"] in Comparison(Path(folder)).measure_editing(options.repeats):
                RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    results = json.loads(RESULTS.read_text("utf-8"))
    PAGE.write_text(build_page(results), "utf-8")
    print(PAGE.read_text("utf-8"))
    violations = list_violations(results)
    print("\n".join(violations) or "ahead wherever it is required")
    return 1 if violations else 0


class Comparison:
    """Measurement of all systems, with its logs in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loads = [os.getloadavg()[0]]
        self._results: dict[str, Any] = {"versions": {}, "sessions": {}, "frames": {}, "checks": {}}

    def measure(self, repeats: int) -> Iterator[dict[str, Any]]:
        """Measure everything several times; yield what the file of results holds after each time."""
        for one in SYSTEMS:
            self._results["versions"][one.key] = self._ask(one, "versions")
        self._results["versions"]["checks"] = {name: read_version(ENVIRONMENTS[name]) for name in CHECKED}
        for turn in range(repeats):
            self._measure_sessions(turn)
            self._measure_checks()
            yield self._describe(turn + 1)
        for one in LOGGING:
            self._ask(one, "record", **self._recorded(one))
            self._report(f"{one.key}, {SESSIONS} sessions to read", {})
        for _ in range(repeats):
            self._measure_frames()
            yield self._describe(repeats)

    def measure_editing(self, repeats: int) -> Iterator[dict[str, Any]]:
        """Measure sessions in which old results are cleared; yield the part of the file of results after each time."""
        for one in EDITING_SYSTEMS:
            self._results["versions"][one.key] = self._ask(one, "versions")
        for turn in range(repeats):
            self._measure_sessions(turn, EDITING_SYSTEMS)
            described = self._describe(turn + 1)
            yield {name: described[name] for name in ("date", "machine", "load", "repeats", "versions", "sessions")}

    def _describe(self, repeats: int) -> dict[str, Any]:
        about = {
            "date": datetime.now(UTC).date().isoformat(),
            "machine": f"{os.cpu_count()} {platform.machine()} processors",
            "load": [round(min(self._loads), 1), round(max(self._loads), 1)],
            "repeats": repeats,
        }
        return about | self._results

    def _measure_sessions(self, turn: int, systems: Sequence[System] = SYSTEMS) -> None:
        for steps, one in ((steps, one) for steps in STEPS for one in systems):
            measured = self._ask(one, "measure", steps=steps, session=turn)
            self._results["sessions"].setdefault(one.key, {}).setdefault(str(steps), []).append(measured)
            self._report(f"{one.key}, {steps} steps", measured)

    def _measure_frames(self) -> None:
        for one, rows in ((one, rows) for one in LOGGING for rows in ("messages", "steps")):
            measured = self._ask(one, "read", rows=rows, **self._recorded(one))
            if measured is not None:
                self._results["frames"].setdefault(one.key, {}).setdefault(rows, []).append(measured)
                self._report(f"{one.key}, frame of {rows}", measured)

    def _measure_checks(self) -> None:
        """Measure how long it takes to find out that nothing is to be compacted."""
        for steps in STEPS:
            messages = make_conversation(steps)
            seconds = {"harness": idle_seconds(KeepLast(), "step", messages)}
            for name in CHECKED:
                with closing(Original(name)) as original:
                    seconds[name] = original.ask("check", conversation=conversation_of(messages), repeats=CHECK_REPEATS)
            for name, value in seconds.items():
                self._results["checks"].setdefault(name, {}).setdefault(str(steps), []).append(value)
            self._report(f"compaction check after {steps} steps", seconds)

    def _ask(self, one: System, operation: str, **case: Any) -> Any:
        """Ask the driver in a new process with an empty home folder, which is deleted afterwards."""
        with tempfile.TemporaryDirectory(dir=self._folder) as home, closing(one.start(home)) as driver:
            if operation == "measure":
                case["folder"] = str(Path(home) / "log")
            return driver.ask(operation, **case)

    def _recorded(self, one: System) -> dict[str, Any]:
        return {"sessions": SESSIONS, "steps": SESSION_STEPS, "folder": str(self._folder / one.driver)}

    def _report(self, name: str, measured: dict[str, float]) -> None:
        self._loads.append(os.getloadavg()[0])
        values = "  ".join(f"{kind} {value:.6g}" for kind, value in measured.items())
        print(f"{time.strftime('%H:%M:%S')}  {name:<45} {values}", file=sys.stderr, flush=True)


def make_conversation(steps: int) -> tuple[Message, ...]:
    """Return the messages of a session of the workload, which ends with a result."""
    messages = [system("You are an agent."), user(REQUEST)]
    for number, output in enumerate(make_outputs(steps)):
        call = ToolCall(call_id=f"call_{number}", name=TOOL, arguments_json=json.dumps({"command": command(number)}))
        messages += [assistant(think(number), call), tool(ToolResult(call_id=call.call_id, name=TOOL, output=output))]
    return tuple(messages)


if __name__ == "__main__":
    sys.exit(main())
