"""The agent, which calls a model and runs the tools that the model requests, step by step, within a token budget."""
