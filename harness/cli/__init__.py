"""The command line. A command parses its options, calls the library and prints; its module loads when the command is used.

An error is printed as one line that says what to do. Exit codes: 1 = the command failed, 2 = invalid options or arguments,
130 = stopped by Ctrl-C.
"""

from harness.cli.commands import main

__all__ = ["main"]
