"""Format of sessions recorded by OpenCode."""
