"""An HTTP server for scripted models with an OpenAI-compatible API."""
