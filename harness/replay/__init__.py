"""Importers of recorded sessions of other agents. Each format has a module of its own and is listed in `formats.FORMATS`.

`formats.read_recording` detects the format from the content of a file. `session_log.build_entries` converts a recording to a log,
so that folding, policies and tables also work on recordings. `recording` defines the values. All formats share `document` (a
parsed file), `draft` (a recording that is being read) and `blocks` (parts of messages).
"""
