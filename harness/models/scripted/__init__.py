"""Scripted models, which need no network: agents that follow a task's script, and summarizers with known losses."""
