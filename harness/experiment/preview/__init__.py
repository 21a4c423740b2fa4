"""What a policy would do: a made-up session of one prompt, and policies tried on it in the real agent loop."""
