"""Small real models that run on this machine."""
