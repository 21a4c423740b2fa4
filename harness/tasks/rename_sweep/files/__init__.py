"""The texts of the task."""
