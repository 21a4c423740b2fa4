"""Format of sessions recorded by SpecStory."""
