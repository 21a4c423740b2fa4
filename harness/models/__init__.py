"""Whoever answers requests: real models through litellm, and the scripted ones."""
