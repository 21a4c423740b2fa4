"""Tools for finished sessions: numbers and timeline, reconstructed requests, dry runs of policies, import and export."""
