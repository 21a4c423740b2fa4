"""Contract suites for the protocols of this package; an implementation of your own inherits the suite and runs it."""
