"""Files from outside: reading with a limit on their size, contents by hash, and a folder or bucket of several machines."""
