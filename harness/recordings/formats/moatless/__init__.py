"""Format of sessions recorded by Moatless."""
