"""Format of sessions recorded by the Claude Agent SDK."""
