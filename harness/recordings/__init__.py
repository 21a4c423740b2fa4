"""Importers that read recorded sessions of other agents from files. Each file format has a folder in `formats`.

`reading.read_recording` detects the format from the content of a file; `reading.FORMATS` lists all formats.
`session_log.build_entries` converts a recording to a log, so that compaction policies and tables also work on recordings.
`recording` defines the classes for recordings. All importers share the modules `document` (a parsed file), `draft` (a
recording that is being read) and `blocks` (parts of messages).
"""
