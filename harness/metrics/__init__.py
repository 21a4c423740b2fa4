"""Metrics computed from a session's log: repeated tool calls, loops, dead ends, and the use of values to remember (facts)."""
