"""Sessions of the agent: how one is configured, assembled, run, controlled from outside and reopened."""
