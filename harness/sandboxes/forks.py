"""What the tool server is told so that a Python program is forked of an interpreter which has loaded its modules."""

import shlex
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from harness.sandboxes.toolserver import source


def fork_of(command: str, modules: Sequence[str]) -> dict[str, Any] | None:
    """The request for `python3 [-OPTION...] SCRIPT [ARGUMENT...]`; None if the command is another one or there are no modules."""
    words = shlex.split(command)
    options = list(takewhile(lambda word: word.startswith("-"), words[1:]))
    script, arguments = words[1 + len(options) : 2 + len(options)], words[2 + len(options) :]
    if not modules or words[:1] != ["python3"] or not script or {"-c", "-m", "-X", "-W"} & set(options):
        return None
    python = ["python3", *options]
    return {
        "python": python,
        "source": source("forkserver").decode(),
        "modules": list(modules),
        "script": script[0],
        "arguments": arguments,
    }
