"""Sessions looked at closely: their numbers, what was sent at a step, and their way in and out of files."""
