"""Scripted models: agents that follow a task's script, and summarizers with known losses."""
