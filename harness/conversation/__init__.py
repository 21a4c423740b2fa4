"""Values of a conversation: messages, token counts, events with their JSON, and the view that the model sees next."""
