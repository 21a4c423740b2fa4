"""Format of sessions recorded by mini-swe-agent."""
