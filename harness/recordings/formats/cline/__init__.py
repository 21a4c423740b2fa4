"""Format of sessions recorded by Cline."""
