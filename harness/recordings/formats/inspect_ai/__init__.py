"""Format of samples in logs of Inspect."""
