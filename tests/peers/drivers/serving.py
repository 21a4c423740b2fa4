"""Functions of all drivers; they run in other environments and use only the standard library."""

import json
import logging
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Shown = list[Any]
"""Message as it stands in view: its number, or -k for the k-th summary; its text, or None if unchanged; and its calls likewise.
"""


def serve(operations: Mapping[str, Callable[..., Any]]) -> None:
    """Answer line by line until the input ends; output of libraries goes to standard error."""
    logging.disable()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        case = json.loads(line)
        try:
            answer = {"answer": operations[case.pop("operation")](**case)}
        except Exception:  # noqa: BLE001, whatever it is, the test is told
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def calls_of(messages: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the places where a model is called: before each of its messages, and at the end."""
    points = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    return points if messages and messages[-1]["role"] == "assistant" else [*points, len(messages)]


def write_answer(fault: str, number: int) -> str:
    """Return the answer of a summarizer to its n-th request, if it answers at all."""
    return {"empty": "", "blank": " \n\t", "long": "longer and longer " * 5_000}.get(fault, f"<{number}>")
