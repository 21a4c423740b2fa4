"""Format of sessions recorded in ATIF, the Agent Trajectory Interchange Format of Harbor."""
