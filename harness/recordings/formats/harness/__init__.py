"""Format of sessions recorded by this package."""
