"""What a session keeps beside its log."""
