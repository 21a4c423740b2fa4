"""The command line: each command parses, calls and prints, in a module of its own that loads when it is asked for.

What goes wrong is one line that a person can act on and an exit code: 2 = asked for something that cannot be, 1 = it failed,
130 = stopped by Ctrl-C.
"""

from harness.cli.commands import main

__all__ = ["main"]
