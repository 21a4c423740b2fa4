"""Tools for finished sessions: numbers, timeline, reconstructed requests, counterfactual runs of policies, import and export."""
