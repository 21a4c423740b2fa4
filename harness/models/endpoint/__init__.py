"""Models behind an OpenAI-compatible endpoint on loopback, with faults to order: what a provider does, on this machine."""
