"""Format of sessions recorded by Kimi CLI."""
