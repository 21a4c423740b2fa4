"""One trial at work: what a worker process does between getting a job and handing back its records."""
