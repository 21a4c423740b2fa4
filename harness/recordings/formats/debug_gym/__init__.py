"""Format of sessions recorded by debug-gym."""
