"""Models that answer requests: real models through litellm, small local models, and scripted models."""
