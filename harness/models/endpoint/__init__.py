"""An HTTP server for scripted models with the APIs of OpenAI, Anthropic and Gemini."""
