"""Contract suites, strategies and honest fakes: for our tests, and for those who bring their own policies or sandboxes."""
