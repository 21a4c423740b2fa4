"""Format of chat histories recorded by aider."""
