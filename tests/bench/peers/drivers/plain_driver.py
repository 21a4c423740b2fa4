"""Driver of a plain loop: a list of messages, a count of characters, and one commit of SQLite per step.

It is no agent program, but shows what the work itself costs.
"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.bench.peers.drivers.measuring import Driver
from tests.bench.workload import FINAL_TEXT, REQUEST, TOOL, command, think

FILE = "log.sqlite"


def run(outputs: list[str], folder: Path) -> int:
    messages = [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": REQUEST}]
    with closing(sqlite3.connect(folder / FILE)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("CREATE TABLE message (number INTEGER PRIMARY KEY, step INTEGER, role TEXT, content TEXT, calls TEXT)")
        write(connection, 0, messages, 0)
        tokens = sum(len(message["content"]) // 4 for message in messages)
        for number, output in enumerate(outputs):
            arguments = json.dumps({"command": command(number)})
            calls = [{"id": f"call_{number}", "name": TOOL, "arguments": arguments}]
            step: list[dict[str, Any]] = [
                {"role": "assistant", "content": think(number), "calls": calls},
                {"role": "tool", "content": output, "call_id": f"call_{number}"},
            ]
            write(connection, len(messages), step, number + 1)
            messages += step
            tokens += sum(len(message["content"]) // 4 for message in step)
            assert tokens < 10**9  # the place of a compaction
        write(connection, len(messages), [{"role": "assistant", "content": FINAL_TEXT}], len(outputs) + 1)
    return sum(message["role"] == "tool" for message in messages)


def write(connection: sqlite3.Connection, first: int, messages: list[dict[str, Any]], step: int) -> None:
    rows = [
        (first + place, step, message["role"], message["content"], json.dumps(message.get("calls")))
        for place, message in enumerate(messages)
    ]
    with connection:
        connection.executemany("INSERT INTO message VALUES (?, ?, ?, ?, ?)", rows)


def read_messages(folder: Path) -> Any:
    import pandas as pd

    frames = []
    for path in sorted(folder.glob(f"*/{FILE}")):
        with closing(sqlite3.connect(path)) as connection:
            frames.append(pd.read_sql("SELECT * FROM message", connection).assign(session=path.parent.name))
    return pd.concat(frames)


if __name__ == "__main__":
    Driver(run=run, packages=(), readers={"messages": read_messages}).serve()
