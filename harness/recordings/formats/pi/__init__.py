"""Format of sessions recorded by pi."""
