"""The agent: calls a model and runs the tools that it requests, step by step, within a budget."""
