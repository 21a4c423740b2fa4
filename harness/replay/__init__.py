"""Recorded sessions of other agents, read into our values: one file a format, listed in `formats.FORMATS`.

`formats.read_recording` detects the format by content; `session_log.build_entries` makes a log of a recording, so that
everything that works on a log of ours (folding, policies, tables) works on a recording too. `recording` holds the values;
`document` (a parsed file), `draft` (a recording that is being read) and `blocks` (parts of messages) are shared by the formats.
Each other file knows one format and its pitfalls.
"""
