"""Comparison of presets with the original programs on the same conversations: retained, masked and summarized messages."""
