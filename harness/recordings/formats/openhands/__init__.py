"""Format of sessions recorded by OpenHands."""
