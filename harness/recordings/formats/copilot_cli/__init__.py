"""Format of sessions recorded by GitHub Copilot CLI."""
