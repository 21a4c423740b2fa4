"""Validity checks of tasks, called laws, and the circumstances in which they run a task. `harness task check` runs them."""
