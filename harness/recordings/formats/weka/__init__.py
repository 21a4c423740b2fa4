"""Format of anonymised traces in the form of the kv-cache-tester of WEKA."""
