"""Formats of recorded sessions. Each format is a folder that holds all that is known about it; no list names the formats.

- `reader.py` tells whether a file is in the format and reads its sessions (see `harness.recordings.reading.Format`).
- `page.md` describes the format: facts, versions seen, and what is supported, not recorded or refused.
- `fixtures/` has small files that were written by hand, on which the tests run.

The name of a format is the name of its folder, with dashes for underscores.
"""
