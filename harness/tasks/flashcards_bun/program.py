"""Description of the task `flashcards-bun`, read from `program.toml`."""

from harness.tasks.kit.program import load_program

PROGRAM = load_program(__package__)
