"""What a policy would do: policies tried on a made-up session in the real agent loop, and on sessions that are over."""
