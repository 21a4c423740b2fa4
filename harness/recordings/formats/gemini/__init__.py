"""Format of sessions recorded by Gemini CLI."""
