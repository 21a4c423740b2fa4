"""Programs that run an original; each is started by the interpreter of that original's own environment."""
