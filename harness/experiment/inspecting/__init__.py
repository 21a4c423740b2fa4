"""One session looked at closely: its numbers, its timeline, and what was sent at a step. Reads events; needs no journal."""
