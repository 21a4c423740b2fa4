"""The agent: one model call and its tools at a time, inside a budget."""
