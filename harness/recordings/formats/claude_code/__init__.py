"""Format of sessions recorded by Claude Code."""
