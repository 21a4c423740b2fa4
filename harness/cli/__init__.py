"""The command line. Each command parses its options, calls the library and prints; its module is only loaded when it is used.

An error is printed as one line that says what to do. Exit codes: 1 = the command failed, 2 = invalid options or arguments,
130 = stopped by Ctrl-C.
"""

from harness.cli.commands import main

__all__ = ["main"]
