"""The laws of a session that is run again: as it was, from the action cache, in other processes."""
