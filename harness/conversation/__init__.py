"""What is said, logged and seen in a session: messages, tokens, events with their JSON, and the view of the model."""
