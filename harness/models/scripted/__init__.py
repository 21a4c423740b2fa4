"""Scripted models, which need no network: agents that follow the script of a task, and summarizers with known losses."""
