"""Programs that run the workload in one system; each is started by the interpreter of that system's own environment."""
