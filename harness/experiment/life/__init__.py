"""The parts of a live session: its log with the messages that wait, and what is read off a log to roll back, fork and resume."""
