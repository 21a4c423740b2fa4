"""A session of several turns at a terminal."""
