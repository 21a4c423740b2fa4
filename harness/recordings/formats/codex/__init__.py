"""Format of sessions recorded by Codex CLI."""
