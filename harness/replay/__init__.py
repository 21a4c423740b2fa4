"""Recorded sessions of other agents, read into our values: one file a format.

`reading.read_recording` finds out the format by content; `session_log.entries` makes a log of what was read, so that
everything that works on a log of ours (folding, policies, tables) works on a recording too. `recording` holds the values;
`document`, `fields`, `drafting` and `pairing` are what the formats share; each other file knows one format and its pitfalls.
"""
