"""Format of sessions recorded by SWE-agent."""
