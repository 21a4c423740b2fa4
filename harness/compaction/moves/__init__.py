"""Stages that one or two families of policies need; what many need stands a floor above, in `stages`, `cuts` and `triggers`."""
