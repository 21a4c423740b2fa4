"""Format of sessions recorded by goose."""
