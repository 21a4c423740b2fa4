"""The texts of the task as `string.Template`s: what the agent finds, what it writes, and what judges it."""
