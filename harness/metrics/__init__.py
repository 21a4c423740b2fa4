"""Metrics of a session's log: repeated calls, loops, dead ends, and the use of the task's facts."""
