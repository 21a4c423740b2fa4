"""Name under which this package is installed, which differs from its import name."""

DISTRIBUTION = "compaction-harness"
"""Name of the distribution; another project on the package index has the name `harness`."""
