"""The texts of the task as `string.Template`s: the desk's papers, its tools, what the agent writes, and what judges it."""
