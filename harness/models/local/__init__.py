"""Small real models that run on this machine: which there are, where their weights come from, who serves them."""
