"""Finished sessions: numbers and timeline, reconstructed requests, dry runs of other policies, import and export."""
