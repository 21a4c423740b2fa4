"""What a summarizer is asked for and how its text goes into the view; one module a family."""
