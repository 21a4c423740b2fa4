"""Models without weights: an agent that acts only on what it can see, and summarizers from perfect to empty (SIMULATION)."""
