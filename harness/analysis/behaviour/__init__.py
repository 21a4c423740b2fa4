"""What compaction did to the behaviour of agents: facts kept and lost, pathologies, and what a clairvoyant would have saved."""
