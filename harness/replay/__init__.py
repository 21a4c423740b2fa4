"""Recorded sessions under other settings, by sizes alone: what other thresholds would have cost, and the cheapest choice.

The agent's later calls are taken as recorded, so nothing here says how a setting changes the work itself.
"""
