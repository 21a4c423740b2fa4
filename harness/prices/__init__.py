"""Prices of model calls, rules of prompt caches, and what the requests of a session cost under them.

A session's requests are chains of blocks (`requests`). A price rule (`rules`) says how a provider's cache treats them, and a
simulated cache (`cache`) splits each prompt into tokens that were read from the cache, written to it, or neither. With prices
(`price`), the split becomes a bill (`bill`). Nothing here runs a session or asks a model, so stored sessions, recordings and
traces without text are priced alike, under any number of rules. `break_even` has the closed forms.
"""
